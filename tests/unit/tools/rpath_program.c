/* SPDX-License-Identifier: MIT */
/* A program whose library path spawn_test.c looks at. Its exit code is the number of devices. */
int cudaGetDeviceCount(int *ret_count);

int main(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == 0 ? count : 100;
}

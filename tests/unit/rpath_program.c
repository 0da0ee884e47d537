/* SPDX-License-Identifier: MIT */
/* A program whose library path spawn_test.c looks at. */
int cudaGetDeviceCount(int *ret_count);

int main(void)
{
    int count;
    return cudaGetDeviceCount(&count);
}

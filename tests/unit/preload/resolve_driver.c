/* SPDX-License-Identifier: MIT */
/* A library with the name of the driver, for resolve_bind_test.c. */
int cuInit(unsigned flags);
int cuMemAlloc_v2(void *ret_ptr, unsigned long size);
int cuMemLater(void);

int cuInit(unsigned flags)
{
    return (int)flags;
}

int cuMemAlloc_v2(void *ret_ptr, unsigned long size)
{
    return ret_ptr ? (int)size : -1;
}

int cuMemLater(void)
{
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A library of a program, in the forms that linked.cmake builds. WHICH is in the names of its functions, so that several of them
 * may be in one process. What it calls comes with it from others: nobody opens a runtime.
 */
#include "tests/sim/base/program_abi.h"

#include <stddef.h>

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

int NAME(ask_, WHICH)(size_t size);

#ifdef BEHIND
/* Hands on to a library that it is linked with. */
int NAME(ask_, BEHIND)(size_t size);

int NAME(ask_, WHICH)(size_t size)
{
    volatile int result = NAME(ask_, BEHIND)(size);

    return result;
}
#else
/* Gets memory and gives it back. volatile: calls, so that this library is the caller. */
int NAME(ask_, WHICH)(size_t size)
{
    void *ptr = NULL;
    volatile cudaError_t result = cudaMalloc(&ptr, size);

    if (result == cudaSuccess)
        result = cudaFree(ptr);
    return (int)result;
}
#endif

#ifdef BEGINS
extern int NAME(began_, WHICH);
int NAME(began_, WHICH) = -1;

__attribute__((constructor)) static void begin(void)
{
    NAME(began_, WHICH) = NAME(ask_, WHICH)(4096);
}
#endif

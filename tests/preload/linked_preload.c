/* SPDX-License-Identifier: MIT */
/* Another preload that stands in for the runtime's calls, counts them and goes on with the next one. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <string.h>

extern int preload_calls;
int preload_calls;

static void find_next(void *ret_function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(ret_function, &found, sizeof found);
}

/* volatile: calls, so that this library is the caller. */
cudaError_t cudaMalloc(void **ret_ptr, size_t size)
{
    __typeof__(&cudaMalloc) next = NULL;
    volatile cudaError_t result = cudaErrorInitializationError;

    find_next(&next, "cudaMalloc");
    preload_calls++;
    if (next)
        result = next(ret_ptr, size);
    return result;
}

cudaError_t cudaFree(void *ptr)
{
    __typeof__(&cudaFree) next = NULL;
    volatile cudaError_t result = cudaErrorInitializationError;

    find_next(&next, "cudaFree");
    preload_calls++;
    if (next)
        result = next(ptr);
    return result;
}

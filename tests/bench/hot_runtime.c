/* SPDX-License-Identifier: MIT */
/* A library that asks the runtime it is linked with, as a framework's does; for hot_pair.c. */
#include "tests/sim/base/program_abi.h"

#include <stddef.h>

/* A block of `size` bytes, or NULL; on the default stream, or without a stream. */
void *hot_take(size_t size, int on_stream);
cudaError_t hot_give(void *ptr, int on_stream);

/* volatile: calls, so that this library is the caller. */
void *hot_take(size_t size, int on_stream)
{
    void *ptr = NULL;
    volatile cudaError_t result =
            on_stream ? cudaMallocAsync(&ptr, size, NULL) : cudaMalloc(&ptr, size);

    return result == cudaSuccess ? ptr : NULL;
}

cudaError_t hot_give(void *ptr, int on_stream)
{
    volatile cudaError_t result = on_stream ? cudaFreeAsync(ptr, NULL) : cudaFree(ptr);

    return result;
}

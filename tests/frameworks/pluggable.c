/* SPDX-License-Identifier: MIT */
/*
 * pluggable.c - an allocator for torch.cuda.memory.CUDAPluggableAllocator (scripts/torch_pluggable.py):
 * each tensor is a cudaMalloc.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

extern int cudaMalloc(void **ret_pointer, size_t size);
extern int cudaFree(void *pointer);

#define PLUGGABLE(result, name, params)                        \
    __attribute__((visibility("default"))) result name params; \
    result name params
static atomic_int takes, gives;

PLUGGABLE(void *, take, (ssize_t size, int device, void *stream))
{
    void *pointer = NULL;

    (void)device;
    (void)stream;
    takes++;
    return cudaMalloc(&pointer, (size_t)size) == 0 ? pointer : NULL;
}

PLUGGABLE(void, give, (void *pointer, ssize_t size, int device, void *stream))
{
    (void)size;
    (void)device;
    (void)stream;
    gives++;
    (void)cudaFree(pointer);
}

PLUGGABLE(int, taken, (void))
{
    return takes;
}

PLUGGABLE(int, given, (void))
{
    return gives;
}

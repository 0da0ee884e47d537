/* SPDX-License-Identifier: MIT */
/*
 * A CUDA runtime of a few calls on host memory, that can be told to be wrong: kedge-replay must notice.
 *
 *     BROKEN=overlap   every 5th allocation gets the memory of the one before
 *     BROKEN=oom       the 4th allocation fails
 *     BROKEN=nodevice  there is no device
 */
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

API int cudaGetDeviceCount(int *ret_count);
API int cudaMalloc(void **ret_ptr, size_t size);
API int cudaFree(void *ptr);
API int cudaMallocAsync(void **ret_ptr, size_t size, void *stream);
API int cudaFreeAsync(void *ptr, void *stream);
API int cudaMemsetAsync(void *ptr, int value, size_t count, void *stream);
API int cudaMemcpyAsync(void *to, const void *from, size_t count, int kind, void *stream);
API int cudaStreamCreateWithFlags(void **ret_stream, unsigned flags);
API int cudaStreamDestroy(void *stream);
API int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
API int cudaEventCreateWithFlags(void **ret_event, unsigned flags);
API int cudaEventRecord(void *event, void *stream);
API int cudaEventDestroy(void *event);
API int cudaDeviceSynchronize(void);
API int cudaHostAlloc(void **ret_ptr, size_t size, unsigned flags);
API int cudaFreeHost(void *ptr);
API const char *cudaGetErrorString(int error);

static int is_broken(const char *how)
{
    const char *value = getenv("BROKEN");
    return value && strcmp(value, how) == 0;
}

int cudaGetDeviceCount(int *ret_count)
{
    *ret_count = !is_broken("nodevice");
    return 0;
}

#define ROOM ((size_t)16 << 20) /* behind each block, so that a larger one can be laid upon it */

static unsigned char *last; /* the block of the call before, NULL once it is freed */

int cudaMalloc(void **ret_ptr, size_t size)
{
    static unsigned count;

    count++;
    if (is_broken("oom") && count == 4)
        return 2;
    if (is_broken("overlap") && count % 5 == 0 && last) {
        *ret_ptr = last;
        return 0;
    }
    unsigned char *block = malloc(size + ROOM);
    if (!block)
        return 2;
    last = block;
    *ret_ptr = block;
    return 0;
}

int cudaFree(void *ptr)
{
    if (ptr == last)
        last = NULL;
    if (!is_broken("overlap")) /* there a block may have two owners */
        free(ptr);
    return 0;
}

int cudaMallocAsync(void **ret_ptr, size_t size, void *stream)
{
    (void)stream;
    return cudaMalloc(ret_ptr, size);
}

int cudaFreeAsync(void *ptr, void *stream)
{
    (void)stream;
    return cudaFree(ptr);
}

int cudaMemsetAsync(void *ptr, int value, size_t count, void *stream)
{
    (void)stream;
    memset(ptr, value, count);
    return 0;
}

int cudaMemcpyAsync(void *to, const void *from, size_t count, int kind, void *stream)
{
    (void)kind;
    (void)stream;
    memcpy(to, from, count);
    return 0;
}

int cudaStreamCreateWithFlags(void **ret_stream, unsigned flags)
{
    static char streams[64];
    static unsigned count;

    (void)flags;
    *ret_stream = &streams[count++ % 64];
    return 0;
}

int cudaStreamDestroy(void *stream)
{
    (void)stream;
    return 0;
}

/* All work is done when a call returns, so nobody has to wait. */
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)stream;
    (void)flags;
    return event ? 0 : 400;
}

int cudaEventCreateWithFlags(void **ret_event, unsigned flags)
{
    static char event;

    (void)flags;
    *ret_event = &event;
    return 0;
}

int cudaEventRecord(void *event, void *stream)
{
    (void)stream;
    return event ? 0 : 400;
}

int cudaEventDestroy(void *event)
{
    return event ? 0 : 400;
}

int cudaDeviceSynchronize(void)
{
    return 0;
}

int cudaHostAlloc(void **ret_ptr, size_t size, unsigned flags)
{
    (void)flags;
    *ret_ptr = malloc(size);
    return *ret_ptr ? 0 : 2;
}

int cudaFreeHost(void *ptr)
{
    free(ptr);
    return 0;
}

const char *cudaGetErrorString(int error)
{
    return error == 2 ? "out of memory" : "some error";
}

/* SPDX-License-Identifier: MIT */
/*
 * rtcalls.h - the calls of the CUDA runtime that kedge-replay makes.
 *
 * kedge-replay is a program as a user could have written one. It must build without a
 * toolkit, so it opens libcudart.so.13 (or .12) itself and declares what it calls here. Handles are opaque pointers; results
 * are the runtime's cudaError_t as int, 0 = fine.
 *
 * Threads: none.
 */
#ifndef KEDGE_TESTS_RTCALLS_H
#define KEDGE_TESTS_RTCALLS_H

#include <stddef.h>

enum {
    RTCALLS_COPY_TO_HOST = 2,        /* cudaMemcpyDeviceToHost */
    RTCALLS_STREAM_NON_BLOCKING = 1, /* cudaStreamNonBlocking */
    RTCALLS_EVENT_NO_TIMING = 2,     /* cudaEventDisableTiming */
};

struct rtcalls {
    int (*device_count)(int *ret_count);
    int (*malloc)(void **ret_ptr, size_t size);
    int (*free)(void *ptr);
    int (*malloc_async)(void **ret_ptr, size_t size, void *stream);
    int (*free_async)(void *ptr, void *stream);
    int (*memset_async)(void *ptr, int value, size_t count, void *stream);
    int (*memcpy_async)(void *to, const void *from, size_t count, int kind, void *stream);
    int (*stream_create)(void **ret_stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait_event)(void *stream, void *event, unsigned flags);
    int (*event_create)(void **ret_event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_destroy)(void *event);
    int (*device_synchronize)(void);
    int (*host_alloc)(void **ret_ptr, size_t size, unsigned flags);
    int (*host_free)(void *ptr);
    const char *(*error_string)(int error);
};

/* 0, or -ENOENT (no runtime library, *ret_why says which was looked for) or -ENOSYS (a call is missing, *ret_why names it). */
int rtcalls_open(struct rtcalls *ret_calls, const char **ret_why);

#endif

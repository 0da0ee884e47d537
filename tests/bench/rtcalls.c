/* SPDX-License-Identifier: MIT */
#include "tests/bench/rtcalls.h"

#include <dlfcn.h>
#include <errno.h>

int rtcalls_open(struct rtcalls *ret_calls, const char **ret_why)
{
    static const char *const sonames[] = {"libcudart.so.13", "libcudart.so.12"};
    struct rtcalls rt = {0};
    void *library = NULL;

    for (size_t i = 0; i < 2 && !library; i++)
        library = dlopen(sonames[i], RTLD_NOW);
    if (!library) {
        *ret_why = "libcudart.so.13, libcudart.so.12";
        return -ENOENT;
    }
    const struct {
        const char *name;
        void *field;
    } calls[] = {
            {"cudaGetDeviceCount", (void *)&rt.device_count},
            {"cudaMalloc", (void *)&rt.malloc},
            {"cudaFree", (void *)&rt.free},
            {"cudaMallocAsync", (void *)&rt.malloc_async},
            {"cudaFreeAsync", (void *)&rt.free_async},
            {"cudaMemsetAsync", (void *)&rt.memset_async},
            {"cudaMemcpyAsync", (void *)&rt.memcpy_async},
            {"cudaStreamCreateWithFlags", (void *)&rt.stream_create},
            {"cudaStreamDestroy", (void *)&rt.stream_destroy},
            {"cudaStreamWaitEvent", (void *)&rt.stream_wait_event},
            {"cudaEventCreateWithFlags", (void *)&rt.event_create},
            {"cudaEventRecord", (void *)&rt.event_record},
            {"cudaEventDestroy", (void *)&rt.event_destroy},
            {"cudaDeviceSynchronize", (void *)&rt.device_synchronize},
            {"cudaHostAlloc", (void *)&rt.host_alloc},
            {"cudaFreeHost", (void *)&rt.host_free},
            {"cudaGetErrorString", (void *)&rt.error_string},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *symbol = dlsym(library, calls[i].name);
        if (!symbol) {
            *ret_why = calls[i].name;
            return -ENOSYS;
        }
        *(void **)calls[i].field = symbol;
    }
    *ret_calls = rt;
    return 0;
}

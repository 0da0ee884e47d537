/* SPDX-License-Identifier: MIT */
/*
 * A program that is linked with libkedge.so, so that the loader cannot leave it out, and with the simulated driver. Run with
 * more rights than its caller has (AT_SECURE), it must find the driver's own functions and leave no trace of kedge (R51).
 *
 * Prints "secure N", "handed LIBRARY", "calls N": what the driver was asked for beyond this program's own calls; and what the
 * library did before main: "nvtx offered", "unwinder loaded".
 */
#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/simcuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

enum {
    OWN_CALLS = 5,
};

static const char *owner_of(const void *fn)
{
    const char *slash;
    Dl_info info;

    if (!fn || !dladdr(fn, &info) || !info.dli_fname)
        return "nobody";
    slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    struct simcuda_stats stats = {.size = sizeof stats};
    CUcontext context = NULL;
    CUdeviceptr ptr = 0;
    int failed = 0;

    printf("secure %lu\n", getauxval(AT_SECURE));
    printf("nvtx %s\n", getenv("NVTX_INJECTION64_PATH") ? "offered" : "untouched");
    if (!driver) {
        printf("no driver: %s\n", dlerror());
        return EXIT_FAILURE;
    }
    printf("handed %s\n", owner_of(dlsym(driver, "cuMemAlloc_v2")));
    failed |= cuInit(0) != CUDA_SUCCESS;
    failed |= cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS;
    failed |= cuCtxSetCurrent(context) != CUDA_SUCCESS;
    failed |= cuMemAlloc_v2(&ptr, 4096) != CUDA_SUCCESS;
    failed |= cuMemFree_v2(ptr) != CUDA_SUCCESS;
    failed |= simcuda_stats(&stats) != 0;
    printf("calls %ld\n", (long)stats.calls - OWN_CALLS);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/*
 * The two ways to an entry of the driver, compared: is the pointer of dlsym that of cuGetProcAddress (R42)? And does a kernel
 * answer for the layout of its parameters under both of its handles (R86)?
 */
#include "tests/gpu/gpu_device.h"

#include "tests/trainers/kernels.ptx.h"

#include <dlfcn.h>

struct row {
    const char *symbol, *name;
    int version;
    unsigned per_thread;
};

static const struct row rows[] = {
#define HOOK(symbol, name, from, to, per_thread, ...) {#symbol, name, from, per_thread},
#include "preload/base/hooks.def"
};

static bool is_kedges(const void *fn)
{
    Dl_info info;

    return dladdr(fn, &info) && info.dli_fname && strstr(info.dli_fname, "libkedge");
}

TEST(r42_both_look_ups_lead_to_the_same_entry)
{
    int both = 0, same = 0, ours = 0, only_one = 0;

    gpu_init();
    REQUIRE(gpu->cuGetProcAddress_v2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        CUdriverProcAddressQueryResult status;
        void *asked = NULL;
        void *found = dlsym(gpu->libcuda, row->symbol);

        if (gpu->cuGetProcAddress_v2(
                    row->name, &asked, row->version, row->per_thread ? 2 : 0, &status)
                != CUDA_SUCCESS)
            asked = NULL;
        if (!asked || !found) {
            only_one += asked || found;
            continue;
        }
        both++;
        same += asked == found;
        ours += is_kedges(asked);
        if (asked != found)
            printf("  differs: %s, %s at %d\n", row->symbol, row->name, row->version);
        /* What one way leads to us must do so by the other, or memory would be ours and its free not. */
        CHECK_EQ(is_kedges(asked), is_kedges(found));
    }
    CHECK_GT(both, 100);
    if (gpu->under_kedge)
        CHECK_EQ(ours, both);
    gpu_fact("look_ups.both", "%d", both);
    gpu_fact("look_ups.same_pointer", "%d", same);
    gpu_fact("look_ups.one_way_only", "%d", only_one);
}

TEST(r86_a_kernel_tells_its_layout_under_both_handles)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    size_t offset = 0;
    size_t size = 0;
    CUresult r;

    gpu_init();
    if (!gpu->cuKernelGetParamInfo || !gpu->cuFuncGetParamInfo)
        SKIP("the driver is older than 12.4");
    REQUIRE_EQ(gpu->cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0),
            CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuLibraryGetKernel(&kernel, library, "kedge_sum"), CUDA_SUCCESS);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(gpu->cuKernelGetParamInfo(kernel, i, &offset, &size), CUDA_SUCCESS);
        CHECK_EQ(offset, 8 * i);
        CHECK_EQ(size, 8);
        offset = size = 0;
        r = gpu->cuFuncGetParamInfo((CUfunction)(void *)kernel, i, &offset, &size);
        if (i == 0)
            gpu_fact("layout.kernel_taken_for_a_function", "%d", (int)r);
        if (r == CUDA_SUCCESS) {
            CHECK_EQ(offset, 8 * i);
            CHECK_EQ(size, 8);
        }
    }
    r = gpu->cuKernelGetParamInfo(kernel, 3, &offset, &size);
    gpu_fact("layout.after_the_last", "%d", (int)r);
    CHECK_NE(r, CUDA_SUCCESS);
    GPU_OK(cuLibraryUnload(library));
}

/* SPDX-License-Identifier: MIT */
/* A second preload behind kedge (other_preload.c). */
#include "tests/preload/client.h"

#include <dlfcn.h>

/* Another preload behind us keeps its place before the driver. */
TEST(another_preload_is_called_in_its_turn)
{
    const int *allocs = dlsym(RTLD_DEFAULT, "other_allocs");
    const int *syncs = dlsym(RTLD_DEFAULT, "other_syncs");
    CUdeviceptr ptr = 0;

    client_init();
    REQUIRE(allocs && syncs);
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS);
    CHECK(client_is_pooled(ptr, 4096));
    CHECK_EQ(*allocs, 1); /* our segment came through it */
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQ(*syncs, 1);
    CHECK_EQ(client_calls("cuMemAlloc_v2"), 1);
}

/* A pointer that no symbol has, for a (name, version, flag) that is ours: that row's hook (R42). */
TEST(r42_an_unknown_pointer_is_adopted_by_its_row)
{
    const int *look_ups = dlsym(RTLD_DEFAULT, "other_look_ups");
    const int *allocs = dlsym(RTLD_DEFAULT, "other_allocs");
    CUdriverProcAddressQueryResult status;
    __typeof__(&cuMemAlloc_v2) alloc = NULL;
    __typeof__(&cuGetProcAddress_v2) look_up;
    CUdeviceptr ptr = 0;
    Dl_info info;

    client_init();
    look_up = (__typeof__(&cuGetProcAddress_v2))dlsym(cu->libcuda, "cuGetProcAddress_v2");
    REQUIRE(look_up && look_ups && allocs);
    REQUIRE_EQ(look_up("cuMemAlloc", (void **)&alloc, 12000, 0, &status), CUDA_SUCCESS);
    CHECK_EQ(*look_ups, 1);
    REQUIRE(dladdr((void *)alloc, &info));
    CHECK(strstr(info.dli_fname, "libkedge.so"));
    REQUIRE_EQ(alloc(&ptr, 4096), CUDA_SUCCESS);
    CHECK(client_is_pooled(ptr, 4096));
    CHECK_EQ(*allocs, 1);
}

/* So do its eyes on the loader. */
TEST(another_preload_still_sees_the_loader)
{
    void *self = dlopen(NULL, RTLD_NOW);
    const int *opens = dlsym(self, "other_opens");
    const int *asks = dlsym(self, "other_asks");
    int before;

    REQUIRE(opens && asks);
    before = *opens;
    REQUIRE(dlopen("libm.so.6", RTLD_NOW));
    CHECK_EQ(*opens, before + 1);
    before = *asks;
    CHECK(dlsym(self, "malloc"));
    CHECK_EQ(*asks, before + 1);
}

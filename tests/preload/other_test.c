/* SPDX-License-Identifier: MIT */
/* A second preload behind kedge (other_preload.c). Linked programs only: by look-up it would not be seen either way. */
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

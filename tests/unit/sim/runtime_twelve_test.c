/* SPDX-License-Identifier: MIT */
/* libcudart.so.12: what differs from .13. */
#include "tests/check.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

TEST(version_is_that_of_cuda_12)
{
    int version = 0;

    CHECK_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
    CHECK_EQ(version / 1000, 12);
}

TEST(pointer_attributes_end_where_they_did_in_cuda_12)
{
    struct cudaPointerAttributes a;
    void *p = NULL;

    memset(&a, 0x55, sizeof(a));
    REQUIRE_EQ(cudaMalloc(&p, 64), cudaSuccess);
    CHECK_EQ(cudaPointerGetAttributes(&a, p), cudaSuccess);
    CHECK_EQ(a.type, cudaMemoryTypeDevice);
    for (size_t i = 0; i < sizeof(a.reserved) / sizeof(a.reserved[0]); i++)
        CHECK_EQ(a.reserved[i], 0x5555555555555555);
    CHECK_EQ(cudaFree(p), cudaSuccess);
}

TEST(newer_forms_have_the_names_of_cuda_12)
{
    static const char *const there[] = {
            "cudaMemPrefetchAsync_v2", "cudaMemAdvise_v2", "cudaStreamGetCaptureInfo_v3"};
    void *library = dlopen("libcudart.so.12", RTLD_NOW | RTLD_NOLOAD);
    cudaError_t (*absent)(void) = NULL;
    void *symbol;

    REQUIRE(library);
    for (int i = 0; i < 3; i++)
        CHECK(dlvsym(library, there[i], "libcudart.so.12") != NULL);
    symbol = dlsym(library, "cudaMemAdvise"); /* its form of then is not offered */
    REQUIRE(symbol);
    memcpy(&absent, &symbol, sizeof(symbol));
    CHECK_EQ(absent(), cudaErrorNotSupported);
    CHECK_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

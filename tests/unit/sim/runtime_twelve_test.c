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

typedef cudaError_t advise_fn(const void *, size_t, int, int);
typedef cudaError_t prefetch_fn(const void *, size_t, int, cudaStream_t);
typedef cudaError_t range_fn(void *, size_t, int, const void *, size_t);

/* A function by the form of CUDA 12, which the header here does not declare. */
static void *form(const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);

    REQUIRE(symbol);
    return symbol;
}

TEST(managed_memory_is_advised_and_prefetched_by_the_number_of_a_device)
{
    enum {
        PREFERRED = 2,
        ACCESSED_BY = 3,
        LAST_PREFETCH = 4,
        HOST = -1,
        NOWHERE = -2,
        SET_PREFERRED = 3
    };
    prefetch_fn *prefetch[] = {(prefetch_fn *)form("cudaMemPrefetchAsync"),
            (prefetch_fn *)form("cudaMemPrefetchAsync_ptsz")};
    range_fn *range = (range_fn *)form("cudaMemRangeGetAttribute");
    int value = 7;
    void *p = NULL;

    REQUIRE_EQ(cudaMallocManaged(&p, 1 << 20, cudaMemAttachGlobal), cudaSuccess);
    CHECK_EQ(range(&value, sizeof value, LAST_PREFETCH, p, 1 << 20), cudaSuccess);
    CHECK_EQ(value, NOWHERE);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(prefetch[i](p, 1 << 20, 0, NULL), cudaSuccess);
        CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
        CHECK_EQ(range(&value, sizeof value, LAST_PREFETCH, p, 1 << 20), cudaSuccess);
        CHECK_EQ(value, 0);
        CHECK_EQ(prefetch[i](p, 1 << 20, HOST, NULL), cudaSuccess);
        CHECK_EQ(range(&value, sizeof value, LAST_PREFETCH, p, 1 << 20), cudaSuccess);
        CHECK_EQ(value, HOST);
    }
    CHECK_EQ(((advise_fn *)form("cudaMemAdvise"))(p, 1 << 20, SET_PREFERRED, HOST), cudaSuccess);
    CHECK_EQ(range(&value, sizeof value, PREFERRED, p, 1 << 20), cudaSuccess);
    CHECK_EQ(value, HOST);
    CHECK_EQ(prefetch[0](p, 1 << 20, 5, NULL), cudaErrorInvalidDevice);
    CHECK_EQ(range(&value, sizeof value, ACCESSED_BY, NULL, 4), cudaErrorInvalidValue);
    CHECK_EQ(cudaFree(p), cudaSuccess);
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
    symbol = dlsym(library, "cudaStreamGetCaptureInfo"); /* its form of then is not offered */
    REQUIRE(symbol);
    memcpy(&absent, &symbol, sizeof(symbol));
    CHECK_EQ(absent(), cudaErrorNotSupported);
    CHECK_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

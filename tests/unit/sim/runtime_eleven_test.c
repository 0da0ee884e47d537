/* SPDX-License-Identifier: MIT */
/* libcudart.so.11.0: the calls whose structures and arguments grew in CUDA 12. */
#include "tests/check.h"
#include "tests/trainers/kernels.ptx.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

enum {
    PROPERTIES_BYTES = 728, /* sizeof(struct cudaDeviceProp) of CUDA 11.8 */
    ATTRIBUTES_BYTES = 56,  /* sizeof(struct cudaFuncAttributes) */
    PATTERN = 0x55,
};

/* The trainers' header has later versions' form of it, or none. */
typedef cudaError_t properties_fn(void *ret_properties, int device);
typedef cudaError_t instantiate_fn(
        cudaGraphExec_t *ret_exec, cudaGraph_t graph, void *ret_node, char *log, size_t log_bytes);

static void *entry(const char *name)
{
    void *library = dlopen("libcudart.so.11.0", RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlvsym(library, name, "libcudart.so.11.0") : NULL;

    REQUIRE(found);
    return found;
}

static bool is_untouched(const unsigned char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != PATTERN)
            return false;
    }
    return true;
}

TEST(version_is_that_of_cuda_11)
{
    int version = 0;

    CHECK_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
    CHECK_EQ(version, 11080);
}

TEST(properties_of_a_device_end_where_they_did_in_cuda_11)
{
    unsigned char bytes[2 * PROPERTIES_BYTES];
    int major = 0;

    memset(bytes, PATTERN, sizeof bytes);
    CHECK_EQ(((properties_fn *)entry("cudaGetDeviceProperties"))(bytes, 0), cudaSuccess);
    CHECK(strncmp((char *)bytes, "Simulated device", strlen("Simulated device")) == 0);
    memcpy(&major, bytes + 360, sizeof major);
    CHECK_EQ(major, 8);
    CHECK(is_untouched(bytes, PROPERTIES_BYTES, sizeof bytes));
}

TEST(attributes_of_a_function_end_where_they_did_in_cuda_11)
{
    _Alignas(8) unsigned char bytes[sizeof(struct cudaFuncAttributes)];
    struct cudaFuncAttributes *attributes = (void *)bytes;
    cudaLibrary_t library = NULL;
    cudaKernel_t kernel = NULL;

    memset(bytes, PATTERN, sizeof bytes);
    REQUIRE_EQ(
            cudaLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    REQUIRE_EQ(cudaLibraryGetKernel(&kernel, library, "kedge_fill"), cudaSuccess);
    CHECK_EQ(cudaFuncGetAttributes(attributes, (const void *)kernel), cudaSuccess);
    CHECK_GE(attributes->maxThreadsPerBlock, 256);
    CHECK(is_untouched(bytes, ATTRIBUTES_BYTES, sizeof bytes));
}

TEST(a_graph_is_instantiated_with_a_place_for_the_wrong_node)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    void *node = NULL;
    char log[64];

    REQUIRE_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
    CHECK_EQ(
            ((instantiate_fn *)entry("cudaGraphInstantiate"))(&exec, graph, &node, log, sizeof log),
            cudaSuccess);
    CHECK(exec != NULL);
    CHECK_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

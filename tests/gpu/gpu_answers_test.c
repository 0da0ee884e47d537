/* SPDX-License-Identifier: MIT */
/*
 * What the driver answers: requests for nothing, alignment, pointer attributes. Mostly facts: tests/gpu/visit asks with and
 * without kedge and compares line by line (R17, R21, R62, R79).
 */
#include "tests/gpu/gpu_device.h"

#include <dlfcn.h>

enum {
    MIB = 1 << 20,
    READ_AS_INTEGER = 1, /* CU_TRSF_READ_AS_INTEGER */
};

TEST(r17_requests_for_nothing_have_the_drivers_answers)
{
    CUdeviceptr ptr = 1;
    static const char *const runtimes[] = {"libcudart.so.13", "libcudart.so.12"};
    void *runtime = NULL;

    gpu_init();
    CHECK_EQ(gpu->cuMemAlloc_v2(&ptr, 0), CUDA_ERROR_INVALID_VALUE);
    gpu_fact("nothing.cuMemAlloc", "%d", (int)gpu->cuMemAlloc_v2(&ptr, 0));
    gpu_fact("nothing.cuMemFree", "%d", (int)gpu->cuMemFree_v2(0));
    gpu_fact("nothing.cuMemAllocAsync", "%d", (int)gpu->cuMemAllocAsync(&ptr, 0, NULL));
    gpu_fact("nothing.cuMemFreeAsync", "%d", (int)gpu->cuMemFreeAsync(0, NULL));
    for (int i = 0; i < 2 && !runtime; i++)
        runtime = dlopen(runtimes[i], RTLD_NOW | RTLD_LOCAL);
    if (runtime) {
        int (*alloc)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
        int (*release)(void *) = (int (*)(void *))dlsym(runtime, "cudaFree");
        void *at = &ptr;

        REQUIRE(alloc && release);
        gpu_fact("nothing.cudaMalloc", "%d", alloc(&at, 0));
        gpu_fact("nothing.cudaMalloc.pointer", "%s", at ? "not null" : "null");
        gpu_fact("nothing.cudaFree", "%d", release(NULL));
    }
}

/* A texture in linear memory begins on the device's texture alignment; pooled blocks must as well. */
TEST(r15_every_block_suits_a_texture)
{
    static const size_t sizes[] = {
            1, 511, 512, 513, 70000, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB};
    CUdeviceptr ptr[9];
    CUdeviceptr least = 0;
    CUdeviceptr align;

    gpu_init();
    align = (CUdeviceptr)gpu_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    gpu_fact("texture_alignment", "%d", (int)align);
    for (int i = 0; i < 9; i++) {
        CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
        CUDA_TEXTURE_DESC texture = {.flags = READ_AS_INTEGER};
        CUtexObject object;

        REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr[i], sizes[i]), CUDA_SUCCESS);
        CHECK_EQ(ptr[i] % align, 0);
        if (gpu->under_kedge)
            CHECK_EQ(ptr[i] % 512, 0);
        least |= ptr[i];
        if (gpu->simulated)
            continue; /* it has no textures */
        resource.res.linear.devPtr = ptr[i];
        resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT8;
        resource.res.linear.numChannels = 1;
        resource.res.linear.sizeInBytes = sizes[i];
        CHECK_EQ(gpu->cuTexObjectCreate(&object, &resource, &texture, NULL), CUDA_SUCCESS);
        GPU_OK(cuTexObjectDestroy(object));
    }
    gpu_fact("alignment_of_all", "%llu", (unsigned long long)(least & -least));
    for (int i = 0; i < 9; i++)
        GPU_OK(cuMemFree_v2(ptr[i]));
}

/* ---- pointer attributes --------------------------------------------------------------------- */

static const char *const attribute_names[] = {"", "CONTEXT", "MEMORY_TYPE", "DEVICE_POINTER",
        "HOST_POINTER", "P2P_TOKENS", "SYNC_MEMOPS", "BUFFER_ID", "IS_MANAGED", "DEVICE_ORDINAL",
        "IS_LEGACY_CUDA_IPC_CAPABLE", "RANGE_START_ADDR", "RANGE_SIZE", "MAPPED",
        "ALLOWED_HANDLE_TYPES", "IS_GPU_DIRECT_RDMA_CAPABLE", "ACCESS_FLAGS", "MEMPOOL_HANDLE",
        "MAPPING_SIZE", "MAPPING_BASE_ADDR", "MEMORY_BLOCK_ID", "IS_HW_DECOMPRESS_CAPABLE"};

/* Addresses and handles differ from run to run; what matters about them does not. */
static void tell_attribute(const char *state, unsigned which, CUdeviceptr ptr)
{
    unsigned long long value[8] = {0};
    CUresult r = gpu->cuPointerGetAttribute(value, (CUpointer_attribute)which, ptr);
    CUmemoryPool pool = NULL;
    char name[96];

    (void)snprintf(name, sizeof name, "attribute.%s.%s", state, attribute_names[which]);
    if (r != CUDA_SUCCESS) {
        gpu_fact(name, "code %d", (int)r);
        return;
    }
    switch ((int)which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        gpu_fact(name, "%s",
                !value[0]                                     ? "none"
                        : value[0] == (uintptr_t)gpu->context ? "current"
                                                              : "another");
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        gpu_fact(name, "%lld from the pointer", (long long)(value[0] - ptr));
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        (void)gpu->cuDeviceGetDefaultMemPool(&pool, gpu->device);
        gpu_fact(name, "%s",
                !value[0]                             ? "none"
                        : value[0] == (uintptr_t)pool ? "the default pool"
                                                      : "another");
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        gpu_fact(name, "%s", value[0] ? "some" : "none");
        break;
    default:
        gpu_fact(name, "%llu", value[0]);
    }
}

static void tell_attributes(const char *state, CUdeviceptr ptr)
{
    for (unsigned which = 1; which < sizeof attribute_names / sizeof *attribute_names; which++)
        if (which != CU_POINTER_ATTRIBUTE_P2P_TOKENS) /* asking for it changes the allocation */
            tell_attribute(state, which, ptr);
}

TEST(r21_r79_pointer_attributes_are_told_in_every_state)
{
    CUdeviceptr small = 0, large = 0, ordered = 0;
    unsigned type = 0;

    gpu_init();
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&small, 3000), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&large, 5 * MIB), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemAllocAsync(&ordered, 5 * MIB, NULL), CUDA_SUCCESS);
    GPU_OK(cuCtxSynchronize());
    tell_attributes("small", small);
    tell_attributes("large", large);
    tell_attributes("interior", large + 4096);
    tell_attributes("stream_ordered", ordered);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr ptr = i == 0 ? small : i == 1 ? large : ordered;

        GPU_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr));
        CHECK_EQ(type, CU_MEMORYTYPE_DEVICE);
    }
    GPU_OK(cuMemFree_v2(small));
    GPU_OK(cuMemFree_v2(large));
    GPU_OK(cuMemFreeAsync(ordered, NULL));
    GPU_OK(cuCtxSynchronize());
    tell_attributes("freed", large);
}

TEST(r22_free_memory_returns_to_where_it_was)
{
    CUdeviceptr ptr[16];
    size_t before, after, total;

    gpu_init();
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr[0], MIB), CUDA_SUCCESS);
    GPU_OK(cuMemFree_v2(ptr[0]));
    GPU_OK(cuMemGetInfo_v2(&before, &total));
    for (int i = 0; i < 16; i++)
        REQUIRE_EQ(gpu->cuMemAlloc_v2(&ptr[i], (size_t)(i + 1) * 3 * (size_t)MIB), CUDA_SUCCESS);
    for (int i = 0; i < 16; i++)
        GPU_OK(cuMemFree_v2(ptr[i]));
    GPU_OK(cuMemGetInfo_v2(&after, &total));
    gpu_fact("free_memory_lost", "%lld", (long long)before - (long long)after);
    CHECK(after <= total);
    CHECK(after + 64 * (size_t)MIB >= before); /* others may use the device as well */
}

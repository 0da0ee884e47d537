/* SPDX-License-Identifier: MIT */
#include "tests/sim/driver/sim_attributes.h"

#include <stddef.h>

/*
 * What a multiprocessor has, by compute capability: CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability". Frameworks choose launches by it.
 */
struct generation {
    int major, minor;
    int threads, blocks;          /* resident on one multiprocessor */
    int shared_kib, reserved_kib; /* shared memory of one; of that, not for a block */
};

static const struct generation generations[] = {
        {7, 0, 2048, 32, 96, 0},
        {7, 5, 1024, 16, 64, 0},
        {8, 0, 2048, 32, 164, 1},
        {8, 6, 1536, 16, 100, 1},
        {8, 9, 1536, 24, 100, 1},
        {9, 0, 2048, 32, 228, 1},
        {10, 0, 2048, 32, 228, 1},
        {12, 0, 1536, 24, 100, 1},
};

enum {
    GENERATIONS = sizeof(generations) / sizeof(generations[0]),
};

bool sim_attributes_know(int major, int minor)
{
    for (size_t i = 0; i < GENERATIONS; i++)
        if (generations[i].major == major && generations[i].minor == minor)
            return true;
    return false;
}

static const struct generation *generation(void)
{
    size_t i = 0;

    while (i + 1 < GENERATIONS
            && (generations[i].major != sim_config.capability[0]
                    || generations[i].minor != sim_config.capability[1]))
        i++;
    return &generations[i];
}

/* What programs ask for. Anything else is 0: "the device has no such thing". */
static const struct {
    CUdevice_attribute which;
    int value;
} attributes[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1410000},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1512000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 40 << 20},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
        {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
        {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
        {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
        {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
};

int sim_attribute(CUdevice_attribute which, int device)
{
    const struct generation *own = generation();

    if (which == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        return device + 1;
    if (which == CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)
        return (int)sim_config.texture;
    if (which == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)
        return sim_config.managed;
    if (which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        return (int)sim_config.sms;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        return sim_config.capability[0];
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        return sim_config.capability[1];
    if (which == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
        return own->threads;
    if (which == CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)
        return own->blocks;
    if (which == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
        return own->shared_kib * 1024;
    if (which == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        return (own->shared_kib - own->reserved_kib) * 1024;
    if (which == CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)
        return own->reserved_kib * 1024;
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (attributes[i].which == which)
            return attributes[i].value;
    return 0;
}

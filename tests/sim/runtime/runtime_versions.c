/* SPDX-License-Identifier: MIT */
/* Calls whose form depends on the version of the runtime. */
#include "tests/sim/runtime/runtime_core.h"

#include <stddef.h>
#include <string.h>

struct runtime_channel_desc cudaCreateChannelDesc(int x, int y, int z, int w, int kind)
{
    return (struct runtime_channel_desc){x, y, z, w, kind};
}

/* ---- capture, with what a capturing stream depends on ---- */

typedef CUresult capture_info_fn(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
        const CUgraphNode **, const CUgraphEdgeData **, size_t *);

static cudaError_t capture_info(capture_info_fn *const *entry, cudaStream_t stream,
        enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
        cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps,
        const cudaGraphEdgeData **ret_edges, size_t *ret_count)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    cudaError_t error;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!ret_status)
        return runtime_fail(cudaErrorInvalidValue);
    if (!*entry)
        return runtime_fail(cudaErrorCallRequiresNewerDriver);
    error = runtime_done((*entry)(stream, &status, &id, ret_graph, ret_deps, ret_edges, ret_count));
    if (error != cudaSuccess)
        return error;
    *ret_status = (enum cudaStreamCaptureStatus)status;
    if (ret_id)
        *ret_id = id;
    return cudaSuccess;
}

#if RUNTIME_MAJOR >= 13

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *ret_status,
        unsigned long long *ret_id, cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps,
        const cudaGraphEdgeData **ret_edges, size_t *ret_count)
{
    return capture_info(&runtime_driver.cuStreamGetCaptureInfo_v3, stream, ret_status, ret_id,
            ret_graph, ret_deps, ret_edges, ret_count);
}

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream,
        enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
        cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps,
        const cudaGraphEdgeData **ret_edges, size_t *ret_count)
{
    return capture_info(&runtime_driver.cuStreamGetCaptureInfo_v3_ptsz, stream, ret_status, ret_id,
            ret_graph, ret_deps, ret_edges, ret_count);
}

#else

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
        enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
        cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps, size_t *ret_count)
{
    return capture_info(&runtime_driver.cuStreamGetCaptureInfo_v3, stream, ret_status, ret_id,
            ret_graph, ret_deps, NULL, ret_count);
}

cudaError_t cudaStreamGetCaptureInfo_v2_ptsz(cudaStream_t stream,
        enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
        cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps, size_t *ret_count)
{
    return capture_info(&runtime_driver.cuStreamGetCaptureInfo_v3_ptsz, stream, ret_status, ret_id,
            ret_graph, ret_deps, NULL, ret_count);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
        enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
        cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps,
        const cudaGraphEdgeData **ret_edges, size_t *ret_count)
{
    return capture_info(&runtime_driver.cuStreamGetCaptureInfo_v3, stream, ret_status, ret_id,
            ret_graph, ret_deps, ret_edges, ret_count);
}

cudaError_t cudaStreamGetCaptureInfo_v3_ptsz(cudaStream_t stream,
        enum cudaStreamCaptureStatus *ret_status, unsigned long long *ret_id,
        cudaGraph_t *ret_graph, const cudaGraphNode_t **ret_deps,
        const cudaGraphEdgeData **ret_edges, size_t *ret_count)
{
    return capture_info(&runtime_driver.cuStreamGetCaptureInfo_v3_ptsz, stream, ret_status, ret_id,
            ret_graph, ret_deps, ret_edges, ret_count);
}

#endif

/* ---- managed memory ---- */

static CUmemLocation place(struct cudaMemLocation location)
{
    CUmemLocation raw;

    memcpy(&raw, &location, sizeof(raw));
    return raw;
}

static CUdeviceptr address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

#if RUNTIME_MAJOR >= 13
#    define ADVISE        cudaMemAdvise
#    define PREFETCH      cudaMemPrefetchAsync
#    define PREFETCH_PTSZ cudaMemPrefetchAsync_ptsz
#else
#    define ADVISE        cudaMemAdvise_v2
#    define PREFETCH      cudaMemPrefetchAsync_v2
#    define PREFETCH_PTSZ cudaMemPrefetchAsync_v2_ptsz
#endif

cudaError_t ADVISE(const void *ptr, size_t bytes, int advice, struct cudaMemLocation location)
{
    return RUNTIME_CALL(
            cuMemAdvise_v2, (address(ptr), bytes, (CUmem_advise)advice, place(location)));
}

cudaError_t PREFETCH(const void *ptr, size_t bytes, struct cudaMemLocation location,
        unsigned int flags, cudaStream_t stream)
{
    return RUNTIME_CALL(
            cuMemPrefetchAsync_v2, (address(ptr), bytes, place(location), flags, stream));
}

cudaError_t PREFETCH_PTSZ(const void *ptr, size_t bytes, struct cudaMemLocation location,
        unsigned int flags, cudaStream_t stream)
{
    return RUNTIME_CALL(
            cuMemPrefetchAsync_v2_ptsz, (address(ptr), bytes, place(location), flags, stream));
}

#if RUNTIME_MAJOR < 13

cudaError_t cudaMemAdvise(const void *ptr, size_t bytes, int advice, int device)
{
    return RUNTIME_CALL(cuMemAdvise, (address(ptr), bytes, (CUmem_advise)advice, device));
}

RUNTIME_PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t bytes, int device, cudaStream_t stream),
        cuMemPrefetchAsync, (address(ptr), bytes, device, stream))

#endif

cudaError_t cudaMemRangeGetAttribute(
        void *ret_value, size_t room, int attribute, const void *ptr, size_t bytes)
{
    return RUNTIME_CALL(cuMemRangeGetAttribute,
            (ret_value, room, (CUmem_range_attribute)attribute, address(ptr), bytes));
}

cudaError_t cudaMemRangeGetAttributes(void **ret_values, size_t *rooms, int *attributes,
        size_t count, const void *ptr, size_t bytes)
{
    return RUNTIME_CALL(cuMemRangeGetAttributes,
            (ret_values, rooms, (CUmem_range_attribute *)attributes, count, address(ptr), bytes));
}

/* ---- properties of a device, as the versions lay them out ---- */

struct runtime_device_prop {
    char name[256];
    CUuuid uuid;
    char luid[8];
    unsigned int luid_device_node_mask;
    size_t total_global_mem;
    size_t shared_mem_per_block;
    int regs_per_block;
    int warp_size;
    size_t mem_pitch;
    int max_threads_per_block;
    int max_threads_dim[3];
    int max_grid_size[3];
#if RUNTIME_MAJOR < 13
    int clock_rate;
#endif
    size_t total_const_mem;
    int major;
    int minor;
    size_t texture_alignment;
    size_t texture_pitch_alignment;
#if RUNTIME_MAJOR < 13
    int device_overlap;
#endif
    int multi_processor_count;
#if RUNTIME_MAJOR < 13
    int kernel_exec_timeout_enabled;
#endif
    int integrated;
    int can_map_host_memory;
#if RUNTIME_MAJOR < 13
    int compute_mode;
    int max_texture_1d_linear;
#endif
    int max_texture_and_surface[39]; /* none here */
    size_t surface_alignment;
    int concurrent_kernels;
    int ecc_enabled;
    int pci_bus_id;
    int pci_device_id;
    int pci_domain_id;
    int tcc_driver;
    int async_engine_count;
    int unified_addressing;
#if RUNTIME_MAJOR < 13
    int memory_clock_rate;
#endif
    int memory_bus_width;
    int l2_cache_size;
    int persisting_l2_cache_max_size;
    int max_threads_per_multi_processor;
    int stream_priorities_supported;
    int global_l1_cache_supported;
    int local_l1_cache_supported;
    size_t shared_mem_per_multiprocessor;
    int regs_per_multiprocessor;
    int managed_memory;
    int is_multi_gpu_board;
    int multi_gpu_board_group_id;
    int host_native_atomic_supported;
#if RUNTIME_MAJOR < 13
    int single_to_double_precision_perf_ratio;
#endif
    int pageable_memory_access;
    int concurrent_managed_access;
    int compute_preemption_supported;
    int can_use_host_pointer_for_registered_mem;
    int cooperative_launch;
#if RUNTIME_MAJOR < 13
    int cooperative_multi_device_launch;
#endif
    size_t shared_mem_per_block_optin;
    int pageable_memory_access_uses_host_page_tables;
    int direct_managed_mem_access_from_host;
    int max_blocks_per_multi_processor;
    int access_policy_max_window_size;
    size_t reserved_shared_mem_per_block;
    int host_register_supported;
    int sparse_cuda_array_supported;
    int host_register_read_only_supported;
    int timeline_semaphore_interop_supported;
    int memory_pools_supported;
    int gpu_direct_rdma_supported;
    unsigned int gpu_direct_rdma_flush_writes_options;
    int gpu_direct_rdma_writes_ordering;
    unsigned int memory_pool_supported_handle_types;
    int deferred_mapping_cuda_array_supported;
    int ipc_event_supported;
    int cluster_launch;
    int unified_function_pointers;
#if RUNTIME_MAJOR >= 13
    int device_numa_config;
    int device_numa_id;
    int mps_enabled;
    int host_numa_id;
    unsigned int gpu_pci_device_id;
    unsigned int gpu_pci_subsystem_id;
    int host_numa_multinode_ipc_supported;
    int reserved[56];
#else
    int reserved[63];
#endif
};

/* An attribute that the driver does not know is 0. */
static int attribute(CUdevice_attribute which, int device)
{
    int value = 0;

    if (DRIVER(cuDeviceGetAttribute, (&value, which, device)) != CUDA_SUCCESS)
        return 0;
    return value;
}

#define ATTRIBUTE(which_) attribute(CU_DEVICE_ATTRIBUTE_##which_, device)

static void fill_limits(struct runtime_device_prop *p, int device)
{
    p->shared_mem_per_block = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK);
    p->regs_per_block = ATTRIBUTE(MAX_REGISTERS_PER_BLOCK);
    p->warp_size = ATTRIBUTE(WARP_SIZE);
    p->mem_pitch = (size_t)ATTRIBUTE(MAX_PITCH);
    p->max_threads_per_block = ATTRIBUTE(MAX_THREADS_PER_BLOCK);
    p->max_threads_dim[0] = ATTRIBUTE(MAX_BLOCK_DIM_X);
    p->max_threads_dim[1] = ATTRIBUTE(MAX_BLOCK_DIM_Y);
    p->max_threads_dim[2] = ATTRIBUTE(MAX_BLOCK_DIM_Z);
    p->max_grid_size[0] = ATTRIBUTE(MAX_GRID_DIM_X);
    p->max_grid_size[1] = ATTRIBUTE(MAX_GRID_DIM_Y);
    p->max_grid_size[2] = ATTRIBUTE(MAX_GRID_DIM_Z);
    p->total_const_mem = (size_t)ATTRIBUTE(TOTAL_CONSTANT_MEMORY);
    p->major = ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
    p->minor = ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
    p->texture_alignment = (size_t)ATTRIBUTE(TEXTURE_ALIGNMENT);
    p->texture_pitch_alignment = (size_t)ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT);
    p->surface_alignment = (size_t)ATTRIBUTE(SURFACE_ALIGNMENT);
    p->multi_processor_count = ATTRIBUTE(MULTIPROCESSOR_COUNT);
    p->max_threads_per_multi_processor = ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR);
    p->max_blocks_per_multi_processor = ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR);
    p->shared_mem_per_multiprocessor = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p->regs_per_multiprocessor = ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR);
    p->shared_mem_per_block_optin = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p->reserved_shared_mem_per_block = (size_t)ATTRIBUTE(RESERVED_SHARED_MEMORY_PER_BLOCK);
    p->memory_bus_width = ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH);
    p->l2_cache_size = ATTRIBUTE(L2_CACHE_SIZE);
}

static void fill_abilities(struct runtime_device_prop *p, int device)
{
    p->integrated = ATTRIBUTE(INTEGRATED);
    p->can_map_host_memory = ATTRIBUTE(CAN_MAP_HOST_MEMORY);
    p->concurrent_kernels = ATTRIBUTE(CONCURRENT_KERNELS);
    p->ecc_enabled = ATTRIBUTE(ECC_ENABLED);
    p->pci_bus_id = ATTRIBUTE(PCI_BUS_ID);
    p->pci_device_id = ATTRIBUTE(PCI_DEVICE_ID);
    p->pci_domain_id = ATTRIBUTE(PCI_DOMAIN_ID);
    p->async_engine_count = ATTRIBUTE(ASYNC_ENGINE_COUNT);
    p->unified_addressing = ATTRIBUTE(UNIFIED_ADDRESSING);
    p->stream_priorities_supported = ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED);
    p->managed_memory = ATTRIBUTE(MANAGED_MEMORY);
    p->host_native_atomic_supported = ATTRIBUTE(HOST_NATIVE_ATOMIC_SUPPORTED);
    p->pageable_memory_access = ATTRIBUTE(PAGEABLE_MEMORY_ACCESS);
    p->concurrent_managed_access = ATTRIBUTE(CONCURRENT_MANAGED_ACCESS);
    p->compute_preemption_supported = ATTRIBUTE(COMPUTE_PREEMPTION_SUPPORTED);
    p->can_use_host_pointer_for_registered_mem = ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    p->cooperative_launch = ATTRIBUTE(COOPERATIVE_LAUNCH);
    p->pageable_memory_access_uses_host_page_tables =
            ATTRIBUTE(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
    p->direct_managed_mem_access_from_host = ATTRIBUTE(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
    p->host_register_supported = ATTRIBUTE(HOST_REGISTER_SUPPORTED);
    p->host_register_read_only_supported = ATTRIBUTE(READ_ONLY_HOST_REGISTER_SUPPORTED);
    p->memory_pools_supported = ATTRIBUTE(MEMORY_POOLS_SUPPORTED);
    p->gpu_direct_rdma_supported = ATTRIBUTE(GPU_DIRECT_RDMA_SUPPORTED);
    p->memory_pool_supported_handle_types = (unsigned int)ATTRIBUTE(MEMPOOL_SUPPORTED_HANDLE_TYPES);
    p->ipc_event_supported = ATTRIBUTE(IPC_EVENT_SUPPORTED);
    p->cluster_launch = ATTRIBUTE(CLUSTER_LAUNCH);
    p->unified_function_pointers = ATTRIBUTE(UNIFIED_FUNCTION_POINTERS);
#if RUNTIME_MAJOR >= 13
    p->mps_enabled = ATTRIBUTE(MPS_ENABLED);
    p->host_numa_id = ATTRIBUTE(HOST_NUMA_ID);
#else
    p->clock_rate = ATTRIBUTE(CLOCK_RATE);
    p->memory_clock_rate = ATTRIBUTE(MEMORY_CLOCK_RATE);
    p->device_overlap = ATTRIBUTE(GPU_OVERLAP);
    p->kernel_exec_timeout_enabled = ATTRIBUTE(KERNEL_EXEC_TIMEOUT);
    p->compute_mode = ATTRIBUTE(COMPUTE_MODE);
#endif
}

#if RUNTIME_MAJOR >= 13
#    define GET_PROPERTIES cudaGetDeviceProperties
#else
#    define GET_PROPERTIES cudaGetDeviceProperties_v2
#endif

cudaError_t GET_PROPERTIES(struct runtime_device_prop *ret_properties, int device)
{
    struct runtime_device_prop p = {.name = ""};
    cudaError_t error = runtime_boot();

    if (error != cudaSuccess)
        return error;
    if (!ret_properties)
        return runtime_fail(cudaErrorInvalidValue);
    error = runtime_done(DRIVER(cuDeviceGetName, (p.name, (int)sizeof(p.name), device)));
    if (error == cudaSuccess)
        error = runtime_done(DRIVER(cuDeviceTotalMem_v2, (&p.total_global_mem, device)));
    if (error != cudaSuccess)
        return error;
    (void)DRIVER(cuDeviceGetUuid_v2, (&p.uuid, device));
    fill_limits(&p, device);
    fill_abilities(&p, device);
    *ret_properties = p;
    return cudaSuccess;
}

#if RUNTIME_MAJOR < 13
/* The form of CUDA 11: the same members in the same places, the last of them reserved_shared_mem_per_block. */
cudaError_t cudaGetDeviceProperties(struct runtime_device_prop *ret_properties, int device)
{
    enum {
        SIZE = offsetof(struct runtime_device_prop, host_register_supported)
    };
    struct runtime_device_prop p;
    cudaError_t error;

    _Static_assert(SIZE == 728, "sizeof(cudaDeviceProp) of CUDA 11.8");
    if (!ret_properties)
        return runtime_fail(cudaErrorInvalidValue);
    error = cudaGetDeviceProperties_v2(&p, device);
    if (error == cudaSuccess)
        memcpy(ret_properties, &p, SIZE);
    return error;
}

/* ---- names that 13 has no more ---- */

cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return cudaEventElapsedTime(ms, start, end);
}

cudaError_t cudaThreadSynchronize(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaThreadExit(void)
{
    return cudaDeviceReset();
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * cuda_abi.h - the part of CUDA's binary interface that we speak, in our own words.
 *
 * kedge is built where there is no CUDA toolkit, and it must call and answer functions by their
 * real symbols (`cuMemAlloc_v2`, `cuMemAllocAsync_ptsz`), which the toolkit's headers hide behind
 * macros. So the types, the values and one prototype per real symbol are declared here, under the
 * names that CUDA programs use. Nothing is a macro that renames a function: `cuMemAlloc` here is
 * the 32-bit symbol of that name and not the one that a program means.
 *
 *     CUDA_ABI_PTSZ(CUresult, cuMemAllocAsync, (...))   declares cuMemAllocAsync and
 *                                                       cuMemAllocAsync_ptsz
 *     CUDA_ABI_PTDS(CUresult, cuMemcpyHtoD_v2, (...))   declares cuMemcpyHtoD_v2 and
 *                                                       cuMemcpyHtoD_v2_ptds
 *
 * Where versions of CUDA differ, each form is a symbol of its own in the driver and declared as
 * such. The runtime part is CUDA 13's; the calls that have another form under the same name in
 * CUDA 12 (cudaMemPrefetchAsync, cudaMemAdvise, cudaStreamGetCaptureInfo, cudaGraphAddDependencies,
 * cudaGetDeviceProperties) are left out, and cudaPointerGetAttributes has its older layout below.
 *
 * With KEDGE_ABI_PROTOTYPES_ONLY the types are left out: a test includes the toolkit's own headers
 * (with __CUDA_API_VERSION_INTERNAL) and then this one, and a wrong prototype does not compile.
 * Sizes, offsets and values are compared by tests/abi. Functions are declared with default
 * visibility, so that a library of ours that defines one exports it unless its version script says
 * otherwise.
 */
#ifndef KEDGE_PRELOAD_CUDA_ABI_H
#define KEDGE_PRELOAD_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifndef KEDGE_ABI_PROTOTYPES_ONLY

/* ---- driver: handles and words -------------------------------------------------------------- */

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1; /* what the unversioned names of CUDA 2 take */
typedef unsigned long long CUmemGenericAllocationHandle;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef cuuint64_t CUgraphConditionalHandle;

typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef struct CUipcEventHandle_st {
    char reserved[64];
} CUipcEventHandle;

typedef struct CUmemPoolPtrExportData_st {
    unsigned char reserved[64];
} CUmemPoolPtrExportData;

typedef void (*CUhostFn)(void *data);

/* The two stream handles that are numbers. 0 is the legacy stream or, in a _ptsz call, the thread's. */
#    define CU_STREAM_LEGACY     ((CUstream)0x1)
#    define CU_STREAM_PER_THREAD ((CUstream)0x2)
#    define CU_DEVICE_CPU        ((CUdevice)-1)
#    define CU_DEVICE_INVALID    ((CUdevice)-2)
#    define CU_IPC_HANDLE_SIZE   64

#    define CU_MEMHOSTALLOC_PORTABLE      0x01
#    define CU_MEMHOSTALLOC_DEVICEMAP     0x02
#    define CU_MEMHOSTALLOC_WRITECOMBINED 0x04
#    define CU_MEMHOSTREGISTER_PORTABLE   0x01
#    define CU_MEMHOSTREGISTER_DEVICEMAP  0x02
#    define CU_MEMHOSTREGISTER_IOMEMORY   0x04
#    define CU_MEMHOSTREGISTER_READ_ONLY  0x08

/* `extra` of a launch: a list of (key, value) pointers that ends with END. */
#    define CU_LAUNCH_PARAM_END            ((void *)0x00)
#    define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#    define CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)0x02)

/* ---- driver: results ------------------------------------------------------------------------ */

/* X(name, value): one row per result, so that a table of names can be made from the same list. */
/* clang-format off */
#define CUDA_ABI_RESULTS(X)                                                                        \
    X(CUDA_SUCCESS, 0) X(CUDA_ERROR_INVALID_VALUE, 1) X(CUDA_ERROR_OUT_OF_MEMORY, 2)               \
    X(CUDA_ERROR_NOT_INITIALIZED, 3) X(CUDA_ERROR_DEINITIALIZED, 4)                                \
    X(CUDA_ERROR_PROFILER_DISABLED, 5) X(CUDA_ERROR_PROFILER_NOT_INITIALIZED, 6)                   \
    X(CUDA_ERROR_PROFILER_ALREADY_STARTED, 7) X(CUDA_ERROR_PROFILER_ALREADY_STOPPED, 8)            \
    X(CUDA_ERROR_STUB_LIBRARY, 34) X(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36)                    \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46) X(CUDA_ERROR_NO_DEVICE, 100)                              \
    X(CUDA_ERROR_INVALID_DEVICE, 101) X(CUDA_ERROR_DEVICE_NOT_LICENSED, 102)                       \
    X(CUDA_ERROR_INVALID_IMAGE, 200) X(CUDA_ERROR_INVALID_CONTEXT, 201)                            \
    X(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, 202) X(CUDA_ERROR_MAP_FAILED, 205)                       \
    X(CUDA_ERROR_UNMAP_FAILED, 206) X(CUDA_ERROR_ARRAY_IS_MAPPED, 207)                             \
    X(CUDA_ERROR_ALREADY_MAPPED, 208) X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                         \
    X(CUDA_ERROR_ALREADY_ACQUIRED, 210) X(CUDA_ERROR_NOT_MAPPED, 211)                              \
    X(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, 212) X(CUDA_ERROR_NOT_MAPPED_AS_POINTER, 213)                \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214) X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215)                      \
    X(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, 216) X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)           \
    X(CUDA_ERROR_INVALID_PTX, 218) X(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, 219)                     \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220) X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)              \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222) X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)         \
    X(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, 224) X(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, 225)       \
    X(CUDA_ERROR_CONTAINED, 226) X(CUDA_ERROR_INVALID_SOURCE, 300)                                 \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301) X(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302)            \
    X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303) X(CUDA_ERROR_OPERATING_SYSTEM, 304)               \
    X(CUDA_ERROR_INVALID_HANDLE, 400) X(CUDA_ERROR_ILLEGAL_STATE, 401)                             \
    X(CUDA_ERROR_LOSSY_QUERY, 402) X(CUDA_ERROR_NOT_FOUND, 500) X(CUDA_ERROR_NOT_READY, 600)       \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700) X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                  \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702) X(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, 703)             \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704) X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705)      \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708) X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)              \
    X(CUDA_ERROR_ASSERT, 710) X(CUDA_ERROR_TOO_MANY_PEERS, 711)                                    \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                                              \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713) X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)          \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715) X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                   \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717) X(CUDA_ERROR_INVALID_PC, 718)                         \
    X(CUDA_ERROR_LAUNCH_FAILED, 719) X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720)               \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721) X(CUDA_ERROR_NOT_PERMITTED, 800)                         \
    X(CUDA_ERROR_NOT_SUPPORTED, 801) X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                           \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803) X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)    \
    X(CUDA_ERROR_MPS_CONNECTION_FAILED, 805) X(CUDA_ERROR_MPS_RPC_FAILURE, 806)                    \
    X(CUDA_ERROR_MPS_SERVER_NOT_READY, 807) X(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, 808)             \
    X(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, 809) X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)        \
    X(CUDA_ERROR_CDP_NOT_SUPPORTED, 811) X(CUDA_ERROR_CDP_VERSION_MISMATCH, 812)                   \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900) X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)    \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902) X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)            \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904) X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)         \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906) X(CUDA_ERROR_CAPTURED_EVENT, 907)                   \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908) X(CUDA_ERROR_TIMEOUT, 909)                      \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910) X(CUDA_ERROR_EXTERNAL_DEVICE, 911)                \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912) X(CUDA_ERROR_FUNCTION_NOT_LOADED, 913)                 \
    X(CUDA_ERROR_INVALID_RESOURCE_TYPE, 914) X(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, 915)     \
    X(CUDA_ERROR_KEY_ROTATION, 916) X(CUDA_ERROR_UNKNOWN, 999)
/* clang-format on */

typedef enum cudaError_enum {
#    define CUDA_ABI_ROW(name, value) name = (value),
    CUDA_ABI_RESULTS(CUDA_ABI_ROW)
#    undef CUDA_ABI_ROW
} CUresult;

typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);

/* ---- driver: enumerations ------------------------------------------------------------------- */

/* clang-format off */
typedef enum CUctx_flags_enum {
    CU_CTX_SCHED_AUTO = 0x00, CU_CTX_SCHED_SPIN = 0x01, CU_CTX_SCHED_YIELD = 0x02,
    CU_CTX_SCHED_BLOCKING_SYNC = 0x04, CU_CTX_SCHED_MASK = 0x07, CU_CTX_MAP_HOST = 0x08,
    CU_CTX_COREDUMP_ENABLE = 0x20, CU_CTX_USER_COREDUMP_ENABLE = 0x40, CU_CTX_SYNC_MEMOPS = 0x80,
    CU_CTX_FLAGS_MASK = 0xFF,
} CUctx_flags;

typedef enum CUstream_flags_enum {
    CU_STREAM_DEFAULT = 0x0, CU_STREAM_NON_BLOCKING = 0x1,
} CUstream_flags;

typedef enum CUevent_flags_enum {
    CU_EVENT_DEFAULT = 0x0, CU_EVENT_BLOCKING_SYNC = 0x1, CU_EVENT_DISABLE_TIMING = 0x2,
    CU_EVENT_INTERPROCESS = 0x4,
} CUevent_flags;

typedef enum CUevent_record_flags_enum {
    CU_EVENT_RECORD_DEFAULT = 0x0, CU_EVENT_RECORD_EXTERNAL = 0x1,
} CUevent_record_flags;

typedef enum CUevent_wait_flags_enum {
    CU_EVENT_WAIT_DEFAULT = 0x0, CU_EVENT_WAIT_EXTERNAL = 0x1,
} CUevent_wait_flags;

typedef enum CUmemAttach_flags_enum {
    CU_MEM_ATTACH_GLOBAL = 0x1, CU_MEM_ATTACH_HOST = 0x2, CU_MEM_ATTACH_SINGLE = 0x4,
} CUmemAttach_flags;

typedef enum CUipcMem_flags_enum {
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 0x1,
} CUipcMem_flags;

typedef enum CUdevice_attribute_enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9, CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
    CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17, CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT = 30, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT = 51,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED = 86,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
    CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED = 107,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
    CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
    CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
    CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,
    CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR = 123,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125,
    CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
    CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS = 129,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132, CU_DEVICE_ATTRIBUTE_MPS_ENABLED = 133,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,
} CUdevice_attribute;

typedef enum CUdevice_P2PAttribute_enum {
    CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 0x01,
    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 0x02,
    CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 0x03,
    CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 0x04,
    CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 0x05,
} CUdevice_P2PAttribute;

typedef enum CUpointer_attribute_enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1, CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3, CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7, CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11, CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_POINTER_ATTRIBUTE_MAPPED = 13, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17, CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
    CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
    CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21,
} CUpointer_attribute;

typedef enum CUfunction_attribute_enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4, CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
    CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
    CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
} CUfunction_attribute;

typedef enum CUfunc_cache_enum {
    CU_FUNC_CACHE_PREFER_NONE = 0x00, CU_FUNC_CACHE_PREFER_SHARED = 0x01,
    CU_FUNC_CACHE_PREFER_L1 = 0x02, CU_FUNC_CACHE_PREFER_EQUAL = 0x03,
} CUfunc_cache;

typedef enum CUsharedconfig_enum {
    CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE = 0x00, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE = 0x01,
    CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE = 0x02,
} CUsharedconfig;

typedef enum CUlimit_enum {
    CU_LIMIT_STACK_SIZE = 0x00, CU_LIMIT_PRINTF_FIFO_SIZE = 0x01, CU_LIMIT_MALLOC_HEAP_SIZE = 0x02,
    CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 0x03, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 0x04,
    CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 0x05, CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06,
    CU_LIMIT_SHMEM_SIZE = 0x07, CU_LIMIT_CIG_ENABLED = 0x08,
    CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 0x09,
} CUlimit;

typedef enum CUmemorytype_enum {
    CU_MEMORYTYPE_HOST = 0x01, CU_MEMORYTYPE_DEVICE = 0x02, CU_MEMORYTYPE_ARRAY = 0x03,
    CU_MEMORYTYPE_UNIFIED = 0x04,
} CUmemorytype;

typedef enum CUcomputemode_enum {
    CU_COMPUTEMODE_DEFAULT = 0, CU_COMPUTEMODE_PROHIBITED = 2,
    CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} CUcomputemode;

typedef enum CUmem_advise_enum {
    CU_MEM_ADVISE_SET_READ_MOSTLY = 1, CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
    CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    CU_MEM_ADVISE_SET_ACCESSED_BY = 5, CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
} CUmem_advise;

typedef enum CUarray_format_enum {
    CU_AD_FORMAT_UNSIGNED_INT8 = 0x01, CU_AD_FORMAT_UNSIGNED_INT16 = 0x02,
    CU_AD_FORMAT_UNSIGNED_INT32 = 0x03, CU_AD_FORMAT_SIGNED_INT8 = 0x08,
    CU_AD_FORMAT_SIGNED_INT16 = 0x09, CU_AD_FORMAT_SIGNED_INT32 = 0x0a, CU_AD_FORMAT_HALF = 0x10,
    CU_AD_FORMAT_FLOAT = 0x20,
} CUarray_format;

typedef enum CUresourcetype_enum {
    CU_RESOURCE_TYPE_ARRAY = 0x00, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY = 0x01,
    CU_RESOURCE_TYPE_LINEAR = 0x02, CU_RESOURCE_TYPE_PITCH2D = 0x03,
} CUresourcetype;

typedef enum CUjit_option_enum {
    CU_JIT_MAX_REGISTERS = 0, CU_JIT_THREADS_PER_BLOCK = 1, CU_JIT_WALL_TIME = 2,
    CU_JIT_INFO_LOG_BUFFER = 3, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4, CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6, CU_JIT_OPTIMIZATION_LEVEL = 7,
    CU_JIT_TARGET_FROM_CUCONTEXT = 8, CU_JIT_TARGET = 9, CU_JIT_FALLBACK_STRATEGY = 10,
    CU_JIT_GENERATE_DEBUG_INFO = 11, CU_JIT_LOG_VERBOSE = 12, CU_JIT_GENERATE_LINE_INFO = 13,
    CU_JIT_CACHE_MODE = 14, CU_JIT_NEW_SM3X_OPT = 15, CU_JIT_FAST_COMPILE = 16,
    CU_JIT_GLOBAL_SYMBOL_NAMES = 17, CU_JIT_GLOBAL_SYMBOL_ADDRESSES = 18,
    CU_JIT_GLOBAL_SYMBOL_COUNT = 19, CU_JIT_LTO = 20, CU_JIT_FTZ = 21, CU_JIT_PREC_DIV = 22,
    CU_JIT_PREC_SQRT = 23, CU_JIT_FMA = 24, CU_JIT_REFERENCED_KERNEL_NAMES = 25,
    CU_JIT_REFERENCED_KERNEL_COUNT = 26, CU_JIT_REFERENCED_VARIABLE_NAMES = 27,
    CU_JIT_REFERENCED_VARIABLE_COUNT = 28, CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES = 29,
    CU_JIT_POSITION_INDEPENDENT_CODE = 30, CU_JIT_MIN_CTA_PER_SM = 31,
    CU_JIT_MAX_THREADS_PER_BLOCK = 32, CU_JIT_OVERRIDE_DIRECTIVE_VALUES = 33,
    CU_JIT_SPLIT_COMPILE = 34,
} CUjit_option;

typedef enum CUlibraryOption_enum {
    CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0, CU_LIBRARY_BINARY_IS_PRESERVED = 1,
} CUlibraryOption;

typedef enum CUmoduleLoadingMode_enum {
    CU_MODULE_EAGER_LOADING = 0x1, CU_MODULE_LAZY_LOADING = 0x2,
} CUmoduleLoadingMode;

typedef enum CUfunctionLoadingState_enum {
    CU_FUNCTION_LOADING_STATE_UNLOADED = 0, CU_FUNCTION_LOADING_STATE_LOADED = 1,
} CUfunctionLoadingState;

typedef enum CUdriverProcAddress_flags_enum {
    CU_GET_PROC_ADDRESS_DEFAULT = 0, CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
} CUdriverProcAddress_flags;

typedef enum CUdriverProcAddressQueryResult_enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

typedef enum CUstreamCaptureStatus_enum {
    CU_STREAM_CAPTURE_STATUS_NONE = 0, CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode_enum {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum CUstreamUpdateCaptureDependencies_flags_enum {
    CU_STREAM_ADD_CAPTURE_DEPENDENCIES = 0x0, CU_STREAM_SET_CAPTURE_DEPENDENCIES = 0x1,
} CUstreamUpdateCaptureDependencies_flags;

typedef enum CUstreamBatchMemOpType_enum {
    CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1, CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
    CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4, CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
    CU_STREAM_MEM_OP_BARRIER = 6, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
} CUstreamBatchMemOpType;

typedef enum CUstreamWaitValue_flags_enum {
    CU_STREAM_WAIT_VALUE_GEQ = 0x0, CU_STREAM_WAIT_VALUE_EQ = 0x1, CU_STREAM_WAIT_VALUE_AND = 0x2,
    CU_STREAM_WAIT_VALUE_NOR = 0x3, CU_STREAM_WAIT_VALUE_FLUSH = 0x40000000,
} CUstreamWaitValue_flags;

typedef enum CUlaunchAttributeID_enum {
    CU_LAUNCH_ATTRIBUTE_IGNORE = 0, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7, CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11,
    CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12,
    CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE = 13,
    CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14,
    CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING = 16,
} CUlaunchAttributeID;

typedef enum CUgraphNodeType_enum {
    CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_MEMCPY = 1, CU_GRAPH_NODE_TYPE_MEMSET = 2,
    CU_GRAPH_NODE_TYPE_HOST = 3, CU_GRAPH_NODE_TYPE_GRAPH = 4, CU_GRAPH_NODE_TYPE_EMPTY = 5,
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6, CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
    CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL = 8, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT = 9,
    CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10, CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12, CU_GRAPH_NODE_TYPE_CONDITIONAL = 13,
} CUgraphNodeType;

typedef enum CUgraphInstantiate_flags_enum {
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8,
} CUgraphInstantiate_flags;

typedef enum CUgraphInstantiateResult_enum {
    CUDA_GRAPH_INSTANTIATE_SUCCESS = 0, CUDA_GRAPH_INSTANTIATE_ERROR = 1,
    CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE = 2,
    CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED = 3,
    CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED = 4,
    CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED = 5,
} CUgraphInstantiateResult;

typedef enum CUgraphExecUpdateResult_enum {
    CU_GRAPH_EXEC_UPDATE_SUCCESS = 0x0, CU_GRAPH_EXEC_UPDATE_ERROR = 0x1,
    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 0x2,
    CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 0x3,
    CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED = 0x4,
    CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 0x5,
    CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED = 0x6,
    CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE = 0x7,
    CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED = 0x8,
} CUgraphExecUpdateResult;

typedef enum CUgraphMem_attribute_enum {
    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3,
} CUgraphMem_attribute;

typedef enum CUmemLocationType_enum {
    CU_MEM_LOCATION_TYPE_INVALID = 0x0, CU_MEM_LOCATION_TYPE_NONE = 0x0,
    CU_MEM_LOCATION_TYPE_DEVICE = 0x1, CU_MEM_LOCATION_TYPE_HOST = 0x2,
    CU_MEM_LOCATION_TYPE_HOST_NUMA = 0x3, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 0x4,
} CUmemLocationType;

typedef enum CUmemAllocationType_enum {
    CU_MEM_ALLOCATION_TYPE_INVALID = 0x0, CU_MEM_ALLOCATION_TYPE_PINNED = 0x1,
    CU_MEM_ALLOCATION_TYPE_MANAGED = 0x2,
} CUmemAllocationType;

typedef enum CUmemAllocationHandleType_enum {
    CU_MEM_HANDLE_TYPE_NONE = 0x0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 0x1,
    CU_MEM_HANDLE_TYPE_WIN32 = 0x2, CU_MEM_HANDLE_TYPE_WIN32_KMT = 0x4,
    CU_MEM_HANDLE_TYPE_FABRIC = 0x8,
} CUmemAllocationHandleType;

typedef enum CUmemAccess_flags_enum {
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0x0, CU_MEM_ACCESS_FLAGS_PROT_READ = 0x1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 0x3,
} CUmemAccess_flags;

typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0x0, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 0x1,
} CUmemAllocationGranularity_flags;

typedef enum CUmulticastGranularity_flags_enum {
    CU_MULTICAST_GRANULARITY_MINIMUM = 0x0, CU_MULTICAST_GRANULARITY_RECOMMENDED = 0x1,
} CUmulticastGranularity_flags;

typedef enum CUmemRangeHandleType_enum {
    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 0x1,
} CUmemRangeHandleType;

typedef enum CUmemPool_attribute_enum {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7, CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
} CUmemPool_attribute;

typedef enum CUmemcpySrcAccessOrder_enum {
    CU_MEMCPY_SRC_ACCESS_ORDER_INVALID = 0x0, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 0x1,
    CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL = 0x2, CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 0x3,
} CUmemcpySrcAccessOrder;

typedef enum CUmemcpy3DOperandType_enum {
    CU_MEMCPY_OPERAND_TYPE_POINTER = 0x1, CU_MEMCPY_OPERAND_TYPE_ARRAY = 0x2,
} CUmemcpy3DOperandType;

typedef enum CUtensorMapDataType_enum {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0, CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2, CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
    CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4, CU_TENSOR_MAP_DATA_TYPE_INT64 = 5,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6, CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ = 10, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ = 12, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B = 13,
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B = 14, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B = 15,
} CUtensorMapDataType;

typedef enum CUtensorMapInterleave_enum {
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_INTERLEAVE_16B = 1,
    CU_TENSOR_MAP_INTERLEAVE_32B = 2,
} CUtensorMapInterleave;

typedef enum CUtensorMapSwizzle_enum {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_32B = 1, CU_TENSOR_MAP_SWIZZLE_64B = 2,
    CU_TENSOR_MAP_SWIZZLE_128B = 3, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B = 4,
    CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B = 5, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B = 6,
} CUtensorMapSwizzle;

typedef enum CUtensorMapL2promotion_enum {
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2, CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
} CUtensorMapL2promotion;

typedef enum CUtensorMapFloatOOBfill_enum {
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA = 1,
} CUtensorMapFloatOOBfill;

typedef enum CUtensorMapIm2ColWideMode_enum {
    CU_TENSOR_MAP_IM2COL_WIDE_MODE_W = 0, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 = 1,
} CUtensorMapIm2ColWideMode;

typedef enum CUoutput_mode_enum {
    CU_OUT_KEY_VALUE_PAIR = 0x00, CU_OUT_CSV = 0x01,
} CUoutput_mode;
/* clang-format on */

/* ---- driver: structures --------------------------------------------------------------------- */

typedef enum CUexecAffinityType_enum {
    CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0
} CUexecAffinityType;

typedef struct CUexecAffinitySmCount_st {
    unsigned int val;
} CUexecAffinitySmCount;

typedef struct CUexecAffinityParam_st {
    CUexecAffinityType type;
    union {
        CUexecAffinitySmCount smCount;
    } param;
} CUexecAffinityParam;

typedef struct CUctxCreateParams_st {
    CUexecAffinityParam *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams; /* CUctxCigParam *, not spoken here */
} CUctxCreateParams;

typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef struct CUmemAllocationProp_st {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct CUmulticastObjectProp_st {
    unsigned int numDevices;
    size_t size;
    unsigned long long handleTypes;
    unsigned long long flags;
} CUmulticastObjectProp;

typedef struct CUmemPoolProps_st {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct CUarrayMapInfo_st {
    CUresourcetype resourceType;
    union {
        CUmipmappedArray mipmap;
        CUarray array;
    } resource;
    unsigned int subresourceType;
    union {
        struct {
            unsigned int level, layer;
            unsigned int offsetX, offsetY, offsetZ;
            unsigned int extentWidth, extentHeight, extentDepth;
        } sparseLevel;
        struct {
            unsigned int layer;
            unsigned long long offset, size;
        } miptail;
    } subresource;
    unsigned int memOperationType;
    unsigned int memHandleType;
    union {
        CUmemGenericAllocationHandle memHandle;
    } memHandle;
    unsigned long long offset;
    unsigned int deviceBitMask;
    unsigned int flags;
    unsigned int reserved[2];
} CUarrayMapInfo;

typedef struct CUDA_ARRAY_DESCRIPTOR_st {
    size_t Width;
    size_t Height;
    CUarray_format Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
    size_t Width;
    size_t Height;
    size_t Depth;
    CUarray_format Format;
    unsigned int NumChannels;
    unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st {
    unsigned int Width;
    unsigned int Height;
    CUarray_format Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
    unsigned int Width;
    unsigned int Height;
    unsigned int Depth;
    CUarray_format Format;
    unsigned int NumChannels;
    unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

#    define CUDA_ARRAY3D_LAYERED          0x01
#    define CUDA_ARRAY3D_CUBEMAP          0x04
#    define CUDA_ARRAY3D_SPARSE           0x40
#    define CUDA_ARRAY3D_DEFERRED_MAPPING 0x80

typedef struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st {
    size_t size;
    size_t alignment;
    unsigned int reserved[4];
} CUDA_ARRAY_MEMORY_REQUIREMENTS;

typedef struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct CUDA_MEMCPY3D_PEER_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    CUcontext srcContext;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    CUcontext dstContext;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER;

typedef struct CUmemcpyAttributes_st {
    CUmemcpySrcAccessOrder srcAccessOrder;
    CUmemLocation srcLocHint;
    CUmemLocation dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;

typedef struct CUoffset3D_st {
    size_t x, y, z;
} CUoffset3D;

typedef struct CUextent3D_st {
    size_t width, height, depth;
} CUextent3D;

typedef struct CUmemcpy3DOperand_st {
    CUmemcpy3DOperandType type;
    union {
        struct {
            CUdeviceptr ptr;
            size_t rowLength;
            size_t layerHeight;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUarray array;
            CUoffset3D offset;
        } array;
    } op;
} CUmemcpy3DOperand;

typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
    CUmemcpy3DOperand src;
    CUmemcpy3DOperand dst;
    CUextent3D extent;
    CUmemcpySrcAccessOrder srcAccessOrder;
    unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP;

typedef union CUstreamBatchMemOpParams_union {
    CUstreamBatchMemOpType operation;
    struct {
        CUstreamBatchMemOpType operation;
        CUdeviceptr address;
        union {
            cuuint32_t value;
            cuuint64_t value64;
        };
        unsigned int flags;
        CUdeviceptr alias;
    } waitValue, writeValue;
    struct {
        CUstreamBatchMemOpType operation;
        unsigned int flags;
    } flushRemoteWrites, memoryBarrier;
    cuuint64_t pad[6];
} CUstreamBatchMemOpParams;

typedef struct CUaccessPolicyWindow_st {
    void *base_ptr;
    size_t num_bytes;
    float hitRatio;
    int hitProp;
    int missProp;
} CUaccessPolicyWindow;

typedef union CUlaunchAttributeValue_union {
    char pad[64];
    CUaccessPolicyWindow accessPolicyWindow;
    int cooperative;
    int syncPolicy;
    struct {
        unsigned int x, y, z;
    } clusterDim, preferredClusterDim;
    int clusterSchedulingPolicyPreference;
    int programmaticStreamSerializationAllowed;
    struct {
        CUevent event;
        int flags;
        int triggerAtBlockStart;
    } programmaticEvent;
    struct {
        CUevent event;
        int flags;
    } launchCompletionEvent;
    int priority;
    struct {
        int deviceUpdatable;
        CUgraphDeviceNode devNode;
    } deviceUpdatableKernelNode;
    unsigned int sharedMemCarveout;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

typedef struct CUDA_LAUNCH_PARAMS_st {
    CUfunction function;
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef struct CUgraphEdgeData_st {
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
} CUgraphEdgeData;

typedef struct CUDA_KERNEL_NODE_PARAMS_st {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;

typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v2, CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v3;

typedef struct CUDA_MEMSET_NODE_PARAMS_st {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct CUDA_MEMSET_NODE_PARAMS_v2_st {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width, height;
    CUcontext ctx;
} CUDA_MEMSET_NODE_PARAMS_v2;

typedef struct CUDA_MEMCPY_NODE_PARAMS_st {
    int flags;
    int reserved;
    CUcontext copyCtx;
    CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;

typedef struct CUDA_HOST_NODE_PARAMS_st {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct CUDA_MEM_ALLOC_NODE_PARAMS_v1_st {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS_v1, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS_v2;

typedef struct CUDA_MEM_FREE_NODE_PARAMS_st {
    CUdeviceptr dptr;
} CUDA_MEM_FREE_NODE_PARAMS;

typedef struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1_st {
    CUcontext ctx;
    unsigned int count;
    CUstreamBatchMemOpParams *paramArray;
    unsigned int flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS_v1, CUDA_BATCH_MEM_OP_NODE_PARAMS;

typedef struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2_st {
    CUcontext ctx;
    unsigned int count;
    CUstreamBatchMemOpParams *paramArray;
    unsigned int flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS_v2;

/* One node of any type (12.2 on). What kedge does not look into is named by its size only. */
typedef struct CUgraphNodeParams_st {
    CUgraphNodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        CUDA_KERNEL_NODE_PARAMS_v3 kernel;
        CUDA_MEMCPY_NODE_PARAMS memcpy;
        CUDA_MEMSET_NODE_PARAMS_v2 memset;
        CUDA_HOST_NODE_PARAMS host;
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc;
        CUDA_MEM_FREE_NODE_PARAMS free;
        CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memOp;
    };
    long long reserved2;
} CUgraphNodeParams;

typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    CUgraphInstantiateResult result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct CUgraphExecUpdateResultInfo_st {
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode;
    CUgraphNode errorFromNode;
} CUgraphExecUpdateResultInfo;

typedef struct CUtensorMap_st {
    _Alignas(128) cuuint64_t opaque[16];
} CUtensorMap;

typedef struct CUDA_RESOURCE_DESC_st {
    CUresourcetype resType;
    union {
        struct {
            CUarray hArray;
        } array;
        struct {
            CUmipmappedArray hMipmappedArray;
        } mipmap;
        struct {
            CUdeviceptr devPtr;
            CUarray_format format;
            unsigned int numChannels;
            size_t sizeInBytes;
        } linear;
        struct {
            CUdeviceptr devPtr;
            CUarray_format format;
            unsigned int numChannels;
            size_t width, height, pitchInBytes;
        } pitch2D;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
} CUDA_RESOURCE_DESC;

typedef struct CUDA_TEXTURE_DESC_st {
    unsigned int addressMode[3];
    unsigned int filterMode;
    unsigned int flags;
    unsigned int maxAnisotropy;
    unsigned int mipmapFilterMode;
    float mipmapLevelBias;
    float minMipmapLevelClamp, maxMipmapLevelClamp;
    float borderColor[4];
    int reserved[12];
} CUDA_TEXTURE_DESC;

typedef struct CUDA_RESOURCE_VIEW_DESC_st {
    unsigned int format;
    size_t width, height, depth;
    unsigned int firstMipmapLevel, lastMipmapLevel;
    unsigned int firstLayer, lastLayer;
    unsigned int reserved[16];
} CUDA_RESOURCE_VIEW_DESC;

typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st {
    unsigned int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st {
    unsigned long long offset;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

typedef struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st {
    unsigned long long offset;
    CUDA_ARRAY3D_DESCRIPTOR arrayDesc;
    unsigned int numLevels;
    unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;

/* ---- runtime: handles, flags, structures ---------------------------------------------------- */

typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
typedef CUgraph cudaGraph_t;
typedef CUgraphNode cudaGraphNode_t;
typedef CUgraphExec cudaGraphExec_t;
typedef CUfunction cudaFunction_t;
typedef CUkernel cudaKernel_t;
typedef CUlibrary cudaLibrary_t;
typedef CUmemoryPool cudaMemPool_t;
typedef CUhostFn cudaHostFn_t;
typedef CUgraphEdgeData cudaGraphEdgeData;
typedef struct cudaArray *cudaArray_t;
typedef struct CUuuid_st cudaUUID_t;

#    define cudaStreamLegacy      ((cudaStream_t)0x1)
#    define cudaStreamPerThread   ((cudaStream_t)0x2)
#    define cudaStreamDefault     0x00
#    define cudaStreamNonBlocking 0x01

#    define cudaEventDefault        0x00
#    define cudaEventBlockingSync   0x01
#    define cudaEventDisableTiming  0x02
#    define cudaEventInterprocess   0x04
#    define cudaEventRecordDefault  0x00
#    define cudaEventRecordExternal 0x01
#    define cudaEventWaitDefault    0x00
#    define cudaEventWaitExternal   0x01

#    define cudaHostAllocDefault       0x00
#    define cudaHostAllocPortable      0x01
#    define cudaHostAllocMapped        0x02
#    define cudaHostAllocWriteCombined 0x04
#    define cudaHostRegisterDefault    0x00
#    define cudaHostRegisterPortable   0x01
#    define cudaHostRegisterMapped     0x02
#    define cudaHostRegisterIoMemory   0x04
#    define cudaHostRegisterReadOnly   0x08
#    define cudaMemAttachGlobal        0x01
#    define cudaMemAttachHost          0x02
#    define cudaMemAttachSingle        0x04

#    define cudaDeviceScheduleAuto         0x00
#    define cudaDeviceScheduleSpin         0x01
#    define cudaDeviceScheduleYield        0x02
#    define cudaDeviceScheduleBlockingSync 0x04
#    define cudaDeviceMapHost              0x08
#    define cudaPeerAccessDefault          0x00
#    define cudaIpcMemLazyEnablePeerAccess 0x01
#    define cudaCpuDeviceId                ((int)-1)
#    define cudaInvalidDeviceId            ((int)-2)

/* X(name, value), as CUDA_ABI_RESULTS. */
/* clang-format off */
#define CUDA_ABI_ERRORS(X)                                                                         \
    X(cudaSuccess, 0) X(cudaErrorInvalidValue, 1) X(cudaErrorMemoryAllocation, 2)                  \
    X(cudaErrorInitializationError, 3) X(cudaErrorCudartUnloading, 4)                              \
    X(cudaErrorProfilerDisabled, 5) X(cudaErrorProfilerNotInitialized, 6)                          \
    X(cudaErrorProfilerAlreadyStarted, 7) X(cudaErrorProfilerAlreadyStopped, 8)                    \
    X(cudaErrorInvalidConfiguration, 9) X(cudaErrorInvalidPitchValue, 12)                          \
    X(cudaErrorInvalidSymbol, 13) X(cudaErrorInvalidHostPointer, 16)                               \
    X(cudaErrorInvalidDevicePointer, 17) X(cudaErrorInvalidTexture, 18)                            \
    X(cudaErrorInvalidTextureBinding, 19) X(cudaErrorInvalidChannelDescriptor, 20)                 \
    X(cudaErrorInvalidMemcpyDirection, 21) X(cudaErrorAddressOfConstant, 22)                       \
    X(cudaErrorTextureFetchFailed, 23) X(cudaErrorTextureNotBound, 24)                             \
    X(cudaErrorSynchronizationError, 25) X(cudaErrorInvalidFilterSetting, 26)                      \
    X(cudaErrorInvalidNormSetting, 27) X(cudaErrorMixedDeviceExecution, 28)                        \
    X(cudaErrorNotYetImplemented, 31) X(cudaErrorMemoryValueTooLarge, 32)                          \
    X(cudaErrorStubLibrary, 34) X(cudaErrorInsufficientDriver, 35)                                 \
    X(cudaErrorCallRequiresNewerDriver, 36) X(cudaErrorInvalidSurface, 37)                         \
    X(cudaErrorDuplicateVariableName, 43) X(cudaErrorDuplicateTextureName, 44)                     \
    X(cudaErrorDuplicateSurfaceName, 45) X(cudaErrorDevicesUnavailable, 46)                        \
    X(cudaErrorIncompatibleDriverContext, 49) X(cudaErrorMissingConfiguration, 52)                 \
    X(cudaErrorPriorLaunchFailure, 53) X(cudaErrorLaunchMaxDepthExceeded, 65)                      \
    X(cudaErrorLaunchFileScopedTex, 66) X(cudaErrorLaunchFileScopedSurf, 67)                       \
    X(cudaErrorSyncDepthExceeded, 68) X(cudaErrorLaunchPendingCountExceeded, 69)                   \
    X(cudaErrorInvalidDeviceFunction, 98) X(cudaErrorNoDevice, 100)                                \
    X(cudaErrorInvalidDevice, 101) X(cudaErrorDeviceNotLicensed, 102)                              \
    X(cudaErrorSoftwareValidityNotEstablished, 103) X(cudaErrorStartupFailure, 127)                \
    X(cudaErrorInvalidKernelImage, 200) X(cudaErrorDeviceUninitialized, 201)                       \
    X(cudaErrorMapBufferObjectFailed, 205) X(cudaErrorUnmapBufferObjectFailed, 206)                \
    X(cudaErrorArrayIsMapped, 207) X(cudaErrorAlreadyMapped, 208)                                  \
    X(cudaErrorNoKernelImageForDevice, 209) X(cudaErrorAlreadyAcquired, 210)                       \
    X(cudaErrorNotMapped, 211) X(cudaErrorNotMappedAsArray, 212)                                   \
    X(cudaErrorNotMappedAsPointer, 213) X(cudaErrorECCUncorrectable, 214)                          \
    X(cudaErrorUnsupportedLimit, 215) X(cudaErrorDeviceAlreadyInUse, 216)                          \
    X(cudaErrorPeerAccessUnsupported, 217) X(cudaErrorInvalidPtx, 218)                             \
    X(cudaErrorInvalidGraphicsContext, 219) X(cudaErrorNvlinkUncorrectable, 220)                   \
    X(cudaErrorJitCompilerNotFound, 221) X(cudaErrorUnsupportedPtxVersion, 222)                    \
    X(cudaErrorJitCompilationDisabled, 223) X(cudaErrorUnsupportedExecAffinity, 224)               \
    X(cudaErrorUnsupportedDevSideSync, 225) X(cudaErrorContained, 226)                             \
    X(cudaErrorInvalidSource, 300) X(cudaErrorFileNotFound, 301)                                   \
    X(cudaErrorSharedObjectSymbolNotFound, 302) X(cudaErrorSharedObjectInitFailed, 303)            \
    X(cudaErrorOperatingSystem, 304) X(cudaErrorInvalidResourceHandle, 400)                        \
    X(cudaErrorIllegalState, 401) X(cudaErrorLossyQuery, 402) X(cudaErrorSymbolNotFound, 500)      \
    X(cudaErrorNotReady, 600) X(cudaErrorIllegalAddress, 700)                                      \
    X(cudaErrorLaunchOutOfResources, 701) X(cudaErrorLaunchTimeout, 702)                           \
    X(cudaErrorLaunchIncompatibleTexturing, 703) X(cudaErrorPeerAccessAlreadyEnabled, 704)         \
    X(cudaErrorPeerAccessNotEnabled, 705) X(cudaErrorSetOnActiveProcess, 708)                      \
    X(cudaErrorContextIsDestroyed, 709) X(cudaErrorAssert, 710) X(cudaErrorTooManyPeers, 711)      \
    X(cudaErrorHostMemoryAlreadyRegistered, 712) X(cudaErrorHostMemoryNotRegistered, 713)          \
    X(cudaErrorHardwareStackError, 714) X(cudaErrorIllegalInstruction, 715)                        \
    X(cudaErrorMisalignedAddress, 716) X(cudaErrorInvalidAddressSpace, 717)                        \
    X(cudaErrorInvalidPc, 718) X(cudaErrorLaunchFailure, 719)                                      \
    X(cudaErrorCooperativeLaunchTooLarge, 720) X(cudaErrorTensorMemoryLeak, 721)                   \
    X(cudaErrorNotPermitted, 800) X(cudaErrorNotSupported, 801) X(cudaErrorSystemNotReady, 802)    \
    X(cudaErrorSystemDriverMismatch, 803) X(cudaErrorCompatNotSupportedOnDevice, 804)              \
    X(cudaErrorMpsConnectionFailed, 805) X(cudaErrorMpsRpcFailure, 806)                            \
    X(cudaErrorMpsServerNotReady, 807) X(cudaErrorMpsMaxClientsReached, 808)                       \
    X(cudaErrorMpsMaxConnectionsReached, 809) X(cudaErrorMpsClientTerminated, 810)                 \
    X(cudaErrorCdpNotSupported, 811) X(cudaErrorCdpVersionMismatch, 812)                           \
    X(cudaErrorStreamCaptureUnsupported, 900) X(cudaErrorStreamCaptureInvalidated, 901)            \
    X(cudaErrorStreamCaptureMerge, 902) X(cudaErrorStreamCaptureUnmatched, 903)                    \
    X(cudaErrorStreamCaptureUnjoined, 904) X(cudaErrorStreamCaptureIsolation, 905)                 \
    X(cudaErrorStreamCaptureImplicit, 906) X(cudaErrorCapturedEvent, 907)                          \
    X(cudaErrorStreamCaptureWrongThread, 908) X(cudaErrorTimeout, 909)                             \
    X(cudaErrorGraphExecUpdateFailure, 910) X(cudaErrorExternalDevice, 911)                        \
    X(cudaErrorInvalidClusterSize, 912) X(cudaErrorFunctionNotLoaded, 913)                         \
    X(cudaErrorInvalidResourceType, 914) X(cudaErrorInvalidResourceConfiguration, 915)             \
    X(cudaErrorUnknown, 999) X(cudaErrorApiFailureBase, 10000)
/* clang-format on */

typedef enum cudaError {
#    define CUDA_ABI_ROW(name, value) name = (value),
    CUDA_ABI_ERRORS(CUDA_ABI_ROW)
#    undef CUDA_ABI_ROW
} cudaError_t;

typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void *data);

/* clang-format off */
enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3, cudaMemcpyDefault = 4,
};

enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3,
};

enum cudaMemLocationType {
    cudaMemLocationTypeInvalid = 0, cudaMemLocationTypeNone = 0, cudaMemLocationTypeDevice = 1,
    cudaMemLocationTypeHost = 2, cudaMemLocationTypeHostNuma = 3,
    cudaMemLocationTypeHostNumaCurrent = 4,
};

enum cudaMemAccessFlags {
    cudaMemAccessFlagsProtNone = 0, cudaMemAccessFlagsProtRead = 1,
    cudaMemAccessFlagsProtReadWrite = 3,
};

enum cudaMemAllocationType {
    cudaMemAllocationTypeInvalid = 0x0, cudaMemAllocationTypePinned = 0x1,
    cudaMemAllocationTypeManaged = 0x2,
};

enum cudaMemAllocationHandleType {
    cudaMemHandleTypeNone = 0x0, cudaMemHandleTypePosixFileDescriptor = 0x1,
    cudaMemHandleTypeWin32 = 0x2, cudaMemHandleTypeWin32Kmt = 0x4, cudaMemHandleTypeFabric = 0x8,
};

enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 0x1, cudaMemPoolReuseAllowOpportunistic = 0x2,
    cudaMemPoolReuseAllowInternalDependencies = 0x3, cudaMemPoolAttrReleaseThreshold = 0x4,
    cudaMemPoolAttrReservedMemCurrent = 0x5, cudaMemPoolAttrReservedMemHigh = 0x6,
    cudaMemPoolAttrUsedMemCurrent = 0x7, cudaMemPoolAttrUsedMemHigh = 0x8,
};

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2,
};

enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2,
};

enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel = 0x00, cudaGraphNodeTypeMemcpy = 0x01, cudaGraphNodeTypeMemset = 0x02,
    cudaGraphNodeTypeHost = 0x03, cudaGraphNodeTypeGraph = 0x04, cudaGraphNodeTypeEmpty = 0x05,
    cudaGraphNodeTypeWaitEvent = 0x06, cudaGraphNodeTypeEventRecord = 0x07,
    cudaGraphNodeTypeExtSemaphoreSignal = 0x08, cudaGraphNodeTypeExtSemaphoreWait = 0x09,
    cudaGraphNodeTypeMemAlloc = 0x0a, cudaGraphNodeTypeMemFree = 0x0b,
    cudaGraphNodeTypeConditional = 0x0d,
};

enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0, cudaDriverEntryPointSymbolNotFound = 1,
    cudaDriverEntryPointVersionNotSufficent = 2,
};

enum cudaLibraryOption {
    cudaLibraryHostUniversalFunctionAndDataTable = 0, cudaLibraryBinaryIsPreserved = 1,
};

enum cudaJitOption {
    cudaJitMaxRegisters = 0, cudaJitThreadsPerBlock = 1, cudaJitWallTime = 2,
    cudaJitInfoLogBuffer = 3, cudaJitInfoLogBufferSizeBytes = 4, cudaJitErrorLogBuffer = 5,
    cudaJitErrorLogBufferSizeBytes = 6, cudaJitOptimizationLevel = 7, cudaJitFallbackStrategy = 10,
    cudaJitGenerateDebugInfo = 11, cudaJitLogVerbose = 12, cudaJitGenerateLineInfo = 13,
    cudaJitCacheMode = 14, cudaJitPositionIndependentCode = 30, cudaJitMinCtaPerSm = 31,
    cudaJitMaxThreadsPerBlock = 32, cudaJitOverrideDirectiveValues = 33,
};

enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1, cudaDevP2PAttrAccessSupported = 2,
    cudaDevP2PAttrNativeAtomicSupported = 3, cudaDevP2PAttrCudaArrayAccessSupported = 4,
    cudaDevP2PAttrOnlyPartialNativeAtomicSupported = 5,
};

enum cudaLimit {
    cudaLimitStackSize = 0x00, cudaLimitPrintfFifoSize = 0x01, cudaLimitMallocHeapSize = 0x02,
    cudaLimitDevRuntimeSyncDepth = 0x03, cudaLimitDevRuntimePendingLaunchCount = 0x04,
    cudaLimitMaxL2FetchGranularity = 0x05, cudaLimitPersistingL2CacheSize = 0x06,
};

enum cudaFuncCache {
    cudaFuncCachePreferNone = 0, cudaFuncCachePreferShared = 1, cudaFuncCachePreferL1 = 2,
    cudaFuncCachePreferEqual = 3,
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9, cudaFuncAttributeClusterDimMustBeSet = 10,
    cudaFuncAttributeRequiredClusterWidth = 11, cudaFuncAttributeRequiredClusterHeight = 12,
    cudaFuncAttributeRequiredClusterDepth = 13,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
    cudaFuncAttributeClusterSchedulingPolicyPreference = 15,
};

enum cudaGraphMemAttributeType {
    cudaGraphMemAttrUsedMemCurrent = 0x0, cudaGraphMemAttrUsedMemHigh = 0x1,
    cudaGraphMemAttrReservedMemCurrent = 0x2, cudaGraphMemAttrReservedMemHigh = 0x3,
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxBlockDimX = 2, cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4, cudaDevAttrMaxGridDimX = 5, cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7, cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrTotalConstantMemory = 9, cudaDevAttrWarpSize = 10, cudaDevAttrMaxPitch = 11,
    cudaDevAttrMaxRegistersPerBlock = 12, cudaDevAttrClockRate = 13,
    cudaDevAttrTextureAlignment = 14, cudaDevAttrGpuOverlap = 15,
    cudaDevAttrMultiProcessorCount = 16, cudaDevAttrKernelExecTimeout = 17,
    cudaDevAttrIntegrated = 18, cudaDevAttrCanMapHostMemory = 19, cudaDevAttrComputeMode = 20,
    cudaDevAttrSurfaceAlignment = 30, cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrEccEnabled = 32, cudaDevAttrPciBusId = 33, cudaDevAttrPciDeviceId = 34,
    cudaDevAttrMemoryClockRate = 36, cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38, cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrAsyncEngineCount = 40, cudaDevAttrUnifiedAddressing = 41,
    cudaDevAttrPciDomainId = 50, cudaDevAttrTexturePitchAlignment = 51,
    cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrStreamPrioritiesSupported = 78, cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxRegistersPerMultiprocessor = 82, cudaDevAttrManagedMemory = 83,
    cudaDevAttrHostNativeAtomicSupported = 86, cudaDevAttrPageableMemoryAccess = 88,
    cudaDevAttrConcurrentManagedAccess = 89, cudaDevAttrComputePreemptionSupported = 90,
    cudaDevAttrCanUseHostPointerForRegisteredMem = 91, cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97, cudaDevAttrHostRegisterSupported = 99,
    cudaDevAttrPageableMemoryAccessUsesHostPageTables = 100,
    cudaDevAttrDirectManagedMemAccessFromHost = 101, cudaDevAttrMaxBlocksPerMultiprocessor = 106,
    cudaDevAttrReservedSharedMemoryPerBlock = 111, cudaDevAttrHostRegisterReadOnlySupported = 113,
    cudaDevAttrMemoryPoolsSupported = 115, cudaDevAttrGPUDirectRDMASupported = 116,
    cudaDevAttrMemoryPoolSupportedHandleTypes = 119, cudaDevAttrClusterLaunch = 120,
    cudaDevAttrIpcEventSupport = 125, cudaDevAttrMpsEnabled = 133, cudaDevAttrHostNumaId = 134,
};
/* clang-format on */

typedef struct dim3 {
    unsigned int x, y, z;
} dim3;

typedef struct cudaIpcMemHandle_st {
    char reserved[64];
} cudaIpcMemHandle_t;

typedef struct cudaIpcEventHandle_st {
    char reserved[64];
} cudaIpcEventHandle_t;

struct cudaMemPoolPtrExportData {
    unsigned char reserved[64];
};

struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer;
    void *hostPointer;
    long reserved[8];
};

/*
 * The form of CUDA 12: without the tail. A cudart of version 12 writes these bytes and no more.
 */
struct cuda_abi_pointer_attributes_v12 {
    enum cudaMemoryType type;
    int device;
    void *devicePointer;
    void *hostPointer;
};

struct cudaPitchedPtr {
    void *ptr;
    size_t pitch;
    size_t xsize, ysize;
};

struct cudaExtent {
    size_t width, height, depth;
};

struct cudaPos {
    size_t x, y, z;
};

struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    struct cudaPos srcPos;
    struct cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    struct cudaPos dstPos;
    struct cudaPitchedPtr dstPtr;
    struct cudaExtent extent;
    enum cudaMemcpyKind kind;
};

struct cudaMemLocation {
    enum cudaMemLocationType type;
    int id;
};

struct cudaMemAccessDesc {
    struct cudaMemLocation location;
    enum cudaMemAccessFlags flags;
};

struct cudaMemPoolProps {
    enum cudaMemAllocationType allocType;
    enum cudaMemAllocationHandleType handleTypes;
    struct cudaMemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};

struct cudaFuncAttributes {
    size_t sharedSizeBytes;
    size_t constSizeBytes;
    size_t localSizeBytes;
    int maxThreadsPerBlock;
    int numRegs;
    int ptxVersion;
    int binaryVersion;
    int cacheModeCA;
    int maxDynamicSharedSizeBytes;
    int preferredShmemCarveout;
    int clusterDimMustBeSet;
    int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
    int clusterSchedulingPolicyPreference;
    int nonPortableClusterSizeAllowed;
    int reserved[16];
};

typedef CUlaunchAttribute cudaLaunchAttribute;

typedef struct cudaLaunchConfig_st {
    dim3 gridDim;
    dim3 blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned int numAttrs;
} cudaLaunchConfig_t;

#endif /* KEDGE_ABI_PROTOTYPES_ONLY */

#define CUDA_ABI_PTSZ(result, name, args) \
    result name args;                     \
    result name##_ptsz args
#define CUDA_ABI_PTDS(result, name, args) \
    result name args;                     \
    result name##_ptds args

#pragma GCC visibility push(default)

/* ==== driver prototypes ==== */

/* start, version, errors, look-up */
CUresult cuInit(unsigned int);
CUresult cuDriverGetVersion(int *);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetErrorString(CUresult, const char **);
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *symbol_status);
CUresult cuGetExportTable(const void **, const CUuuid *);
CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

/* devices */
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetUuid(CUuuid *, CUdevice);
CUresult cuDeviceGetUuid_v2(CUuuid *, CUdevice);
CUresult cuDeviceGetLuid(char *, unsigned int *, CUdevice);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice);
CUresult cuDeviceComputeCapability(int *, int *, CUdevice);
CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDeviceGetP2PAttribute(int *, CUdevice_P2PAttribute, CUdevice, CUdevice);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
CUresult cuDeviceGetMemPool(CUmemoryPool *, CUdevice);
CUresult cuDeviceSetMemPool(CUdevice, CUmemoryPool);
CUresult cuDeviceGetGraphMemAttribute(CUdevice, CUgraphMem_attribute, void *);
CUresult cuDeviceSetGraphMemAttribute(CUdevice, CUgraphMem_attribute, void *);
CUresult cuDeviceGraphMemTrim(CUdevice);

/* primary contexts */
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease(CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuDevicePrimaryCtxReset(CUdevice);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned int *, int *);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned int);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned int);

/* contexts */
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuCtxCreate_v3(CUcontext *, CUexecAffinityParam *, int, unsigned int, CUdevice);
CUresult cuCtxCreate_v4(CUcontext *, CUctxCreateParams *, unsigned int, CUdevice);
CUresult cuCtxDestroy(CUcontext);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxPushCurrent_v2(CUcontext);
CUresult cuCtxPopCurrent_v2(CUcontext *);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxGetDevice(CUdevice *);
CUresult cuCtxGetDevice_v2(CUdevice *, CUcontext);
CUresult cuCtxGetFlags(unsigned int *);
CUresult cuCtxSetFlags(unsigned int);
CUresult cuCtxGetId(CUcontext, unsigned long long *);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize_v2(CUcontext);
CUresult cuCtxSetLimit(CUlimit, size_t);
CUresult cuCtxGetLimit(size_t *, CUlimit);
CUresult cuCtxGetCacheConfig(CUfunc_cache *);
CUresult cuCtxSetCacheConfig(CUfunc_cache);
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *);
CUresult cuCtxSetSharedMemConfig(CUsharedconfig);
CUresult cuCtxGetApiVersion(CUcontext, unsigned int *);
CUresult cuCtxGetStreamPriorityRange(int *least_priority, int *greatest_priority);
CUresult cuCtxResetPersistingL2Cache(void);
CUresult cuCtxAttach(CUcontext *, unsigned int);
CUresult cuCtxDetach(CUcontext);
CUresult cuCtxRecordEvent(CUcontext, CUevent);
CUresult cuCtxWaitEvent(CUcontext, CUevent);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned int);
CUresult cuCtxDisablePeerAccess(CUcontext);

/* memory: 32-bit forms of CUDA 2, which a driver may still export */
CUresult cuMemGetInfo(unsigned int *, unsigned int *);
CUresult cuMemAlloc(CUdeviceptr_v1 *, unsigned int);
CUresult cuMemAllocPitch(CUdeviceptr_v1 *ptr, unsigned int *p_pitch, unsigned int width_in_bytes,
        unsigned int height, unsigned int element_size_bytes);
CUresult cuMemFree(CUdeviceptr_v1);
CUresult cuMemGetAddressRange(CUdeviceptr_v1 *, unsigned int *, CUdeviceptr_v1);

/* memory */
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *p_pitch, size_t width_in_bytes, size_t height,
        unsigned int element_size_bytes);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned int);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
CUresult cuMemAllocHost(void **, unsigned int);
CUresult cuMemAllocHost_v2(void **, size_t);
CUresult cuMemHostAlloc(void **, size_t, unsigned int);
CUresult cuMemFreeHost(void *);
CUresult cuMemHostRegister(void *, size_t, unsigned int);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned int);
CUresult cuMemHostUnregister(void *);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned int);
CUresult cuMemHostGetFlags(unsigned int *, void *);
CUresult cuPointerGetAttribute(void *, CUpointer_attribute, CUdeviceptr);
CUresult cuPointerGetAttributes(unsigned int, CUpointer_attribute *, void **, CUdeviceptr);
CUresult cuPointerSetAttribute(const void *, CUpointer_attribute, CUdeviceptr);
CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
CUresult cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation);
CUDA_ABI_PTSZ(CUresult, cuMemPrefetchAsync, (CUdeviceptr, size_t, CUdevice, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemPrefetchAsync_v2,
        (CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamAttachMemAsync, (CUstream, CUdeviceptr, size_t, unsigned int));
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags);

/* arrays */
CUresult cuArrayCreate(CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *);
CUresult cuArray3DCreate(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *);
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUarray, CUdevice);
CUresult cuMipmappedArrayGetMemoryRequirements(
        CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUmipmappedArray, CUdevice);
CUresult cuArrayCreate_v2(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
CUresult cuArray3DCreate_v2(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *, CUarray);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *, CUarray);
CUresult cuArrayDestroy(CUarray);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int);
CUresult cuMipmappedArrayGetLevel(CUarray *, CUmipmappedArray, unsigned int);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);

/* stream-ordered memory and pools */
CUDA_ABI_PTSZ(CUresult, cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemFreeAsync, (CUdeviceptr, CUstream));
CUresult cuMemPoolCreate(CUmemoryPool *, const CUmemPoolProps *);
CUresult cuMemPoolDestroy(CUmemoryPool);
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void *);
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void *);
CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc *, size_t);
CUresult cuMemPoolGetAccess(CUmemAccess_flags *, CUmemoryPool, CUmemLocation *);
CUresult cuMemGetDefaultMemPool(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
CUresult cuMemGetMemPool(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
CUresult cuMemSetMemPool(CUmemLocation *, CUmemAllocationType, CUmemoryPool);
CUresult cuMemPoolExportToShareableHandle(
        void *, CUmemoryPool, CUmemAllocationHandleType, unsigned long long);
CUresult cuMemPoolImportFromShareableHandle(
        CUmemoryPool *, void *, CUmemAllocationHandleType, unsigned long long);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *, CUdeviceptr);
CUresult cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *);

/* virtual memory */
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(
        CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags);
CUDA_ABI_PTSZ(CUresult, cuMemMapArrayAsync, (CUarrayMapInfo *, unsigned int, CUstream));
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
CUresult cuMemGetAccess(unsigned long long *, const CUmemLocation *, CUdeviceptr);
CUresult cuMemGetAllocationGranularity(
        size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
CUresult cuMemGetAllocationPropertiesFromHandle(
        CUmemAllocationProp *, CUmemGenericAllocationHandle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *, void *);
CUresult cuMemExportToShareableHandle(
        void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long);
CUresult cuMemImportFromShareableHandle(
        CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *, const CUmulticastObjectProp *);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
        CUmemGenericAllocationHandle mem_handle, size_t mem_offset, size_t size,
        unsigned long long flags);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
        CUdeviceptr memptr, size_t size, unsigned long long flags);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t);
CUresult cuMulticastGetGranularity(
        size_t *, const CUmulticastObjectProp *, CUmulticastGranularity_flags);

/* other processes and other drivers */
CUresult cuIpcGetMemHandle(CUipcMemHandle *, CUdeviceptr);
CUresult cuIpcOpenMemHandle(CUdeviceptr *, CUipcMemHandle, unsigned int);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, CUipcMemHandle, unsigned int);
CUresult cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuIpcGetEventHandle(CUipcEventHandle *, CUevent);
CUresult cuIpcOpenEventHandle(CUevent *, CUipcEventHandle);
CUresult cuImportExternalMemory(CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *);
CUresult cuExternalMemoryGetMappedBuffer(
        CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *);
CUresult cuExternalMemoryGetMappedMipmappedArray(
        CUmipmappedArray *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *);
CUresult cuDestroyExternalMemory(CUexternalMemory);
CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *, size_t *, CUgraphicsResource);
CUDA_ABI_PTSZ(CUresult, cuGraphicsUnmapResources, (unsigned int, CUgraphicsResource *, CUstream));

/* copies that return when the call may */
CUDA_ABI_PTDS(CUresult, cuMemcpy, (CUdeviceptr, CUdeviceptr, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyPeer,
        (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size));
CUDA_ABI_PTDS(CUresult, cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyDtoA_v2, (CUarray, size_t, CUdeviceptr, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyAtoD_v2, (CUdeviceptr, CUarray, size_t, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyHtoA_v2, (CUarray, size_t, const void *, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyAtoH_v2, (void *, CUarray, size_t, size_t));
CUDA_ABI_PTDS(CUresult, cuMemcpyAtoA_v2,
        (CUarray dst_array, size_t dst_offset, CUarray src_array, size_t src_offset, size_t size));
CUDA_ABI_PTDS(CUresult, cuMemcpy2D_v2, (const CUDA_MEMCPY2D *));
CUDA_ABI_PTDS(CUresult, cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *));
CUDA_ABI_PTDS(CUresult, cuMemcpy3D_v2, (const CUDA_MEMCPY3D *));
CUDA_ABI_PTDS(CUresult, cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *));

/* copies on a stream */
CUDA_ABI_PTSZ(CUresult, cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpyPeerAsync,
        (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size,
                CUstream stream));
CUDA_ABI_PTSZ(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpyHtoAAsync_v2, (CUarray, size_t, const void *, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpyAtoHAsync_v2, (void *, CUarray, size_t, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *, CUstream));

/* batches: 12.8 has a fail index, 13.0 (_v2) has none */
CUDA_ABI_PTSZ(CUresult, cuMemcpyBatchAsync,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs, size_t *fail_idx,
                CUstream stream));
CUDA_ABI_PTSZ(CUresult, cuMemcpy3DBatchAsync,
        (size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list, size_t *fail_idx,
                unsigned long long flags, CUstream stream));
CUDA_ABI_PTSZ(CUresult, cuMemcpyBatchAsync_v2,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs, CUstream stream));
CUDA_ABI_PTSZ(CUresult, cuMemcpy3DBatchAsync_v2,
        (size_t num_ops, CUDA_MEMCPY3D_BATCH_OP *op_list, unsigned long long flags,
                CUstream stream));

/* sets */
CUDA_ABI_PTDS(CUresult, cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t));
CUDA_ABI_PTDS(CUresult, cuMemsetD16_v2, (CUdeviceptr, unsigned short, size_t));
CUDA_ABI_PTDS(CUresult, cuMemsetD32_v2, (CUdeviceptr, unsigned int, size_t));
CUDA_ABI_PTDS(CUresult, cuMemsetD2D8_v2,
        (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height));
CUDA_ABI_PTDS(CUresult, cuMemsetD2D16_v2,
        (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height));
CUDA_ABI_PTDS(CUresult, cuMemsetD2D32_v2,
        (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height));
CUDA_ABI_PTSZ(CUresult, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemsetD16Async, (CUdeviceptr, unsigned short, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemsetD32Async, (CUdeviceptr, unsigned int, size_t, CUstream));
CUDA_ABI_PTSZ(CUresult, cuMemsetD2D8Async,
        (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height,
                CUstream stream));
CUDA_ABI_PTSZ(CUresult, cuMemsetD2D16Async,
        (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height,
                CUstream stream));
CUDA_ABI_PTSZ(CUresult, cuMemsetD2D32Async,
        (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height,
                CUstream stream));

/* streams */
CUresult cuStreamCreate(CUstream *, unsigned int);
CUresult cuStreamCreateWithPriority(CUstream *, unsigned int, int);
CUresult cuStreamDestroy(CUstream);
CUresult cuStreamDestroy_v2(CUstream);
CUDA_ABI_PTSZ(CUresult, cuStreamGetPriority, (CUstream, int *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetFlags, (CUstream, unsigned int *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetId, (CUstream, unsigned long long *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetDevice, (CUstream, CUdevice *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCtx, (CUstream, CUcontext *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCtx_v2, (CUstream, CUcontext *, CUgreenCtx *));
CUDA_ABI_PTSZ(CUresult, cuStreamQuery, (CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamSynchronize, (CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamWaitEvent, (CUstream, CUevent, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamAddCallback, (CUstream, CUstreamCallback, void *, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamCopyAttributes, (CUstream, CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamWaitValue32, (CUstream, CUdeviceptr, cuuint32_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamWaitValue64, (CUstream, CUdeviceptr, cuuint64_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamWriteValue32, (CUstream, CUdeviceptr, cuuint32_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamWriteValue64, (CUstream, CUdeviceptr, cuuint64_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamBatchMemOp,
        (CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, cuuint32_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamWaitValue64_v2, (CUstream, CUdeviceptr, cuuint64_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, cuuint32_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamWriteValue64_v2, (CUstream, CUdeviceptr, cuuint64_t, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamBatchMemOp_v2,
        (CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int));

/* events */
CUresult cuEventCreate(CUevent *, unsigned int);
CUresult cuEventDestroy(CUevent);
CUresult cuEventDestroy_v2(CUevent);
CUDA_ABI_PTSZ(CUresult, cuEventRecord, (CUevent, CUstream));
CUDA_ABI_PTSZ(CUresult, cuEventRecordWithFlags, (CUevent, CUstream, unsigned int));
CUresult cuEventQuery(CUevent);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventElapsedTime(float *p_milliseconds, CUevent h_start, CUevent h_end);
CUresult cuEventElapsedTime_v2(float *p_milliseconds, CUevent h_start, CUevent h_end);

/* modules, libraries, kernels */
CUresult cuModuleLoad(CUmodule *, const char *);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleLoadDataEx(CUmodule *, const void *, unsigned int, CUjit_option *, void **);
CUresult cuModuleLoadFatBinary(CUmodule *, const void *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuModuleGetFunctionCount(unsigned int *, CUmodule);
CUresult cuModuleEnumerateFunctions(CUfunction *, unsigned int, CUmodule);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *);
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *);
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
        void **jit_options_values, unsigned int num_jit_options, CUlibraryOption *library_options,
        void **library_option_values, unsigned int num_library_options);
CUresult cuLibraryLoadFromFile(CUlibrary *, const char *, CUjit_option *, void **, unsigned int,
        CUlibraryOption *, void **, unsigned int);
CUresult cuLibraryUnload(CUlibrary);
CUresult cuLibraryGetKernel(CUkernel *, CUlibrary, const char *);
CUresult cuLibraryGetKernelCount(unsigned int *, CUlibrary);
CUresult cuLibraryEnumerateKernels(CUkernel *, unsigned int, CUlibrary);
CUresult cuLibraryGetModule(CUmodule *, CUlibrary);
CUresult cuLibraryGetGlobal(CUdeviceptr *, size_t *, CUlibrary, const char *);
CUresult cuLibraryGetManaged(CUdeviceptr *, size_t *, CUlibrary, const char *);
CUresult cuKernelGetFunction(CUfunction *, CUkernel);
CUresult cuKernelGetLibrary(CUlibrary *, CUkernel);
CUresult cuKernelGetName(const char **, CUkernel);
CUresult cuKernelGetAttribute(int *, CUfunction_attribute, CUkernel, CUdevice);
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice);
CUresult cuKernelGetParamInfo(
        CUkernel kernel, size_t param_index, size_t *param_offset, size_t *param_size);
CUresult cuFuncGetModule(CUmodule *, CUfunction);
CUresult cuFuncGetName(const char **, CUfunction);
CUresult cuFuncGetAttribute(int *, CUfunction_attribute, CUfunction);
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int);
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache);
CUresult cuFuncSetSharedMemConfig(CUfunction, CUsharedconfig);
CUresult cuFuncGetParamInfo(
        CUfunction func, size_t param_index, size_t *param_offset, size_t *param_size);
CUresult cuFuncIsLoaded(CUfunctionLoadingState *, CUfunction);
CUresult cuFuncLoad(CUfunction);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int, size_t);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *, CUfunction, int, size_t, unsigned int);

/* launches */
CUDA_ABI_PTSZ(CUresult, cuLaunchKernel,
        (CUfunction func, unsigned int grid_dim_x, unsigned int grid_dim_y, unsigned int grid_dim_z,
                unsigned int block_dim_x, unsigned int block_dim_y, unsigned int block_dim_z,
                unsigned int shared_mem_bytes, CUstream stream, void **kernel_params,
                void **extra));
CUDA_ABI_PTSZ(CUresult, cuLaunchKernelEx,
        (const CUlaunchConfig *config, CUfunction func, void **kernel_params, void **extra));
CUDA_ABI_PTSZ(CUresult, cuLaunchCooperativeKernel,
        (CUfunction func, unsigned int grid_dim_x, unsigned int grid_dim_y, unsigned int grid_dim_z,
                unsigned int block_dim_x, unsigned int block_dim_y, unsigned int block_dim_z,
                unsigned int shared_mem_bytes, CUstream stream, void **kernel_params));
CUresult cuLaunchCooperativeKernelMultiDevice(
        CUDA_LAUNCH_PARAMS *launch_params_list, unsigned int num_devices, unsigned int flags);
CUDA_ABI_PTSZ(CUresult, cuLaunchHostFunc, (CUstream, CUhostFn, void *));
CUresult cuLaunch(CUfunction);
CUresult cuLaunchGrid(CUfunction, int, int);
CUresult cuLaunchGridAsync(CUfunction, int, int, CUstream);

/* capture */
CUDA_ABI_PTSZ(CUresult, cuStreamBeginCapture, (CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode));
CUDA_ABI_PTSZ(CUresult, cuStreamBeginCaptureToGraph,
        (CUstream stream, CUgraph h_graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                size_t deps_count, CUstreamCaptureMode mode));
CUDA_ABI_PTSZ(CUresult, cuStreamEndCapture, (CUstream, CUgraph *));
CUDA_ABI_PTSZ(CUresult, cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCaptureInfo,
        (CUstream stream, CUstreamCaptureStatus *capture_status, cuuint64_t *id));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCaptureInfo_v2,
        (CUstream stream, CUstreamCaptureStatus *capture_status, cuuint64_t *id, CUgraph *graph,
                const CUgraphNode **dependencies, size_t *num_dependencies));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCaptureInfo_v3,
        (CUstream stream, CUstreamCaptureStatus *capture_status, cuuint64_t *id, CUgraph *graph,
                const CUgraphNode **dependencies, const CUgraphEdgeData **edge_data,
                size_t *num_dependencies));
CUDA_ABI_PTSZ(CUresult, cuStreamUpdateCaptureDependencies,
        (CUstream stream, CUgraphNode *deps, size_t deps_count, unsigned int flags));
CUDA_ABI_PTSZ(CUresult, cuStreamUpdateCaptureDependencies_v2,
        (CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t deps_count,
                unsigned int flags));
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *);

/* graphs */
CUresult cuGraphCreate(CUgraph *, unsigned int);
CUresult cuGraphDestroy(CUgraph);
CUresult cuGraphClone(CUgraph *, CUgraph);
CUresult cuGraphAddKernelNode(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphAddKernelNode_v2(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphAddMemcpyNode(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_MEMCPY3D *, CUcontext);
CUresult cuGraphAddMemsetNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
        const CUDA_MEMSET_NODE_PARAMS *, CUcontext);
CUresult cuGraphAddHostNode(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_HOST_NODE_PARAMS *);
CUresult cuGraphHostNodeGetParams(CUgraphNode, CUDA_HOST_NODE_PARAMS *);
CUresult cuGraphHostNodeSetParams(CUgraphNode, const CUDA_HOST_NODE_PARAMS *);
CUresult cuGraphAddChildGraphNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph);
CUresult cuGraphAddEmptyNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t);
CUresult cuGraphAddEventRecordNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent);
CUresult cuGraphAddEventWaitNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent);
CUresult cuGraphAddMemAllocNode(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS *);
CUresult cuGraphAddMemFreeNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode, CUdeviceptr *);
CUresult cuGraphAddBatchMemOpNode(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
CUresult cuGraphAddNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *);
CUresult cuGraphAddNode_v2(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
        size_t, CUgraphNodeParams *);
CUresult cuGraphAddDependencies(
        CUgraph h_graph, const CUgraphNode *from, const CUgraphNode *to, size_t deps_count);
CUresult cuGraphAddDependencies_v2(CUgraph h_graph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edge_data, size_t deps_count);
CUresult cuGraphKernelNodeGetParams(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphKernelNodeSetParams(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode, const CUDA_MEMCPY3D *);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *);
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType *);
CUresult cuGraphNodeSetParams(CUgraphNode, CUgraphNodeParams *);
CUresult cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphGetRootNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphDestroyNode(CUgraphNode);
CUresult cuGraphInstantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUDA_ABI_PTSZ(CUresult, cuGraphInstantiateWithParams,
        (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *));
CUresult cuGraphExecGetFlags(CUgraphExec, cuuint64_t *);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *);
CUresult cuGraphExecUpdate_v2(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *);
CUresult cuGraphExecKernelNodeSetParams(
        CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphExecKernelNodeSetParams_v2(
        CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *, CUcontext);
CUresult cuGraphExecMemsetNodeSetParams(
        CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *, CUcontext);
CUresult cuGraphExecBatchMemOpNodeSetParams(
        CUgraphExec, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_HOST_NODE_PARAMS *);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec, CUgraphNode, CUgraph);
CUresult cuGraphExecNodeSetParams(CUgraphExec, CUgraphNode, CUgraphNodeParams *);
CUDA_ABI_PTSZ(CUresult, cuGraphUpload, (CUgraphExec, CUstream));
CUDA_ABI_PTSZ(CUresult, cuGraphLaunch, (CUgraphExec, CUstream));

/* descriptors that carry addresses */
CUresult cuTensorMapEncodeTiled(CUtensorMap *tensor_map, CUtensorMapDataType tensor_data_type,
        cuuint32_t tensor_rank, void *global_address, const cuuint64_t *global_dim,
        const cuuint64_t *global_strides, const cuuint32_t *box_dim,
        const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
        CUtensorMapFloatOOBfill oob_fill);
CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensor_map, CUtensorMapDataType tensor_data_type,
        cuuint32_t tensor_rank, void *global_address, const cuuint64_t *global_dim,
        const cuuint64_t *global_strides, const int *pixel_box_lower_corner,
        const int *pixel_box_upper_corner, cuuint32_t channels_per_pixel,
        cuuint32_t pixels_per_column, const cuuint32_t *element_strides,
        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion l2_promotion, CUtensorMapFloatOOBfill oob_fill);
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *tensor_map, CUtensorMapDataType tensor_data_type,
        cuuint32_t tensor_rank, void *global_address, const cuuint64_t *global_dim,
        const cuuint64_t *global_strides, int pixel_box_lower_corner_width,
        int pixel_box_upper_corner_width, cuuint32_t channels_per_pixel,
        cuuint32_t pixels_per_column, const cuuint32_t *element_strides,
        CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
        CUtensorMapFloatOOBfill oob_fill);
CUresult cuTensorMapReplaceAddress(CUtensorMap *, void *);
CUresult cuTexObjectCreate(CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
        const CUDA_RESOURCE_VIEW_DESC *);
CUresult cuTexObjectDestroy(CUtexObject);
CUresult cuSurfObjectCreate(CUsurfObject *, const CUDA_RESOURCE_DESC *);
CUresult cuSurfObjectDestroy(CUsurfObject);

/* ==== runtime prototypes ==== */

/* errors, versions, look-up */
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaRuntimeGetVersion(int *);
cudaError_t cudaDriverGetVersion(int *);
CUDA_ABI_PTSZ(cudaError_t, cudaGetDriverEntryPoint,
        (const char *symbol, void **func_ptr, unsigned long long flags,
                enum cudaDriverEntryPointQueryResult *driver_status));
CUDA_ABI_PTSZ(cudaError_t, cudaGetDriverEntryPointByVersion,
        (const char *symbol, void **func_ptr, unsigned int cuda_version, unsigned long long flags,
                enum cudaDriverEntryPointQueryResult *driver_status));
cudaError_t cudaGetExportTable(const void **, const cudaUUID_t *);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

/* devices */
cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaGetDevice(int *);
cudaError_t cudaSetDevice(int);
cudaError_t cudaInitDevice(int, unsigned int, unsigned int);
cudaError_t cudaSetDeviceFlags(unsigned int);
cudaError_t cudaGetDeviceFlags(unsigned int *);
cudaError_t cudaDeviceGetAttribute(int *, enum cudaDeviceAttr, int);
cudaError_t cudaDeviceGetPCIBusId(char *, int, int);
cudaError_t cudaDeviceGetByPCIBusId(int *, const char *);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceSetLimit(enum cudaLimit, size_t);
cudaError_t cudaDeviceGetLimit(size_t *, enum cudaLimit);
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least_priority, int *greatest_priority);
cudaError_t cudaDeviceCanAccessPeer(int *, int, int);
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int);
cudaError_t cudaDeviceDisablePeerAccess(int);
cudaError_t cudaDeviceGetP2PAttribute(int *, enum cudaDeviceP2PAttr, int, int);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int);
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *, int);
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t);
cudaError_t cudaDeviceGraphMemTrim(int);
cudaError_t cudaDeviceGetGraphMemAttribute(int, enum cudaGraphMemAttributeType, void *);
cudaError_t cudaDeviceSetGraphMemAttribute(int, enum cudaGraphMemAttributeType, void *);

/* memory */
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaMallocManaged(void **, size_t, unsigned int);
cudaError_t cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height);
cudaError_t cudaMalloc3D(struct cudaPitchedPtr *, struct cudaExtent);
cudaError_t cudaFree(void *);
cudaError_t cudaMemGetInfo(size_t *, size_t *);
cudaError_t cudaMallocHost(void **, size_t);
cudaError_t cudaHostAlloc(void **, size_t, unsigned int);
cudaError_t cudaFreeHost(void *);
cudaError_t cudaHostRegister(void *, size_t, unsigned int);
cudaError_t cudaHostUnregister(void *);
cudaError_t cudaHostGetDevicePointer(void **, void *, unsigned int);
cudaError_t cudaHostGetFlags(unsigned int *, void *);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *, const void *);

/* stream-ordered memory and pools */
CUDA_ABI_PTSZ(cudaError_t, cudaMallocAsync, (void **, size_t, cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaMallocFromPoolAsync, (void **, size_t, cudaMemPool_t, cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaFreeAsync, (void *, cudaStream_t));
cudaError_t cudaMemPoolCreate(cudaMemPool_t *, const struct cudaMemPoolProps *);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void *);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void *);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const struct cudaMemAccessDesc *, size_t);
cudaError_t cudaMemPoolGetAccess(
        enum cudaMemAccessFlags *, cudaMemPool_t, struct cudaMemLocation *);
cudaError_t cudaMemPoolExportToShareableHandle(
        void *, cudaMemPool_t, enum cudaMemAllocationHandleType, unsigned int);
cudaError_t cudaMemPoolImportFromShareableHandle(
        cudaMemPool_t *, void *, enum cudaMemAllocationHandleType, unsigned int);
cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *, void *);
cudaError_t cudaMemPoolImportPointer(void **, cudaMemPool_t, struct cudaMemPoolPtrExportData *);
cudaError_t cudaMemGetDefaultMemPool(
        cudaMemPool_t *, struct cudaMemLocation *, enum cudaMemAllocationType);
cudaError_t cudaMemGetMemPool(
        cudaMemPool_t *, struct cudaMemLocation *, enum cudaMemAllocationType);
cudaError_t cudaMemSetMemPool(struct cudaMemLocation *, enum cudaMemAllocationType, cudaMemPool_t);

/* other processes */
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *, void *);
cudaError_t cudaIpcOpenMemHandle(void **, cudaIpcMemHandle_t, unsigned int);
cudaError_t cudaIpcCloseMemHandle(void *);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *, cudaEvent_t);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *, cudaIpcEventHandle_t);

/* copies and sets */
CUDA_ABI_PTDS(cudaError_t, cudaMemcpy, (void *, const void *, size_t, enum cudaMemcpyKind));
CUDA_ABI_PTSZ(cudaError_t, cudaMemcpyAsync,
        (void *, const void *, size_t, enum cudaMemcpyKind, cudaStream_t));
cudaError_t cudaMemcpyPeer(
        void *dst, int dst_device, const void *src, int src_device, size_t count);
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
        size_t count, cudaStream_t stream);
CUDA_ABI_PTDS(cudaError_t, cudaMemcpy2D,
        (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                enum cudaMemcpyKind kind));
CUDA_ABI_PTSZ(cudaError_t, cudaMemcpy2DAsync,
        (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                enum cudaMemcpyKind kind, cudaStream_t stream));
CUDA_ABI_PTDS(cudaError_t, cudaMemcpy3D, (const struct cudaMemcpy3DParms *));
CUDA_ABI_PTSZ(cudaError_t, cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *, cudaStream_t));
CUDA_ABI_PTDS(cudaError_t, cudaMemset, (void *, int, size_t));
CUDA_ABI_PTSZ(cudaError_t, cudaMemsetAsync, (void *, int, size_t, cudaStream_t));
CUDA_ABI_PTDS(cudaError_t, cudaMemset2D,
        (void *ptr, size_t pitch, int value, size_t width, size_t height));
CUDA_ABI_PTSZ(cudaError_t, cudaMemset2DAsync,
        (void *ptr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream));
CUDA_ABI_PTDS(cudaError_t, cudaMemset3D, (struct cudaPitchedPtr, int, struct cudaExtent));
CUDA_ABI_PTSZ(cudaError_t, cudaMemset3DAsync,
        (struct cudaPitchedPtr, int, struct cudaExtent, cudaStream_t));

/* streams */
cudaError_t cudaStreamCreate(cudaStream_t *);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned int);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *, unsigned int, int);
cudaError_t cudaStreamDestroy(cudaStream_t);
CUDA_ABI_PTSZ(cudaError_t, cudaStreamQuery, (cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamSynchronize, (cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamWaitEvent, (cudaStream_t, cudaEvent_t, unsigned int));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamAddCallback,
        (cudaStream_t, cudaStreamCallback_t, void *, unsigned int));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamGetFlags, (cudaStream_t, unsigned int *));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamGetPriority, (cudaStream_t, int *));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamGetId, (cudaStream_t, unsigned long long *));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamGetDevice, (cudaStream_t, int *));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamAttachMemAsync, (cudaStream_t, void *, size_t, unsigned int));

/* events */
cudaError_t cudaEventCreate(cudaEvent_t *);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned int);
cudaError_t cudaEventDestroy(cudaEvent_t);
CUDA_ABI_PTSZ(cudaError_t, cudaEventRecord, (cudaEvent_t, cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaEventRecordWithFlags, (cudaEvent_t, cudaStream_t, unsigned int));
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

/* libraries, kernels, launches */
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
        enum cudaJitOption *jit_options, void **jit_options_values, unsigned int num_jit_options,
        enum cudaLibraryOption *library_options, void **library_option_values,
        unsigned int num_library_options);
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *, const char *, enum cudaJitOption *, void **,
        unsigned int, enum cudaLibraryOption *, void **, unsigned int);
cudaError_t cudaLibraryUnload(cudaLibrary_t);
cudaError_t cudaLibraryGetKernel(cudaKernel_t *, cudaLibrary_t, const char *);
cudaError_t cudaLibraryGetGlobal(void **, size_t *, cudaLibrary_t, const char *);
cudaError_t cudaLibraryGetKernelCount(unsigned int *, cudaLibrary_t);
cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *, unsigned int, cudaLibrary_t);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *);
cudaError_t cudaFuncSetAttribute(const void *, enum cudaFuncAttribute, int);
cudaError_t cudaFuncSetCacheConfig(const void *, enum cudaFuncCache);
cudaError_t cudaFuncGetName(const char **, const void *);
cudaError_t cudaFuncGetParamInfo(
        const void *func, size_t param_index, size_t *param_offset, size_t *param_size);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *, const void *);
CUDA_ABI_PTSZ(cudaError_t, cudaLaunchKernel,
        (const void *func, dim3 grid_dim, dim3 block_dim, void **args, size_t shared_mem,
                cudaStream_t stream));
CUDA_ABI_PTSZ(cudaError_t, cudaLaunchKernelExC,
        (const cudaLaunchConfig_t *config, const void *func, void **args));
CUDA_ABI_PTSZ(cudaError_t, cudaLaunchCooperativeKernel,
        (const void *func, dim3 grid_dim, dim3 block_dim, void **args, size_t shared_mem,
                cudaStream_t stream));
CUDA_ABI_PTSZ(cudaError_t, cudaLaunchHostFunc, (cudaStream_t, cudaHostFn_t, void *));

/* capture and graphs */
CUDA_ABI_PTSZ(cudaError_t, cudaStreamBeginCapture, (cudaStream_t, enum cudaStreamCaptureMode));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamBeginCaptureToGraph,
        (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *deps,
                const cudaGraphEdgeData *edges, size_t deps_count,
                enum cudaStreamCaptureMode mode));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamEndCapture, (cudaStream_t, cudaGraph_t *));
CUDA_ABI_PTSZ(cudaError_t, cudaStreamIsCapturing, (cudaStream_t, enum cudaStreamCaptureStatus *));
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *);
cudaError_t cudaGraphCreate(cudaGraph_t *, unsigned int);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphClone(cudaGraph_t *, cudaGraph_t);
cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t *, size_t *);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t, enum cudaGraphNodeType *);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
CUDA_ABI_PTSZ(cudaError_t, cudaGraphUpload, (cudaGraphExec_t, cudaStream_t));
CUDA_ABI_PTSZ(cudaError_t, cudaGraphLaunch, (cudaGraphExec_t, cudaStream_t));

#pragma GCC visibility pop

#endif

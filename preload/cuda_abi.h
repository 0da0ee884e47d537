/* SPDX-License-Identifier: MIT */
/*
 * cuda_abi.h - the part of CUDA's binary interface that we speak, in our own words.
 *
 * kedge is built where there is no CUDA toolkit, and it must call and answer functions by their
 * real symbols (`cuMemAlloc_v2`, `cuMemAllocAsync_ptsz`), which the toolkit's headers hide behind
 * macros. So the types, the values and one prototype per real symbol are declared here, under the
 * names that CUDA programs use. Nothing is a macro that renames a function: `cuMemAlloc`, where a
 * test has it, is the 32-bit symbol of that name and not the one that a program means.
 *
 *     CUDA_ABI_PTSZ(CUresult, cuMemAllocAsync, (...))   declares cuMemAllocAsync and
 *                                                       cuMemAllocAsync_ptsz
 *     CUDA_ABI_PTDS(CUresult, cuMemcpyHtoD_v2, (...))   declares cuMemcpyHtoD_v2 and
 *                                                       cuMemcpyHtoD_v2_ptds
 *
 * Where versions of CUDA differ, each form is a symbol of its own in the driver and declared as
 * such. What kedge itself neither calls nor hooks is not here: tests/sim/program_abi.h has the rest
 * of what the tests and the simulated device speak. Of enumerations only the values are here that
 * somebody uses.
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
typedef unsigned long long CUmemGenericAllocationHandle;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;

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
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;

typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef struct CUmemPoolPtrExportData_st {
    unsigned char reserved[64];
} CUmemPoolPtrExportData;

typedef void (*CUhostFn)(void *data);

/* The two stream handles that are numbers. 0 is the legacy stream or, in a _ptsz call, the thread's. */
#    define CU_STREAM_LEGACY     ((CUstream)0x1)
#    define CU_STREAM_PER_THREAD ((CUstream)0x2)

/* `extra` of a launch: a list of (key, value) pointers that ends with END. */
#    define CU_LAUNCH_PARAM_END            ((void *)0x00)
#    define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#    define CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)0x02)
/* clang-format off */

/* ---- driver: results ------------------------------------------------------------------------ */

/* X(name, value): one row per result, so that a table of names can be made from the same list. */
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
/* clang-format off */

/* ---- driver: enumerations ------------------------------------------------------------------- */

typedef enum CUstream_flags_enum {
    CU_STREAM_DEFAULT = 0x0, CU_STREAM_NON_BLOCKING = 0x1,
} CUstream_flags;

typedef enum CUevent_flags_enum {
    CU_EVENT_DISABLE_TIMING = 0x2, CU_EVENT_INTERPROCESS = 0x4,
} CUevent_flags;

/* An enumeration of CUDA's with many values. */
typedef int CUdevice_attribute;
enum {
    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
};

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
} CUpointer_attribute;

typedef enum CUmemorytype_enum {
    CU_MEMORYTYPE_HOST = 0x01, CU_MEMORYTYPE_DEVICE = 0x02, CU_MEMORYTYPE_ARRAY = 0x03,
    CU_MEMORYTYPE_UNIFIED = 0x04,
} CUmemorytype;

typedef enum CUarray_format_enum {
    CU_AD_FORMAT_UNSIGNED_INT8 = 0x01, CU_AD_FORMAT_UNSIGNED_INT16 = 0x02,
    CU_AD_FORMAT_UNSIGNED_INT32 = 0x03, CU_AD_FORMAT_SIGNED_INT8 = 0x08,
    CU_AD_FORMAT_SIGNED_INT16 = 0x09, CU_AD_FORMAT_SIGNED_INT32 = 0x0a, CU_AD_FORMAT_HALF = 0x10,
    CU_AD_FORMAT_FLOAT = 0x20,
} CUarray_format;

typedef enum CUresourcetype_enum {
    CU_RESOURCE_TYPE_ARRAY = 0x00, CU_RESOURCE_TYPE_LINEAR = 0x02, CU_RESOURCE_TYPE_PITCH2D = 0x03,
} CUresourcetype;

typedef enum CUdriverProcAddress_flags_enum {
    CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
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

typedef enum CUstreamBatchMemOpType_enum {
    CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1, CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
    CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4, CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
    CU_STREAM_MEM_OP_BARRIER = 6, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
} CUstreamBatchMemOpType;

typedef enum CUlaunchAttributeID_enum {
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1, CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3, CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,
} CUlaunchAttributeID;

typedef enum CUgraphNodeType_enum {
    CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_MEMCPY = 1, CU_GRAPH_NODE_TYPE_MEMSET = 2,
    CU_GRAPH_NODE_TYPE_HOST = 3, CU_GRAPH_NODE_TYPE_GRAPH = 4, CU_GRAPH_NODE_TYPE_EMPTY = 5,
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6, CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
    CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10, CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12, CU_GRAPH_NODE_TYPE_CONDITIONAL = 13,
} CUgraphNodeType;

typedef enum CUgraphInstantiateResult_enum {
    CUDA_GRAPH_INSTANTIATE_SUCCESS = 0, CUDA_GRAPH_INSTANTIATE_ERROR = 1,
    CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE = 2,
} CUgraphInstantiateResult;

typedef enum CUgraphExecUpdateResult_enum {
    CU_GRAPH_EXEC_UPDATE_SUCCESS = 0x0, CU_GRAPH_EXEC_UPDATE_ERROR = 0x1,
    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 0x2,
    CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 0x3,
    CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 0x5,
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
} CUmemAllocationType;

typedef enum CUmemAllocationHandleType_enum {
    CU_MEM_HANDLE_TYPE_NONE = 0x0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 0x1,
    CU_MEM_HANDLE_TYPE_FABRIC = 0x8,
} CUmemAllocationHandleType;

typedef enum CUmemAccess_flags_enum {
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0x0, CU_MEM_ACCESS_FLAGS_PROT_READ = 0x1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 0x3,
} CUmemAccess_flags;

typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0x0, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 0x1,
} CUmemAllocationGranularity_flags;

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
    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 0x1,
} CUmemcpySrcAccessOrder;

typedef enum CUmemcpy3DOperandType_enum {
    CU_MEMCPY_OPERAND_TYPE_POINTER = 0x1, CU_MEMCPY_OPERAND_TYPE_ARRAY = 0x2,
} CUmemcpy3DOperandType;

typedef enum CUtensorMapDataType_enum {
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B = 15,
} CUtensorMapDataType;

typedef enum CUtensorMapInterleave_enum {
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_INTERLEAVE_32B = 2,
} CUtensorMapInterleave;

typedef enum CUtensorMapSwizzle_enum {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
} CUtensorMapSwizzle;

typedef enum CUtensorMapL2promotion_enum {
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
} CUtensorMapL2promotion;

typedef enum CUtensorMapFloatOOBfill_enum {
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
} CUtensorMapFloatOOBfill;

typedef enum CUtensorMapIm2ColWideMode_enum {
    CU_TENSOR_MAP_IM2COL_WIDE_MODE_W = 0,
} CUtensorMapIm2ColWideMode;
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
} CUDA_BATCH_MEM_OP_NODE_PARAMS_v1, CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2;

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
#endif /* KEDGE_ABI_PROTOTYPES_ONLY */

/* ---- runtime: handles, flags, structures ---------------------------------------------------- */

#define CUDA_ABI_PTSZ(result, name, args) \
    result name args;                     \
    result name##_ptsz args
#define CUDA_ABI_PTDS(result, name, args) \
    result name args;                     \
    result name##_ptds args
#pragma GCC visibility push(default)

/* ==== driver prototypes ==== */

/* start, version, errors, look-up */
CUresult cuDriverGetVersion(int *);
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *symbol_status);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

/* devices */
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice);
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

/* contexts */
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuCtxCreate_v3(CUcontext *, CUexecAffinityParam *, int, unsigned int, CUdevice);
CUresult cuCtxCreate_v4(CUcontext *, CUctxCreateParams *, unsigned int, CUdevice);
CUresult cuCtxDestroy(CUcontext);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxPushCurrent_v2(CUcontext);
CUresult cuCtxPopCurrent_v2(CUcontext *);
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxGetDevice(CUdevice *);
CUresult cuCtxGetId(CUcontext, unsigned long long *);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize_v2(CUcontext);
CUresult cuCtxGetApiVersion(CUcontext, unsigned int *);
CUresult cuCtxDetach(CUcontext);
CUresult cuCtxRecordEvent(CUcontext, CUevent);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned int);
CUresult cuCtxDisablePeerAccess(CUcontext);

/* memory */
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *p_pitch, size_t width_in_bytes, size_t height,
        unsigned int element_size_bytes);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned int);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
CUresult cuMemAllocHost_v2(void **, size_t);
CUresult cuMemHostAlloc(void **, size_t, unsigned int);
CUresult cuMemFreeHost(void *);
CUresult cuMemHostRegister(void *, size_t, unsigned int);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned int);
CUresult cuMemHostUnregister(void *);
CUresult cuPointerGetAttribute(void *, CUpointer_attribute, CUdeviceptr);
CUresult cuPointerGetAttributes(unsigned int, CUpointer_attribute *, void **, CUdeviceptr);
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t size,
        CUmemRangeHandleType handle_type, unsigned long long flags);

/* arrays */
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUarray, CUdevice);
CUresult cuMipmappedArrayGetMemoryRequirements(
        CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUmipmappedArray, CUdevice);
CUresult cuArrayCreate_v2(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
CUresult cuArray3DCreate_v2(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *, CUarray);
CUresult cuArrayDestroy(CUarray);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int);
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
CUresult cuMemSetMemPool(CUmemLocation *, CUmemAllocationType, CUmemoryPool);
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
CUresult cuMemGetAllocationGranularity(
        size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *, void *);
CUresult cuMemImportFromShareableHandle(
        CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *, const CUmulticastObjectProp *);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
        CUmemGenericAllocationHandle mem_handle, size_t mem_offset, size_t size,
        unsigned long long flags);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
        CUdeviceptr memptr, size_t size, unsigned long long flags);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t);

/* other processes and other drivers */
CUresult cuIpcGetMemHandle(CUipcMemHandle *, CUdeviceptr);
CUresult cuIpcOpenMemHandle(CUdeviceptr *, CUipcMemHandle, unsigned int);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, CUipcMemHandle, unsigned int);
CUresult cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuImportExternalMemory(CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *);
CUresult cuExternalMemoryGetMappedBuffer(
        CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *);
CUresult cuExternalMemoryGetMappedMipmappedArray(
        CUmipmappedArray *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *);
CUresult cuDestroyExternalMemory(CUexternalMemory);

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
CUDA_ABI_PTSZ(CUresult, cuStreamGetFlags, (CUstream, unsigned int *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetId, (CUstream, unsigned long long *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCtx, (CUstream, CUcontext *));
CUDA_ABI_PTSZ(CUresult, cuStreamSynchronize, (CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamWaitEvent, (CUstream, CUevent, unsigned int));
CUDA_ABI_PTSZ(CUresult, cuStreamAddCallback, (CUstream, CUstreamCallback, void *, unsigned int));
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
CUDA_ABI_PTSZ(CUresult, cuEventRecord, (CUevent, CUstream));
CUresult cuEventQuery(CUevent);
CUresult cuEventSynchronize(CUevent);

/* modules, libraries, kernels */
CUresult cuModuleUnload(CUmodule);
CUresult cuLibraryUnload(CUlibrary);
CUresult cuKernelGetName(const char **, CUkernel);
CUresult cuKernelGetParamInfo(
        CUkernel kernel, size_t param_index, size_t *param_offset, size_t *param_size);
CUresult cuFuncGetName(const char **, CUfunction);
CUresult cuFuncGetParamInfo(
        CUfunction func, size_t param_index, size_t *param_offset, size_t *param_size);

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

/* capture */
CUDA_ABI_PTSZ(CUresult, cuStreamBeginCapture, (CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode));
CUDA_ABI_PTSZ(CUresult, cuStreamBeginCaptureToGraph,
        (CUstream stream, CUgraph h_graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                size_t deps_count, CUstreamCaptureMode mode));
CUDA_ABI_PTSZ(CUresult, cuStreamEndCapture, (CUstream, CUgraph *));
CUDA_ABI_PTSZ(CUresult, cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCaptureInfo_v2,
        (CUstream stream, CUstreamCaptureStatus *capture_status, cuuint64_t *id, CUgraph *graph,
                const CUgraphNode **dependencies, size_t *num_dependencies));
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *);

/* graphs */
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
CUresult cuGraphAddMemAllocNode(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *);
CUresult cuGraphAddMemFreeNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr);
CUresult cuGraphAddBatchMemOpNode(
        CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
CUresult cuGraphAddNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *);
CUresult cuGraphAddNode_v2(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
        size_t, CUgraphNodeParams *);
CUresult cuGraphKernelNodeSetParams(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode, const CUDA_MEMCPY3D *);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *);
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
CUresult cuGraphNodeSetParams(CUgraphNode, CUgraphNodeParams *);
CUresult cuGraphDestroyNode(CUgraphNode);
CUresult cuGraphInstantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUDA_ABI_PTSZ(CUresult, cuGraphInstantiateWithParams,
        (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *));
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
#pragma GCC visibility pop
#endif

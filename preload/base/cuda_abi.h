/* SPDX-License-Identifier: MIT */
/*
 * cuda_abi.h - the part of CUDA's binary interface that kedge uses, in our own words.
 *
 * kedge is built where there is no CUDA toolkit, and it must call and answer functions by their
 * real symbols (`cuMemAlloc_v2`, `cuMemAllocAsync_ptsz`), which the toolkit's headers hide behind
 * macros. So the types, the values and one prototype per real symbol are declared here, under the
 * names that CUDA programs use; the prototypes are made from hooks.def. Nothing is a macro that
 * renames a function: `cuMemAlloc`, where a test has it, is the 32-bit symbol of that name and not
 * the one that a program means.
 *
 * Where versions of CUDA differ, each form is a symbol of its own in the driver and declared as
 * such. Functions that kedge neither calls nor hooks are not declared: tests/sim/base/program_abi.h
 * has the others that the tests and the simulated device use. Of enumerations only the values in
 * use are declared.
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
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUgraphicsResource_st *CUgraphicsResource;

#    define CU_DEVICE_CPU ((CUdevice)-1)

typedef struct CUipcEventHandle_st {
    char reserved[64];
} CUipcEventHandle;

typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef void (*CUhostFn)(void *data);

/*
 * The two stream handles that are numbers. 0 is the legacy stream or, in a _ptsz call, the
 * thread's.
 */
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

typedef enum CUlaunchAttributeID_enum {
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1, CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,
    CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,
    CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12,
} CUlaunchAttributeID;

typedef enum CUjit_option_enum {
    CU_JIT_MAX_REGISTERS = 0,
} CUjit_option;

typedef enum CUlibraryOption_enum {
    CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0,
} CUlibraryOption;

typedef enum CUevent_flags_enum {
    CU_EVENT_DISABLE_TIMING = 0x2, CU_EVENT_INTERPROCESS = 0x4,
} CUevent_flags;

/* Enumerations of CUDA whose values only the program uses. */
typedef unsigned int CUmemRangeHandleType;
typedef unsigned int CUgraphExecUpdateResult;
typedef unsigned int CUmemcpySrcAccessOrder;
typedef unsigned int CUtensorMapDataType;
typedef unsigned int CUtensorMapInterleave;
typedef unsigned int CUtensorMapSwizzle;
typedef unsigned int CUtensorMapL2promotion;
typedef unsigned int CUtensorMapFloatOOBfill;
typedef unsigned int CUtensorMapIm2ColWideMode;

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

/* An enumeration of CUDA with many values. */
typedef int CUdevice_attribute;
enum {
    CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
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

typedef enum CUgraphNodeType_enum {
    CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_MEMCPY = 1, CU_GRAPH_NODE_TYPE_MEMSET = 2,
    CU_GRAPH_NODE_TYPE_HOST = 3, CU_GRAPH_NODE_TYPE_GRAPH = 4, CU_GRAPH_NODE_TYPE_EMPTY = 5,
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6, CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
    CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10, CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12, CU_GRAPH_NODE_TYPE_CONDITIONAL = 13,
} CUgraphNodeType;

typedef enum CUgraphMem_attribute_enum {
    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3,
} CUgraphMem_attribute;

typedef enum CUmemAttach_flags_enum {
    CU_MEM_ATTACH_GLOBAL = 0x1, CU_MEM_ATTACH_HOST = 0x2,
} CUmemAttach_flags;

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

typedef enum CUmemPool_attribute_enum {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7, CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
} CUmemPool_attribute;

typedef enum CUmemcpy3DOperandType_enum {
    CU_MEMCPY_OPERAND_TYPE_POINTER = 0x1, CU_MEMCPY_OPERAND_TYPE_ARRAY = 0x2,
} CUmemcpy3DOperandType;
/* clang-format on */

/* ---- driver: structures --------------------------------------------------------------------- */

/* Types that kedge passes on unread. */
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUmemPoolPtrExportData_st CUmemPoolPtrExportData;
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st CUDA_GRAPH_INSTANTIATE_PARAMS;
struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st; /* passed on */
struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st;
typedef struct CUgraphExecUpdateResultInfo_st CUgraphExecUpdateResultInfo;
typedef struct CUtensorMap_st CUtensorMap;
typedef struct CUDA_TEXTURE_DESC_st CUDA_TEXTURE_DESC;
typedef struct CUDA_RESOURCE_VIEW_DESC_st CUDA_RESOURCE_VIEW_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st CUDA_EXTERNAL_MEMORY_BUFFER_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st
        CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;

typedef enum CUgraphInstantiate_flags_enum {
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
    CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,
} CUgraphInstantiate_flags;

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

#    define CU_MEMHOSTREGISTER_PORTABLE   0x01
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

/* One node of any type (12.2 on). Members that kedge does not read have only a size. */
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

#endif /* KEDGE_ABI_PROTOTYPES_ONLY */

/* ---- driver: types that older toolkits lack ------------------------------------------------- */

/* Compared with the newest headers by tests/abi (abi_newest.def); an older toolkit gets ours. */
#if !defined CUDA_VERSION || CUDA_VERSION < 12060
typedef struct CUmemDecompressParams_st {
    size_t srcNumBytes;
    size_t dstNumBytes;
    cuuint32_t *dstActBytes;
    const void *src;
    void *dst;
    unsigned int algo;
    unsigned char padding[20];
} CUmemDecompressParams;
#endif

#if !defined CUDA_VERSION || CUDA_VERSION < 13010
#    define CU_STREAM_MEM_OP_ATOMIC_REDUCTION 8
#    define CUDA_ERROR_STREAM_DETACHED        917
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
#endif

#if !defined CUDA_VERSION || CUDA_VERSION < 13030
typedef unsigned int CUgraphRecaptureStatus;
typedef CUresult (*CUgraphRecaptureCallback)(void *data, CUgraphNode node,
        const CUgraphNodeParams *original, const CUgraphNodeParams *recaptured,
        CUgraphRecaptureStatus status);
typedef cuuint32_t CUlogicalEndpointId;
#endif

#if !defined CUDA_VERSION || CUDA_VERSION < 13050
#    define CU_GRAPH_NODE_TYPE_MEMCPY_BATCH     14
#    define CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH 18
#    define CU_FABRIC_COPY_OPERAND_TYPE_POINTER 1
typedef struct CUfabricCpyOperand_st {
    unsigned int type;
    union {
        struct {
            CUdeviceptr ptr;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUlogicalEndpointId id;
            cuuint64_t offset;
        } le;
    } op;
} CUfabricCpyOperand;

typedef struct CUDA_FABRIC_COPY_BATCH_OP_st {
    CUfabricCpyOperand src;
    CUfabricCpyOperand dst;
    size_t size;
    unsigned int flags;
} CUDA_FABRIC_COPY_BATCH_OP;

/* Members of CUgraphNodeParams' union since 13.4 and 13.5, at the offset of `reserved1`. */
typedef struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1_st {
    size_t count;
    CUdeviceptr *dsts;
    CUdeviceptr *srcs;
    size_t *sizes;
    CUmemcpyAttributes *attrs;
    size_t *attrsIdxs;
    size_t numAttrs;
    CUcontext ctx;
} CUDA_MEMCPY_BATCH_NODE_PARAMS_V1;

typedef struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1_st {
    size_t numOps;
    CUDA_FABRIC_COPY_BATCH_OP *opList;
    unsigned long long flags;
    CUcontext ctx;
} CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1;
#endif

/* ---- driver: prototypes --------------------------------------------------------------------- */

#pragma GCC visibility push(default)

/* One for each row of hooks.def: the functions that kedge hooks or calls. */
#define HOOK(symbol, name, from, to, per_thread, family, params) CUresult symbol params;
#define CALL(symbol, params)                                     CUresult symbol params;
#include "preload/base/hooks.def"
#pragma GCC visibility pop
#endif

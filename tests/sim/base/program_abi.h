/* SPDX-License-Identifier: MIT */
/*
 * program_abi.h - CUDA as programs use it: what tests and the simulated device speak of it beyond preload/base/cuda_abi.h.
 *
 * The rest of the driver's interface, and the runtime's, in the same manner: types, values, one prototype per real symbol, and
 * with KEDGE_ABI_PROTOTYPES_ONLY the prototypes alone. CUDA_ABI_PTSZ(CUresult, cuMemAllocAsync, (...)) declares cuMemAllocAsync
 * and cuMemAllocAsync_ptsz, CUDA_ABI_PTDS the same with _ptds. tests/abi compares both headers with the toolkit's.
 *
 * The runtime part is CUDA 13's; the calls that have another form under the same name in CUDA 12 (cudaMemPrefetchAsync,
 * cudaMemAdvise, cudaStreamGetCaptureInfo, cudaGraphAddDependencies, cudaGetDeviceProperties) are left out, and
 * cudaPointerGetAttributes has its older layout below.
 */
#ifndef KEDGE_TESTS_SIM_PROGRAM_ABI_H
#define KEDGE_TESTS_SIM_PROGRAM_ABI_H

#include "preload/base/cuda_abi.h"

#ifndef KEDGE_ABI_PROTOTYPES_ONLY

/* ---- driver: handles and words -------------------------------------------------------------- */

typedef cuuint64_t CUgraphConditionalHandle;

#    define CU_GREEN_CTX_DEFAULT_STREAM 0x1

#    define CU_DEVICE_INVALID ((CUdevice)-2)

#    define CU_MEMHOSTALLOC_PORTABLE      0x01
#    define CU_MEMHOSTALLOC_DEVICEMAP     0x02
#    define CU_MEMHOSTALLOC_WRITECOMBINED 0x04
#    define CU_MEMHOSTREGISTER_PORTABLE   0x01
/* clang-format off */

/* ---- driver: enumerations ------------------------------------------------------------------- */

typedef enum CUevent_record_flags_enum {
    CU_EVENT_RECORD_EXTERNAL = 0x1,
} CUevent_record_flags;

typedef enum CUevent_wait_flags_enum {
    CU_EVENT_WAIT_EXTERNAL = 0x1,
} CUevent_wait_flags;

typedef enum CUipcMem_flags_enum {
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 0x1,
} CUipcMem_flags;

/* CUdevice_attribute's */
enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9, CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT = 30,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31, CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
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
    CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED = 107,
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
};

typedef enum CUdevice_P2PAttribute_enum {
    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 0x02,
    CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 0x04,
} CUdevice_P2PAttribute;

typedef enum CUfunction_attribute_enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4, CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
} CUfunction_attribute;

typedef enum CUfunc_cache_enum {
    CU_FUNC_CACHE_PREFER_L1 = 0x02, CU_FUNC_CACHE_PREFER_EQUAL = 0x03,
} CUfunc_cache;

typedef enum CUsharedconfig_enum {
    CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE = 0x01,
    CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE = 0x02,
} CUsharedconfig;

typedef enum CUlimit_enum {
    CU_LIMIT_STACK_SIZE = 0x00,
} CUlimit;

typedef enum CUmem_advise_enum {
    CU_MEM_ADVISE_SET_READ_MOSTLY = 1, CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
    CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
    CU_MEM_ADVISE_SET_ACCESSED_BY = 5, CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
} CUmem_advise;

typedef enum CUmoduleLoadingMode_enum {
    CU_MODULE_LAZY_LOADING = 0x2,
} CUmoduleLoadingMode;

typedef enum CUfunctionLoadingState_enum {
    CU_FUNCTION_LOADING_STATE_LOADED = 1,
} CUfunctionLoadingState;

typedef enum CUstreamUpdateCaptureDependencies_flags_enum {
    CU_STREAM_SET_CAPTURE_DEPENDENCIES = 0x1,
} CUstreamUpdateCaptureDependencies_flags;

typedef enum CUstreamWaitValue_flags_enum {
    CU_STREAM_WAIT_VALUE_GEQ = 0x0, CU_STREAM_WAIT_VALUE_EQ = 0x1, CU_STREAM_WAIT_VALUE_AND = 0x2,
} CUstreamWaitValue_flags;

typedef enum CUmulticastGranularity_flags_enum {
    CU_MULTICAST_GRANULARITY_MINIMUM = 0x0, CU_MULTICAST_GRANULARITY_RECOMMENDED = 0x1,
} CUmulticastGranularity_flags;

typedef enum CUoutput_mode_enum {
    CU_OUT_KEY_VALUE_PAIR = 0x00,
} CUoutput_mode;

typedef enum CUexecAffinityType_enum {
    CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0
} CUexecAffinityType;

typedef enum CUgraphInstantiateResult_enum {
    CUDA_GRAPH_INSTANTIATE_SUCCESS = 0, CUDA_GRAPH_INSTANTIATE_ERROR = 1,
    CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE = 2,
} CUgraphInstantiateResult;

/* Values of enumerations that cuda_abi.h has as numbers. */
enum {
    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 0x1,
    CU_GRAPH_EXEC_UPDATE_SUCCESS = 0x0, CU_GRAPH_EXEC_UPDATE_ERROR = 0x1,
    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 0x2,
    CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 0x3,
    CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 0x5,
    CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 0x1,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B = 15,
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_INTERLEAVE_32B = 2,
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
    CU_TENSOR_MAP_IM2COL_WIDE_MODE_W = 0,
};
/* clang-format on */

/* ---- driver: structures --------------------------------------------------------------------- */

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

typedef struct CUmemcpyAttributes_st {
    CUmemcpySrcAccessOrder srcAccessOrder;
    CUmemLocation srcLocHint;
    CUmemLocation dstLocHint;
    unsigned int flags;
} CUmemcpyAttributes;

typedef struct CUgraphEdgeData_st {
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
} CUgraphEdgeData;

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

typedef struct CUmemPoolPtrExportData_st {
    unsigned char reserved[64];
} CUmemPoolPtrExportData;

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

#    define cudaStreamPerThread   ((cudaStream_t)0x2)
#    define cudaStreamDefault     0x00
#    define cudaStreamNonBlocking 0x01

#    define cudaEventDefault       0x00
#    define cudaEventDisableTiming 0x02

#    define cudaEventRecordExternal 0x01

#    define cudaHostAllocDefault 0x00
#    define cudaHostAllocMapped  0x02
#    define cudaMemAttachGlobal  0x01

#    define cudaIpcMemLazyEnablePeerAccess 0x01
#    define cudaInvalidDeviceId            ((int)-2)
/* clang-format off */

/* X(name, value), as CUDA_ABI_RESULTS. */
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
    cudaMemLocationTypeDevice = 1,
};

enum cudaMemAccessFlags {
    cudaMemAccessFlagsProtNone = 0,
};

enum cudaMemAllocationType {
    cudaMemAllocationTypePinned = 0x1,
};

enum cudaMemAllocationHandleType {
    cudaMemHandleTypeNone = 0x0,
};

enum cudaMemPoolAttr {
    cudaMemPoolAttrReleaseThreshold = 0x4, cudaMemPoolAttrReservedMemCurrent = 0x5,
    cudaMemPoolAttrUsedMemCurrent = 0x7,
};

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2,
};

enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusActive = 1,
};

enum cudaGraphNodeType {
    cudaGraphNodeTypeKernel = 0x00,
};

enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0, cudaDriverEntryPointSymbolNotFound = 1,
};

enum cudaLibraryOption {
    cudaLibraryHostUniversalFunctionAndDataTable = 0,
};

enum cudaJitOption {
    cudaJitMaxRegisters = 0,
};

enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1,
};

enum cudaLimit {
    cudaLimitStackSize = 0x00,
};

enum cudaFuncCache {
    cudaFuncCachePreferNone = 0,
};

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
};

enum cudaGraphMemAttributeType {
    cudaGraphMemAttrUsedMemCurrent = 0x0,
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
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
struct program_abi_pointer_attributes_v12 {
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

typedef enum cudaLaunchAttributeID {
    cudaLaunchAttributeProgrammaticEvent = 7,
    cudaLaunchAttributeLaunchCompletionEvent = 12,
} cudaLaunchAttributeID;

typedef CUlaunchAttributeValue cudaLaunchAttributeValue;

typedef struct cudaLaunchAttribute_st {
    cudaLaunchAttributeID id;
    char pad[8 - sizeof(cudaLaunchAttributeID)];
    cudaLaunchAttributeValue val;
} cudaLaunchAttribute;

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

/* the forms for per-thread default streams of what kedge calls in the other form */
CUresult cuEventRecord_ptsz(CUevent, CUstream);
CUresult cuStreamGetFlags_ptsz(CUstream, unsigned int *);
CUresult cuStreamGetId_ptsz(CUstream, unsigned long long *);
CUresult cuStreamGetCtx_ptsz(CUstream, CUcontext *);
CUresult cuStreamIsCapturing_ptsz(CUstream, CUstreamCaptureStatus *);

/* start, version, errors, look-up */
CUresult cuInit(unsigned int);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetErrorString(CUresult, const char **);
CUresult cuGetExportTable(const void **, const CUuuid *);
CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode);

/* devices */
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetUuid_v2(CUuuid *, CUdevice);
CUresult cuDeviceGetLuid(char *, unsigned int *, CUdevice);
CUresult cuDeviceComputeCapability(int *, int *, CUdevice);
CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDeviceGetP2PAttribute(int *, CUdevice_P2PAttribute, CUdevice, CUdevice);

/* primary contexts */
CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned int);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned int);

/* contexts */
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxGetDevice_v2(CUdevice *, CUcontext);
CUresult cuCtxGetFlags(unsigned int *);
CUresult cuCtxSetFlags(unsigned int);
CUresult cuCtxSetLimit(CUlimit, size_t);
CUresult cuCtxGetLimit(size_t *, CUlimit);
CUresult cuCtxGetCacheConfig(CUfunc_cache *);
CUresult cuCtxSetCacheConfig(CUfunc_cache);
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *);
CUresult cuCtxSetSharedMemConfig(CUsharedconfig);
CUresult cuCtxGetStreamPriorityRange(int *least_priority, int *greatest_priority);
CUresult cuCtxResetPersistingL2Cache(void);
CUresult cuCtxAttach(CUcontext *, unsigned int);
CUresult cuCtxWaitEvent(CUcontext, CUevent);
CUresult cuGreenCtxStreamCreate(CUstream *, CUgreenCtx, unsigned int, int);

/* memory */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned int);
CUresult cuMemHostGetFlags(unsigned int *, void *);
CUresult cuPointerSetAttribute(const void *, CUpointer_attribute, CUdeviceptr);
CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
CUresult cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation);

/* arrays */
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *, CUarray);
CUresult cuMipmappedArrayGetLevel(CUarray *, CUmipmappedArray, unsigned int);

/* stream-ordered memory and pools */
CUresult cuMemGetDefaultMemPool(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
CUresult cuMemGetMemPool(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
CUresult cuMemPoolExportToShareableHandle(
        void *, CUmemoryPool, CUmemAllocationHandleType, unsigned long long);
CUresult cuMemPoolImportFromShareableHandle(
        CUmemoryPool *, void *, CUmemAllocationHandleType, unsigned long long);

/* virtual memory */
CUresult cuMemGetAccess(unsigned long long *, const CUmemLocation *, CUdeviceptr);
CUresult cuMemGetAllocationPropertiesFromHandle(
        CUmemAllocationProp *, CUmemGenericAllocationHandle);
CUresult cuMemExportToShareableHandle(
        void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
CUresult cuMulticastGetGranularity(
        size_t *, const CUmulticastObjectProp *, CUmulticastGranularity_flags);

/* copies that return when the call may */
CUDA_ABI_PTDS(CUresult, cuMemcpyAtoA_v2,
        (CUarray dst_array, size_t dst_offset, CUarray src_array, size_t src_offset, size_t size));

/* streams */
CUDA_ABI_PTSZ(CUresult, cuStreamGetPriority, (CUstream, int *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetDevice, (CUstream, CUdevice *));
CUDA_ABI_PTSZ(CUresult, cuStreamGetCtx_v2, (CUstream, CUcontext *, CUgreenCtx *));
CUDA_ABI_PTSZ(CUresult, cuStreamQuery, (CUstream));
CUDA_ABI_PTSZ(CUresult, cuStreamCopyAttributes, (CUstream, CUstream));

/* events */
CUresult cuEventElapsedTime(float *p_milliseconds, CUevent h_start, CUevent h_end);
CUresult cuEventElapsedTime_v2(float *p_milliseconds, CUevent h_start, CUevent h_end);

/* modules, libraries, kernels */
CUresult cuModuleGetFunctionCount(unsigned int *, CUmodule);
CUresult cuModuleEnumerateFunctions(CUfunction *, unsigned int, CUmodule);
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *);
CUresult cuLibraryGetManaged(CUdeviceptr *, size_t *, CUlibrary, const char *);
CUresult cuKernelGetLibrary(CUlibrary *, CUkernel);
CUresult cuKernelGetAttribute(int *, CUfunction_attribute, CUkernel, CUdevice);
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice);
CUresult cuFuncGetModule(CUmodule *, CUfunction);
CUresult cuFuncGetAttribute(int *, CUfunction_attribute, CUfunction);
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int);
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache);
CUresult cuFuncSetSharedMemConfig(CUfunction, CUsharedconfig);
CUresult cuFuncIsLoaded(CUfunctionLoadingState *, CUfunction);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int, size_t);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *, CUfunction, int, size_t, unsigned int);

/* capture */
CUDA_ABI_PTSZ(CUresult, cuStreamGetCaptureInfo,
        (CUstream stream, CUstreamCaptureStatus *capture_status, cuuint64_t *id));
CUDA_ABI_PTSZ(CUresult, cuStreamUpdateCaptureDependencies,
        (CUstream stream, CUgraphNode *deps, size_t deps_count, unsigned int flags));
CUDA_ABI_PTSZ(CUresult, cuStreamUpdateCaptureDependencies_v2,
        (CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t deps_count,
                unsigned int flags));

/* graphs */
CUresult cuGraphCreate(CUgraph *, unsigned int);
CUresult cuGraphAddEmptyNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t);
CUresult cuGraphAddEventWaitNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS *);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode, CUdeviceptr *);
CUresult cuGraphAddDependencies(
        CUgraph h_graph, const CUgraphNode *from, const CUgraphNode *to, size_t deps_count);
CUresult cuGraphAddDependencies_v2(CUgraph h_graph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edge_data, size_t deps_count);
CUresult cuGraphKernelNodeGetParams(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1 *);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);
CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType *);
CUresult cuGraphGetRootNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphExecGetFlags(CUgraphExec, cuuint64_t *);

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

/* SPDX-License-Identifier: MIT */
/*
 * nccl.h - what the trainers and the simulated NCCL know of NCCL, under the name that programs include.
 *
 * For programs that are built where there is no NCCL. The declarations are ours; names, numbers and layouts are the
 * library's own, so that a program built with this header runs with the real library, too.
 */
#ifndef KEDGE_TRAINERS_NCCL_H
#define KEDGE_TRAINERS_NCCL_H

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stddef.h>

#define NCCL_UNIQUE_ID_BYTES 128

typedef struct ncclComm *ncclComm_t;

typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclInProgress = 7,
} ncclResult_t;

typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
} ncclRedOp_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN

typedef struct ncclConfig_v21700 {
    size_t size;
    unsigned int magic, version;
    int blocking;
    int sizes[3];
    const char *net;
    int share;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                              \
    {                                                                        \
        .size = sizeof(ncclConfig_t), .magic = 0xcafebeef, .version = 21700, \
        .blocking = NCCL_CONFIG_UNDEF_INT                                    \
    }

typedef enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
} ncclDataType_t;

ncclResult_t ncclGetVersion(int *ret_version);
const char *ncclGetErrorString(ncclResult_t result);

ncclResult_t ncclGetUniqueId(ncclUniqueId *ret_id);
ncclResult_t ncclCommInitRank(ncclComm_t *ret_comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(
        ncclComm_t *ret_comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommInitAll(ncclComm_t *ret_comms, int devices, const int *list);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_error);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *ret_ranks);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *ret_rank);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *ret_device);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **ret_handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);

ncclResult_t ncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer,
        ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
        cudaStream_t stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
        int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
        cudaStream_t stream);
ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclComm_t comm, cudaStream_t stream);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * libnccl: communicators of one rank, whose collectives copy what they are given. Devices of two
 * processes cannot reach each other here, so a communicator of more ranks is refused: programs of
 * several processes use gloo.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

REFUSED_IS(5) /* ncclInvalidUsage */

enum {
    SUCCESS = 0,
    SYSTEM_ERROR = 2,
    INVALID_USAGE = 5,
    VERSION = 22203
};

struct communicator {
    int ranks;
};

struct identity {
    char bytes[128];
};

EXPORT int ncclGetVersion(int *ret_version);
EXPORT int ncclGetVersion(int *ret_version)
{
    *ret_version = VERSION;
    return SUCCESS;
}

EXPORT const char *ncclGetErrorString(int status);
EXPORT const char *ncclGetErrorString(int status)
{
    return status ? "an error of a stand-in" : "no error";
}

EXPORT const char *ncclGetLastError(void *communicator);
EXPORT const char *ncclGetLastError(void *communicator)
{
    return "";
}

EXPORT int ncclGetUniqueId(struct identity *ret_identity);
EXPORT int ncclGetUniqueId(struct identity *ret_identity)
{
    memset(ret_identity, 1, sizeof(*ret_identity));
    return SUCCESS;
}

static int begin(struct communicator **ret_communicator, int ranks)
{
    if (ranks != 1) {
        standin_note("ncclCommInitRank", "knows communicators of one rank; refused");
        return INVALID_USAGE;
    }
    *ret_communicator = standin_new(sizeof(**ret_communicator));
    if (!*ret_communicator)
        return SYSTEM_ERROR;
    (*ret_communicator)->ranks = ranks;
    standin_begin();
    return SUCCESS;
}

EXPORT int ncclCommInitRank(
        struct communicator **ret_communicator, int ranks, struct identity identity, int rank);
EXPORT int ncclCommInitRank(
        struct communicator **ret_communicator, int ranks, struct identity identity, int rank)
{
    return begin(ret_communicator, ranks);
}

EXPORT int ncclCommInitRankConfig(struct communicator **ret_communicator, int ranks,
        struct identity identity, int rank, void *config);
EXPORT int ncclCommInitRankConfig(struct communicator **ret_communicator, int ranks,
        struct identity identity, int rank, void *config)
{
    return begin(ret_communicator, ranks);
}

#define END(name)                                       \
    EXPORT int name(struct communicator *communicator); \
    EXPORT int name(struct communicator *communicator)  \
    {                                                   \
        free(communicator);                             \
        return SUCCESS;                                 \
    }

END(ncclCommDestroy)
END(ncclCommAbort)
NOTHING(ncclCommFinalize)
NOTHING(ncclGroupStart)
NOTHING(ncclGroupEnd)

EXPORT int ncclCommGetAsyncError(struct communicator *communicator, int *ret_error);
EXPORT int ncclCommGetAsyncError(struct communicator *communicator, int *ret_error)
{
    *ret_error = 0;
    return SUCCESS;
}

EXPORT int ncclCommCount(struct communicator *communicator, int *ret_count);
EXPORT int ncclCommCount(struct communicator *communicator, int *ret_count)
{
    *ret_count = communicator->ranks;
    return SUCCESS;
}

EXPORT int ncclCommUserRank(struct communicator *communicator, int *ret_rank);
EXPORT int ncclCommUserRank(struct communicator *communicator, int *ret_rank)
{
    *ret_rank = 0;
    return SUCCESS;
}

/* ncclDataType_t */
static uint64_t bytes_of_type(int type)
{
    switch (type) {
    case 2:
    case 3:
    case 7:
        return 4;
    case 4:
    case 5:
    case 8:
        return 8;
    case 6:
    case 9:
        return 2;
    default:
        return 1;
    }
}

/* What one rank collects of itself is what it gave. */
static int collect(const void *from, void *to, size_t count, int type, void *stream)
{
    return standin_copy(stream, to, from, count * bytes_of_type(type)) ? SYSTEM_ERROR : SUCCESS;
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
        struct communicator *communicator, void *stream);
EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
        struct communicator *communicator, void *stream)
{
    return collect(from, to, count, type, stream);
}

EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
        struct communicator *communicator, void *stream);
EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
        struct communicator *communicator, void *stream)
{
    return collect(from, to, count, type, stream);
}

EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type,
        struct communicator *communicator, void *stream);
EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type,
        struct communicator *communicator, void *stream)
{
    return collect(from, to, count, type, stream);
}

EXPORT int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
        struct communicator *communicator, void *stream);
EXPORT int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
        struct communicator *communicator, void *stream)
{
    return collect(from, to, count, type, stream);
}

/* A buffer that was registered is the communicator's to reach until it is deregistered. */
EXPORT int ncclCommRegister(
        struct communicator *communicator, void *buffer, size_t bytes, void **ret_handle);
EXPORT int ncclCommRegister(
        struct communicator *communicator, void *buffer, size_t bytes, void **ret_handle)
{
    *ret_handle = standin_new(sizeof(buffer));
    return *ret_handle ? SUCCESS : SYSTEM_ERROR;
}

EXPORT int ncclCommDeregister(struct communicator *communicator, void *handle);
EXPORT int ncclCommDeregister(struct communicator *communicator, void *handle)
{
    free(handle);
    return SUCCESS;
}

/* In place: one rank has it already. */
NOTHING(ncclBcast)

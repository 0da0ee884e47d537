/* SPDX-License-Identifier: MIT */
/*
 * nccl_calls.c - libnccl.so.2 on the simulated device: communicators of processes of one host, and what they say to each other.
 *
 * Each call puts operations on the caller's stream and returns. A collective is messages from each rank that gives to each that
 * takes, itself included, in one group (nccl_group.h); values are folded in the order of the ranks, so all ranks get the same.
 *
 * Moved are the words that the kernels of the trainers touch (kernels.def): a tensor of up to 8 KiB whole, of a larger one
 * the sampled pages. A communicator of one rank copies all. One that does not block is ready at once, and puts its messages on streams
 * when it was asked for its state twice. Refused, by name on stderr: the other calls (nccl_refused.def), sums of types other than kedge_fold's, messages to
 * oneself outside of a group, and those above 1 GiB.
 */
#include "tests/sim/nccl/nccl_group.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    VERSION = 22203,
};

/* ---- communicators ---- */

EXPORT ncclResult_t ncclGetVersion(int *ret_version)
{
    *ret_version = VERSION;
    return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error", "unhandled cuda error",
            "unhandled system error", "internal error", "invalid argument", "invalid usage"};

    return (size_t)result < sizeof(texts) / sizeof(texts[0]) ? texts[result]
                                                             : "unknown result code";
}

/* 16 random bytes in hexadecimal: the name of what the ranks share. */
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *ret_id)
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return ncclSystemError;
    memset(ret_id, 0, sizeof(*ret_id));
    (void)snprintf(ret_id->internal, sizeof(ret_id->internal), "/simnccl-");
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(ret_id->internal + strlen(ret_id->internal), 3, "%02x", bytes[i]);
    return ncclSuccess;
}

static ncclResult_t join(struct ncclComm *comm, const char *name)
{
    if (nccl_device_context(&comm->context) != 0 || nccl_device_number(&comm->device) != 0)
        return ncclUnhandledCudaError;
    comm->shared = nccl_shared_join(name, comm->ranks);
    if (!comm->shared) {
        (void)fprintf(stderr, "simulated NCCL: rank %d of %d: %s\n", comm->rank, comm->ranks,
                errno == ETIMEDOUT ? "the other ranks did not come" : strerror(errno));
        return ncclSystemError;
    }
    if (nccl_device_register(comm->shared, nccl_shared_bytes(comm->ranks)) == 0) {
        if (nccl_device_load(&comm->kernels) == 0)
            return ncclSuccess;
        nccl_device_unregister(comm->shared);
    }
    nccl_shared_leave(comm->shared, comm->ranks);
    return ncclUnhandledCudaError;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *ret_comm, int ranks, ncclUniqueId id, int rank)
{
    struct ncclComm *comm;
    ncclResult_t result;

    if (!ret_comm || ranks < 1 || ranks > NCCL_RANKS_MOST || rank < 0 || rank >= ranks
            || id.internal[0] != '/' || !memchr(id.internal, '\0', sizeof(id.internal)))
        return ncclInvalidArgument;
    comm = calloc(1, sizeof(*comm));
    if (!comm)
        return ncclSystemError;
    comm->ranks = ranks;
    comm->rank = rank;
    result = join(comm, id.internal);
    if (result == ncclSuccess)
        *ret_comm = comm;
    else
        free(comm);
    return result;
}

EXPORT ncclResult_t ncclCommInitRankConfig(
        ncclComm_t *ret_comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    ncclResult_t result = ncclCommInitRank(ret_comm, ranks, id, rank);

    if (result == ncclSuccess)
        (*ret_comm)->is_late = config && config->blocking == 0;
    return result;
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *ret_comms, int devices, const int *list)
{
    ncclUniqueId id;
    ncclResult_t result;

    if (devices != 1 || (list && list[0] != 0))
        return ncclInvalidUsage;
    result = ncclGetUniqueId(&id);
    return result == ncclSuccess ? ncclCommInitRank(ret_comms, 1, id, 0) : result;
}

/* What is on streams may wait for ranks that are still there: it is over when the communicator goes. */
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    (void)nccl_group_state(comm, true);
    if (nccl_device_enter_idle(comm->context) == 0) {
        nccl_device_unload(&comm->kernels);
        nccl_device_unregister(comm->shared);
        nccl_device_leave();
    }
    nccl_shared_leave(comm->shared, comm->ranks);
    free(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm ? nccl_group_state(comm, true) : ncclInvalidArgument;
}

/* This rank waits for nobody any more. */
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (comm)
        nccl_shared_release(comm->shared, comm->ranks, comm->rank);
    return ncclCommDestroy(comm);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_error)
{
    if (!comm)
        return ncclInvalidArgument;
    *ret_error = nccl_group_state(comm, false);
    return ncclSuccess;
}

EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int *ret_ranks)
{
    if (!comm)
        return ncclInvalidArgument;
    *ret_ranks = comm->ranks;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *ret_rank)
{
    if (!comm)
        return ncclInvalidArgument;
    *ret_rank = comm->rank;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *ret_device)
{
    if (!comm)
        return ncclInvalidArgument;
    *ret_device = comm->device;
    return ncclSuccess;
}

/* A buffer that is registered stays where it is until it is deregistered; nothing is faster by it. */
EXPORT ncclResult_t ncclCommRegister(
        const ncclComm_t comm, void *buffer, size_t bytes, void **ret_handle)
{
    if (!comm || !buffer || bytes == 0)
        return ncclInvalidArgument;
    *ret_handle = malloc(1);
    return *ret_handle ? ncclSuccess : ncclSystemError;
}

EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    if (!comm)
        return ncclInvalidArgument;
    free(handle);
    return ncclSuccess;
}

/* ---- messages ---- */

EXPORT ncclResult_t ncclGroupStart(void)
{
    nccl_group_begin();
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    return nccl_group_end();
}

/* Bytes of `count` elements; 0 = there is no such type, or there are too many. */
static uint64_t bytes_of(size_t count, ncclDataType_t type)
{
    uint64_t bytes;

    return __builtin_mul_overflow(count, nccl_group_size(type), &bytes) ? 0 : bytes;
}

EXPORT ncclResult_t ncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer,
        ncclComm_t comm, cudaStream_t stream)
{
    const struct nccl_message m = {.comm = comm,
            .send = buffer,
            .stream = stream,
            .peer = peer,
            .bytes = bytes_of(count, type)};

    return nccl_group_add(&m, 1);
}

EXPORT ncclResult_t ncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer,
        ncclComm_t comm, cudaStream_t stream)
{
    const struct nccl_message m = {.comm = comm,
            .receive = buffer,
            .stream = stream,
            .peer = peer,
            .bytes = bytes_of(count, type)};

    return nccl_group_add(&m, 1);
}

/* ---- collectives ---- */

enum {
    ALL = -1, /* instead of a rank */
};

/* Who gives to whom, and what becomes of it. */
struct collective {
    const char *send;
    char *receive;
    uint64_t bytes;      /* of a message */
    uint64_t give, take; /* bytes from one rank's part of `send`, or `receive`, to the next one's */
    int givers, takers;  /* a rank, or ALL */
    ncclRedOp_t op;      /* with `folds` */
    ncclDataType_t type;
    bool folds;
    struct ncclComm *comm;
    CUstream stream;
};

/* The receives of a collective; how many. */
static unsigned list_receives(const struct collective *c, struct nccl_message *ret_messages)
{
    unsigned count = 0;

    for (int from = 0; from < c->comm->ranks; from++) {
        struct nccl_message m = {.comm = c->comm, .stream = c->stream, .peer = from};

        if (c->givers != ALL && c->givers != from)
            continue;
        m.receive = c->receive + (uint64_t)from * c->take;
        m.bytes = c->bytes;
        if (c->folds && count > 0)
            m.fold = (struct nccl_fold){c->type, c->op, 0};
        if (c->folds && c->op == ncclAvg && from == c->comm->ranks - 1)
            m.fold.ranks = (uint64_t)c->comm->ranks;
        ret_messages[count++] = m;
    }
    return count;
}

static ncclResult_t collect(const struct collective *c)
{
    struct nccl_message messages[2 * NCCL_RANKS_MOST];
    unsigned count = 0;

    if (!c->comm || !c->send || !c->receive)
        return ncclInvalidArgument;
    if (c->folds && (c->type < ncclInt8 || c->type > ncclBfloat16)) {
        (void)fprintf(stderr, "simulated NCCL: no sums of type %d\n", (int)c->type);
        return ncclInvalidUsage;
    }
    if (c->comm->ranks == 1 && !c->comm->is_late)
        return c->send == c->receive || c->bytes == 0
                        || nccl_device_copy(c->stream, c->receive, c->send, c->bytes) == 0
                ? ncclSuccess
                : ncclUnhandledCudaError;
    if (c->takers == ALL || c->takers == c->comm->rank)
        count = list_receives(c, messages);
    for (int to = 0; to < c->comm->ranks; to++)
        if ((c->givers == ALL || c->givers == c->comm->rank)
                && (c->takers == ALL || c->takers == to))
            messages[count++] = (struct nccl_message){.comm = c->comm,
                    .stream = c->stream,
                    .peer = to,
                    .send = c->send + (uint64_t)to * c->give,
                    .bytes = c->bytes};
    return nccl_group_add(messages, count);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count,
        ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return collect(&(struct collective){
            send, receive, bytes_of(count, type), 0, 0, ALL, ALL, op, type, true, comm, stream});
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count,
        ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    uint64_t bytes = bytes_of(count, type);

    return collect(&(struct collective){
            send, receive, bytes, bytes, 0, ALL, ALL, op, type, true, comm, stream});
}

EXPORT ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return collect(&(struct collective){
            send, receive, bytes_of(count, type), 0, 0, ALL, root, op, type, true, comm, stream});
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count,
        ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
    return collect(&(struct collective){
            send, receive, bytes_of(count, type), 0, 0, root, ALL, 0, type, false, comm, stream});
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
        ncclComm_t comm, cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *receive, size_t count,
        ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    uint64_t bytes = bytes_of(count, type);

    return collect(&(struct collective){
            send, receive, bytes, 0, bytes, ALL, ALL, 0, type, false, comm, stream});
}

/* ---- the rest, which programs look for ---- */

static ncclResult_t refuse(const char *name)
{
    (void)fprintf(stderr, "simulated NCCL: %s has no body; refused\n", name);
    return ncclInvalidUsage;
}

#define REFUSED(name)               \
    EXPORT ncclResult_t name(void); \
    EXPORT ncclResult_t name(void)  \
    {                               \
        return refuse(#name);       \
    }
#include "tests/sim/nccl/nccl_refused.def"

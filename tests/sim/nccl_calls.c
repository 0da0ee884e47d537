/* SPDX-License-Identifier: MIT */
/*
 * nccl_calls.c - libnccl.so.2 on the simulated device: send and receive between processes of one host.
 *
 * Each call puts operations on the caller's stream and returns. On the stream a message is a meeting: it is over, on both
 * sides, when the other side's matching call has come to the head of its stream and the data have moved.
 *
 *     sender's stream     wait posted n ─► pack, write full n ─► wait taken n
 *     receiver's stream   (taken n-1) ─► write posted n ─► wait full n ─► unpack, write taken n
 *
 * The sender's buffer is read by a kernel that runs then, late. Calls of a group meet at once: all of its receives are posted
 * before any of its sends waits. Messages of one communicator between two ranks are in the order of the calls.
 *
 * Moved are the words that the kernels of the trainers touch (kernels.def): a tensor of up to 8 KiB whole, of a larger one
 * the sampled pages. Refused: other calls, messages to oneself, messages above 1 GiB.
 */
#include "tests/sim/nccl_device.h"
#include "tests/sim/nccl_shared.h"

#include <errno.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    VERSION = 22203,
    GROUP_MOST = 64,
    MESSAGE_MOST = 1 << 30,
};

struct ncclComm {
    int ranks, rank;
    struct nccl_shared *shared;
    struct nccl_kernels kernels;
    uint64_t sent[NCCL_RANKS_MOST], received[NCCL_RANKS_MOST]; /* calls so far, by peer */
};

struct message {
    struct ncclComm *comm;
    struct nccl_channel *channel;
    CUstream stream;
    void *receive;    /* NULL: it is a send */
    const void *send; /* NULL: it is a receive */
    uint64_t bytes;
    uint64_t number; /* in its channel, from 1 */
    unsigned round;  /* how many of this group go before it in its channel, which holds one */
};

static __thread struct {
    unsigned depth, count;
    struct message messages[GROUP_MOST];
} group;

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

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    nccl_device_unload(&comm->kernels);
    nccl_device_unregister(comm->shared);
    nccl_shared_leave(comm->shared, comm->ranks);
    free(comm);
    return ncclSuccess;
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

/* ---- messages ---- */

static int post_receive(const struct message *m)
{
    int r = 0;

    if (!m->receive)
        return 0;
    if (m->number > 1) /* the one before, if it was on another stream */
        r = nccl_device_wait(m->stream, &m->channel->taken, m->number - 1);
    return r ? r : nccl_device_write(m->stream, &m->channel->posted, m->number);
}

static int put(const struct message *m)
{
    int r;

    if (!m->send)
        return 0;
    r = nccl_device_wait(m->stream, &m->channel->posted, m->number);
    if (r == 0)
        r = nccl_device_pack(&m->comm->kernels, m->stream, m->channel->data, m->send, m->bytes);
    return r ? r : nccl_device_write(m->stream, &m->channel->full, m->number);
}

static int take(const struct message *m)
{
    int r;

    if (!m->receive)
        return 0;
    r = nccl_device_wait(m->stream, &m->channel->full, m->number);
    if (r == 0)
        r = nccl_device_unpack(
                &m->comm->kernels, m->stream, m->receive, m->channel->data, m->bytes);
    return r ? r : nccl_device_write(m->stream, &m->channel->taken, m->number);
}

static int end_send(const struct message *m)
{
    return m->send ? nccl_device_wait(m->stream, &m->channel->taken, m->number) : 0;
}

/* All messages of a round meet at once. */
static int submit_round(unsigned round)
{
    static int (*const phases[])(const struct message *) = {post_receive, put, take, end_send};
    int r = 0;

    for (size_t phase = 0; phase < sizeof(phases) / sizeof(phases[0]); phase++)
        for (unsigned i = 0; i < group.count && r == 0; i++)
            if (group.messages[i].round == round)
                r = phases[phase](&group.messages[i]);
    return r;
}

/* Puts all messages of the group on their streams. */
static ncclResult_t submit(void)
{
    unsigned rounds = 0;
    int r = 0;

    for (unsigned i = 0; i < group.count; i++)
        if (rounds <= group.messages[i].round)
            rounds = group.messages[i].round + 1;
    for (unsigned round = 0; round < rounds && r == 0; round++)
        r = submit_round(round);
    group.count = 0;
    return r ? ncclUnhandledCudaError : ncclSuccess;
}

static uint64_t size_of(ncclDataType_t type)
{
    static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return (size_t)type < sizeof(sizes) ? sizes[type] : 0;
}

static ncclResult_t add(struct message m, size_t count, ncclDataType_t type, int peer)
{
    struct ncclComm *comm = m.comm;
    int from;

    if (!comm || peer < 0 || peer >= comm->ranks || peer == comm->rank || (!m.send && !m.receive)
            || size_of(type) == 0 || count == 0 || count > MESSAGE_MOST / size_of(type))
        return ncclInvalidArgument;
    if (group.count == GROUP_MOST)
        return ncclInternalError;
    from = m.send ? comm->rank : peer;
    m.bytes = count * size_of(type);
    m.number = m.send ? ++comm->sent[peer] : ++comm->received[peer];
    m.channel = &comm->shared->channels[from * comm->ranks + (m.send ? peer : comm->rank)];
    for (unsigned i = 0; i < group.count; i++)
        m.round += group.messages[i].channel == m.channel;
    group.messages[group.count++] = m;
    return group.depth ? ncclSuccess : submit();
}

EXPORT ncclResult_t ncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer,
        ncclComm_t comm, cudaStream_t stream)
{
    return add((struct message){.comm = comm, .send = buffer, .stream = stream}, count, type, peer);
}

EXPORT ncclResult_t ncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer,
        ncclComm_t comm, cudaStream_t stream)
{
    return add(
            (struct message){.comm = comm, .receive = buffer, .stream = stream}, count, type, peer);
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    if (group.depth == 0)
        return ncclInvalidUsage;
    return --group.depth ? ncclSuccess : submit();
}

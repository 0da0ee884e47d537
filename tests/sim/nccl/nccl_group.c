/* SPDX-License-Identifier: MIT */
#include "tests/sim/nccl/nccl_group.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_MOST = 512,
    MESSAGE_MOST = 1 << 30,
};

static __thread struct {
    unsigned depth, count;
    struct nccl_message messages[GROUP_MOST];
} group;

/* ---- on the streams ---- */

static int post_receive(const struct nccl_message *m)
{
    int r = 0;

    if (!m->receive)
        return 0;
    if (m->number > 1) /* the one before, if it was on another stream */
        r = nccl_device_wait(m->stream, &m->channel->taken, m->number - 1);
    return r ? r : nccl_device_write(m->stream, &m->channel->posted, m->number);
}

static int put(const struct nccl_message *m)
{
    int r;

    if (!m->send)
        return 0;
    r = nccl_device_wait(m->stream, &m->channel->posted, m->number);
    if (r == 0)
        r = nccl_device_pack(&m->comm->kernels, m->stream, m->channel->data, m->send, m->bytes);
    return r ? r : nccl_device_write(m->stream, &m->channel->full, m->number);
}

static int take(const struct nccl_message *m)
{
    int r;

    if (!m->receive)
        return 0;
    r = nccl_device_wait(m->stream, &m->channel->full, m->number);
    if (r == 0 && m->fold.type)
        r = nccl_device_fold(
                &m->comm->kernels, m->stream, m->receive, m->channel->data, m->bytes, &m->fold);
    else if (r == 0)
        r = nccl_device_unpack(
                &m->comm->kernels, m->stream, m->receive, m->channel->data, m->bytes);
    return r ? r : nccl_device_write(m->stream, &m->channel->taken, m->number);
}

static int end_send(const struct nccl_message *m)
{
    return m->send ? nccl_device_wait(m->stream, &m->channel->taken, m->number) : 0;
}

/* All messages of a round meet at once. */
static int submit_round(const struct nccl_message *messages, unsigned count, unsigned round)
{
    static int (*const phases[])(const struct nccl_message *) = {post_receive, put, take, end_send};
    int r = 0;

    for (size_t phase = 0; phase < sizeof(phases) / sizeof(phases[0]); phase++)
        for (unsigned i = 0; i < count && r == 0; i++)
            if (messages[i].round == round)
                r = phases[phase](&messages[i]);
    return r;
}

/* Puts all messages of a group on their streams. */
static ncclResult_t submit(const struct nccl_message *messages, unsigned count)
{
    unsigned rounds = 0;
    int r = 0;

    for (unsigned i = 0; i < count; i++)
        if (rounds <= messages[i].round)
            rounds = messages[i].round + 1;
    for (unsigned round = 0; round < rounds && r == 0; round++)
        r = submit_round(messages, count, round);
    return r ? ncclUnhandledCudaError : ncclSuccess;
}

/* ---- later ---- */

/* What was left: each communicator of it names it. */
struct nccl_job {
    unsigned asked, count;
    ncclResult_t result;
    struct nccl_message messages[];
};

static ncclResult_t leave_for_later(void)
{
    size_t bytes = group.count * sizeof(group.messages[0]);
    struct nccl_job *job = malloc(sizeof(*job) + bytes);

    if (!job)
        return ncclSystemError;
    job->asked = 0;
    job->count = group.count;
    memcpy(job->messages, group.messages, bytes);
    for (unsigned i = 0; i < job->count; i++)
        job->messages[i].comm->job = job;
    return ncclInProgress;
}

static void *do_job(void *data)
{
    struct nccl_job *job = data;

    job->result = ncclUnhandledCudaError;
    if (nccl_device_enter(job->messages[0].comm->context) != 0)
        return NULL;
    job->result = submit(job->messages, job->count);
    nccl_device_leave();
    return NULL;
}

ncclResult_t nccl_group_state(struct ncclComm *comm, bool now)
{
    struct nccl_job *job = comm->job;
    pthread_t thread;

    if (!job)
        return comm->state;
    if (job->asked++ == 0 && !now)
        return ncclInProgress;
    if (pthread_create(&thread, NULL, do_job, job) != 0)
        return ncclSystemError;
    (void)pthread_join(thread, NULL);
    for (unsigned i = 0; i < job->count; i++) {
        job->messages[i].comm->state = job->result;
        job->messages[i].comm->job = NULL;
    }
    free(job);
    return comm->state;
}

/* A group is of communicators that block, or of others. */
static ncclResult_t submit_group(void)
{
    bool is_late = group.count > 0 && group.messages[0].comm->is_late;
    ncclResult_t result = ncclInvalidArgument;
    bool is_mixed = false;

    for (unsigned i = 0; i < group.count; i++)
        is_mixed |= group.messages[i].comm->is_late != is_late;
    if (!is_mixed)
        result = is_late ? leave_for_later() : submit(group.messages, group.count);
    group.count = 0;
    return result;
}

/* ---- the group ---- */

void nccl_group_begin(void)
{
    group.depth++;
}

ncclResult_t nccl_group_end(void)
{
    if (group.depth == 0)
        return ncclInvalidUsage;
    return --group.depth ? ncclSuccess : submit_group();
}

uint64_t nccl_group_size(ncclDataType_t type)
{
    static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return (size_t)type < sizeof(sizes) ? sizes[type] : 0;
}

static bool is_right(const struct nccl_message *m)
{
    return m->comm && !m->comm->job && m->peer >= 0 && m->peer < m->comm->ranks
            && (m->send || m->receive) && m->bytes > 0 && m->bytes <= MESSAGE_MOST;
}

static struct nccl_channel *channel_of(const struct nccl_message *m)
{
    int from = m->send ? m->comm->rank : m->peer, to = m->send ? m->peer : m->comm->rank;

    return &m->comm->shared->channels[from * m->comm->ranks + to];
}

/* The first round after those of messages that go the same way, among the first `count` of the group. */
static unsigned round_after(const struct nccl_message *m, unsigned count)
{
    unsigned round = 0;

    for (unsigned i = 0; i < count; i++)
        if (group.messages[i].channel == m->channel && !group.messages[i].send == !m->send
                && round <= group.messages[i].round)
            round = group.messages[i].round + 1;
    return round;
}

ncclResult_t nccl_group_add(const struct nccl_message *messages, unsigned count)
{
    unsigned before = group.count, round = 0;

    if (count > GROUP_MOST - before)
        return ncclInternalError;
    for (unsigned i = 0; i < count; i++)
        if (!is_right(&messages[i]))
            return ncclInvalidArgument;
    if (count == 1 && group.depth == 0 && messages->peer == messages->comm->rank)
        return ncclInvalidArgument; /* nobody could ever meet it */
    for (unsigned i = 0; i < count; i++) {
        struct nccl_message *m = &group.messages[group.count++];
        unsigned after;

        *m = messages[i];
        m->channel = channel_of(m);
        m->number = m->send ? ++m->comm->sent[m->peer] : ++m->comm->received[m->peer];
        after = round_after(m, before);
        if (round < after)
            round = after;
    }
    for (unsigned i = before; i < group.count; i++)
        group.messages[i].round = round;
    return group.depth ? ncclSuccess : submit_group();
}

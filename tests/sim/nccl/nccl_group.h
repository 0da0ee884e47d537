/* SPDX-License-Identifier: MIT */
/*
 * nccl_group.h - messages between the ranks of a communicator, one by one or in groups.
 *
 * On a stream a message is a meeting: it is over, on both sides, when the other side's matching call has come to the head of its
 * stream and the data have moved.
 *
 *     sender's stream     wait posted n ─► pack, write full n ─► wait taken n
 *     receiver's stream   (taken n-1) ─► write posted n ─► wait full n ─► unpack or fold, write taken n
 *
 * The sender's buffer is read by a kernel that runs then, late. Messages of a group meet at once: all of its receives are posted
 * before any of its sends waits. Messages of one communicator between two ranks are in the order of the calls; a rank may send
 * to itself within a group.
 *
 * A communicator that does not block leaves its messages for later: the call, or the end of the group, is ncclInProgress, and so is the
 * first question after it. The second one has them put on their streams, by another thread, as does the end of the communicator.
 *
 * Threads: a group is the calling thread's. One call per communicator at a time.
 */
#ifndef KEDGE_TESTS_SIM_NCCL_GROUP_H
#define KEDGE_TESTS_SIM_NCCL_GROUP_H

#include "tests/sim/nccl/nccl_device.h"
#include "tests/sim/nccl/nccl_shared.h"

#include <nccl.h>
#include <stdbool.h>

struct ncclComm {
    int ranks, rank, device;
    CUcontext context;
    struct nccl_shared *shared;
    struct nccl_kernels kernels;
    uint64_t sent[NCCL_RANKS_MOST], received[NCCL_RANKS_MOST]; /* calls so far, by peer */
    bool is_late;                                              /* it does not block */
    struct nccl_job *job; /* what was left for later; NULL = nothing */
    ncclResult_t state;   /* of the last job */
};

struct nccl_message {
    struct ncclComm *comm;
    CUstream stream;
    int peer;
    void *receive;         /* NULL: it is a send */
    const void *send;      /* NULL: it is a receive */
    struct nccl_fold fold; /* of a receive; its type is 0 = what was there is replaced */
    uint64_t bytes;
    /* nccl_group.c's */
    struct nccl_channel *channel;
    uint64_t number; /* in its channel, from 1 */
    unsigned round;  /* messages of a channel, which holds one, are in rounds of their own */
};

/* All messages between begin and end go on their streams at the outermost end, or are left for later. */
void nccl_group_begin(void);
ncclResult_t nccl_group_end(void);

/*
 * Adds `count` messages to the group, or makes one of them. They are in one round, behind that of each message that is there on a
 * channel of theirs. ncclInvalidArgument, and none is added, if there is something wrong with one.
 */
ncclResult_t nccl_group_add(const struct nccl_message *messages, unsigned count);

/* How far the communicator is with what was left for later; `now`: it is done by then. */
ncclResult_t nccl_group_state(struct ncclComm *comm, bool now);

/* Bytes of an element; 0 = no such type. */
uint64_t nccl_group_size(ncclDataType_t type);

#endif

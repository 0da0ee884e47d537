/* SPDX-License-Identifier: MIT */
/* A libnccl whose calls between ranks move nothing; it counts them. There are two ranks; which one this is the test says, and what calls
 * return, and what state the communicator is in. */
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

extern int nccl_calls, nccl_rank, nccl_answer, nccl_state;
int nccl_calls;
int nccl_rank;
int nccl_answer;
int nccl_state;

int ncclCommCount(const void *comm, int *ret_count);
int ncclCommUserRank(const void *comm, int *ret_rank);

int ncclCommCount(const void *comm, int *ret_count)
{
    *ret_count = 2;
    return comm ? 0 : 4;
}

int ncclCommUserRank(const void *comm, int *ret_rank)
{
    *ret_rank = nccl_rank;
    return comm ? 0 : 4;
}

int ncclCommGetAsyncError(void *comm, int *ret_state);
int ncclCommFinalize(void *comm);
int ncclCommDestroy(void *comm);

int ncclCommGetAsyncError(void *comm, int *ret_state)
{
    *ret_state = nccl_state;
    return comm ? 0 : 4;
}

int ncclCommFinalize(void *comm)
{
    return comm ? nccl_state : 4;
}

int ncclCommDestroy(void *comm)
{
    return comm ? 0 : 4;
}

#define CALL(name, params)                \
    int name params;                      \
    int name params                       \
    {                                     \
        return nccl_calls++, nccl_answer; \
    }

CALL(ncclAllReduce,
        (const void *send, void *receive, size_t count, int type, int op, void *comm, void *stream))
CALL(ncclReduceScatter,
        (const void *send, void *receive, size_t count, int type, int op, void *comm, void *stream))
CALL(ncclReduce,
        (const void *send, void *receive, size_t count, int type, int op, int root, void *comm,
                void *stream))
CALL(ncclBroadcast,
        (const void *send, void *receive, size_t count, int type, int root, void *comm,
                void *stream))
CALL(ncclBcast, (void *buffer, size_t count, int type, int root, void *comm, void *stream))
CALL(ncclAllGather,
        (const void *send, void *receive, size_t count, int type, void *comm, void *stream))
CALL(ncclSend, (const void *buffer, size_t count, int type, int peer, void *comm, void *stream))
CALL(ncclRecv, (void *buffer, size_t count, int type, int peer, void *comm, void *stream))
CALL(ncclAlltoAll,
        (const void *send, void *receive, size_t count, int type, void *comm, void *stream))
CALL(ncclGather,
        (const void *send, void *receive, size_t count, int type, int root, void *comm,
                void *stream))
CALL(ncclScatter,
        (const void *send, void *receive, size_t count, int type, int root, void *comm,
                void *stream))
CALL(ncclGroupStart, (void))
CALL(ncclGroupEnd, (void))
CALL(ncclGroupSimulateEnd, (void *info))

/* SPDX-License-Identifier: MIT */
/* A libnccl whose calls between ranks move nothing; it counts them. There are two ranks; which one this is the test says. */
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

extern int nccl_calls, nccl_rank;
int nccl_calls;
int nccl_rank;

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

#define CALL(name, params)      \
    int name params;            \
    int name params             \
    {                           \
        return nccl_calls++, 0; \
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

/* SPDX-License-Identifier: MIT */
/* A libnccl of the eight calls between ranks that move nothing; it counts them. */
#include <stddef.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

extern int nccl_calls;
int nccl_calls;

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

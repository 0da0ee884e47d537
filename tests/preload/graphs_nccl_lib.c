/* SPDX-License-Identifier: MIT */
/* A libnccl that registers anything: functions of the real one's names, and a count. */
#include <stddef.h>

extern int nccl_calls;
int nccl_calls;

int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle);
int ncclCommDeregister(void *comm, void *handle);

int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle)
{
    nccl_calls++;
    if (!comm || !buffer || !size)
        return 4; /* invalid argument */
    *ret_handle = buffer;
    return 0;
}

int ncclCommDeregister(void *comm, void *handle)
{
    nccl_calls++;
    return comm && handle ? 0 : 4;
}

/* A window: flags of 7 are one that is not made before the group ends, flags of 8 none at all. */
int ncclCommWindowRegister(void *comm, void *buffer, size_t size, void **ret_window, int flags);
int ncclCommWindowDeregister(void *comm, void *window);
int ncclGroupStart(void);
int ncclGroupEnd(void);

int ncclCommWindowRegister(void *comm, void *buffer, size_t size, void **ret_window, int flags)
{
    if (flags == 7 || flags == 8) {
        *ret_window = NULL;
        return 0;
    }
    return ncclCommRegister(comm, buffer, size, ret_window);
}

int ncclCommWindowDeregister(void *comm, void *window)
{
    return ncclCommDeregister(comm, window);
}

int ncclGroupStart(void)
{
    return 0;
}

int ncclGroupEnd(void)
{
    return 0;
}

/* Calls between ranks: each says what it was given. */
int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream);
int ncclRecv(void *buffer, size_t count, int type, int peer, void *comm, void *stream);
int ncclAllReduce(
        const void *send, void *receive, size_t count, int type, int op, void *comm, void *stream);

int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
    return buffer && count == 1 && type == 2 && peer == 3 && comm && stream ? 0 : 4;
}

int ncclRecv(void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
    return ncclSend(buffer, count, type, peer, comm, stream);
}

int ncclAllReduce(
        const void *send, void *receive, size_t count, int type, int op, void *comm, void *stream)
{
    return send && receive && count == 1 && type == 2 && op == 3 && comm && stream ? 0 : 4;
}

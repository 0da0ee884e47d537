/* SPDX-License-Identifier: MIT */
/*
 * A framework with a NCCL of its own inside, as static builds have: it exports NCCL's names and calls them by name. Built
 * twice; each must reach its own (WHICH), whoever else has such names.
 */
#include <stddef.h>

int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream);
int ncclGroupStart(void);
int ncclCommCount(const void *comm, int *ret_count);
int own_send(void *stream);
int own_group(void);

int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
    return buffer && count == 1 && type == 2 && peer == 3 && comm && stream ? WHICH : 4;
}

int ncclGroupStart(void)
{
    return 10 + WHICH;
}

int ncclCommCount(const void *comm, int *ret_count)
{
    *ret_count = 1;
    return comm ? 0 : 4;
}

int own_send(void *stream)
{
    return ncclSend(stream, 1, 2, 3, stream, stream);
}

int own_group(void)
{
    return ncclGroupStart();
}

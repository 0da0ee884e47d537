/* SPDX-License-Identifier: MIT */
/* A libnccl that registers anything: two functions of the real one's names, and a count. */
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

/* SPDX-License-Identifier: MIT */
/* A library that is linked with NCCL, as a framework's is: what it calls is the loader's to decide. */
#include <stddef.h>

int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle);
int ncclCommDeregister(void *comm, void *handle);
int user_register(void *comm, void *buffer, size_t size, void **ret_handle);
int user_deregister(void *comm, void *handle);

int user_register(void *comm, void *buffer, size_t size, void **ret_handle)
{
    return ncclCommRegister(comm, buffer, size, ret_handle);
}

int user_deregister(void *comm, void *handle)
{
    return ncclCommDeregister(comm, handle);
}

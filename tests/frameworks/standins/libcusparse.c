/* SPDX-License-Identifier: MIT */
/* libcusparse: handles and streams; what computes is refused. */
#include "common.h"

#include <stdlib.h>

REFUSED_IS(10)

static int create(void **ret_handle)
{
    *ret_handle = standin_new(8);
    return *ret_handle ? 0 : 2; /* CUSPARSE_STATUS_ALLOC_FAILED */
}

static int destroy(void *handle)
{
    free(handle);
    return 0;
}

EXPORT int cusparseCreate(void **ret_handle);
EXPORT int cusparseCreate(void **ret_handle)
{
    return create(ret_handle);
}

EXPORT int cusparseDestroy(void *handle);
EXPORT int cusparseDestroy(void *handle)
{
    return destroy(handle);
}

NOTHING(cusparseSetStream)
NOTHING(cusparseSetPointerMode)

EXPORT const char *cusparseGetErrorString(int status);
EXPORT const char *cusparseGetErrorString(int status)
{
    return status ? "an error of a stand-in" : "success";
}

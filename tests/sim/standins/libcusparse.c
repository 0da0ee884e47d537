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

EXPORT int cusparseGetVersion(void *handle, int *ret_version);
EXPORT int cusparseGetVersion(void *handle, int *ret_version)
{
    *ret_version = STANDIN_MAJOR * 1000 + 999;
    return 0;
}

EXPORT int cusparseGetProperty(int which, int *ret_value);
EXPORT int cusparseGetProperty(int which, int *ret_value)
{
    *ret_value = which == 0 ? STANDIN_MAJOR : 9;
    return 0;
}

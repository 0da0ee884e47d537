/* SPDX-License-Identifier: MIT */
/* libcusolver: handles and streams; what computes is refused. */
#include "common.h"

#include <stdlib.h>

REFUSED_IS(9)

static int create(void **ret_handle)
{
    *ret_handle = standin_new(8);
    return *ret_handle ? 0 : 2; /* CUSOLVER_STATUS_ALLOC_FAILED */
}

static int destroy(void *handle)
{
    free(handle);
    return 0;
}

EXPORT int cusolverDnCreate(void **ret_handle);
EXPORT int cusolverDnCreate(void **ret_handle)
{
    return create(ret_handle);
}

EXPORT int cusolverDnDestroy(void *handle);
EXPORT int cusolverDnDestroy(void *handle)
{
    return destroy(handle);
}

NOTHING(cusolverDnSetStream)

EXPORT int cusolverGetProperty(int which, int *ret_value);
EXPORT int cusolverGetProperty(int which, int *ret_value)
{
    *ret_value = which == 0 ? STANDIN_MAJOR : 9;
    return 0;
}

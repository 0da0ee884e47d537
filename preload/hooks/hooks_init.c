/* SPDX-License-Identifier: MIT */
/* cuInit: the call that a machine without a device refuses, after which nothing follows that kedge
 * could record. */
#include "preload/base/cuda_abi.h"
#include "preload/base/mark.h"
#include "preload/driver/resolve.h"

CUresult cuInit(unsigned int flags)
{
    CUresult result;

    (void)resolve_ready(); /* a linked program may begin here; without a driver the entry answers for itself */
    result = REAL(cuInit)(flags);
    mark_init((int)result);
    return result;
}

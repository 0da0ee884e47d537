/* SPDX-License-Identifier: MIT */
/* cuInit: the call that a machine without a device refuses, after which nothing follows that kedge
 * could record. */
#include "preload/cuda_abi.h"
#include "preload/mark.h"
#include "preload/resolve.h"

CUresult cuInit(unsigned int flags)
{
    CUresult result;

    (void)resolve_ready(); /* a linked program may begin here; without a driver the entry answers for itself */
    result = REAL(cuInit)(flags);
    mark_init((int)result);
    return result;
}

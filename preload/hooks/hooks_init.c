/* SPDX-License-Identifier: MIT */
/*
 * cuInit: the call that a machine without a device refuses, after which the program makes no call
 * that kedge could record.
 */
#include "preload/base/cuda_abi.h"
#include "preload/base/mark.h"
#include "preload/driver/resolve.h"

CUresult cuInit(unsigned int flags)
{
    CUresult result;

    /* a linked program may begin here; without a driver the entry returns an error by itself */
    (void)resolve_ready();
    result = REAL(cuInit)(flags);
    mark_init((int)result);
    return result;
}

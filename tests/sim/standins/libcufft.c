/* SPDX-License-Identifier: MIT */
/* libcufft: handles and streams; what computes is refused. */
#include "common.h"

REFUSED_IS(16)

/* STANDIN_MAJOR 11 is that of CUDA 12: JAX asks for no older one than it was built with. */
EXPORT int cufftGetVersion(int *ret_version);
EXPORT int cufftGetVersion(int *ret_version)
{
    *ret_version = STANDIN_MAJOR * 1000 + 999;
    return 0;
}

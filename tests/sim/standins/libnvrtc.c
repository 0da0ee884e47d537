/* SPDX-License-Identifier: MIT */
/* libnvrtc: there is no compiler here. */
#include "common.h"

REFUSED_IS(4) /* NVRTC_ERROR_INVALID_PROGRAM */

EXPORT int nvrtcVersion(int *ret_major, int *ret_minor);
EXPORT int nvrtcVersion(int *ret_major, int *ret_minor)
{
    *ret_major = STANDIN_MAJOR;
    *ret_minor = 0;
    return 0;
}

EXPORT const char *nvrtcGetErrorString(int status);
EXPORT const char *nvrtcGetErrorString(int status)
{
    return status ? "no compiler: this is a stand-in" : "success";
}

/* SPDX-License-Identifier: MIT */
/* libcupti: nothing can be profiled. */
#include "common.h"

REFUSED_IS(27) /* CUPTI_ERROR_NOT_SUPPORTED */

EXPORT int cuptiGetVersion(uint32_t *ret_version);
EXPORT int cuptiGetVersion(uint32_t *ret_version)
{
    *ret_version = 18;
    return 0;
}

EXPORT int cuptiGetResultString(int result, const char **ret_text);
EXPORT int cuptiGetResultString(int result, const char **ret_text)
{
    *ret_text = result ? "not supported: this is a stand-in" : "success";
    return 0;
}

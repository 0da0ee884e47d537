/* SPDX-License-Identifier: MIT */
/* The driver's own look-up: the driver answers first, then its pointer is routed (route.h). */
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/lookup/route.h"

static CUresult routed(
        CUresult result, const char *symbol, void **pfn, int cuda_version, cuuint64_t flags)
{
    /* "" is a probe of the runtime; a NULL answer stays NULL */
    if (result == CUDA_SUCCESS && symbol && *symbol && pfn && *pfn && guard_depth() == 0
            && life_is_wanted())
        route_answer(symbol, cuda_version, flags, pfn);
    return result;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags)
{
    if (!resolve_ready())
        return resolve_missing();
    return routed(REAL(cuGetProcAddress)(symbol, pfn, cuda_version, flags), symbol, pfn,
            cuda_version, flags);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cuda_version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *symbol_status)
{
    if (!resolve_ready())
        return resolve_missing();
    return routed(REAL(cuGetProcAddress_v2)(symbol, pfn, cuda_version, flags, symbol_status),
            symbol, pfn, cuda_version, flags);
}

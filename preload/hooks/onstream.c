/* SPDX-License-Identifier: MIT */
/*
 * Calls that only report the stream that they give work to (contexts.h, R69), and the list of all
 * calls that name one.
 */
#include "preload/driver/contexts.h"
#include "preload/driver/resolve.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define PASSES_ON(symbol, params, args, per_thread)                                \
    ON_STREAM(symbol, params, stream, per_thread,                                  \
            return resolve_ready() ? REAL(symbol) args : resolve_missing();)
#define PASSES(symbol, params, args)                                               \
    PASSES_ON(symbol, params, args, false)                                         \
    PASSES_ON(symbol##_ptsz, params, args, true)

PASSES(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t size, CUdevice device, CUstream stream),
        (ptr, size, device, stream))
PASSES(cuMemPrefetchAsync_v2,
        (CUdeviceptr ptr, size_t size, CUmemLocation location, unsigned int flags, CUstream stream),
        (ptr, size, location, flags, stream))
PASSES(cuMemPrefetchBatchAsync,
        (CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
                size_t locations_count, unsigned long long flags, CUstream stream),
        (ptrs, sizes, count, locations, indices, locations_count, flags, stream))
PASSES(cuMemDiscardBatchAsync,
        (CUdeviceptr *ptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream stream),
        (ptrs, sizes, count, flags, stream))
PASSES(cuMemDiscardAndPrefetchBatchAsync,
        (CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
                size_t locations_count, unsigned long long flags, CUstream stream),
        (ptrs, sizes, count, locations, indices, locations_count, flags, stream))
PASSES(cuStreamAttachMemAsync,
        (CUstream stream, CUdeviceptr ptr, size_t size, unsigned int flags),
        (stream, ptr, size, flags))
PASSES(cuSignalExternalSemaphoresAsync,
        (const CUexternalSemaphore *semaphores, const struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st *params,
                unsigned int count, CUstream stream),
        (semaphores, params, count, stream))
PASSES(cuWaitExternalSemaphoresAsync,
        (const CUexternalSemaphore *semaphores, const struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st *params,
                unsigned int count, CUstream stream),
        (semaphores, params, count, stream))
PASSES(cuGraphicsMapResources,
        (unsigned int count, CUgraphicsResource *resources, CUstream stream),
        (count, resources, stream))
PASSES(cuGraphicsUnmapResources,
        (unsigned int count, CUgraphicsResource *resources, CUstream stream),
        (count, resources, stream))

/* ---- the list ------------------------------------------------------------------------------- */

/* A row whose hook is not defined by ON_STREAM is a symbol that the linker does not find. */
#define STREAM_HOOK(symbol, family) extern const char stream_of_##symbol __attribute__((visibility("hidden")));
#include "preload/base/hooks.def"

__attribute__((used)) static const char *const stream_hooks[] = {
#define STREAM_HOOK(symbol, family) &stream_of_##symbol,
#include "preload/base/hooks.def"
};
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

/* SPDX-License-Identifier: MIT */
/*
 * Memory in stream order, and the pools that it comes from. The driver's own pool stays in place behind each of ours: it
 * checks arguments, keeps settings and access, and serves what we cannot, so its figures are added to ours (R77, R78).
 */
#include "preload/base/bounds.h"
#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/base/results.h"
#include "preload/driver/backend.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/mempools.h"
#include "preload/driver/relax.h"
#include "preload/driver/session.h"
#include "preload/graph/graphmem.h"
#include "preload/graph/hookrow.h"
#include "preload/graph/ipc.h"
#include "preload/request/quick.h"
#include "preload/request/spill.h"

#include <errno.h>
#include <stdatomic.h>

/* How the program named it. */
enum form {
    PER_THREAD = 1, /* a _ptsz call */
    FROM_POOL = 2,
};

/* One call of the program's, with a pool or without. */
struct call {
    CUmemoryPool mempool;
    CUstream stream;
    unsigned form;
};

static CUresult driver_alloc(CUdeviceptr *ret_ptr, size_t size, CUstream stream, bool per_thread)
{
    return per_thread ? REAL(cuMemAllocAsync_ptsz)(ret_ptr, size, stream)
                      : REAL(cuMemAllocAsync)(ret_ptr, size, stream);
}

static CUresult driver_free(CUdeviceptr ptr, CUstream stream, bool per_thread)
{
    return per_thread ? REAL(cuMemFreeAsync_ptsz)(ptr, stream) : REAL(cuMemFreeAsync)(ptr, stream);
}

static CUresult forward(const struct call *call, CUdeviceptr *ret_ptr, size_t size)
{
    bool per_thread = call->form & PER_THREAD;

    if (!(call->form & FROM_POOL))
        return driver_alloc(ret_ptr, size, call->stream, per_thread);
    return per_thread
            ? REAL(cuMemAllocFromPoolAsync_ptsz)(ret_ptr, size, call->mempool, call->stream)
            : REAL(cuMemAllocFromPoolAsync)(ret_ptr, size, call->mempool, call->stream);
}

/* Asked only while some capture may run. */
static uint64_t captured_graph(CUstream handle, bool per_thread)
{
    return gate_may_capture() ? stream_captured_graph(stream_named(handle, per_thread)) : 0;
}

/* The driver has freed it, or will at each launch of a graph. */
static void driver_freed(CUdeviceptr ptr, CUstream handle, bool per_thread)
{
    uint64_t graph = captured_graph(handle, per_thread);

    if (graph)
        graphmem_frees(graph, ptr);
    else
        graphmem_freed(ptr);
}

/* false: the driver is to answer, nothing is recorded. */
static bool hooks_async_prepare(
        const struct call *call, struct dispatch_request *request, size_t size, const void *caller)
{
    struct mempool mempool;
    int r;

    *request = (struct dispatch_request){.size = size, .api = API_STREAM, .caller = caller};
    if (size == 0 || guard_in_callback() || context_here(&request->context) != 0)
        return false;
    r = stream_here(call->stream, call->form & PER_THREAD, &request->stream);
    if (r > 0)
        return false;
    if (r < 0)
        request->stream = (struct stream){.device = request->context.device};
    request->forward = r < 0;
    request->capturing = r == 0 && gate_may_capture() && stream_is_captured(request->stream.handle);
    if (request->forward || request->capturing)
        return true;
    if (call->form & FROM_POOL) {
        request->named = call->mempool;
        mempool_learn_defaults(); /* one may be named before anything else made it known */
        /* A heap serves the streams of its own device. */
        r = mempool_find(call->mempool, &mempool) && mempool.device == request->stream.device
                ? 0
                : -ENOENT;
    } else {
        r = mempool_current(request->stream.device, &mempool);
    }
    request->mempool = r == 0 ? mempool.id : 0;
    if (call->form & FROM_POOL && r != 0 && mempool_is_host(call->mempool))
        request->memclass = MEMCLASS_HOST;
    return true;
}

/* Inlined: each frame of ours is one more to unwind. */
__attribute__((always_inline)) static inline CUresult hooks_async_alloc(const struct call *call,
        CUdeviceptr *ret_ptr, size_t size, const void *caller, const struct tag *counted)
{
    struct dispatch_request request;
    CUresult result;
    devptr_t ptr;
    int r;

    if (!ret_ptr || !hooks_async_prepare(call, &request, size, caller))
        return forward(call, ret_ptr, size);
    request.counted = counted;
    r = dispatch_alloc(&request, &ptr);
    if (r == 0)
        *ret_ptr = ptr;
    if (r >= 0)
        return (CUresult)r;
    result = forward(call, ret_ptr, size);
    if (!request.capturing
            && dispatch_make_room(
                    (int)result, request.size, request.stream.device, &request.ladder))
        result = forward(call, ret_ptr, size);
    dispatch_forwarded(&request, (int)result, result == CUDA_SUCCESS ? *ret_ptr : 0, size);
    if (result == CUDA_SUCCESS)
        spill_served(request.mempool);
    if (result == CUDA_SUCCESS && request.capturing)
        graphmem_allocates(captured_graph(call->stream, call->form & PER_THREAD), *ret_ptr, size,
                request.stream.device);
    return result;
}

static __attribute__((noinline)) CUresult hooks_async_alloc_fully(CUdeviceptr *ret_ptr, size_t size,
        struct call call, const void *caller, const struct tag *counted)
{
    static const int slots[] = {
            [0] = SLOT_cuMemAllocAsync,
            [PER_THREAD] = SLOT_cuMemAllocAsync_ptsz,
            [FROM_POOL] = SLOT_cuMemAllocFromPoolAsync,
            [FROM_POOL | PER_THREAD] = SLOT_cuMemAllocFromPoolAsync_ptsz,
    };
    CUresult result;

    if (!life_enter(slots[call.form]))
        return forward(&call, ret_ptr, size);
    result = hooks_async_alloc(&call, ret_ptr, size, caller, counted);
    life_leave();
    return result;
}

/* `mempool` NULL: the current one. */
static struct quick_call quick_call_of(CUmemoryPool mempool, CUstream stream)
{
    return (struct quick_call){
            stream, API_STREAM, mempool ? SLOT_cuMemAllocFromPoolAsync : SLOT_cuMemAllocAsync};
}

static struct call call_of(CUmemoryPool mempool, CUstream stream)
{
    return (struct call){mempool, stream, mempool ? FROM_POOL : 0};
}

/* The short path where hints are asked (quick.h), else the long one. */
static __attribute__((noinline)) CUresult hooks_async_alloc_decided(CUdeviceptr *ret_ptr,
        size_t size, CUmemoryPool mempool, CUstream stream, const void *caller)
{
    struct tag tag;
    struct pool_given given =
            quick_alloc_decided(size, mempool, quick_call_of(mempool, stream), caller, &tag);

    if (!given.ptr)
        return hooks_async_alloc_fully(
                ret_ptr, size, call_of(mempool, stream), caller, tag.path ? &tag : NULL);
    *ret_ptr = given.ptr;
    return CUDA_SUCCESS;
}

/* The short path while requests are recorded or there are hints, else the long one. */
static __attribute__((noinline)) CUresult hooks_async_alloc_recorded(CUdeviceptr *ret_ptr,
        size_t size, CUmemoryPool mempool, CUstream stream, const void *caller)
{
    struct pool_given given = {0, 0};

    if (ret_ptr && quick_asks(size))
        return hooks_async_alloc_decided(ret_ptr, size, mempool, stream, caller);
    if (ret_ptr && (quick_records() || quick_decides()) && quick_is_calm(quick_records()))
        given = quick_alloc_on(SESSION_RECORDED | SESSION_DECIDED, size, mempool, stream, caller);
    if (!given.ptr)
        return hooks_async_alloc_fully(ret_ptr, size, call_of(mempool, stream), caller, NULL);
    *ret_ptr = given.ptr;
    if (!quick_records())
        return CUDA_SUCCESS;
    return quick_record_alloc(given, size, quick_call_of(mempool, stream), caller);
}

/* stream_here, on the long way, notices the stream of an allocation or a free. */
/* clang-format off */
ON_STREAM(cuMemAllocAsync, (CUdeviceptr *ret_ptr, size_t size, CUstream stream), STREAM_NONE, false,
    struct pool_given given = {0, 0};

    if (ret_ptr)
        given = quick_alloc_on(0, size, NULL, stream, __builtin_return_address(0));
    if (!given.ptr)
        return hooks_async_alloc_recorded(ret_ptr, size, NULL, stream, __builtin_return_address(0));
    *ret_ptr = given.ptr;
    return CUDA_SUCCESS;
)

ON_STREAM(cuMemAllocAsync_ptsz, (CUdeviceptr *ret_ptr, size_t size, CUstream stream), STREAM_NONE, true,
    return hooks_async_alloc_fully(ret_ptr, size, (struct call){NULL, stream, PER_THREAD},
            __builtin_return_address(0), NULL);
)

ON_STREAM(cuMemAllocFromPoolAsync,
        (CUdeviceptr *ret_ptr, size_t size, CUmemoryPool mempool, CUstream stream), STREAM_NONE, false,
    struct pool_given given = {0, 0};

    if (!mempool)
        return hooks_async_alloc_fully(ret_ptr, size, (struct call){NULL, stream, FROM_POOL},
                __builtin_return_address(0), NULL);
    if (ret_ptr)
        given = quick_alloc_on(0, size, mempool, stream, __builtin_return_address(0));
    if (!given.ptr)
        return hooks_async_alloc_recorded(ret_ptr, size, mempool, stream, __builtin_return_address(0));
    *ret_ptr = given.ptr;
    return CUDA_SUCCESS;
)

ON_STREAM(cuMemAllocFromPoolAsync_ptsz,
        (CUdeviceptr *ret_ptr, size_t size, CUmemoryPool mempool, CUstream stream), STREAM_NONE, true,
    return hooks_async_alloc_fully(ret_ptr, size, (struct call){mempool, stream, FROM_POOL | PER_THREAD},
            __builtin_return_address(0), NULL);
)
/* clang-format on */

/* ---- free ----------------------------------------------------------------------------------- */

static bool hooks_async_is_live(CUdeviceptr ptr, struct block_info *ret_info)
{
    return session_pool && pool_find(session_pool, ptr, ret_info) == 0 && ret_info->base == ptr
            && ret_info->size > 0;
}

static void free_quietly(CUdeviceptr ptr)
{
    struct relaxed relaxed = relax_begin();

    (void)REAL(cuMemFree_v2)(ptr);
    relax_end(&relaxed);
}

static bool is_about_stream(int r)
{
    return r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_INVALID_HANDLE
            || r == CUDA_ERROR_CONTEXT_IS_DESTROYED || results_is_capture_error(r);
}

/*
 * What the driver says to a free on this stream. A block of ours it does not know, so it is asked with one of its own:
 * what refuses the one (a capture that the legacy stream would join, no current context) refuses the other, and spoils
 * what that would have spoilt.
 */
static int ask_stream(CUstream handle, bool per_thread)
{
    CUdeviceptr ptr = 0;
    int r = (int)driver_alloc(&ptr, 1, handle, per_thread);

    if (r != 0 && !is_about_stream(r))
        r = (int)driver_alloc(&ptr, 1, handle, per_thread);
    if (r != 0)
        return r == CUDA_ERROR_OUT_OF_MEMORY ? 0 : r;
    r = (int)driver_free(ptr, handle, per_thread);
    if (r != 0)
        free_quietly(ptr);
    return r;
}

/* A live block of ours while captures run. 0: freed as ever, > 0: the program's code, < 0: make the real call (R82). */
static int free_beside_capture(const struct block_info *block, CUstream handle, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUstream named = stream_named(handle, per_thread);
    int r;

    if (!REAL_HAS(cuStreamIsCapturing))
        return 0;
    r = (int)REAL(cuStreamIsCapturing)(named, &status);
    if (r != 0) /* asked twice: what may be a failure of ours decides about memory */
        r = (int)REAL(cuStreamIsCapturing)(named, &status);
    if (r != 0) /* a block of cuMemAlloc would be refused before the stream is looked at */
        return block->heap == HEAP_MAPPED ? ask_stream(handle, per_thread) : r;
    /* On a capturing stream: the driver's own answer, and the block stays. */
    return status != CU_STREAM_CAPTURE_STATUS_NONE ? -EINVAL : 0;
}

/*
 * On a stream that we cannot name: there is none such, no context is current, or a question of ours failed. The driver says
 * which: an address that it did not hand out it refuses last of all.
 */
static int free_on_unknown(
        CUdeviceptr ptr, CUstream handle, bool per_thread, struct dispatch_end *ret_end)
{
    struct block_info block;
    int r = 0;

    if (session_pool && pool_find(session_pool, ptr, &block) == 0)
        r = block.mapped ? (int)driver_free(ptr, handle, per_thread)
                         : ask_stream(handle, per_thread);
    return r == 0 || r == CUDA_ERROR_INVALID_VALUE ? dispatch_free(ptr, API_STREAM, NULL, ret_end)
                                                   : r;
}

/* 0 done, > 0 the program's code, < 0 make the real call, and tell *ret_end if it is written. */
static int free_here(
        CUdeviceptr ptr, CUstream handle, bool per_thread, struct dispatch_end *ret_end)
{
    struct block_info block;
    struct stream stream;
    int r;

    if (ptr == 0)
        return -ENOENT;
    if (guard_in_callback())
        return dispatch_free(ptr, API_STREAM, NULL, ret_end);
    r = stream_here(handle, per_thread, &stream);
    if (r > 0)
        r = stream_here(handle, per_thread, &stream);
    if (r != 0)
        return free_on_unknown(ptr, handle, per_thread, ret_end);
    if (gate_may_capture() && hooks_async_is_live(ptr, &block)) {
        r = free_beside_capture(&block, handle, per_thread);
        if (r != 0)
            return r;
    }
    return dispatch_free(ptr, API_STREAM, &stream, ret_end);
}

static __attribute__((noinline)) CUresult hooks_async_free_fully(
        CUdeviceptr ptr, CUstream stream, bool per_thread)
{
    struct dispatch_end end = {.key = 0};
    CUresult result;
    uint64_t native;
    int r;

    if (!life_enter(per_thread ? SLOT_cuMemFreeAsync_ptsz : SLOT_cuMemFreeAsync))
        return dispatch_free_passive(ptr) ? CUDA_SUCCESS : driver_free(ptr, stream, per_thread);
    r = free_here(ptr, stream, per_thread, &end);
    native = r < 0 ? spill_pool_of(ptr) : 0;
    result = r < 0 ? driver_free(ptr, stream, per_thread) : (CUresult)r;
    dispatch_ended(&end, (int)result);
    if (end.key && result == CUDA_SUCCESS)
        driver_freed(ptr, stream, per_thread);
    spill_served(native);
    if (r == 0)
        ipc_freed(ptr);
    life_leave();
    return result;
}

static __attribute__((noinline)) CUresult hooks_async_free_recorded(
        CUdeviceptr ptr, CUstream stream)
{
    struct pool_taken taken;

    if (!quick_records() || !quick_free_on(SESSION_RECORDED, ptr, stream, &taken))
        return hooks_async_free_fully(ptr, stream, false);
    quick_record_free(ptr, &taken, (struct quick_call){stream, API_STREAM, SLOT_cuMemFreeAsync});
    return CUDA_SUCCESS;
}

/* clang-format off */
ON_STREAM(cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream), STREAM_NONE, false,
    return quick_free_on(0, ptr, stream, NULL) ? CUDA_SUCCESS : hooks_async_free_recorded(ptr, stream);
)

ON_STREAM(cuMemFreeAsync_ptsz, (CUdeviceptr ptr, CUstream stream), STREAM_NONE, true,
    return hooks_async_free_fully(ptr, stream, true);
)
/* clang-format on */

/* ---- pools ---------------------------------------------------------------------------------- */

/* The pool behind a handle, if it is one that we serve from a heap. */
static bool is_served(CUmemoryPool handle, struct mempool *ret_mempool)
{
    if (!session_pool)
        return false;
    if (!guard_in_callback())
        mempool_learn_defaults();
    return mempool_find(handle, ret_mempool);
}

static void pool_made(CUmemoryPool mempool, const CUmemPoolProps *props)
{
    if (session_pool)
        mempool_created(mempool, props);
}

HOOKROW(cuMemPoolCreate, (CUmemoryPool * made, const CUmemPoolProps *props), (made, props),
        pool_made(*made, props))

CUresult cuMemPoolDestroy(CUmemoryPool mempool)
{
    bool entered = life_enter(SLOT_cuMemPoolDestroy);
    struct mempool known = {.served = false};
    uint64_t id = 0;
    CUresult result;

    if (entered && session_pool) {
        if (!guard_in_callback())
            mempool_learn_defaults();
        id = mempool_destroy_begin(mempool);
    }
    result = REAL(cuMemPoolDestroy)(mempool);
    if (id)
        mempool_destroy_end(id, result == CUDA_SUCCESS, &known);
    if (known.served && result == CUDA_SUCCESS) {
        (void)pool_heap_gone(session_pool, known.id);
        device_stats_reserved(known.device);
    }
    if (entered)
        life_leave();
    return result;
}

static uint64_t reserved_of(const struct mempool *mempool)
{
    struct pool_stats stats;

    if (pool_heap_stats(session_pool, HEAP_MAPPED, mempool->id, &stats) != 0)
        return 0;
    return stats.reserved;
}

CUresult cuMemPoolTrimTo(CUmemoryPool mempool, size_t keep)
{
    bool entered = life_enter(SLOT_cuMemPoolTrimTo);
    uint64_t native_keep = keep;
    struct mempool known;
    CUresult result;

    if (entered && is_served(mempool, &known) && session_may_fence()) {
        uint64_t left, bytes;

        if (pool_trim(session_pool, HEAP_MAPPED, known.id, keep, &bytes) == 0)
            device_stats_reserved(known.device);
        left = reserved_of(&known);
        native_keep = left < keep ? keep - left : 0; /* together never below what was asked for */
    }
    result = REAL(cuMemPoolTrimTo)(mempool, native_keep);
    if (entered)
        spill_look_again();
    if (entered)
        life_leave();
    return result;
}

static void mirror_setting(CUmemoryPool handle, CUmemPool_attribute attribute, const void *value)
{
    struct pool_heap_attrs attrs;
    struct pool *pool = session_pool;
    struct mempool known;

    if (!is_served(handle, &known) || pool_heap_attrs(pool, known.id, known.device, &attrs) != 0)
        return;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        attrs.release_threshold = *(const cuuint64_t *)value;
        break;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        attrs.reuse_follow = *(const int *)value != 0;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        attrs.reuse_opportunistic = *(const int *)value != 0;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        attrs.reuse_internal_dependencies = *(const int *)value != 0;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* the driver took it, so it was 0 */
        spill_look_again();
        (void)pool_reset_high(pool, HEAP_MAPPED, known.id,
                attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
        return;
    default:
        return;
    }
    (void)pool_set_heap_attrs(pool, known.id, known.device, &attrs);
}

HOOKROW(cuMemPoolSetAttribute, (CUmemoryPool mempool, CUmemPool_attribute attribute, void *value),
        (mempool, attribute, value), mirror_setting(mempool, attribute, value))

/* What the heap has of an attribute; 0 for settings, which the driver's pool keeps. */
static uint64_t hooks_async_share_of(const struct mempool *mempool, CUmemPool_attribute attribute)
{
    struct pool_stats stats;

    if (pool_heap_stats(session_pool, HEAP_MAPPED, mempool->id, &stats) != 0)
        return 0;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return stats.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return stats.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return stats.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return stats.used_high;
    default:
        return 0;
    }
}

/* The heap's marks are those of both already. */
static cuuint64_t together(CUmemPool_attribute attribute, cuuint64_t native, uint64_t share)
{
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
            || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return native > share ? native : share;
    return native + share;
}

/* Settings have no share, and may be narrower. */
static void add_share(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    struct mempool known;
    uint64_t share = is_served(handle, &known) ? hooks_async_share_of(&known, attribute) : 0;

    if (share > 0)
        *(cuuint64_t *)value = together(attribute, *(cuuint64_t *)value, share);
}

HOOKROW(cuMemPoolGetAttribute, (CUmemoryPool mempool, CUmemPool_attribute attribute, void *value),
        (mempool, attribute, value), add_share(mempool, attribute, value))

static CUresult give_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    struct mempool known;
    int r = map && is_served(handle, &known) ? backend_apply_access(known.id, map, count) : 0;

    return r > 0 ? (CUresult)r : CUDA_SUCCESS;
}

HOOKROW(cuMemPoolSetAccess, (CUmemoryPool mempool, const CUmemAccessDesc *map, size_t count),
        (mempool, map, count), result = give_access(mempool, map, count))

/* The driver's pool was given the same access, so its answer is ours. */
HOOKROW(cuMemPoolGetAccess,
        (CUmemAccess_flags * ret_flags, CUmemoryPool mempool, CUmemLocation *location),
        (ret_flags, mempool, location), (void)0)

HOOKROW(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool mempool), (device, mempool),
        mempool_changed(device))
HOOKROW(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool mempool),
        (location, type, mempool), mempool_changed(-1))

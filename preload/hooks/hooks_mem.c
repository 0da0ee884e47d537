/* SPDX-License-Identifier: MIT */
/*
 * Allocations and frees of the program, on both APIs: cuMemAlloc and cuMemAllocAsync are served
 * from the pool, pitched and managed memory is forwarded and recorded (R18, memory never pooled).
 *
 * A request or a free tries three ways, each for the calls that the one before it left (quick.h):
 * at once, placed (a free: recorded), fully. The first is inlined into the hook. The others are one
 * function for all hooks, which gets the hook's slot.
 */
#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/base/results.h"
#include "preload/driver/life.h"
#include "preload/driver/mempools.h"
#include "preload/driver/relax.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/graph/graphmem.h"
#include "preload/graph/ipc.h"
#include "preload/request/dispatch.h"
#include "preload/request/quick.h"
#include "preload/request/spill.h"

#include <errno.h>

/* Is it a _ptsz call? */
static inline bool hooks_mem_per_thread(enum resolve_slot slot)
{
    return slot == SLOT_cuMemAllocAsync_ptsz || slot == SLOT_cuMemAllocFromPoolAsync_ptsz
            || slot == SLOT_cuMemFreeAsync_ptsz;
}

static inline bool hooks_mem_from_pool(enum resolve_slot slot)
{
    return slot == SLOT_cuMemAllocFromPoolAsync || slot == SLOT_cuMemAllocFromPoolAsync_ptsz;
}

/* ---- allocation ----------------------------------------------------------------------------- */

static CUresult driver_alloc(CUdeviceptr *ret_ptr, size_t size, CUstream stream, bool per_thread)
{
    return per_thread ? REAL(cuMemAllocAsync_ptsz)(ret_ptr, size, stream)
                      : REAL(cuMemAllocAsync)(ret_ptr, size, stream);
}

static CUresult hooks_mem_forward(const struct quick_call *call, CUdeviceptr *ret_ptr, size_t size)
{
    bool per_thread = hooks_mem_per_thread(call->slot);

    if (call->api == API_SYNC)
        return REAL(cuMemAlloc_v2)(ret_ptr, size);
    if (!hooks_mem_from_pool(call->slot))
        return driver_alloc(ret_ptr, size, call->stream, per_thread);
    return per_thread
            ? REAL(cuMemAllocFromPoolAsync_ptsz)(ret_ptr, size, call->mempool, call->stream)
            : REAL(cuMemAllocFromPoolAsync)(ret_ptr, size, call->mempool, call->stream);
}

/* The graph that the call's stream is captured into; queried only while a capture may run. */
static uint64_t hooks_mem_captured_graph(const struct quick_call *call)
{
    return gate_may_capture()
            ? stream_captured_graph(stream_named(call->stream, hooks_mem_per_thread(call->slot)))
            : 0;
}

/* Sets the memory pool of a stream-ordered request. */
static void hooks_mem_name_pool(const struct quick_call *call, struct dispatch_request *request)
{
    struct mempool mempool;
    int r;

    if (hooks_mem_from_pool(call->slot)) {
        request->named = call->mempool;
        mempool_learn_defaults(); /* the program may name one first */
        /* A heap serves the streams of its own device. */
        r = mempool_find(call->mempool, &mempool) && mempool.device == request->stream.device
                ? 0
                : -ENOENT;
        if (r != 0 && mempool_is_host(call->mempool))
            request->memclass = MEMCLASS_HOST;
    } else {
        r = mempool_current(request->stream.device, &mempool);
    }
    request->mempool = r == 0 ? mempool.id : 0;
}

/* Sets the request's stream. false: the driver answers, and nothing is recorded. */
static bool hooks_mem_name_stream(const struct quick_call *call, struct dispatch_request *request)
{
    int r = stream_here(call->stream, hooks_mem_per_thread(call->slot), &request->stream);

    if (r > 0)
        return false;
    if (r < 0)
        request->stream = (struct stream){.device = request->context.device};
    request->forward = r < 0;
    request->capturing = r == 0 && gate_may_capture() && stream_is_captured(request->stream.handle);
    if (!request->forward && !request->capturing)
        hooks_mem_name_pool(call, request);
    return true;
}

/*
 * false: the driver answers, and nothing is recorded: the request has size 0, no context, or is
 * made in a callback (R17, requests of size 0; R38, frees in callbacks).
 */
static bool hooks_mem_prepare(
        const struct quick_call *call, struct dispatch_request *request, uint64_t size)
{
    *request = (struct dispatch_request){.size = size, .api = call->api, .caller = call->caller};
    if (size == 0 || guard_in_callback() || context_here(&request->context) != 0)
        return false;
    return call->api == API_SYNC || hooks_mem_name_stream(call, request);
}

/* Inlined: each frame of ours is one more to unwind. */
__attribute__((always_inline)) static inline CUresult hooks_mem_alloc(
        const struct quick_call *call, CUdeviceptr *ret_ptr, size_t size, const struct tag *counted)
{
    struct dispatch_request request;
    CUresult result;
    devptr_t ptr;
    int r;

    if (!ret_ptr || !hooks_mem_prepare(call, &request, size))
        return hooks_mem_forward(call, ret_ptr, size);
    request.counted = counted;
    r = dispatch_alloc(&request, &ptr);
    if (r == 0)
        *ret_ptr = ptr;
    if (r >= 0)
        return (CUresult)r;
    result = hooks_mem_forward(call, ret_ptr, size);
    if (!request.capturing
            && dispatch_make_room((int)result, size, dispatch_device_of(&request), &request.ladder))
        result = hooks_mem_forward(call, ret_ptr, size);
    if (dispatch_beside_capture(&request, (int)result, &ptr)) {
        *ret_ptr = ptr;
        return CUDA_SUCCESS;
    }
    dispatch_forwarded(&request, (int)result, result == CUDA_SUCCESS ? *ret_ptr : 0, size);
    if (result == CUDA_SUCCESS)
        spill_served(request.mempool);
    if (result == CUDA_SUCCESS && request.capturing)
        graphmem_allocates(hooks_mem_captured_graph(call), *ret_ptr, size, request.stream.device);
    return result;
}

static __attribute__((noinline)) CUresult hooks_mem_alloc_fully(
        struct quick_call call, CUdeviceptr *ret_ptr, size_t size, const struct tag *counted)
{
    CUresult result;

    if (!life_enter((int)call.slot))
        return hooks_mem_forward(&call, ret_ptr, size);
    result = hooks_mem_alloc(&call, ret_ptr, size, counted);
    life_leave();
    return result;
}

/* Takes the parts of a quick_call one by one, in registers. */
static __attribute__((noinline)) CUresult hooks_mem_alloc_placed(CUdeviceptr *ret_ptr, size_t size,
        CUmemoryPool mempool, CUstream stream, const void *caller, enum resolve_slot slot)
{
    const struct quick_call call = {
            mempool, stream, caller, slot == SLOT_cuMemAlloc_v2 ? API_SYNC : API_STREAM, slot};
    struct pool_given given = {0, 0};
    struct tag tag;

    tag.path = NULL; /* not counted yet */
    if (ret_ptr)
        given = quick_alloc_placed(&call, size, &tag);
    if (!given.ptr)
        return hooks_mem_alloc_fully(call, ret_ptr, size, tag.path ? &tag : NULL);
    *ret_ptr = given.ptr;
    return CUDA_SUCCESS;
}

/*
 * Inlined with constants. The return address is the hook's, and is read again at each use, so that
 * no register is kept for it.
 */
__attribute__((always_inline)) static inline CUresult hooks_mem_alloc_at_once(CUdeviceptr *ret_ptr,
        size_t size, CUmemoryPool mempool, CUstream stream, enum resolve_slot slot)
{
    const struct quick_call call = {mempool, stream, __builtin_return_address(0),
            slot == SLOT_cuMemAlloc_v2 ? API_SYNC : API_STREAM, slot};
    struct pool_given given = {0, 0};

    if (hooks_mem_per_thread(slot) || (hooks_mem_from_pool(slot) && !mempool))
        return hooks_mem_alloc_fully(call, ret_ptr, size, NULL);
    if (ret_ptr)
        given = quick_alloc(&call, size);
    if (!given.ptr)
        return hooks_mem_alloc_placed(
                ret_ptr, size, mempool, stream, __builtin_return_address(0), slot);
    *ret_ptr = given.ptr;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret_ptr, size_t size)
{
    return hooks_mem_alloc_at_once(ret_ptr, size, NULL, NULL, SLOT_cuMemAlloc_v2);
}

/* On the long way stream_here records the stream of an allocation or a free. */
/* clang-format off */
ON_STREAM(cuMemAllocAsync,
        (CUdeviceptr *ret_ptr, size_t size, CUstream stream), STREAM_NONE, false,
    return hooks_mem_alloc_at_once(ret_ptr, size, NULL, stream, SLOT_cuMemAllocAsync);
)

ON_STREAM(cuMemAllocAsync_ptsz,
        (CUdeviceptr *ret_ptr, size_t size, CUstream stream), STREAM_NONE, true,
    return hooks_mem_alloc_at_once(ret_ptr, size, NULL, stream, SLOT_cuMemAllocAsync_ptsz);
)

ON_STREAM(cuMemAllocFromPoolAsync,
        (CUdeviceptr *ret_ptr, size_t size, CUmemoryPool pool, CUstream stream), STREAM_NONE, false,
    return hooks_mem_alloc_at_once(ret_ptr, size, pool, stream, SLOT_cuMemAllocFromPoolAsync);
)

ON_STREAM(cuMemAllocFromPoolAsync_ptsz,
        (CUdeviceptr *ret_ptr, size_t size, CUmemoryPool pool, CUstream stream), STREAM_NONE, true,
    return hooks_mem_alloc_at_once(ret_ptr, size, pool, stream, SLOT_cuMemAllocFromPoolAsync_ptsz);
)
/* clang-format on */

/* Prepares a request for memory that the driver always serves. */
static bool prepare_forwarded(
        struct dispatch_request *request, uint64_t size, enum memclass memclass, const void *caller)
{
    const struct quick_call call = {.api = API_SYNC, .caller = caller};

    if (!hooks_mem_prepare(&call, request, size))
        return false;
    request->forward = true;
    request->memclass = memclass;
    (void)dispatch_alloc(request, NULL);
    return true;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *ret_ptr, size_t *p_pitch, size_t width, size_t height,
        unsigned int element_size)
{
    struct dispatch_request request;
    bool entered = life_enter(SLOT_cuMemAllocPitch_v2);
    size_t size = 0;
    bool tells = entered && ret_ptr && p_pitch && !__builtin_mul_overflow(width, height, &size)
            && prepare_forwarded(&request, size, MEMCLASS_PITCHED, __builtin_return_address(0));
    CUresult result = REAL(cuMemAllocPitch_v2)(ret_ptr, p_pitch, width, height, element_size);

    if (tells && dispatch_make_room((int)result, size, request.context.device, &request.ladder))
        result = REAL(cuMemAllocPitch_v2)(ret_ptr, p_pitch, width, height, element_size);
    if (tells && result == CUDA_SUCCESS)
        dispatch_forwarded(&request, 0, *ret_ptr, *p_pitch * height);
    else if (tells)
        dispatch_forwarded(&request, (int)result, 0, size);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *ret_ptr, size_t size, unsigned int flags)
{
    struct dispatch_request request;
    bool entered = life_enter(SLOT_cuMemAllocManaged);
    bool tells = entered && ret_ptr
            && prepare_forwarded(&request, size, MEMCLASS_MANAGED, __builtin_return_address(0));
    CUresult result = REAL(cuMemAllocManaged)(ret_ptr, size, flags);

    if (tells && dispatch_make_room((int)result, size, request.context.device, &request.ladder))
        result = REAL(cuMemAllocManaged)(ret_ptr, size, flags);
    if (tells)
        dispatch_forwarded(&request, (int)result, result == CUDA_SUCCESS ? *ret_ptr : 0, size);
    if (entered)
        life_leave();
    return result;
}

/* ---- free ----------------------------------------------------------------------------------- */

static CUresult driver_free(CUdeviceptr ptr, CUstream stream, bool per_thread)
{
    return per_thread ? REAL(cuMemFreeAsync_ptsz)(ptr, stream) : REAL(cuMemFreeAsync)(ptr, stream);
}

static CUresult hooks_mem_free_forward(const struct quick_call *call, CUdeviceptr ptr)
{
    return call->api == API_SYNC ? REAL(cuMemFree_v2)(ptr)
                                 : driver_free(ptr, call->stream, hooks_mem_per_thread(call->slot));
}

/* The driver has freed the block, or will at each launch of a graph: records it. */
static void driver_freed(const struct quick_call *call, CUdeviceptr ptr)
{
    uint64_t graph = call->api == API_SYNC ? 0 : hooks_mem_captured_graph(call);

    if (graph)
        graphmem_frees(graph, ptr);
    else
        graphmem_freed(ptr);
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
 * The driver's answer to a free on this stream. The driver does not know a block of ours, so it
 * gets one of its own: the same causes (a capture that the legacy stream would join, no current
 * context) refuse both, and spoil the same captures.
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

/*
 * Frees a live block of ours while captures run. 0: freed as ever, > 0: the program's code, < 0:
 * make the real call (R82, calls during captures).
 */
static int free_beside_capture(const struct block_info *block, CUstream handle, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUstream named = stream_named(handle, per_thread);
    int r;

    if (!REAL_HAS(cuStreamIsCapturing))
        return 0;
    r = (int)REAL(cuStreamIsCapturing)(named, &status);
    if (r != 0) /* asked twice: an error of ours must not decide */
        r = (int)REAL(cuStreamIsCapturing)(named, &status);
    if (r != 0) /* a cuMemAlloc block is refused before the stream is checked */
        return block->heap == HEAP_MAPPED ? ask_stream(handle, per_thread) : r;
    /* On a capturing stream the driver answers, and the block stays live. */
    return status != CU_STREAM_CAPTURE_STATUS_NONE ? -EINVAL : 0;
}

/*
 * A free on a stream that we cannot identify: the stream does not exist, no context is current, or
 * our query failed. The driver's answer says which: it checks last whether it knows the address.
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

/*
 * 0 done, > 0 the program's code, < 0 make the real call, then dispatch_ended with *ret_end if it
 * is written.
 */
static int free_here(const struct quick_call *call, CUdeviceptr ptr, struct dispatch_end *ret_end)
{
    bool per_thread = hooks_mem_per_thread(call->slot);
    CUstream handle = call->stream;
    struct block_info block;
    struct stream stream;
    int r;

    if (ptr == 0)
        return -ENOENT; /* the driver ignores a free of 0 */
    if (call->api == API_SYNC || guard_in_callback())
        return dispatch_free(ptr, call->api, NULL, ret_end);
    r = stream_here(handle, per_thread, &stream);
    if (r > 0)
        r = stream_here(handle, per_thread, &stream);
    if (r != 0)
        return free_on_unknown(ptr, handle, per_thread, ret_end);
    if (gate_may_capture() && dispatch_is_live(ptr, &block)) {
        r = free_beside_capture(&block, handle, per_thread);
        if (r != 0)
            return r;
    }
    return dispatch_free(ptr, API_STREAM, &stream, ret_end);
}

static __attribute__((noinline)) CUresult hooks_mem_free_fully(
        CUdeviceptr ptr, struct quick_call call)
{
    struct dispatch_end end = {.key = 0};
    CUresult result;
    uint64_t native;
    int r;

    if (!life_enter((int)call.slot))
        return dispatch_free_passive(ptr) ? CUDA_SUCCESS : hooks_mem_free_forward(&call, ptr);
    r = free_here(&call, ptr, &end);
    native = r < 0 ? spill_pool_of(ptr) : 0;
    result = r < 0 ? hooks_mem_free_forward(&call, ptr) : (CUresult)r;
    dispatch_ended(&end, (int)result);
    if (end.key && result == CUDA_SUCCESS)
        driver_freed(&call, ptr);
    spill_served(native);
    if (r == 0)
        ipc_freed(ptr);
    life_leave();
    return result;
}

static inline struct quick_call hooks_mem_free_call(CUstream stream, enum resolve_slot slot)
{
    return (struct quick_call){.stream = stream,
            .api = slot == SLOT_cuMemFree_v2 ? API_SYNC : API_STREAM,
            .slot = slot};
}

static __attribute__((noinline)) CUresult hooks_mem_free_recorded(
        CUdeviceptr ptr, CUstream stream, enum resolve_slot slot)
{
    const struct quick_call call = hooks_mem_free_call(stream, slot);

    return quick_free_recorded(&call, ptr) ? CUDA_SUCCESS : hooks_mem_free_fully(ptr, call);
}

__attribute__((always_inline)) static inline CUresult hooks_mem_free_at_once(
        CUdeviceptr ptr, CUstream stream, enum resolve_slot slot)
{
    const struct quick_call call = hooks_mem_free_call(stream, slot);

    if (hooks_mem_per_thread(slot))
        return hooks_mem_free_fully(ptr, call);
    return quick_free(&call, ptr, NULL) ? CUDA_SUCCESS : hooks_mem_free_recorded(ptr, stream, slot);
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
    return hooks_mem_free_at_once(ptr, NULL, SLOT_cuMemFree_v2);
}

/* clang-format off */
ON_STREAM(cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream), STREAM_NONE, false,
    return hooks_mem_free_at_once(ptr, stream, SLOT_cuMemFreeAsync);
)

ON_STREAM(cuMemFreeAsync_ptsz, (CUdeviceptr ptr, CUstream stream), STREAM_NONE, true,
    return hooks_mem_free_at_once(ptr, stream, SLOT_cuMemFreeAsync_ptsz);
)
/* clang-format on */

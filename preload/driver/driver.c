/* SPDX-License-Identifier: MIT */
#include "preload/driver/backend.h"

#include "preload/base/forklock.h"
#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/base/results.h"
#include "preload/driver/contexts.h"
#include "preload/driver/costs.h"
#include "preload/driver/life.h"
#include "preload/driver/mempools.h"
#include "preload/driver/reach.h"
#include "preload/driver/relax.h"
#include "preload/driver/resolve.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "alloc/index/granule.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* ---- quiet calls ---------------------------------------------------------------------------- */

/* State that a call of kedge must restore. */
struct quiet {
    struct relaxed relaxed;
    struct context_use use;
};

static struct quiet quiet_begin(void)
{
    lock_assert_none("driver call");
    guard_push();
    return (struct quiet){.relaxed = relax_begin()};
}

static int quiet_end(struct quiet *quiet, int result)
{
    context_leave(&quiet->use);
    relax_end(&quiet->relaxed);
    guard_pop();
    if (result > 0)
        life_driver_said(result);
    return result;
}

/*
 * A result that says the context or stream has ended. A stream outlives the green context that it
 * was made in, but accepts no work any more.
 */
static bool driver_is_gone(int result)
{
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT
            || result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_STREAM_DETACHED;
}

/*
 * Whether a context is over, and so its work (R76, owners of heaps): kedge saw it end, or the
 * driver says of the context itself that there is none. A refusal of another call alone says
 * nothing about work under way.
 */
static bool driver_has_ended(uint64_t generation)
{
    struct context context;
    unsigned version;

    if (context_is_ending(generation)) /* its work may still be under way (R26, ends of contexts) */
        return false;
    return !context_of_generation(generation, &context)
            || driver_is_gone((int)REAL(cuCtxGetApiVersion)(context.handle, &version));
}

/* Every function of the table below gets it, but there is only one driver here. */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a parameter cannot be put in parentheses */
#define SELF void *self __attribute__((unused))

/* Any living context of the device will do for a query about the device. */
static int enter_device(int device, struct context_use *ret_use)
{
    struct context context = {.generation = 0};
    int r = -ENOENT;

    while (r != 0 && context_next(context.generation, &context)) {
        if (context.device != device)
            continue;
        context_leave(ret_use); /* that context has ended meanwhile, or its device is broken */
        r = context_enter(context.generation, ret_use);
    }
    return r;
}

/* Enters a context that the heap's memory belongs to, or one of its device. */
static int enter_heap(enum heap_kind heap, uint64_t owner, int device, struct quiet *quiet)
{
    return heap == HEAP_MAPPED ? enter_device(device, &quiet->use)
                               : context_enter(owner, &quiet->use);
}

/* ---- plain segments ------------------------------------------------------------------------- */

static int mem_alloc(SELF, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    struct quiet quiet = quiet_begin();
    CUdeviceptr ptr = 0;
    int r;

    (void)device;
    r = context_enter(context, &quiet.use);
    if (r == 0)
        r = (int)REAL(cuMemAlloc_v2)(&ptr, size);
    else if (r > 0)
        r = -EIO; /* the program did not ask for this, so the code is not its answer */
    if (r == 0)
        *ret_ptr = ptr;
    return quiet_end(&quiet, r);
}

static int mem_free(SELF, uint64_t context, devptr_t ptr)
{
    struct quiet quiet = quiet_begin();
    int r = context_enter(context, &quiet.use);

    if (r == 0)
        r = (int)REAL(cuMemFree_v2)(ptr);
    return quiet_end(&quiet, r);
}

/* ---- managed memory ------------------------------------------------------------------------- */

/* Managed memory that device and host can use at once, and that prefetches move. */
static bool has_managed(int device)
{
    int is_concurrent = 0;

    return REAL_HAS(cuMemAllocManaged)
            && (REAL_HAS(cuMemPrefetchAsync_v2) || REAL_HAS(cuMemPrefetchAsync))
            && REAL(cuDeviceGetAttribute)(
                       &is_concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device)
            == CUDA_SUCCESS
            && is_concurrent;
}

static int managed_alloc(SELF, enum heap_kind heap, uint64_t owner, int device, uint64_t size,
        devptr_t *ret_ptr, uint64_t *ret_context)
{
    struct quiet quiet = quiet_begin();
    CUdeviceptr ptr = 0;
    int r = enter_heap(heap, owner, device, &quiet);

    if (r == 0 && !has_managed(device))
        r = DRIVER_NOT_SUPPORTED;
    reach_add(REACH_ANY, device);
    if (r == 0)
        r = (int)REAL(cuMemAllocManaged)(&ptr, size, CU_MEM_ATTACH_GLOBAL);
    if (r == DRIVER_NOT_SUPPORTED) /* returned once: alloc does not ask again */
        msg_warn("device %d does not use managed memory beside the host: hints with backing: "
                 "managed go on with host-pinned",
                device);
    if (r == 0) {
        *ret_ptr = ptr;
        *ret_context = quiet.use.generation;
    }
    return quiet_end(&quiet, r);
}

/* Moves its pages to the host or to the device. */
static int prefetch(enum driver_way way, int device, devptr_t ptr, uint64_t size, CUstream stream)
{
    CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

    if (!REAL_HAS(cuMemPrefetchAsync_v2)) /* before CUDA 12.2 */
        return (int)REAL(cuMemPrefetchAsync)(
                ptr, size, way == DRIVER_OUT ? CU_DEVICE_CPU : device, stream);
    if (way == DRIVER_OUT)
        place = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    return (int)REAL(cuMemPrefetchAsync_v2)(ptr, size, place, 0, stream);
}

/* ---- mapped memory -------------------------------------------------------------------------- */

bool backend_shares_handles;

/*
 * Devices that have refused memory made to be registered (R80, pinned blocks) although they report
 * support for it. The pool uses no devices beyond POOL_DEVICES_MAX.
 */
static atomic_bool no_rdma[DEVICES_MAX];

static CUmemAllocationProp handle_prop(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    int capable = 0;

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    /* A later registration must find memory that can be registered (R80). */
    if (REAL(cuDeviceGetAttribute)(
                &capable, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device)
            == CUDA_SUCCESS)
        prop.allocFlags.gpuDirectRDMACapable = capable && !atomic_load(&no_rdma[device]) ? 1 : 0;
    if (backend_shares_handles
            && REAL(cuDeviceGetAttribute)(&capable,
                       CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device)
                    == CUDA_SUCCESS
            && capable)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
}

/* The refusal may be due to that property alone: then the caller tries without it. */
static bool may_be_rdma(int r, CUmemAllocationProp *prop)
{
    bool may = r > 0 && r != CUDA_ERROR_OUT_OF_MEMORY && !results_is_sticky(r)
            && prop->allocFlags.gpuDirectRDMACapable;

    prop->allocFlags.gpuDirectRDMACapable = 0;
    return may;
}

static int granularity(SELF, int device, uint64_t *ret_size)
{
    struct quiet quiet = quiet_begin();
    CUmemAllocationProp prop = handle_prop(device);
    size_t size = 0;
    int r = (int)REAL(cuMemGetAllocationGranularity)(
            &size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

    if (may_be_rdma(r, &prop))
        r = (int)REAL(cuMemGetAllocationGranularity)(
                &size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (r == 0)
        *ret_size = size;
    return quiet_end(&quiet, r);
}

static int memory(SELF, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    struct quiet quiet = quiet_begin();
    size_t total = 0;
    size_t available = 0;
    int r = enter_device(device, &quiet.use);

    if (r == 0)
        r = (int)REAL(cuMemGetInfo_v2)(&available, &total);
    if (r == 0) {
        *ret_total = total;
        *ret_free = available;
    }
    return quiet_end(&quiet, r);
}

static int address_reserve(SELF, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    struct quiet quiet = quiet_begin();
    CUdeviceptr ptr = 0;
    int supported = 0;
    int r = (int)REAL(cuDeviceGetAttribute)(
            &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);

    if (r == 0 && (!supported || !REAL_HAS(cuMemAddressReserve)))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == 0)
        r = (int)REAL(cuMemAddressReserve)(&ptr, size, align, 0, 0);
    if (r == 0)
        *ret_ptr = ptr;
    return quiet_end(&quiet, r);
}

static int address_free(SELF, devptr_t ptr, uint64_t size)
{
    struct quiet quiet = quiet_begin();

    return quiet_end(&quiet, (int)REAL(cuMemAddressFree)(ptr, size));
}

static int handle_create(SELF, int device, uint64_t size, uint64_t *ret_handle)
{
    struct quiet quiet = quiet_begin();
    CUmemAllocationProp prop = handle_prop(device);
    CUmemGenericAllocationHandle handle = 0;
    uint64_t begun = costs_now();
    int r = (int)REAL(cuMemCreate)(&handle, size, &prop, 0);

    costs_add(COST_CREATE, begun, size);

    if (may_be_rdma(r, &prop)) {
        r = (int)REAL(cuMemCreate)(&handle, size, &prop, 0);
        if (r == 0)
            atomic_store(&no_rdma[device], true);
    }
    if (r == 0)
        *ret_handle = handle;
    return quiet_end(&quiet, r);
}

static int handle_release(SELF, uint64_t handle)
{
    struct quiet quiet = quiet_begin();

    return quiet_end(&quiet, (int)REAL(cuMemRelease)(handle));
}

/* The current mappings, so that access that the program gives later reaches each of them. */
struct range {
    uint64_t ptr;
    uint64_t size;
    uint64_t mempool; /* 0 = of a private heap */
    int device;
};

#define RANGE_NOBODY UINT64_MAX /* stands for the memory pool of inaccessible mappings */

FORKLOCK(ranges_lock);
static struct table ranges = TABLE_OF(struct range); /* guarded by ranges_lock */

/* Forgets all mappings in [ptr, ptr + size). */
static void range_forget(devptr_t ptr, uint64_t size)
{
    uint64_t done = 0;

    lock_take(&ranges_lock);
    while (done < size) {
        struct range *range = table_find(&ranges, ptr + done);

        done += range ? range->size : GRANULE_SIZE; /* skips what was not noted */
        (void)table_remove(&ranges, range);
    }
    lock_drop(&ranges_lock);
}

/*
 * Without memory for the record, later access does not reach this range, and the device reports a
 * fault.
 */
static void range_note(devptr_t ptr, uint64_t size)
{
    struct range *range;

    lock_take(&ranges_lock);
    range = table_add(&ranges, ptr);
    if (range) {
        range->size = size;
        range->mempool = RANGE_NOBODY;
    }
    lock_drop(&ranges_lock);
}

/* Sets the owner of the mappings in [ptr, ptr + size). */
static void range_own(devptr_t ptr, uint64_t size, uint64_t mempool, int device)
{
    uint64_t done = 0;

    lock_take(&ranges_lock);
    while (done < size) {
        struct range *range = table_find(&ranges, ptr + done);

        if (!range)
            break;
        range->mempool = mempool;
        range->device = device;
        done += range->size;
    }
    lock_drop(&ranges_lock);
}

static int driver_map(SELF, devptr_t ptr, uint64_t size, uint64_t handle)
{
    struct quiet quiet = quiet_begin();
    uint64_t begun = costs_now();
    int r = (int)REAL(cuMemMap)(ptr, size, 0, handle, 0);

    costs_add(COST_MAP, begun, size);
    if (r == 0)
        range_note(ptr, size);
    return quiet_end(&quiet, r);
}

static int unmap(SELF, devptr_t ptr, uint64_t size)
{
    struct quiet quiet = quiet_begin();
    uint64_t begun = costs_now();
    int r = (int)REAL(cuMemUnmap)(ptr, size);

    costs_add(COST_UNMAP, begun, size);
    if (r == 0)
        range_forget(ptr, size); /* what stays mapped still gets the access that peers are given */
    return quiet_end(&quiet, r);
}

static int set_access(SELF, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    const size_t bytes = (MEMPOOL_ACCESS_MAX + 1) * sizeof(CUmemAccessDesc);
    CUmemAccessDesc *descs = meta_get(bytes); /* too large for a small stack */
    uint64_t mempool = heap == HEAP_MAPPED ? owner : 0;
    struct quiet quiet;
    uint64_t begun;
    size_t n;
    int r;

    if (!descs)
        return -ENOMEM;
    /*
     * Noted before the call: access given meanwhile either is applied to it or is already in the
     * list.
     */
    range_own(ptr, size, access == DRIVER_ACCESS_RW ? mempool : RANGE_NOBODY, device);
    n = mempool_access(mempool, device, descs, MEMPOOL_ACCESS_MAX + 1);
    for (size_t i = 0; i < n && access == DRIVER_ACCESS_NONE; i++)
        descs[i].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    quiet = quiet_begin();
    begun = costs_now();
    r = (int)REAL(cuMemSetAccess)(ptr, size, descs, n);
    costs_add(COST_ACCESS, begun, size);
    meta_put(descs, bytes);
    return quiet_end(&quiet, r);
}

/* A copy of all ranges, which the caller frees; NULL if there are none, or no memory. */
static struct range *ranges_copy(uint32_t *ret_count)
{
    struct range *copy;
    uint32_t count = 0;

    lock_take(&ranges_lock);
    copy = meta_get(ranges.count * sizeof *copy);
    for (const struct range *range = table_next(&ranges, NULL); copy && range;
            range = table_next(&ranges, range))
        copy[count++] = *range;
    lock_drop(&ranges_lock);
    *ret_count = count;
    return copy;
}

static int apply_to(const struct range *range, const CUmemAccessDesc *descs, size_t count)
{
    struct quiet quiet = quiet_begin();
    int r = (int)REAL(cuMemSetAccess)(range->ptr, range->size, descs, count);

    /* Tries twice: without the access, the program's peers fault. */
    if (r != 0 && r != CUDA_ERROR_INVALID_VALUE)
        r = (int)REAL(cuMemSetAccess)(range->ptr, range->size, descs, count);

    r = quiet_end(&quiet, r);
    return r == CUDA_ERROR_INVALID_VALUE ? 0 : r; /* the range was unmapped meanwhile */
}

/* device -1 = any device. */
static int driver_apply(uint64_t mempool, int device, const CUmemAccessDesc *descs, size_t count)
{
    uint32_t count_all;
    struct range *copy = ranges_copy(&count_all);
    int first = 0;

    for (uint32_t i = 0; i < count_all; i++) {
        int r = 0;

        if (copy[i].mempool == mempool && (device < 0 || copy[i].device == device))
            r = apply_to(&copy[i], descs, count);
        first = first ? first : r;
    }
    meta_put(copy, count_all * sizeof *copy);
    return first;
}

int backend_apply_access(uint64_t mempool, const CUmemAccessDesc *descs, size_t count)
{
    mempool_set_access(mempool, descs, count);
    return driver_apply(mempool, -1, descs, count);
}

void backend_apply_peer(const struct context *from, const struct context *to, bool enabled)
{
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};

    if (!mempool_set_peer(from, to, enabled) || from->device == to->device)
        return;
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = from->device;
    if (enabled)
        desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    (void)driver_apply(0, to->device, &desc, 1);
}

/* ---- fences --------------------------------------------------------------------------------- */

/* An event of kedge, in use by a fence or kept for the next one. */
struct event {
    struct event *next;
    CUevent handle;
    uint64_t context;
    atomic_bool passed; /* several threads may query one fence */
};

struct fence {
    struct event *first;
};

FORKLOCK(events_lock);
static struct event *spare_events;  /* guarded by events_lock */
static bool (*held_up)(int device); /* fixed when life starts */
/* cuCtxRecordEvent met a capture there: kedge synchronises instead (R14, capture errors) */
static _Atomic(uint64_t) refused_context;

static struct event *event_take(uint64_t context)
{
    struct event **at;
    struct event *event;

    lock_take(&events_lock);
    for (at = &spare_events; *at && (*at)->context != context; at = &(*at)->next)
        ;
    event = *at;
    if (event)
        *at = event->next;
    lock_drop(&events_lock);
    return event;
}

/* Drops the events of a context that has ended: the driver destroyed them with it. */
static void events_drop(uint64_t context)
{
    struct event **at = &spare_events;

    lock_take(&events_lock);
    while (*at) {
        struct event *event = *at;

        if (event->context != context) {
            at = &event->next;
            continue;
        }
        *at = event->next;
        meta_put(event, sizeof *event);
    }
    lock_drop(&events_lock);
}

static void event_put(struct event *event)
{
    uint64_t context = event->context;
    struct context known;

    lock_take(&events_lock);
    event->next = spare_events;
    spare_events = event;
    lock_drop(&events_lock);
    /* checked after the query: the context may end in between */
    if (!context_of_generation(context, &known))
        events_drop(context);
}

/* An event of this context; to make a new one, the context must be current. */
static int event_new(uint64_t context, struct event **ret_event)
{
    struct event *event = event_take(context);
    struct context_use use;
    int r;

    if (!event) {
        event = meta_get(sizeof *event);
        if (!event)
            return -ENOMEM;
        r = context_enter(context, &use);
        if (r == 0)
            r = (int)REAL(cuEventCreate)(&event->handle, CU_EVENT_DISABLE_TIMING);
        context_leave(&use);
        if (r != 0) {
            meta_put(event, sizeof *event);
            return r;
        }
        event->context = context;
    }
    event->next = NULL;
    atomic_store_explicit(&event->passed, false, memory_order_relaxed);
    *ret_event = event;
    return 0;
}

static void fence_free(struct fence *fence)
{
    while (fence->first) {
        struct event *event = fence->first;

        fence->first = event->next;
        event_put(event);
    }
    meta_put(fence, sizeof *fence);
}

static void fence_put(SELF, uint64_t handle)
{
    fence_free((struct fence *)(uintptr_t)handle);
}

static int synchronise_in(uint64_t context)
{
    struct context_use use;
    int r = context_enter(context, &use);

    if (r == 0)
        r = (int)REAL(cuCtxSynchronize)();
    context_leave(&use);
    return r;
}

/*
 * Waits for all work of a context, outside of the gate, since that takes as long as the work does
 * (R96, unbounded waits outside). -EBUSY: not now: a capture runs, or the context is being ended
 * and its work is still under way (R1, fences cover all streams; R26).
 */
static int drain(uint64_t context)
{
    int r;

    if (!gate_drain_enter())
        return -EBUSY;
    r = synchronise_in(context);
    gate_drain_leave();
    if (results_is_capture_error(r))
        return -EBUSY;
    if (r == -ENOENT || driver_is_gone(r)) /* work of a dead context counts as done (R76) */
        return driver_has_ended(context) ? 0 : -EBUSY;
    return r;
}

/* The driver has no event for all work of a context, or refused it here. */
static bool is_drained(uint64_t generation)
{
    return !REAL_HAS(cuCtxRecordEvent) || atomic_load(&refused_context) == generation;
}

/*
 * One context's part of a fence: an event after all its work. -EOPNOTSUPP: the context must be
 * drained instead.
 */
static int fence_one(struct fence *fence, const struct context *context)
{
    struct event *event;
    int r;

    if (is_drained(context->generation))
        return -EOPNOTSUPP;
    r = event_new(context->generation, &event);
    if (r != 0)
        return r;
    r = (int)REAL(cuCtxRecordEvent)(context->handle, event->handle);
    if (r != 0) {
        event_put(event);
        if (results_is_capture_error(r))
            atomic_store(&refused_context, context->generation);
        return r;
    }
    event->next = fence->first;
    fence->first = event;
    return 0;
}

/* The next context that may have work on memory of the device. */
static bool next_near(int device, struct context *io_context)
{
    bool found = context_next(io_context->generation, io_context);

    while (found && !reach_has(io_context->device, device))
        found = context_next(io_context->generation, io_context);
    return found;
}

/* Records an event for each such context; *ret_drains is set if some need a drain instead. */
static int fence_each(struct fence *fence, int device, bool *ret_drains)
{
    struct context context = {.generation = 0};

    while (next_near(device, &context)) {
        int r = fence_one(fence, &context);

        if (results_is_capture_error(r))
            return -EBUSY;
        if (r == -EOPNOTSUPP)
            *ret_drains = true;
        else if (r == -ENOENT || driver_is_gone(r))
            r = driver_has_ended(context.generation) ? 0 : -EBUSY;
        if (r != 0 && r != -EOPNOTSUPP)
            return r;
    }
    return 0;
}

void backend_on_wait(bool (*is_held_up)(int device))
{
    held_up = is_held_up;
}

/*
 * Whether a stream of the device waits for something that the program does after its current call.
 * Then a wait for all work would not end (R104, bounded waits).
 */
static bool is_held_up(int device)
{
    return held_up && held_up(device);
}

static int drain_each(int device)
{
    struct context context = {.generation = 0};
    int r = 0;

    while (r == 0 && next_near(device, &context))
        if (is_drained(context.generation))
            r = is_held_up(context.device) ? -EBUSY : drain(context.generation);
    return r;
}

/*
 * A fence over all contexts but those that are being ended. -EBUSY: more ends have begun than
 * `endings`, so a context with work may be left out.
 */
static int fence_beside(SELF, int device, uint64_t endings, uint64_t *ret_fence)
{
    bool drains = false;
    struct fence *fence;
    struct quiet quiet;
    int r;

    if (!gate_fence_enter())
        return -EBUSY;
    fence = meta_get(sizeof *fence);
    quiet = quiet_begin();
    r = fence ? fence_each(fence, device, &drains) : -ENOMEM;
    gate_fence_leave();
    if (r == 0 && drains)
        r = drain_each(device);
    if (r == 0 && context_ends(device) != endings)
        r = -EBUSY;
    r = quiet_end(&quiet, r);
    if (r != 0 && fence)
        fence_free(fence);
    if (r == 0)
        *ret_fence = (uint64_t)(uintptr_t)fence;
    return r;
}

static int fence_record(void *self, int device, uint64_t *ret_fence)
{
    uint64_t endings = context_ends(device);

    if (context_is_ending_near(device)) /* its work is under way, and cannot be fenced any more */
        return -EBUSY;
    return fence_beside(self, device, endings, ret_fence);
}

/* The context of a special stream must be current when the stream is named. */
static int enter_stream(const struct stream *stream, struct context_use *ret_use)
{
    *ret_use = (struct context_use){0};
    if (stream->handle != CU_STREAM_LEGACY && stream->handle != CU_STREAM_PER_THREAD)
        return 0;
    return context_enter(stream->context, ret_use);
}

/*
 * `beside`: while captures run. On a stream that is being captured the record would become a node.
 */
static int record_on(const struct stream *stream, struct fence *fence, bool beside)
{
    struct event *event;
    struct context_use use = {0};
    int r = event_new(stream->context, &event);

    if (r != 0)
        return r;
    r = enter_stream(stream, &use);
    if (r == 0 && beside && stream_is_captured(stream->handle))
        r = -EBUSY;
    if (r == 0)
        r = (int)REAL(cuEventRecord)(event->handle, stream->handle);
    context_leave(&use);
    if (r != 0) {
        event_put(event);
        return r;
    }
    fence->first = event;
    return 0;
}

/* One event per context that all empty operations of kedge record; no wait or query uses it. */
struct operation {
    uint64_t context; /* generation */
    CUevent event;
};

static struct table operations = TABLE_OF(struct operation); /* guarded by events_lock */

/* If another thread is faster, our event is kept for fences. */
static int operation_begin(uint64_t context, CUevent *ret_event)
{
    struct quiet quiet = quiet_begin();
    struct operation *known;
    struct event *event;
    int r = quiet_end(&quiet, event_new(context, &event));

    if (r != 0)
        return r;
    lock_take(&events_lock);
    known = table_add(&operations, context);
    *ret_event = known ? known->event : NULL;
    if (known && !known->event)
        *ret_event = known->event = event->handle;
    lock_drop(&events_lock);
    if (*ret_event == event->handle)
        meta_put(event, sizeof *event);
    else
        event_put(event);
    return *ret_event ? 0 : -ENOMEM;
}

int backend_operate(const struct stream *stream)
{
    const struct operation *known;
    CUevent event;
    int r = 0;

    lock_take(&events_lock);
    known = table_find(&operations, stream->context);
    event = known ? known->event : NULL;
    lock_drop(&events_lock);
    if (!event)
        r = operation_begin(stream->context, &event);
    if (r == 0)
        r = (int)REAL(cuEventRecord)(event, stream->handle);
    if (r > 0)
        life_driver_said(r);
    return r;
}

/* Enters a stream's handle and the gate; call leave_gate only after 0. */
static int enter_gate(uint64_t identity, struct stream *ret_stream)
{
    if (!stream_enter(identity, ret_stream))
        return -ENOENT;
    if (gate_fence_enter())
        return 0;
    stream_leave(identity);
    return -EBUSY;
}

static void leave_gate(uint64_t identity)
{
    gate_fence_leave();
    stream_leave(identity);
}

/* Records an event on an entered stream. */
static int record_entered(const struct stream *stream, bool beside, uint64_t *ret_fence)
{
    struct fence *fence = meta_get(sizeof *fence);
    struct quiet quiet = quiet_begin();
    int r = fence ? record_on(stream, fence, beside) : -ENOMEM;

    if (results_is_capture_error(r))
        r = -EBUSY;
    else if (driver_is_gone(r))
        r = -ENOENT;
    r = quiet_end(&quiet, r);
    if (r != 0 && fence)
        fence_free(fence);
    if (r == 0)
        *ret_fence = (uint64_t)(uintptr_t)fence;
    return r;
}

static int stream_record(SELF, uint64_t identity, uint64_t *ret_fence)
{
    struct stream stream;
    int r = enter_gate(identity, &stream);

    if (r != 0)
        return r;
    r = record_entered(&stream, false, ret_fence);
    leave_gate(identity);
    return r;
}

/*
 * Inside a call of the program that is an operation of the stream: a capture that the event would
 * invalidate is invalidated by the call itself.
 */
static int stream_record_beside(void *self, uint64_t identity, uint64_t *ret_fence)
{
    struct stream stream;
    int r = gate_may_capture() ? -EBUSY : stream_record(self, identity, ret_fence);

    if (r != -EBUSY)
        return r;
    if (!stream_enter(identity, &stream))
        return -ENOENT;
    r = record_entered(&stream, true, ret_fence);
    stream_leave(identity);
    return r;
}

/* Calls with the event's context current: this thread may have none. */
static int call_in_its_context(const struct event *event, CUresult (*call)(CUevent event))
{
    struct context_use use;
    int r = context_enter(event->context, &use);

    if (r == 0)
        r = (int)call(event->handle);
    context_leave(&use);
    return r;
}

static int ask_event(const struct event *event)
{
    struct context context;
    int r;

    if (!context_of_generation(event->context, &context))
        return -ENOENT;
    r = (int)REAL(cuEventQuery)(event->handle);
    return driver_is_gone(r) ? call_in_its_context(event, REAL(cuEventQuery)) : r;
}

/*
 * "Passed" comes from the driver or follows from the end of the context; any other answer means:
 * not known.
 */
static int query_event(struct event *event)
{
    int r = 0;

    if (atomic_load_explicit(&event->passed, memory_order_relaxed))
        return 0;
    r = ask_event(event);
    if ((r == -ENOENT || driver_is_gone(r)) && driver_has_ended(event->context))
        r = 0;
    if (r == 0)
        atomic_store_explicit(&event->passed, true, memory_order_relaxed);
    if (r == CUDA_ERROR_NOT_READY || (r == -ENOENT && context_is_ending(event->context)))
        return -EAGAIN;
    /* the program did not ask, so other codes are not its answer */
    return r == 0 || results_is_sticky(r) ? r : -EBUSY;
}

static int query_events(const struct fence *fence)
{
    int r = 0;

    for (struct event *event = fence->first; event && r == 0; event = event->next)
        r = query_event(event);
    return r;
}

static int fence_query(SELF, uint64_t handle)
{
    struct quiet quiet;
    int r;

    /* no event is queried while a capture runs (R10, no calls during captures) */
    if (!gate_fence_enter())
        return -EBUSY;
    quiet = quiet_begin();
    r = quiet_end(&quiet, query_events((const struct fence *)(uintptr_t)handle));
    gate_fence_leave();
    return r;
}

static uint64_t clock_ns(SELF)
{
    return costs_now();
}

static uint64_t move_ns(SELF, uint64_t size)
{
    return costs_move(size);
}

static int fence_wait(void *self, uint64_t handle, uint32_t timeout_ms)
{
    /* 20 us first, then longer: kernels take micro- to milliseconds */
    struct timespec pause = {0, 20000};
    uint64_t end = clock_ns(self) + timeout_ms * UINT64_C(1000000);
    int r = fence_query(self, handle);

    while (r == -EAGAIN && clock_ns(self) < end) {
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000)
            pause.tv_nsec += pause.tv_nsec / 2;
        r = fence_query(self, handle);
    }
    return r;
}

/* Queries before the first sleep: even an event with no work before it does not pass at once. */
#define QUIET_LOOKS 64

static int driver_look_at(const struct fence *fence, uint32_t timeout_ms)
{
    uint64_t handle = (uint64_t)(uintptr_t)fence;
    int r = fence_query(NULL, handle);

    for (int i = 0; i < QUIET_LOOKS && r == -EAGAIN; i++) {
        (void)sched_yield();
        r = fence_query(NULL, handle);
    }
    return r == -EAGAIN && timeout_ms ? fence_wait(NULL, handle, timeout_ms) : r;
}

/*
 * A fence of one context. -EBUSY: not now, as with fence_record; -EOPNOTSUPP: the driver has no
 * context events.
 */
static int fence_context(uint64_t generation, struct fence *ret_fence)
{
    struct context context;
    struct quiet quiet;
    int r;

    if (!gate_fence_enter())
        return -EBUSY;
    quiet = quiet_begin();
    r = context_of_generation(generation, &context) ? fence_one(ret_fence, &context) : -ENOENT;
    r = quiet_end(&quiet, results_is_capture_error(r) ? -EBUSY : r);
    gate_fence_leave();
    return r;
}

/*
 * Without context events the state cannot be queried, so the free waits, unless its wait might not
 * end.
 */
static int context_quiet(SELF, uint64_t generation, uint32_t timeout_ms)
{
    struct fence fence = {.first = NULL};
    struct context context;
    int r = fence_context(generation, &fence);

    if (r == 0)
        r = driver_look_at(&fence, timeout_ms);
    if (fence.first)
        event_put(fence.first);
    if (r == -EOPNOTSUPP)
        r = context_of_generation(generation, &context) && is_held_up(context.device) ? -EAGAIN : 0;
    return r;
}

static int driver_wait_on(const struct stream *stream, const struct fence *fence)
{
    struct context_use use = {0};
    int r = enter_stream(stream, &use);

    for (const struct event *event = fence->first; event && r == 0; event = event->next) {
        struct context context;

        if (context_of_generation(event->context, &context))
            r = (int)REAL(cuStreamWaitEvent)(stream->handle, event->handle, 0);
        else if (context_is_ending(event->context))
            r = -EBUSY;
    }
    context_leave(&use);
    return r;
}

static int stream_wait_fence(SELF, uint64_t identity, uint64_t handle)
{
    struct stream stream;
    struct quiet quiet;
    int r = enter_gate(identity, &stream);

    if (r != 0)
        return r;
    quiet = quiet_begin();
    r = driver_wait_on(&stream, (const struct fence *)(uintptr_t)handle);
    r = quiet_end(&quiet, results_is_capture_error(r) ? -EBUSY : r);
    leave_gate(identity);
    return r;
}

/* ---- poison --------------------------------------------------------------------------------- */

enum {
    POISON_CHUNK = 1 << 20, /* bytes per read */
};

/*
 * Fills wait for work of the program; reads must not wait for fills. Content is copied both ways at
 * once.
 */
enum side {
    SIDE_FILL,
    SIDE_READ,
    SIDE_OUT,
    SIDE_IN,
    SIDE_COUNT,
};

/* Streams of kedge, created at their first use. */
struct sides {
    uint64_t context; /* generation */
    CUstream stream[SIDE_COUNT];
};

FORKLOCK(sides_lock);
static struct table sides = TABLE_OF(struct sides); /* guarded by sides_lock */

static CUstream side_find(uint64_t context, enum side side)
{
    const struct sides *known;
    CUstream stream;

    lock_take(&sides_lock);
    known = table_find(&sides, context);
    stream = known ? known->stream[side] : NULL;
    lock_drop(&sides_lock);
    return stream;
}

/* Of the current context. */
static int side_stream(uint64_t context, enum side side, CUstream *ret_stream)
{
    CUstream made = NULL;
    struct sides *known;
    int r;

    *ret_stream = side_find(context, side);
    if (*ret_stream)
        return 0;
    r = (int)REAL(cuStreamCreate)(&made, CU_STREAM_NON_BLOCKING);
    if (r != 0)
        return r;
    lock_take(&sides_lock);
    known = table_add(&sides, context);
    if (known && !known->stream[side]) {
        known->stream[side] = made;
        made = NULL;
    }
    *ret_stream = known ? known->stream[side] : NULL;
    lock_drop(&sides_lock);
    if (made) /* another thread was faster, or there is no memory */
        (void)REAL(cuStreamDestroy_v2)(made);
    return *ret_stream ? 0 : -ENOMEM;
}

/* A stream of kedge in a context that can reach the heap's memory. */
static int enter_side(enum heap_kind heap, uint64_t owner, int device, enum side side,
        struct quiet *quiet, CUstream *ret_stream)
{
    int r = enter_heap(heap, owner, device, quiet);

    return r ? r : side_stream(quiet->use.generation, side, ret_stream);
}

static int poison(SELF, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, uint64_t fence)
{
    struct stream stream = {.identity = 0};
    struct quiet quiet;
    int r;

    if (!gate_fence_enter())
        return -EBUSY;
    quiet = quiet_begin();
    r = enter_side(heap, owner, device, SIDE_FILL, &quiet, &stream.handle);
    if (r == 0 && fence)
        r = driver_wait_on(&stream, (const struct fence *)(uintptr_t)fence);
    if (r == 0)
        r = (int)REAL(cuMemsetD8Async)(ptr, DRIVER_POISON, size, stream.handle);
    r = quiet_end(&quiet, results_is_capture_error(r) ? -EBUSY : r);
    gate_fence_leave();
    return r;
}

/*
 * Reads a part. Outside of the gate, since it takes as long as the copy and those before it on the
 * device do (R96). It is on a stream of kedge and makes no fence, so it does not disturb a capture
 * that begins meanwhile. -EBUSY: a capture runs already (R10).
 */
static int driver_read_part(enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, unsigned char *ret_bytes)
{
    CUstream stream = NULL;
    struct quiet quiet;
    int r;

    if (gate_captures() > 0)
        return -EBUSY;
    quiet = quiet_begin();
    r = enter_side(heap, owner, device, SIDE_READ, &quiet, &stream);
    if (r == 0)
        r = (int)REAL(cuMemcpyDtoHAsync_v2)(ret_bytes, ptr, size, stream);
    if (r == 0)
        r = (int)REAL(cuStreamSynchronize)(stream);
    return quiet_end(&quiet, results_is_capture_error(r) ? -EBUSY : r);
}

static uint64_t count_intact(const unsigned char *bytes, uint64_t size)
{
    uint64_t n = 0;

    if (bytes[0] == DRIVER_POISON && memcmp(bytes, bytes + 1, size - 1) == 0)
        return size;
    while (bytes[n] == DRIVER_POISON)
        n++;
    return n;
}

static int poison_read(SELF, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, uint64_t *ret_intact)
{
    unsigned char *bytes = meta_get(POISON_CHUNK);
    uint64_t done = 0;
    uint64_t part = 0;
    uint64_t intact = 0;
    int r = bytes ? 0 : -ENOMEM;

    while (r == 0 && done < size && intact == part) {
        part = min_of(size - done, POISON_CHUNK);
        r = driver_read_part(heap, owner, device, ptr + done, part, bytes);
        if (r == 0)
            intact = count_intact(bytes, part);
        done += intact;
    }
    if (bytes)
        meta_put(bytes, POISON_CHUNK);
    if (r == 0)
        *ret_intact = done;
    return r;
}

/* ---- content -------------------------------------------------------------------------------- */

/*
 * Host memory that holds content. kedge gets it from the kernel and pins it by registration in one
 * context, for all contexts. If that context ends, the memory and its content stay, since blocks of
 * memory pools survive a reset (R76), but it is pageable from then on. A child of a fork does not
 * have it: the device writes to the parent's pages alone.
 */
struct host {
    uint64_t address;
    uint64_t size;
    uint64_t context; /* generation; 0 = pageable */
};

FORKLOCK(hosts_lock);
static struct table hosts = TABLE_OF(struct host); /* guarded by hosts_lock */

static bool note_host(void *address, uint64_t size, uint64_t context)
{
    struct host *host;

    lock_take(&hosts_lock);
    host = table_add(&hosts, (uintptr_t)address);
    if (host) {
        host->size = size;
        host->context = context;
    }
    lock_drop(&hosts_lock);
    return host != NULL;
}

static uint64_t forget_host(void *address)
{
    struct host *host;
    uint64_t context;

    lock_take(&hosts_lock);
    host = table_find(&hosts, (uintptr_t)address);
    context = host ? host->context : 0;
    (void)table_remove(&hosts, host);
    lock_drop(&hosts_lock);
    return context;
}

/* The address may be inside the memory. */
static bool is_pinned(const void *address)
{
    uint64_t at = (uintptr_t)address;
    const struct host *host;
    bool pinned;

    lock_take(&hosts_lock);
    host = table_find(&hosts, at);
    if (!host)
        host = table_next(&hosts, NULL);
    while (host && (at < host->address || at - host->address >= host->size))
        host = table_next(&hosts, host);
    pinned = host && host->context;
    lock_drop(&hosts_lock);
    return pinned;
}

static void unpin_hosts_of(uint64_t context)
{
    lock_take(&hosts_lock);
    for (struct host *host = table_next(&hosts, NULL); host; host = table_next(&hosts, host))
        if (host->context == context)
            host->context = 0;
    lock_drop(&hosts_lock);
}

/* The primary context, which lives longest, or any other. */
static uint64_t lasting_context(void)
{
    struct context context = {.generation = 0};
    uint64_t first = 0;

    while (context_next(context.generation, &context)) {
        if (context_primary(context.device) == context.handle)
            return context.generation;
        first = first ? first : context.generation;
    }
    return first;
}

/* *ret_context 0: the memory is pageable, since the driver refused to register it. */
static int pin_host(void *host, uint64_t size, uint64_t *ret_context)
{
    uint64_t context = lasting_context();
    struct quiet quiet;
    int r;

    *ret_context = 0;
    if (!REAL_HAS(cuMemHostRegister_v2))
        return 0;
    quiet = quiet_begin();
    r = context ? context_enter(context, &quiet.use) : -ENOENT;
    if (r == 0)
        r = (int)REAL(cuMemHostRegister_v2)(host, size, CU_MEMHOSTREGISTER_PORTABLE);
    if (r == 0)
        *ret_context = context;
    return quiet_end(&quiet, r == CUDA_ERROR_NOT_SUPPORTED ? 0 : r);
}

/* False: the driver still has it registered. */
static bool unpin_host(void *host, uint64_t context)
{
    struct quiet quiet = quiet_begin();
    int r = context_enter(context, &quiet.use);

    if (r == 0)
        r = (int)REAL(cuMemHostUnregister)(host);
    (void)quiet_end(&quiet, 0);
    return r == 0 || r == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
            || ((r == -ENOENT || driver_is_gone(r)) && driver_has_ended(context));
}

static void host_give(SELF, void *host, uint64_t size, bool pinned)
{
    uint64_t context = forget_host(host);

    (void)pinned;
    if (!context || unpin_host(host, context))
        (void)munmap(host, size);
}

static int host_take(SELF, uint64_t size, bool pinned, void **ret_host)
{
    void *host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t context = 0;
    int r = 0;

    if (host == MAP_FAILED)
        return -ENOMEM;
    (void)madvise(host, size, MADV_HUGEPAGE);
    if (madvise(host, size, MADV_DONTFORK) < 0)
        r = -errno;
    if (r == 0 && pinned)
        r = pin_host(host, size, &context);
    if (r == 0 && !note_host(host, size, context)) {
        r = -ENOMEM;
        if (context && !unpin_host(host, context))
            return r;
    }
    if (r == 0)
        *ret_host = host;
    else
        (void)munmap(host, size);
    return r;
}

static int move_content(
        enum driver_way way, int device, devptr_t ptr, void *host, uint64_t size, CUstream stream)
{
    if (!host)
        return prefetch(way, device, ptr, size, stream);
    if (way == DRIVER_OUT)
        return (int)REAL(cuMemcpyDtoHAsync_v2)(host, ptr, size, stream);
    return (int)REAL(cuMemcpyHtoDAsync_v2)(ptr, host, size, stream);
}

static int wait_on_all(const struct stream *stream, const uint64_t *fences, uint32_t count)
{
    int r = 0;

    for (uint32_t i = 0; i < count && r == 0; i++)
        r = driver_wait_on(stream, (const struct fence *)(uintptr_t)fences[i]);
    return r;
}

/*
 * Copies of pageable memory run outside of the gate, since the driver waits for the copy (R96). If
 * the fence could not be recorded, the copy is waited for, and a fence without events counts as
 * passed.
 */
static int content(SELF, enum heap_kind heap, uint64_t owner, int device, enum driver_way way,
        devptr_t ptr, void *host, uint64_t size, const uint64_t *after, uint32_t count,
        uint64_t *ret_fence)
{
    enum side side = way == DRIVER_OUT ? SIDE_OUT : SIDE_IN;
    struct stream stream = {.identity = 0};
    bool pinned = !host || is_pinned(host); /* managed pages also move by themselves */
    bool waits = !pinned;
    struct fence *fence;
    struct quiet quiet;
    int r;

    if (!gate_fence_enter())
        return -EBUSY;
    fence = meta_get(sizeof *fence);
    quiet = quiet_begin();
    r = fence ? enter_side(heap, owner, device, side, &quiet, &stream.handle) : -ENOMEM;
    stream.context = quiet.use.generation;
    if (r == 0)
        r = wait_on_all(&stream, after, count);
    if (r == 0 && pinned)
        r = move_content(way, device, ptr, host, size, stream.handle);
    if (r == 0 && pinned)
        waits = record_on(&stream, fence, false) != 0;
    gate_fence_leave();
    if (r == 0 && !pinned)
        r = move_content(way, device, ptr, host, size, stream.handle);
    if (r == 0 && waits)
        r = (int)REAL(cuStreamSynchronize)(stream.handle);
    r = quiet_end(&quiet, results_is_capture_error(r) ? -EBUSY : r);
    if (r == 0)
        *ret_fence = (uint64_t)(uintptr_t)fence;
    else if (fence)
        fence_free(fence);
    return r;
}

/* ---- readers -------------------------------------------------------------------------------- */

static uint64_t readers_snapshot(SELF)
{
    return guard_readers_snapshot();
}

static int readers_passed(SELF, uint64_t snapshot)
{
    return guard_readers_passed(snapshot);
}

const struct driver backend_driver = {
        .self = NULL,
        .mem_alloc = mem_alloc,
        .mem_free = mem_free,
        .context_quiet = context_quiet,
        .managed_alloc = managed_alloc,
        .granularity = granularity,
        .memory = memory,
        .address_reserve = address_reserve,
        .address_free = address_free,
        .handle_create = handle_create,
        .handle_release = handle_release,
        .map = driver_map,
        .unmap = unmap,
        .set_access = set_access,
        .fence_record = fence_record,
        .fence_record_beside = fence_beside,
        .stream_record = stream_record,
        .stream_record_beside = stream_record_beside,
        .fence_query = fence_query,
        .fence_wait = fence_wait,
        .stream_wait_fence = stream_wait_fence,
        .fence_put = fence_put,
        .poison = poison,
        .poison_read = poison_read,
        .host_take = host_take,
        .host_give = host_give,
        .content = content,
        .clock_ns = clock_ns,
        .move_ns = move_ns,
        .readers_snapshot = readers_snapshot,
        .readers_passed = readers_passed,
};

/*
 * Waits by an event after all the context's work, or below driver 12.5 by the driver's own wait.
 * -EBUSY: a capture runs.
 */
static int wait_for_context(uint64_t generation)
{
    struct fence fence = {.first = NULL};
    struct context context;
    struct quiet quiet;
    int r;

    if (!gate_fence_enter())
        return -EBUSY;
    quiet = quiet_begin();
    r = context_of_generation(generation, &context) ? fence_one(&fence, &context) : -ENOENT;
    gate_fence_leave();
    if (r == -EOPNOTSUPP)
        r = drain(generation);
    if (fence.first) {
        /* while one runs, an event that was not recorded in a capture may be waited for */
        r = call_in_its_context(fence.first, REAL(cuEventSynchronize));
        event_put(fence.first);
    }
    return quiet_end(&quiet, results_is_capture_error(r) ? -EBUSY : r);
}

bool backend_is_idle(uint64_t generation)
{
    struct fence fence = {.first = NULL};
    bool is_idle = fence_context(generation, &fence) == 0
            && fence_query(NULL, (uint64_t)(uintptr_t)&fence) == 0;

    if (fence.first)
        event_put(fence.first);
    return is_idle;
}

/*
 * Allocates memory of the driver and frees it, for the wait of the free: device memory, or host
 * memory where the device is full.
 */
static int free_for_the_wait(void)
{
    CUdeviceptr ptr = 0;
    void *host = NULL;
    int r = (int)REAL(cuMemAlloc_v2)(&ptr, 1);

    if (r == 0)
        return (int)REAL(cuMemFree_v2)(ptr);
    r = (int)REAL(cuMemHostAlloc)(&host, 1, 0);
    return r ? r : (int)REAL(cuMemFreeHost)(host);
}

/*
 * While a capture runs, no call may concern a whole context: it would invalidate the captures of
 * its streams. But a thread in relaxed mode may allocate and free, which does not touch captures
 * (cuThreadExchangeStreamCaptureMode), and the driver's free waits for the work of its context: the
 * same wait that the program's free would have made.
 */
static int wait_beside_capture(uint64_t generation)
{
    struct quiet quiet = quiet_begin();
    int r = quiet.relaxed.is_on ? context_enter(generation, &quiet.use) : -EBUSY;

    if (r == 0)
        r = free_for_the_wait();
    return quiet_end(&quiet, results_is_capture_error(r) ? -EBUSY : r);
}

int backend_synchronise(uint64_t generation)
{
    int r = wait_for_context(generation);

    return r == -EBUSY ? wait_beside_capture(generation) : r;
}

void backend_context_gone(uint64_t context)
{
    events_drop(context);
    lock_take(&events_lock);
    (void)table_remove(&operations, table_find(&operations, context));
    lock_drop(&events_lock);
    unpin_hosts_of(context);
    mempool_context_gone(context);
    lock_take(&sides_lock); /* the driver destroys its streams with it */
    (void)table_remove(&sides, table_find(&sides, context));
    lock_drop(&sides_lock);
}

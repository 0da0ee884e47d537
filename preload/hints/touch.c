/* SPDX-License-Identifier: MIT */
#include "preload/hints/touch.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/caller/coverage.h"
#include "preload/driver/contexts.h"
#include "preload/driver/reach.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/hints/bring.h"
#include "preload/hints/hit.h"
#include "preload/hints/pins.h"
#include "preload/hints/sidecar.h"
#include "tracker/capture/capture.h"
#include "tracker/capture/uses.h"
#include "tracker/python/pystack.h"
#include "tracker/where/where.h"

#include <errno.h>
#include <stdio.h>

static inline __attribute__((always_inline)) void note_use(
        devptr_t ptr, uint64_t size, enum touch how)
{
    if (!uses_on() || size == 0)
        return;
    if (how == TOUCH_WRITE)
        uses_write(ptr, size, &guard_thread.moment);
    else
        uses_touch(ptr, size, how == TOUCH_INSIDE ? USE_MAY : USE_SURE, &guard_thread.moment);
}

/* Of a stream that is no default one. */
static uint64_t stream_devices(CUstream stream)
{
    struct context owner;
    CUcontext handle = NULL;

    if (!REAL_HAS(cuStreamGetCtx) || REAL(cuStreamGetCtx)(stream, &handle) != CUDA_SUCCESS)
        return REACH_ALL;
    context_note(handle);
    return context_of_handle(handle, &owner) ? reach_bit(owner.device) : REACH_ALL;
}

uint64_t touch_devices(struct touch_from *from)
{
    struct context here;

    if (from->devices)
        return from->devices;
    from->devices = context_here(&here) == 0 ? reach_bit(here.device) : REACH_ALL;
    if (from->stream != STREAM_NONE && from->stream != CU_STREAM_LEGACY
            && from->stream != CU_STREAM_PER_THREAD)
        from->devices |= stream_devices(from->stream);
    return from->devices;
}

/* Which of the devices makes a copy, only the driver knows. */
static void touch_names(uint64_t devices)
{
    struct touch_from *from = guard_thread.from;

    from->named |= devices;
    reach_add_all(touch_devices(from) | from->named, from->named);
}

static void touch_block(devptr_t ptr)
{
    struct block_info info;

    if (session_pool && pool_find(session_pool, ptr, &info) == 0)
        touch_names(reach_bit(info.device));
}

void touch_context(CUcontext context)
{
    struct context named;

    if (!guard_thread.from || !context)
        return;
    context_note(context);
    (void)touch_devices(guard_thread.from);
    guard_thread.from->devices |=
            context_of_handle(context, &named) ? reach_bit(named.device) : REACH_ALL;
}

void touch_runs(uint64_t devices)
{
    if (guard_thread.from)
        reach_run(touch_devices(guard_thread.from), devices);
}

/* With hints, or on a captured stream: then the block is used when the graph is launched. */
static __attribute__((noinline)) bool touch_and_stop(
        devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    struct pool_hit hit;

    if (sidecar.hints && size != 0 && pool_touch(session_pool, ptr, size, &hit)
            && hit_must_stop(&hit, ptr, how, what))
        return true;
    if (guard_thread.pins)
        return pins_collect(guard_thread.pins, ptr, size, how, what);
    if (guard_thread.from)
        touch_block(ptr);
    note_use(ptr, size, how);
    return guard_thread.bring && bring_name(ptr, size, how == TOUCH_POINTER || how == TOUCH_WRITE);
}

bool touch_range(devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    bool stops;

    if (__builtin_expect(sidecar.hints || guard_thread.pins || guard_thread.from, 0)) {
        stops = touch_and_stop(ptr, size, how, what);
        guard_thread.word = hit_word(ptr);
        return stops;
    }
    note_use(ptr, size, how);
    return false;
}

bool touch_copy(devptr_t dst, devptr_t src, uint64_t size, const char *what)
{
    return touch_range(dst, size, TOUCH_WRITE, what) || touch_range(src, size, TOUCH_READ, what)
            || bring_data(dst, (const void *)(uintptr_t)src, size);
}

bool touch_copies(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
        size_t count, const char *what)
{
    for (size_t i = 0; dsts && srcs && sizes && i < count; i++)
        if (touch_copy(dsts[i], srcs[i], sizes[i], what))
            return true;
    return false;
}

/* 0 where the operand is an offset in a logical endpoint: what is bound to that is pinned (hooks_objects.c). */
static devptr_t operand_at(const CUfabricCpyOperand *operand)
{
    return operand->type == CU_FABRIC_COPY_OPERAND_TYPE_POINTER ? operand->op.ptr.ptr : 0;
}

bool touch_fabric(const CUDA_FABRIC_COPY_BATCH_OP *ops, size_t count, const char *what)
{
    for (size_t i = 0; ops && i < count; i++) {
        devptr_t dst = operand_at(&ops[i].dst);
        devptr_t src = operand_at(&ops[i].src);

        if ((dst && touch_range(dst, ops[i].size, TOUCH_WRITE, what))
                || (src && touch_range(src, ops[i].size, TOUCH_READ, what))
                || (dst && src && bring_data(dst, (const void *)(uintptr_t)src, ops[i].size)))
            return true;
    }
    return false;
}

uint64_t touch_extent(size_t pitch, size_t plane_rows, size_t width, size_t height, size_t depth)
{
    uint64_t rows;

    if (width == 0 || height == 0 || depth == 0)
        return 0;
    rows = (uint64_t)(depth - 1) * (plane_rows ? plane_rows : height) + height - 1;
    return rows * (pitch ? pitch : width) + width;
}

/* The first byte that is copied. */
static devptr_t touch_begin_of(const struct touch_side *side, CUextent3D size)
{
    size_t pitch = side->pitch ? side->pitch : size.width;
    size_t rows = side->plane_rows ? side->plane_rows : size.height;

    return (side->type == CU_MEMORYTYPE_HOST ? (uintptr_t)side->host : side->device)
            + (side->z * rows + side->y) * pitch + side->x;
}

static bool touch_side(
        const struct touch_side *side, CUextent3D size, enum touch how, const char *what)
{
    size_t pitch = side->pitch ? side->pitch : size.width;
    size_t rows = side->plane_rows ? side->plane_rows : size.height;

    if (side->type == CU_MEMORYTYPE_ARRAY)
        return false;
    return touch_range(touch_begin_of(side, size),
            touch_extent(pitch, rows, size.width, size.height, size.depth), how, what);
}

/* Are there no gaps between the rows? */
static bool touch_is_whole(const struct touch_side *side, CUextent3D size)
{
    return (!side->pitch || side->pitch == size.width)
            && (!side->plane_rows || side->plane_rows == size.height);
}

/* Addresses in what comes from the host: of rows with gaps between them the first one is looked through. */
static bool touch_data(const struct touch_side *src, const struct touch_side *dst, CUextent3D size)
{
    if (src->type != CU_MEMORYTYPE_HOST || dst->type == CU_MEMORYTYPE_HOST
            || dst->type == CU_MEMORYTYPE_ARRAY)
        return false;
    return bring_data(touch_begin_of(dst, size), (const void *)(uintptr_t)touch_begin_of(src, size),
            touch_is_whole(src, size) ? size.width * size.height * size.depth : size.width);
}

bool touch_sides(struct touch_side src, struct touch_side dst, CUextent3D size, const char *what)
{
    enum touch writes = touch_is_whole(&dst, size) ? TOUCH_WRITE : TOUCH_POINTER;

    return touch_side(&src, size, TOUCH_READ, what) || touch_side(&dst, size, writes, what)
            || touch_data(&src, &dst, size);
}

void touch_unseen(void)
{
    if (!uses_on())
        return;
    if (guard_thread.pins)
        pins_unseen(guard_thread.pins);
    else
        uses_unseen(&guard_thread.moment);
}

bool touch_untold(void)
{
    touch_unseen();
    if (guard_thread.pins && sidecar.evicts)
        pins_untold(guard_thread.pins);
    return bring_all();
}

/* One side of a copy. */
struct side {
    CUcontext context;
    int device;
    bool is_mapped; /* of a context */
};

static bool touch_is_mapped(devptr_t ptr, struct side *ret_side)
{
    struct context context;
    struct block_info info;

    if (pool_find(session_pool, ptr, &info) != 0 || info.heap != HEAP_PRIVATE
            || !context_of_generation(info.owner, &context))
        return false;
    *ret_side = (struct side){context.handle, info.device, true};
    return true;
}

/* Other memory: the driver knows whose it is, unless it belongs to no context. */
static bool touch_is_plain(devptr_t ptr, struct side *ret_side)
{
    *ret_side = (struct side){NULL, -1, false};
    return REAL(cuPointerGetAttribute)(&ret_side->context, CU_POINTER_ATTRIBUTE_CONTEXT, ptr)
            == CUDA_SUCCESS
            && REAL(cuPointerGetAttribute)(
                       &ret_side->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr)
            == CUDA_SUCCESS
            && ret_side->context;
}

bool touch_peers(devptr_t dst, devptr_t src, CUcontext *ret_dst, CUcontext *ret_src)
{
    struct side to = {.is_mapped = false};
    struct side from = {.is_mapped = false};
    struct context here;

    if (!sidecar.acts && !guard_has(GUARD_PEERS))
        return false;
    (void)touch_is_mapped(dst, &to);
    (void)touch_is_mapped(src, &from);
    if ((!to.is_mapped && !from.is_mapped) || context_here(&here) != 0)
        return false;
    if ((!to.is_mapped && !touch_is_plain(dst, &to))
            || (!from.is_mapped && !touch_is_plain(src, &from)))
        return false;
    if (to.device == here.device && from.device == here.device)
        return false;
    *ret_dst = to.context;
    *ret_src = from.context;
    return true;
}

bool touch_unknown_layout(const char *call)
{
    bool stops = touch_untold();

    if (!sidecar.acts || !hint_refuse_live(sidecar.hints) || !sidecar.lives)
        return stops;
    msg_warn("%s: the driver does not tell the parameters of a kernel, live hints are shadow from "
             "here on",
            call);
    session_report(capture_note(1, "live hints ended: the parameters of a kernel are not known"));
    return stops;
}

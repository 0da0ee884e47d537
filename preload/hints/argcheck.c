/* SPDX-License-Identifier: MIT */
#include "preload/hints/argcheck.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/caller/coverage.h"
#include "preload/driver/contexts.h"
#include "preload/driver/reach.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/hit.h"
#include "preload/hints/pins.h"
#include "tracker/capture/capture.h"
#include "tracker/capture/uses.h"
#include "tracker/where/where.h"

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

/* For a stream that is not a default one. */
static uint64_t stream_devices(CUstream stream)
{
    struct context owner;
    CUcontext handle = NULL;

    if (!REAL_HAS(cuStreamGetCtx) || REAL(cuStreamGetCtx)(stream, &handle) != CUDA_SUCCESS)
        return REACH_ALL;
    context_note(handle);
    return context_of_handle(handle, &owner) ? reach_bit(owner.device) : REACH_ALL;
}

uint64_t argcheck_devices(struct argcheck_from *from)
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

/* Only the driver knows which of the devices makes a copy. */
static void argcheck_names(uint64_t devices)
{
    struct argcheck_from *from = guard_thread.from;

    from->named |= devices;
    reach_add_all(argcheck_devices(from) | from->named, from->named);
}

static void argcheck_block(devptr_t ptr)
{
    struct block_info info;

    if (session_pool && pool_find(session_pool, ptr, &info) == 0)
        argcheck_names(reach_bit(info.device));
}

void argcheck_context(CUcontext context)
{
    struct context named;

    if (!guard_thread.from || !context)
        return;
    context_note(context);
    (void)argcheck_devices(guard_thread.from);
    guard_thread.from->devices |=
            context_of_handle(context, &named) ? reach_bit(named.device) : REACH_ALL;
}

void argcheck_runs(uint64_t devices)
{
    if (guard_thread.from)
        reach_run(argcheck_devices(guard_thread.from), devices);
}

/* Used with hints, or on a captured stream, where the block is used when the graph is launched. */
static __attribute__((noinline)) bool argcheck_and_stop(
        devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    struct pool_hit hit;

    if (hints_run.hints && size != 0 && pool_touch(session_pool, ptr, size, &hit)
            && hit_must_stop(&hit, ptr, how, what))
        return true;
    if (guard_thread.pins)
        return pins_collect(guard_thread.pins, ptr, size, how, what);
    if (guard_thread.from)
        argcheck_block(ptr);
    note_use(ptr, size, how);
    return guard_thread.bring
            && evict_in_name(ptr, size, how == TOUCH_POINTER || how == TOUCH_WRITE);
}

bool argcheck_range(devptr_t ptr, uint64_t size, enum touch how, const char *what)
{
    bool stops;

    if (__builtin_expect(hints_run.hints || guard_thread.pins || guard_thread.from, 0)) {
        stops = argcheck_and_stop(ptr, size, how, what);
        guard_thread.word = hit_word(ptr);
        return stops;
    }
    note_use(ptr, size, how);
    return false;
}

bool argcheck_copy(devptr_t dst, devptr_t src, uint64_t size, const char *what)
{
    return argcheck_range(dst, size, TOUCH_WRITE, what)
            || argcheck_range(src, size, TOUCH_READ, what)
            || evict_in_data(dst, (const void *)(uintptr_t)src, size);
}

bool argcheck_copies(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
        size_t count, const char *what)
{
    for (size_t i = 0; dsts && srcs && sizes && i < count; i++)
        if (argcheck_copy(dsts[i], srcs[i], sizes[i], what))
            return true;
    return false;
}

/*
 * 0 if the operand is an offset in a logical endpoint: memory bound to that is pinned
 * (hooks_objects.c).
 */
static devptr_t operand_at(const CUfabricCpyOperand *operand)
{
    return operand->type == CU_FABRIC_COPY_OPERAND_TYPE_POINTER ? operand->op.ptr.ptr : 0;
}

bool argcheck_fabric(const CUDA_FABRIC_COPY_BATCH_OP *ops, size_t count, const char *what)
{
    for (size_t i = 0; ops && i < count; i++) {
        devptr_t dst = operand_at(&ops[i].dst);
        devptr_t src = operand_at(&ops[i].src);

        if ((dst && argcheck_range(dst, ops[i].size, TOUCH_WRITE, what))
                || (src && argcheck_range(src, ops[i].size, TOUCH_READ, what))
                || (dst && src && evict_in_data(dst, (const void *)(uintptr_t)src, ops[i].size)))
            return true;
    }
    return false;
}

uint64_t argcheck_extent(size_t pitch, size_t plane_rows, size_t width, size_t height, size_t depth)
{
    uint64_t rows;

    if (width == 0 || height == 0 || depth == 0)
        return 0;
    rows = (uint64_t)(depth - 1) * (plane_rows ? plane_rows : height) + height - 1;
    return rows * (pitch ? pitch : width) + width;
}

/* The first byte of the copy. */
static devptr_t argcheck_begin_of(const struct argcheck_side *side, CUextent3D size)
{
    size_t pitch = side->pitch ? side->pitch : size.width;
    size_t rows = side->plane_rows ? side->plane_rows : size.height;

    return (side->type == CU_MEMORYTYPE_HOST ? (uintptr_t)side->host : side->device)
            + (side->z * rows + side->y) * pitch + side->x;
}

static bool argcheck_side(
        const struct argcheck_side *side, CUextent3D size, enum touch how, const char *what)
{
    return side->type != CU_MEMORYTYPE_ARRAY
            && argcheck_range(argcheck_begin_of(side, size),
                    argcheck_extent(
                            side->pitch, side->plane_rows, size.width, size.height, size.depth),
                    how, what);
}

/* Whether the rows follow each other without gaps. */
static bool argcheck_is_whole(const struct argcheck_side *side, CUextent3D size)
{
    return (!side->pitch || side->pitch == size.width)
            && (!side->plane_rows || side->plane_rows == size.height);
}

/*
 * Searches bytes that come from the host for addresses; with gaps between the rows only the first
 * row.
 */
static bool argcheck_data(
        const struct argcheck_side *src, const struct argcheck_side *dst, CUextent3D size)
{
    if (src->type != CU_MEMORYTYPE_HOST || dst->type == CU_MEMORYTYPE_HOST
            || dst->type == CU_MEMORYTYPE_ARRAY)
        return false;
    return evict_in_data(argcheck_begin_of(dst, size),
            (const void *)(uintptr_t)argcheck_begin_of(src, size),
            argcheck_is_whole(src, size) ? size.width * size.height * size.depth : size.width);
}

bool argcheck_sides(
        struct argcheck_side src, struct argcheck_side dst, CUextent3D size, const char *what)
{
    enum touch writes = argcheck_is_whole(&dst, size) ? TOUCH_WRITE : TOUCH_POINTER;

    return argcheck_side(&src, size, TOUCH_READ, what) || argcheck_side(&dst, size, writes, what)
            || argcheck_data(&src, &dst, size);
}

void argcheck_unseen(void)
{
    if (!uses_on())
        return;
    if (guard_thread.pins)
        pins_unseen(guard_thread.pins);
    else
        uses_unseen(&guard_thread.moment);
}

bool argcheck_untold(void)
{
    argcheck_unseen();
    if (guard_thread.pins && hints_run.evicts)
        pins_untold(guard_thread.pins);
    return evict_in_all();
}

/* One side of a copy. */
struct side {
    CUcontext context;
    int device;
    bool is_mapped; /* mapped memory of a context */
};

static bool argcheck_is_mapped(devptr_t ptr, struct side *ret_side)
{
    struct context context;
    struct block_info info;

    if (pool_find(session_pool, ptr, &info) != 0 || info.heap != HEAP_PRIVATE
            || !context_of_generation(info.owner, &context))
        return false;
    *ret_side = (struct side){context.handle, info.device, true};
    return true;
}

/* Finds memory that is not kedge's: the driver knows its owner, unless it belongs to no context. */
static bool argcheck_is_plain(devptr_t ptr, struct side *ret_side)
{
    *ret_side = (struct side){NULL, -1, false};
    return REAL(cuPointerGetAttribute)(&ret_side->context, CU_POINTER_ATTRIBUTE_CONTEXT, ptr)
            == CUDA_SUCCESS
            && REAL(cuPointerGetAttribute)(
                       &ret_side->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr)
            == CUDA_SUCCESS
            && ret_side->context;
}

bool argcheck_peers(devptr_t dst, devptr_t src, CUcontext *ret_dst, CUcontext *ret_src)
{
    struct side to = {.is_mapped = false};
    struct side from = {.is_mapped = false};
    struct context here;

    if (!hints_run.acts && !guard_has(GUARD_PEERS))
        return false;
    (void)argcheck_is_mapped(dst, &to);
    (void)argcheck_is_mapped(src, &from);
    if ((!to.is_mapped && !from.is_mapped) || context_here(&here) != 0)
        return false;
    if ((!to.is_mapped && !argcheck_is_plain(dst, &to))
            || (!from.is_mapped && !argcheck_is_plain(src, &from)))
        return false;
    if (to.device == here.device && from.device == here.device)
        return false;
    *ret_dst = to.context;
    *ret_src = from.context;
    return true;
}

bool argcheck_unknown_layout(const char *call)
{
    bool stops = argcheck_untold();

    if (!hints_run.acts || !hint_refuse_live(hints_run.hints) || !hints_run.lives)
        return stops;
    msg_warn("%s: the driver does not tell the parameters of a kernel, live hints are shadow from "
             "here on",
            call);
    session_report(capture_note(1, "live hints ended: the parameters of a kernel are not known"));
    return stops;
}

/* SPDX-License-Identifier: MIT */
/*
 * argcheck.h - checks the memory that a call of the program names: is it released by a hint, pinned
 * by a capture, used?
 *
 *     submit.h ─► argcheck_range, for each address ─┬─ released by a hint ─► capture_hint, no call
 *                                                ├─ its stream captures ─► pins_collect
 *                                                └─ else ─► evict_in_name, uses_touch
 *
 * Threads: any, inside life_enter; argcheck_range inside a reader section (guard.h). Rules: R66 R80
 * R85 R86.
 */
#ifndef KEDGE_PRELOAD_ARGCHECK_H
#define KEDGE_PRELOAD_ARGCHECK_H

#include "alloc/base/types.h"
#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"
#include "preload/hints/hit.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * True if [ptr, ptr + size) lies in storage that a hint released, so that the call `what` must not
 * be made. In shadow and poison the use is noted and the answer is false. On a captured stream the
 * blocks are pinned (submit.h), else the use is recorded if that is wanted (KEDGE_TRACE=uses=).
 */
bool argcheck_range(devptr_t ptr, uint64_t size, enum touch how, const char *what);

/*
 * The bytes from the first to the last of `depth` planes of `height` rows of `width` bytes. A pitch
 * of 0 is the width, plane_rows of 0 the height.
 */
uint64_t argcheck_extent(
        size_t pitch, size_t plane_rows, size_t width, size_t height, size_t depth);

/*
 * The call that is checked, where devices are told apart (reach.h, GUARD_DEVICES): argcheck_range
 * notes the devices whose memory its work may use from then on. In guard_thread.from.
 */
struct argcheck_from {
    CUstream stream; /* the handle that kedge uses for the stream; STREAM_NONE: none */
    /* bits: devices of the stream and of the current context; 0 = not asked yet */
    uint64_t devices;
    uint64_t named; /* devices whose blocks the call has named so far */
};

/* Finds those devices. A driver call. */
uint64_t argcheck_devices(struct argcheck_from *from);
/* The call names a context, or launches work that runs on these devices and names their blocks. */
void argcheck_context(CUcontext context);
void argcheck_runs(uint64_t devices);

/* argcheck_range for `height` rows that are written. The bytes between rows are not. */
static inline bool argcheck_rows(
        devptr_t ptr, size_t pitch, size_t width, size_t height, const char *what)
{
    return argcheck_range(ptr, argcheck_extent(pitch, height, width, height, 1),
            pitch == width || height == 1 ? TOUCH_WRITE : TOUCH_POINTER, what);
}

/*
 * A copy where either side may be host memory. Below: a batch of copies, and a batch over a fabric.
 */
bool argcheck_copy(devptr_t dst, devptr_t src, uint64_t size, const char *what);
bool argcheck_copies(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
        size_t count, const char *what);
bool argcheck_fabric(const CUDA_FABRIC_COPY_BATCH_OP *ops, size_t count, const char *what);

/* One side of a 2D or 3D copy. */
struct argcheck_side {
    CUmemorytype type;
    const void *host;
    devptr_t device;
    size_t x, y, z, pitch, plane_rows;
};

/*
 * argcheck_range of both sides; arrays have no address. Host memory is looked up as well: under
 * unified addressing it may be device memory.
 */
bool argcheck_sides(
        struct argcheck_side src, struct argcheck_side dst, CUextent3D size, const char *what);

/* For CUDA's descriptions of a copy; `of` is src or dst. */
#define ARGCHECK_SIDE(copy, of, z, plane_rows)                                            \
    ((struct argcheck_side){(copy)->of##MemoryType, (copy)->of##Host, (copy)->of##Device, \
            (copy)->of##XInBytes, (copy)->of##Y, z, (copy)->of##Pitch, plane_rows})
#define ARGCHECK_COPY_3D(copy, what)                                                     \
    ((copy)                                                                              \
            && argcheck_sides(ARGCHECK_SIDE(copy, src, (copy)->srcZ, (copy)->srcHeight), \
                    ARGCHECK_SIDE(copy, dst, (copy)->dstZ, (copy)->dstHeight),           \
                    (CUextent3D){(copy)->WidthInBytes, (copy)->Height, (copy)->Depth}, what))

/*
 * The call, or the node of a graph, may use memory that the driver does not report or that cannot
 * be named for certain: blocks that are live now are not judged by their uses.
 */
void argcheck_unseen(void);

/*
 * The same where nothing of the call was checked: evicted blocks are brought in, and stay. True:
 * that could not be noted.
 */
bool argcheck_untold(void);

/*
 * For a copy between device addresses: true if one side is mapped memory of a context that the
 * other device has no access to, although natively it would be plain memory that every copy
 * reaches. Then *ret_dst and *ret_src are the contexts to copy between (R85, fitness of hints).
 */
bool argcheck_peers(devptr_t dst, devptr_t src, CUcontext *ret_dst, CUcontext *ret_src);

/*
 * The driver does not report a launch's parameters: live hints become shadow from now on, with one
 * line (R86, guard of hints). True as argcheck_untold.
 */
bool argcheck_unknown_layout(const char *call);

#endif

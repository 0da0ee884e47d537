/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_copy.h"

#include "tests/sim/driver/sim_context.h"
#include "tests/sim/driver/sim_reads.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/memory/sim_array.h"
#include "tests/sim/memory/sim_contents.h"
#include "tests/sim/memory/sim_va.h"

#include <stdlib.h>
#include <string.h>

#define SPARSE_LEAST ((uint64_t)64 << 10) /* from here on zeros are looked for */

/* One side of a copy: rows `pitch` apart, slices `slice` apart. */
struct side {
    uint64_t addr;
    uint64_t pitch, slice;
    int device; /* that has to reach it */
};

struct copy {
    struct side dst, src;
    uint64_t width, height, depth;
    uint64_t staged; /* bytes behind this structure that are the source */
};

/* ---- bytes ---- */

static bool is_zero(const unsigned char *at, uint64_t size)
{
    return at[0] == 0 && memcmp(at, at + 1, size - 1) == 0;
}

static void copy_row(uint64_t dst, uint64_t src, uint64_t size)
{
    unsigned char *to = (unsigned char *)(uintptr_t)dst;
    const unsigned char *from = (const unsigned char *)(uintptr_t)src;

    if (size < SPARSE_LEAST || (src < dst + size && dst < src + size)) {
        memmove(to, from, size);
        return;
    }
    while (size) {
        uint64_t part = size < SIM_HOST_PAGE ? size : SIM_HOST_PAGE;
        if (!is_zero(from, part) || !is_zero(to, part))
            memcpy(to, from, part);
        to += part;
        from += part;
        size -= part;
    }
}

static CUresult run_copy(struct sim_op *op)
{
    const struct copy *copy = (const struct copy *)op->payload;
    struct side src = copy->src;

    if (copy->staged)
        src = (struct side){.addr = (uintptr_t)(copy + 1),
                .pitch = copy->width,
                .slice = copy->width * copy->height};
    for (uint64_t z = 0; z < copy->depth; z++)
        for (uint64_t y = 0; y < copy->height; y++)
            copy_row(copy->dst.addr + z * copy->dst.slice + y * copy->dst.pitch,
                    src.addr + z * src.slice + y * src.pitch, copy->width);
    if (op->engine == SIM_ENGINE_IN)
        sim_stats.copied_in_bytes += copy->width * copy->height * copy->depth;
    if (op->engine == SIM_ENGINE_OUT)
        sim_stats.copied_out_bytes += copy->width * copy->height * copy->depth;
    return CUDA_SUCCESS;
}

static bool is_pinned(uint64_t addr)
{
    const struct sim_block *block = sim_ledger_find(addr);

    return block && block->kind == SIM_BLOCK_HOST;
}

static void note_row(const struct copy *copy, uint64_t dst, uint64_t src)
{
    if (copy->staged)
        sim_contents_write(dst, copy->width);
    else if (is_pinned(dst))
        sim_contents_keep(dst, src, copy->width);
    else if (is_pinned(src))
        sim_contents_fetch(dst, src, copy->width);
    else
        sim_contents_copy(dst, src, copy->width);
}

/* A digest on its way to the host, where a program may decide by it. */
static bool brings_digest(const struct copy *copy)
{
    for (uint64_t z = 0; z < copy->depth; z++)
        for (uint64_t y = 0; y < copy->height; y++)
            if (sim_contents_has_digest(
                        copy->src.addr + z * copy->src.slice + y * copy->src.pitch, copy->width))
                return true;
    return false;
}

static void note_copy(struct sim_op *op)
{
    const struct copy *copy = (const struct copy *)op->payload;

    if (op->engine == SIM_ENGINE_OUT && !copy->staged && brings_digest(copy)) {
        sim_stats.digest_copies++;
        sim_reads_brought(copy->width * copy->height * copy->depth);
    }
    for (uint64_t z = 0; z < copy->depth; z++)
        for (uint64_t y = 0; y < copy->height; y++)
            note_row(copy, copy->dst.addr + z * copy->dst.slice + y * copy->dst.pitch,
                    copy->src.addr + z * copy->src.slice + y * copy->src.pitch);
}

/* ---- copies ---- */

/* Host memory that the driver knows nothing about. */
static bool is_pageable(uint64_t addr)
{
    return !sim_va_has(addr) && !sim_ledger_find(addr);
}

static bool is_host(uint64_t addr)
{
    const struct sim_block *block = sim_ledger_find(addr);

    return block ? block->kind == SIM_BLOCK_HOST : !sim_va_has(addr);
}

static void declare(struct sim_op *op, const struct copy *copy, const struct side *side, bool write)
{
    if (is_pageable(side->addr))
        return;
    sim_op_add_range(op,
            (struct sim_range){.addr = side->addr,
                    .size = copy->width,
                    .pitch = side->pitch,
                    .rows = copy->height,
                    .slice = side->slice,
                    .slices = copy->depth,
                    .write = write,
                    .device = side->device,
                    .side = SIM_SIDE_COPY});
}

/*
 * Whether planes of rows of `width` bytes from `addr` on lie within the addresses that there are. Counts of a program's are any
 * numbers, whose products do not fit into 64 bits.
 */
static bool is_addressable(
        uint64_t addr, const uint64_t stride[2], const uint64_t count[2], uint64_t width)
{
    uint64_t end = addr;

    for (int i = 0; i < 2; i++) {
        uint64_t far;
        if (count[i] > 1
                && (__builtin_mul_overflow(count[i] - 1, stride[i], &far)
                        || __builtin_add_overflow(end, far, &end)))
            return false;
    }
    return !__builtin_add_overflow(end, width, &end);
}

static bool reaches(const struct copy *copy)
{
    const uint64_t count[2] = {copy->height, copy->depth};
    const uint64_t dst[2] = {copy->dst.pitch, copy->dst.slice};
    const uint64_t src[2] = {copy->src.pitch, copy->src.slice};

    return is_addressable(copy->dst.addr, dst, count, copy->width)
            && is_addressable(copy->src.addr, src, count, copy->width);
}

static struct sim_op *make_copy(const char *name, const struct copy *copy, bool stage)
{
    uint64_t staged = stage ? copy->width * copy->height * copy->depth : 0;
    struct sim_op *op = sim_op_new(name, sizeof(*copy) + (size_t)staged);
    struct copy *made = (struct copy *)op->payload;

    *made = *copy;
    made->staged = staged;
    op->run = run_copy;
    op->note = note_copy;
    op->engine = is_host(copy->dst.addr) ? SIM_ENGINE_OUT
            : is_host(copy->src.addr)    ? SIM_ENGINE_IN
                                         : SIM_ENGINE_COMPUTE;
    for (uint64_t z = 0; staged && z < copy->depth; z++)
        for (uint64_t y = 0; y < copy->height; y++)
            memcpy((char *)(made + 1) + (z * copy->height + y) * copy->width,
                    (const void *)(uintptr_t)(copy->src.addr + z * copy->src.slice
                            + y * copy->src.pitch),
                    copy->width);
    declare(op, copy, &copy->dst, true);
    if (!staged)
        declare(op, copy, &copy->src, false);
    return op;
}

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: nothing that touches such memory returns before it is done. */
static bool is_synchronous(uint64_t addr)
{
    const struct sim_block *block = sim_ledger_find(addr);

    return block && block->sync_memops;
}

static int submit_copy(const char *name, struct CUstream_st *stream, struct copy copy,
        enum sim_copy_waiting waiting)
{
    bool from_pageable = is_pageable(copy.src.addr);
    bool to_pageable = is_pageable(copy.dst.addr);
    bool touches_host = is_host(copy.src.addr) || is_host(copy.dst.addr);
    int r;

    if (copy.width == 0 || copy.height == 0 || copy.depth == 0)
        return 0;
    if (!reaches(&copy))
        return CUDA_ERROR_INVALID_VALUE;
    sim_stats.copies++;
    bool capturing = stream->capture != NULL;
    r = sim_stream_submit(stream, make_copy(name, &copy, from_pageable && !capturing));
    if (r || capturing)
        return r;
    if (to_pageable || is_synchronous(copy.dst.addr) || is_synchronous(copy.src.addr)
            || (waiting == SIM_COPY_AS_HOST && touches_host && !from_pageable))
        return sim_stream_wait(stream);
    return 0;
}

static struct copy linear(const struct CUstream_st *stream, uint64_t dst, uint64_t src, size_t size)
{
    int device = stream->ctx->device;

    return (struct copy){.dst = {.addr = dst, .device = device},
            .src = {.addr = src, .device = device},
            .width = size,
            .height = 1,
            .depth = 1};
}

/* A device pointer has to look like one where the call says so. */
static int copy_linear(const char *name, struct CUstream_st *stream, uint64_t dst, bool dst_device,
        uint64_t src, bool src_device, size_t size, enum sim_copy_waiting waiting)
{
    if (size == 0)
        return 0;
    if (!dst || !src || (dst_device && is_pageable(dst)) || (src_device && is_pageable(src)))
        return CUDA_ERROR_INVALID_VALUE;
    return submit_copy(name, stream, linear(stream, dst, src, size), waiting);
}

/*
 * Without a stream it comes behind all that both contexts and the current one have pending, and
 * all that they submit later comes behind it.
 */
static int copy_between_contexts(struct CUstream_st *stream, const struct copy *copy,
        struct CUctx_st *to, struct CUctx_st *from)
{
    struct sim_clock after = {0}, known = {0};
    int r;

    if (!reaches(copy))
        return CUDA_ERROR_INVALID_VALUE;
    sim_stats.copies++;
    sim_queue_context_points(to, &after, &known);
    sim_queue_context_points(from, &after, &known);
    sim_queue_context_points(stream->ctx, &after, &known);
    r = sim_stream_submit_after(stream, make_copy("cuMemcpyPeer", copy, false), &after, &known);
    if (r == 0) {
        sim_clock_merge(&to->waits, &stream->queue->clock);
        sim_clock_merge(&from->waits, &stream->queue->clock);
        sim_clock_merge(&stream->ctx->waits, &stream->queue->clock);
    }
    sim_clock_clear(&after);
    sim_clock_clear(&known);
    return r;
}

static int copy_peer(struct CUstream_st *stream, uint64_t dst, CUcontext dst_ctx, uint64_t src,
        CUcontext src_ctx, size_t size, enum sim_copy_waiting waiting)
{
    struct copy copy = linear(stream, dst, src, size);
    struct CUctx_st *to, *from;
    int r = sim_context_get(dst_ctx, &to);

    if (r == 0)
        r = sim_context_get(src_ctx, &from);
    if (r)
        return r;
    if (size && (is_pageable(dst) || is_pageable(src)))
        return CUDA_ERROR_INVALID_VALUE;
    copy.dst.device = to->device;
    copy.src.device = from->device;
    if (size && waiting == SIM_COPY_AS_HOST)
        return copy_between_contexts(stream, &copy, to, from);
    return submit_copy("cuMemcpyPeerAsync", stream, copy, waiting);
}

#define LINEAR(name, dst, dst_device, src, src_device, waiting)                                   \
    copy_linear(name, stream, (uint64_t)(uintptr_t)(dst), dst_device, (uint64_t)(uintptr_t)(src), \
            src_device, size, waiting)

SIM_DEFAULT_STREAM_CALL(cuMemcpy, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUdeviceptr dst, CUdeviceptr src, size_t size),
        LINEAR("cuMemcpy", dst, false, src, false, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyHtoD_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUdeviceptr dst, const void *src, size_t size),
        LINEAR("cuMemcpyHtoD", dst, true, src, false, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyDtoH_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (void *dst, CUdeviceptr src, size_t size),
        LINEAR("cuMemcpyDtoH", dst, false, src, true, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyDtoD_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUdeviceptr dst, CUdeviceptr src, size_t size),
        LINEAR("cuMemcpyDtoD", dst, true, src, true, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyPeer, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size),
        copy_peer(stream, dst, dst_ctx, src, src_ctx, size, SIM_COPY_AS_HOST))
SIM_STREAM_CALL(cuMemcpyAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle),
        LINEAR("cuMemcpyAsync", dst, false, src, false, SIM_COPY_AS_STREAM))
SIM_STREAM_CALL(cuMemcpyHtoDAsync_v2, SIM_NEED_CONTEXT,
        (CUdeviceptr dst, const void *src, size_t size, CUstream handle),
        LINEAR("cuMemcpyHtoDAsync", dst, true, src, false, SIM_COPY_AS_STREAM))
SIM_STREAM_CALL(cuMemcpyDtoHAsync_v2, SIM_NEED_CONTEXT,
        (void *dst, CUdeviceptr src, size_t size, CUstream handle),
        LINEAR("cuMemcpyDtoHAsync", dst, false, src, true, SIM_COPY_AS_STREAM))
SIM_STREAM_CALL(cuMemcpyDtoDAsync_v2, SIM_NEED_CONTEXT,
        (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream handle),
        LINEAR("cuMemcpyDtoDAsync", dst, true, src, true, SIM_COPY_AS_STREAM))
SIM_STREAM_CALL(cuMemcpyPeerAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size,
                CUstream handle),
        copy_peer(stream, dst, dst_ctx, src, src_ctx, size, SIM_COPY_AS_STREAM))

/* ---- two and three dimensions ---- */

/* Where one side of a 3D copy begins. */
struct place {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    uint64_t pitch, height;
    uint64_t x, y, z;
};

static int locate(
        const struct place *place, uint64_t width, uint64_t rows, int device, struct side *ret_side)
{
    uint64_t base = place->type == CU_MEMORYTYPE_HOST ? (uintptr_t)place->host : place->device;
    uint64_t row, pitch, slice;
    uint64_t height = place->height ? place->height : rows + place->y;

    if (__builtin_add_overflow(width, place->x, &row) || (!place->height && height < rows))
        return CUDA_ERROR_INVALID_VALUE;
    pitch = place->pitch ? place->pitch : row;

    if (place->type == CU_MEMORYTYPE_ARRAY) {
        int r = sim_array_place(place->array, &base, &pitch, &height);
        if (r)
            return r;
    } else if (place->type != CU_MEMORYTYPE_HOST && place->type != CU_MEMORYTYPE_DEVICE
            && place->type != CU_MEMORYTYPE_UNIFIED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!base || pitch < row || __builtin_mul_overflow(pitch, height, &slice))
        return CUDA_ERROR_INVALID_VALUE;
    if (place->type == CU_MEMORYTYPE_DEVICE && is_pageable(base))
        return CUDA_ERROR_INVALID_VALUE;
    *ret_side = (struct side){.addr = base + (place->z * height + place->y) * pitch + place->x,
            .pitch = pitch,
            .slice = slice,
            .device = device};
    return 0;
}

static int resolve(const CUDA_MEMCPY3D *c, int dst_device, int src_device, struct copy *ret_copy)
{
    struct place dst = {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstPitch,
            c->dstHeight, c->dstXInBytes, c->dstY, c->dstZ};
    struct place src = {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcPitch,
            c->srcHeight, c->srcXInBytes, c->srcY, c->srcZ};
    int r;

    *ret_copy = (struct copy){.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
    if (c->WidthInBytes == 0 || c->Height == 0 || c->Depth == 0)
        return 0;
    r = locate(&dst, c->WidthInBytes, c->Height, dst_device, &ret_copy->dst);
    return r ? r : locate(&src, c->WidthInBytes, c->Height, src_device, &ret_copy->src);
}

int sim_copy_3d(const char *name, struct CUstream_st *stream, const CUDA_MEMCPY3D *c,
        enum sim_copy_waiting waiting)
{
    struct copy copy;
    int device = stream->ctx->device;
    int r = c ? resolve(c, device, device, &copy) : CUDA_ERROR_INVALID_VALUE;

    return r ? r : submit_copy(name, stream, copy, waiting);
}

static int copy_2d(const char *name, struct CUstream_st *stream, const CUDA_MEMCPY2D *c,
        enum sim_copy_waiting waiting)
{
    CUDA_MEMCPY3D wide;

    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    wide = (CUDA_MEMCPY3D){.srcXInBytes = c->srcXInBytes,
            .srcY = c->srcY,
            .srcMemoryType = c->srcMemoryType,
            .srcHost = c->srcHost,
            .srcDevice = c->srcDevice,
            .srcArray = c->srcArray,
            .srcPitch = c->srcPitch,
            .dstXInBytes = c->dstXInBytes,
            .dstY = c->dstY,
            .dstMemoryType = c->dstMemoryType,
            .dstHost = c->dstHost,
            .dstDevice = c->dstDevice,
            .dstArray = c->dstArray,
            .dstPitch = c->dstPitch,
            .WidthInBytes = c->WidthInBytes,
            .Height = c->Height,
            .Depth = 1};
    return sim_copy_3d(name, stream, &wide, waiting);
}

static int copy_3d_peer(
        struct CUstream_st *stream, const CUDA_MEMCPY3D_PEER *c, enum sim_copy_waiting waiting)
{
    struct CUctx_st *to, *from;
    CUDA_MEMCPY3D plain;
    struct copy copy;
    int r = c ? sim_context_get(c->dstContext, &to) : CUDA_ERROR_INVALID_VALUE;

    if (r == 0)
        r = sim_context_get(c->srcContext, &from);
    if (r)
        return r;
    _Static_assert(sizeof(plain) == sizeof(*c), "the two differ in reserved0 and reserved1 only");
    memcpy(&plain, c, sizeof(plain));
    r = resolve(&plain, to->device, from->device, &copy);
    return r ? r : submit_copy("cuMemcpy3DPeer", stream, copy, waiting);
}

int sim_copy_make_3d(struct CUctx_st *ctx, const CUDA_MEMCPY3D *copy, struct sim_op **ret_op)
{
    struct copy made;
    int r = copy ? resolve(copy, ctx->device, ctx->device, &made) : CUDA_ERROR_INVALID_VALUE;

    if (r == 0 && (made.width == 0 || made.height == 0 || made.depth == 0 || !reaches(&made)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_op = make_copy("memcpy node", &made, false);
    return r;
}

static CUmemorytype type_of(uint64_t addr)
{
    return is_host(addr) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

void sim_copy_params(const struct sim_op *op, CUDA_MEMCPY3D *ret_copy)
{
    const struct copy *copy = (const struct copy *)op->payload;
    uint64_t src_pitch = copy->src.pitch ? copy->src.pitch : copy->width;
    uint64_t dst_pitch = copy->dst.pitch ? copy->dst.pitch : copy->width;

    *ret_copy = (CUDA_MEMCPY3D){.srcMemoryType = type_of(copy->src.addr),
            .srcDevice = copy->src.addr,
            .srcPitch = src_pitch,
            .srcHeight = copy->src.slice ? copy->src.slice / src_pitch : copy->height,
            .dstMemoryType = type_of(copy->dst.addr),
            .dstDevice = copy->dst.addr,
            .dstPitch = dst_pitch,
            .dstHeight = copy->dst.slice ? copy->dst.slice / dst_pitch : copy->height,
            .WidthInBytes = copy->width,
            .Height = copy->height,
            .Depth = copy->depth};
    ret_copy->srcHost = (const void *)(uintptr_t)copy->src.addr;
    ret_copy->dstHost = (void *)(uintptr_t)copy->dst.addr;
}

SIM_DEFAULT_STREAM_CALL(cuMemcpy2D_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE, (const CUDA_MEMCPY2D *c),
        copy_2d("cuMemcpy2D", stream, c, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpy2DUnaligned_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (const CUDA_MEMCPY2D *c), copy_2d("cuMemcpy2DUnaligned", stream, c, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpy3D_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE, (const CUDA_MEMCPY3D *c),
        sim_copy_3d("cuMemcpy3D", stream, c, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpy3DPeer, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (const CUDA_MEMCPY3D_PEER *c), copy_3d_peer(stream, c, SIM_COPY_AS_HOST))
SIM_STREAM_CALL(cuMemcpy2DAsync_v2, SIM_NEED_CONTEXT, (const CUDA_MEMCPY2D *c, CUstream handle),
        copy_2d("cuMemcpy2DAsync", stream, c, SIM_COPY_AS_STREAM))
SIM_STREAM_CALL(cuMemcpy3DAsync_v2, SIM_NEED_CONTEXT, (const CUDA_MEMCPY3D *c, CUstream handle),
        sim_copy_3d("cuMemcpy3DAsync", stream, c, SIM_COPY_AS_STREAM))
SIM_STREAM_CALL(cuMemcpy3DPeerAsync, SIM_NEED_CONTEXT,
        (const CUDA_MEMCPY3D_PEER *c, CUstream handle), copy_3d_peer(stream, c, SIM_COPY_AS_STREAM))

/* ---- batches ---- */

static int copy_batch(struct CUstream_st *stream, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
        const size_t *sizes, size_t count, size_t *ret_bad)
{
    if (!dsts || !srcs || !sizes || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_stream_is_legacy(stream))
        return CUDA_ERROR_INVALID_VALUE; /* the reference forbids the default stream */
    for (size_t i = 0; i < count; i++) {
        int r = copy_linear("cuMemcpyBatchAsync", stream, dsts[i], false, srcs[i], false, sizes[i],
                SIM_COPY_AS_STREAM);
        if (r) {
            if (ret_bad)
                *ret_bad = i;
            return r;
        }
    }
    return 0;
}

SIM_STREAM_CALL(cuMemcpyBatchAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                CUmemcpyAttributes *attributes, size_t *indices, size_t attributes_count,
                size_t *ret_bad, CUstream handle),
        ((void)attributes, (void)indices, (void)attributes_count,
                copy_batch(stream, dsts, srcs, sizes, count, ret_bad)))
SIM_STREAM_CALL(cuMemcpyBatchAsync_v2, SIM_NEED_CONTEXT,
        (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                CUmemcpyAttributes *attributes, size_t *indices, size_t attributes_count,
                CUstream handle),
        ((void)attributes, (void)indices, (void)attributes_count,
                copy_batch(stream, dsts, srcs, sizes, count, NULL)))

static void operand(const CUmemcpy3DOperand *from, struct place *ret_place)
{
    if (from->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
        *ret_place = (struct place){.type = CU_MEMORYTYPE_ARRAY,
                .array = from->op.array.array,
                .x = from->op.array.offset.x,
                .y = from->op.array.offset.y,
                .z = from->op.array.offset.z};
    else
        *ret_place = (struct place){.type = CU_MEMORYTYPE_UNIFIED,
                .device = from->op.ptr.ptr,
                .pitch = from->op.ptr.rowLength,
                .height = from->op.ptr.layerHeight};
}

static int copy_one_3d(
        const char *what, struct CUstream_st *stream, const CUDA_MEMCPY3D_BATCH_OP *op)
{
    int device = stream->ctx->device;
    struct copy copy = {
            .width = op->extent.width, .height = op->extent.height, .depth = op->extent.depth};
    struct place dst, src;
    int r;

    operand(&op->dst, &dst);
    operand(&op->src, &src);
    r = locate(&dst, copy.width, copy.height, device, &copy.dst);
    if (r == 0)
        r = locate(&src, copy.width, copy.height, device, &copy.src);
    return r ? r : submit_copy(what, stream, copy, SIM_COPY_AS_STREAM);
}

static int copy_batch_3d(struct CUstream_st *stream, size_t count,
        const CUDA_MEMCPY3D_BATCH_OP *list, size_t *ret_bad)
{
    if (!list || count == 0 || sim_stream_is_legacy(stream))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        int r = copy_one_3d("cuMemcpy3DBatchAsync", stream, &list[i]);
        if (r) {
            if (ret_bad)
                *ret_bad = i;
            return r;
        }
    }
    return 0;
}

SIM_STREAM_CALL(cuMemcpy3DBatchAsync, SIM_NEED_CONTEXT,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *ret_bad, unsigned long long flags,
                CUstream handle),
        flags ? CUDA_ERROR_INVALID_VALUE : copy_batch_3d(stream, count, list, ret_bad))
SIM_STREAM_CALL(cuMemcpy3DBatchAsync_v2, SIM_NEED_CONTEXT,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream handle),
        flags ? CUDA_ERROR_INVALID_VALUE : copy_batch_3d(stream, count, list, NULL))

/* ---- single copies with attributes, which the device does not look at ---- */

SIM_STREAM_CALL(cuMemcpyWithAttributesAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attribute,
                CUstream handle),
        attribute ? copy_linear("cuMemcpyWithAttributesAsync", stream, dst, false, src, false, size,
                SIM_COPY_AS_STREAM)
                  : CUDA_ERROR_INVALID_VALUE)
SIM_STREAM_CALL(cuMemcpy3DWithAttributesAsync, SIM_NEED_CONTEXT,
        (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream handle),
        op && !flags ? copy_one_3d("cuMemcpy3DWithAttributesAsync", stream, op)
                     : CUDA_ERROR_INVALID_VALUE)

/* ---- what no device here has: a fabric, an engine that unpacks ---- */

SIM_STREAM_CALL(cuFabricCpyBatchAsync, SIM_NEED_CONTEXT,
        (size_t count, CUDA_FABRIC_COPY_BATCH_OP *list, unsigned long long flags, CUstream handle),
        ((void)count, (void)list, (void)flags, CUDA_ERROR_NOT_SUPPORTED))
SIM_STREAM_CALL(cuMemBatchDecompressAsync, SIM_NEED_CONTEXT,
        (CUmemDecompressParams * list, size_t count, unsigned int flags, size_t *ret_bad,
                CUstream handle),
        ((void)list, (void)count, (void)flags, (void)ret_bad, CUDA_ERROR_NOT_SUPPORTED))

/* ---- sets ---- */

struct set {
    uint64_t addr, pitch;
    uint64_t width, height; /* in elements and rows */
    uint32_t value;
    uint32_t element; /* 1, 2 or 4 bytes */
};

static void set_row(uint64_t addr, const struct set *set)
{
    uint64_t size = set->width * set->element;
    unsigned char *at = (unsigned char *)(uintptr_t)addr;

    if (set->value == 0 && size >= SPARSE_LEAST && sim_va_has(addr)) {
        uint64_t head = sim_round(addr, SIM_HOST_PAGE) - addr;
        uint64_t tail = (addr + size) % SIM_HOST_PAGE;
        memset(at, 0, head);
        sim_va_forget(addr + head, size - head - tail);
        memset(at + size - tail, 0, tail);
        return;
    }
    if (set->element == 1) {
        memset(at, (int)set->value, size);
        return;
    }
    for (uint64_t i = 0; i < set->width; i++)
        memcpy(at + i * set->element, &set->value, set->element);
}

static CUresult run_set(struct sim_op *op)
{
    const struct set *set = (const struct set *)op->payload;

    for (uint64_t y = 0; y < set->height; y++)
        set_row(set->addr + y * set->pitch, set);
    return CUDA_SUCCESS;
}

bool sim_copy_is_set(const struct sim_op *op)
{
    return op->run == run_set;
}

static int make_set(const char *name, int device, struct set set, struct sim_op **ret_op)
{
    struct sim_op *op;
    uint64_t bytes;

    if (set.addr % set.element || is_pageable(set.addr)
            || __builtin_mul_overflow(set.width, (uint64_t)set.element, &bytes)
            || (set.height > 1 && set.pitch < bytes)
            || !is_addressable(set.addr, (const uint64_t[2]){set.pitch, 0},
                    (const uint64_t[2]){set.height, 1}, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    op = sim_op_new(name, sizeof(set));
    memcpy(op->payload, &set, sizeof(set));
    op->run = run_set;
    op->engine = SIM_ENGINE_COMPUTE;
    sim_op_range(op, device, SIM_SIDE_COPY, set.addr, bytes, true);
    op->ranges[0].pitch = set.pitch;
    op->ranges[0].rows = set.height;
    *ret_op = op;
    return 0;
}

static int submit_set(const char *name, struct CUstream_st *stream, struct set set)
{
    struct sim_op *op;
    int r;

    if (set.width == 0 || set.height == 0)
        return 0;
    r = make_set(name, stream->ctx->device, set, &op);
    if (r)
        return r;
    sim_stats.copies++;
    bool capturing = stream->capture != NULL;
    r = sim_stream_submit(stream, op);
    return r || capturing || !is_synchronous(set.addr) ? r : sim_stream_wait(stream);
}

int sim_copy_make_set(
        struct CUctx_st *ctx, const CUDA_MEMSET_NODE_PARAMS *set, struct sim_op **ret_op)
{
    if (set->width == 0 || set->height == 0
            || (set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    return make_set("memset node", ctx->device,
            (struct set){
                    set->dst, set->pitch, set->width, set->height, set->value, set->elementSize},
            ret_op);
}

void sim_copy_set_params(const struct sim_op *op, CUDA_MEMSET_NODE_PARAMS *ret_set)
{
    const struct set *set = (const struct set *)op->payload;

    *ret_set = (CUDA_MEMSET_NODE_PARAMS){.dst = set->addr,
            .pitch = set->pitch,
            .value = set->value,
            .elementSize = set->element,
            .width = set->width,
            .height = set->height};
}

#define SET_1D(suffix, type, bytes)                                                               \
    SIM_DEFAULT_STREAM_CALL(cuMemset##suffix##_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,              \
            (CUdeviceptr dst, type value, size_t count),                                          \
            submit_set("cuMemset" #suffix, stream, (struct set){dst, 0, count, 1, value, bytes})) \
    SIM_STREAM_CALL(cuMemset##suffix##Async, SIM_NEED_CONTEXT,                                    \
            (CUdeviceptr dst, type value, size_t count, CUstream handle),                         \
            submit_set("cuMemset" #suffix "Async", stream,                                        \
                    (struct set){dst, 0, count, 1, value, bytes}))
SET_1D(D8, unsigned char, 1)
SET_1D(D16, unsigned short, 2)
SET_1D(D32, unsigned int, 4)

#define SET_2D(suffix, type, bytes)                                                    \
    SIM_DEFAULT_STREAM_CALL(cuMemsetD2##suffix##_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE, \
            (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height),  \
            submit_set("cuMemsetD2" #suffix, stream,                                   \
                    (struct set){dst, pitch, width, height, value, bytes}))            \
    SIM_STREAM_CALL(cuMemsetD2##suffix##Async, SIM_NEED_CONTEXT,                       \
            (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height,   \
                    CUstream handle),                                                  \
            submit_set("cuMemsetD2" #suffix "Async", stream,                           \
                    (struct set){dst, pitch, width, height, value, bytes}))
SET_2D(D8, unsigned char, 1)
SET_2D(D16, unsigned short, 2)
SET_2D(D32, unsigned int, 4)

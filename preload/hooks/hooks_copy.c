/* SPDX-License-Identifier: MIT */
/*
 * Copies and sets: checked, never changed. While no hint acts each costs one load, one branch and
 * the driver (R86, guard of hints). Else the ranges that it names are looked up inside a reader
 * section (R66, reader sections), and a call that touches released storage is not made. On a stream
 * that is being captured they are pinned (R80, pinned blocks). The macros of submit.h define the
 * functions.
 */
#include "preload/driver/life.h"
#include "preload/graph/arrays.h"
#include "preload/hints/argcheck.h"
#include "preload/hints/params.h"
#include "preload/request/submit.h"

/* Host pointers are looked up as well: under unified addressing they may be the device's. */
static bool touches(const void *host, size_t size, const char *what)
{
    return argcheck_range((devptr_t)(uintptr_t)host, size, TOUCH_POINTER, what);
}

static bool both(devptr_t dst, devptr_t src, size_t size, const char *what)
{
    return argcheck_range(dst, size, TOUCH_WRITE, what)
            || argcheck_range(src, size, TOUCH_READ, what);
}

static bool between(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
        size_t size, const char *what)
{
    argcheck_context(dst_ctx);
    argcheck_context(src_ctx);
    return both(dst, src, size, what);
}

static bool between_3d(const CUDA_MEMCPY3D_PEER *copy, const char *what)
{
    if (copy) {
        argcheck_context(copy->dstContext);
        argcheck_context(copy->srcContext);
    }
    return ARGCHECK_COPY_3D(copy, what);
}

static bool from_host(devptr_t dst, const void *src, size_t size, const char *what)
{
    return argcheck_range((devptr_t)(uintptr_t)src, size, TOUCH_READ, what)
            || argcheck_range(dst, size, TOUCH_WRITE, what) || evict_in_data(dst, src, size);
}

static bool touches_2d(const CUDA_MEMCPY2D *copy, const char *what)
{
    return copy
            && argcheck_sides(ARGCHECK_SIDE(copy, src, 0, 0), ARGCHECK_SIDE(copy, dst, 0, 0),
                    (CUextent3D){copy->WidthInBytes, copy->Height, 1}, what);
}

/* The program gives the number of bytes written; if it does not, only the driver knows it. */
static bool touches_packed(const CUmemDecompressParams *params, size_t count, const char *what)
{
    for (size_t i = 0; params && i < count; i++)
        if (argcheck_range(
                    (devptr_t)(uintptr_t)params[i].src, params[i].srcNumBytes, TOUCH_READ, what)
                || argcheck_range((devptr_t)(uintptr_t)params[i].dst,
                        params[i].dstNumBytes ? params[i].dstNumBytes : 1, TOUCH_WRITE, what)
                || touches(params[i].dstActBytes, sizeof *params[i].dstActBytes, what))
            return true;
    return false;
}

/*
 * Extents, row lengths and layer heights are in elements: of one byte between pointers, else of the
 * array on the other side. If the driver does not describe the array, elements count as bytes, so
 * that the checked range is too small, never too large.
 */
static uint64_t element_bytes(const CUDA_MEMCPY3D_BATCH_OP *op)
{
    const CUmemcpy3DOperand *side =
            op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? &op->src : &op->dst;
    CUDA_ARRAY3D_DESCRIPTOR desc;

    if (side->type != CU_MEMCPY_OPERAND_TYPE_ARRAY || !side->op.array.array
            || !REAL_HAS(cuArray3DGetDescriptor_v2)
            || REAL(cuArray3DGetDescriptor_v2)(&desc, side->op.array.array) != CUDA_SUCCESS)
        return 1;
    return arrays_element_bytes(desc.Format, desc.NumChannels);
}

static bool operand_touches(const CUmemcpy3DOperand *operand, const CUextent3D *size,
        uint64_t element, const char *what)
{
    uint64_t row = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : size->width;
    uint64_t bytes;

    if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return false;
    bytes = argcheck_extent(row * element, operand->op.ptr.layerHeight, size->width * element,
            size->height, size->depth);
    return argcheck_range(operand->op.ptr.ptr, bytes, TOUCH_POINTER, what);
}

static bool touches_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count, const char *what)
{
    for (size_t i = 0; ops && i < count; i++) {
        uint64_t element = element_bytes(&ops[i]);

        if (operand_touches(&ops[i].src, &ops[i].extent, element, what)
                || operand_touches(&ops[i].dst, &ops[i].extent, element, what))
            return true;
    }
    return false;
}

/* Whether a copy needs peer contexts, if nothing else is to be done about it. */
static bool is_between_peers(
        CUdeviceptr dst, CUdeviceptr src, CUcontext *ret_dst, CUcontext *ret_src)
{
    bool is;

    if (!guard_has(GUARD_PEERS) || guard_depth() > 0 || life_is_passive())
        return false;
    guard_push();
    is = argcheck_peers(dst, src, ret_dst, ret_src);
    guard_pop();
    return is;
}

/* ---- copies --------------------------------------------------------------------------------- */

/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/*
 * Some copies between devices are peer copies, which a hinted block needs and plain memory does not
 * (R85, fitness of hints).
 */
#define SUBMIT_PEERS(symbol, peer, params, args, peer_args, on_stream, submit_on, per_thread) \
    ON_STREAM(symbol, params, on_stream, per_thread,                                         \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                                          \
        CUcontext to;                                                                        \
        CUcontext from;                                                                      \
        struct submit submit;                                                                \
        if (guard_is_idle() || !submit_begin(&submit, submit_on, per_thread)) {              \
            SUBMIT_CALL(symbol, is_between_peers(dst, src, &to, &from) ? REAL(peer) peer_args \
                    : REAL(symbol) args, false);                                             \
            return result;                                                                   \
        }                                                                                    \
        if (!argcheck_copy(dst, src, size, __func__) && evict_in_ready() == CUDA_SUCCESS)          \
            SUBMIT_CALL(symbol, argcheck_peers(dst, src, &to, &from) ? REAL(peer) peer_args     \
                    : REAL(symbol) args, true);                                              \
        return submit_end(&submit, result);                                                  \
    )
/* NOLINTEND(bugprone-macro-parentheses) */
#define SUBMIT_PEERS_NOW(symbol, suffix, per_thread)                                         \
    SUBMIT_PEERS(symbol##suffix, cuMemcpyPeer##suffix,                                       \
            (CUdeviceptr dst, CUdeviceptr src, size_t size), (dst, src, size),               \
            (dst, to, src, from, size), NULL, SUBMIT_NO_STREAM, per_thread)
#define SUBMIT_PEERS_ASYNC(symbol, suffix, per_thread)                                       \
    SUBMIT_PEERS(symbol##suffix, cuMemcpyPeerAsync##suffix,                                  \
            (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),                \
            (dst, src, size, stream), (dst, to, src, from, size, stream), stream, stream, per_thread)

SUBMIT_PEERS_NOW(cuMemcpy, , false)
SUBMIT_PEERS_NOW(cuMemcpy, _ptds, true)
SUBMIT_PEERS_NOW(cuMemcpyDtoD_v2, , false)
SUBMIT_PEERS_NOW(cuMemcpyDtoD_v2, _ptds, true)
SUBMIT_PEERS_ASYNC(cuMemcpyAsync, , false)
SUBMIT_PEERS_ASYNC(cuMemcpyAsync, _ptsz, true)
SUBMIT_PEERS_ASYNC(cuMemcpyDtoDAsync_v2, , false)
SUBMIT_PEERS_ASYNC(cuMemcpyDtoDAsync_v2, _ptsz, true)
SUBMIT_PTDS(cuMemcpyPeer,
        (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size),
        (dst, dst_ctx, src, src_ctx, size), between(dst, dst_ctx, src, src_ctx, size, __func__))
SUBMIT_PTSZ(cuMemcpyPeerAsync,
        (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t size,
                CUstream stream),
        (dst, dst_ctx, src, src_ctx, size, stream),
        between(dst, dst_ctx, src, src_ctx, size, __func__))
SUBMIT_PTDS(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t size), (dst, src, size),
        from_host(dst, src, size, __func__))
SUBMIT_PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t size, CUstream stream),
        (dst, src, size, stream),
        from_host(dst, src, size, __func__))
SUBMIT_PTDS(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t size), (dst, src, size),
        touches(dst, size, __func__) || argcheck_range(src, size, TOUCH_READ, __func__))
SUBMIT_PTSZ(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t size, CUstream stream),
        (dst, src, size, stream),
        touches(dst, size, __func__) || argcheck_range(src, size, TOUCH_READ, __func__))
SUBMIT_PTDS(cuMemcpyDtoA_v2, (CUarray dst, size_t dst_offset, CUdeviceptr src, size_t size),
        (dst, dst_offset, src, size), argcheck_range(src, size, TOUCH_READ, __func__))
SUBMIT_PTDS(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t src_offset, size_t size),
        (dst, src, src_offset, size), argcheck_range(dst, size, TOUCH_WRITE, __func__))
SUBMIT_PTDS(cuMemcpyHtoA_v2, (CUarray dst, size_t dst_offset, const void *src, size_t size),
        (dst, dst_offset, src, size), touches(src, size, __func__))
SUBMIT_PTSZ(cuMemcpyHtoAAsync_v2,
        (CUarray dst, size_t dst_offset, const void *src, size_t size, CUstream stream),
        (dst, dst_offset, src, size, stream), touches(src, size, __func__))
SUBMIT_PTDS(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t src_offset, size_t size),
        (dst, src, src_offset, size), touches(dst, size, __func__))
SUBMIT_PTSZ(cuMemcpyAtoHAsync_v2,
        (void *dst, CUarray src, size_t src_offset, size_t size, CUstream stream),
        (dst, src, src_offset, size, stream), touches(dst, size, __func__))
SUBMIT_PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), (copy), touches_2d(copy, __func__))
SUBMIT_PTDS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy), touches_2d(copy, __func__))
SUBMIT_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream),
        touches_2d(copy, __func__))
SUBMIT_PTDS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), (copy), ARGCHECK_COPY_3D(copy, __func__))
SUBMIT_PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream),
        ARGCHECK_COPY_3D(copy, __func__))
SUBMIT_PTDS(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy), (copy), between_3d(copy, __func__))
SUBMIT_PTSZ(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), (copy, stream),
        between_3d(copy, __func__))

/* ---- batches -------------------------------------------------------------------------------- */

SUBMIT_PTSZ(cuMemcpyBatchAsync,
        (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs, size_t *fail_idx,
                CUstream stream),
        (dsts, srcs, sizes, count, attrs, attrs_idxs, num_attrs, fail_idx, stream),
        argcheck_copies(dsts, srcs, sizes, count, __func__))
SUBMIT_PTSZ(cuMemcpyBatchAsync_v2,
        (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                CUmemcpyAttributes *attrs, size_t *attrs_idxs, size_t num_attrs, CUstream stream),
        (dsts, srcs, sizes, count, attrs, attrs_idxs, num_attrs, stream),
        argcheck_copies(dsts, srcs, sizes, count, __func__))
SUBMIT_PTSZ(cuMemcpy3DBatchAsync,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_idx, unsigned long long flags,
                CUstream stream),
        (count, ops, fail_idx, flags, stream), touches_3d_batch(ops, count, __func__))
SUBMIT_PTSZ(cuMemcpy3DBatchAsync_v2,
        (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream),
        (count, ops, flags, stream), touches_3d_batch(ops, count, __func__))

SUBMIT_PTSZ(cuMemcpyWithAttributesAsync,
        (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream stream),
        (dst, src, size, attr, stream), argcheck_copy(dst, src, size, __func__))
SUBMIT_PTSZ(cuMemcpy3DWithAttributesAsync,
        (CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream),
        (op, flags, stream), touches_3d_batch(op, 1, __func__))
SUBMIT_PTSZ(cuFabricCpyBatchAsync,
        (size_t count, CUDA_FABRIC_COPY_BATCH_OP *ops, unsigned long long flags, CUstream stream),
        (count, ops, flags, stream), argcheck_fabric(ops, count, __func__))
SUBMIT_PTSZ(cuMemBatchDecompressAsync,
        (CUmemDecompressParams *params, size_t count, unsigned int flags, size_t *error_index,
                CUstream stream),
        (params, count, flags, error_index, stream), touches_packed(params, count, __func__))

/* ---- sets ----------------------------------------------------------------------------------- */

#define SUBMIT_SETS(bits, type)                                                              \
    SUBMIT_PTDS(cuMemsetD##bits##_v2, (CUdeviceptr dst, type value, size_t count),           \
            (dst, value, count),                                                             \
            argcheck_range(dst, (bits) / 8 * count, TOUCH_WRITE, __func__))                     \
    SUBMIT_PTSZ(cuMemsetD##bits##Async,                                                      \
            (CUdeviceptr dst, type value, size_t count, CUstream stream),                    \
            (dst, value, count, stream),                                                     \
            argcheck_range(dst, (bits) / 8 * count, TOUCH_WRITE, __func__))                     \
    SUBMIT_PTDS(cuMemsetD2D##bits##_v2,                                                      \
            (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height),        \
            (dst, pitch, value, width, height),                                              \
            argcheck_rows(dst, pitch, (bits) / 8 * width, height, __func__))                    \
    SUBMIT_PTSZ(cuMemsetD2D##bits##Async,                                                    \
            (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height,         \
                    CUstream stream),                                                        \
            (dst, pitch, value, width, height, stream),                                      \
            argcheck_rows(dst, pitch, (bits) / 8 * width, height, __func__))

SUBMIT_SETS(8, unsigned char)
SUBMIT_SETS(16, unsigned short)
SUBMIT_SETS(32, unsigned int)

/* ---- a word that a stream writes or waits for ------------------------------------------------ */

/*
 * Both forms of each: before 11.7 the driver has these calls only if they were enabled when it was
 * loaded.
 */
#define SUBMIT_WORD(symbol, bytes)                                                           \
    SUBMIT_PTSZ(symbol,                                                                      \
            (CUstream stream, CUdeviceptr addr, cuuint##bytes##_t value, unsigned int flags), \
            (stream, addr, value, flags),                                                    \
            argcheck_range(addr, (bytes) / 8, TOUCH_POINTER, __func__))

SUBMIT_WORD(cuStreamWriteValue32, 32)
SUBMIT_WORD(cuStreamWriteValue32_v2, 32)
SUBMIT_WORD(cuStreamWriteValue64, 64)
SUBMIT_WORD(cuStreamWriteValue64_v2, 64)
SUBMIT_WORD(cuStreamWaitValue32, 32)
SUBMIT_WORD(cuStreamWaitValue32_v2, 32)
SUBMIT_WORD(cuStreamWaitValue64, 64)
SUBMIT_WORD(cuStreamWaitValue64_v2, 64)
SUBMIT_PTSZ(cuStreamBatchMemOp,
        (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *items, unsigned int flags),
        (stream, count, items, flags), params_words_touch(items, count, __func__))
SUBMIT_PTSZ(cuStreamBatchMemOp_v2,
        (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *items, unsigned int flags),
        (stream, count, items, flags), params_words_touch(items, count, __func__))
/* clang-format on */

/* SPDX-License-Identifier: MIT */
/* Copies and sets. The direction that the program states chooses the driver's call, as in the real runtime. */
#include "tests/sim/runtime/runtime_core.h"

static CUdeviceptr address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

/* ---- one dimension ---- */

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoD_v2, (address(dst), src, bytes));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoH_v2, (dst, address(src), bytes));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoD_v2, (address(dst), address(src), bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpy, (address(dst), address(src), bytes));
    default:
        return runtime_fail(cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoD_v2_ptds, (address(dst), src, bytes));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoH_v2_ptds, (dst, address(src), bytes));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoD_v2_ptds, (address(dst), address(src), bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpy_ptds, (address(dst), address(src), bytes));
    default:
        return runtime_fail(cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t cudaMemcpyAsync(
        void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoDAsync_v2, (address(dst), src, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoHAsync_v2, (dst, address(src), bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoDAsync_v2, (address(dst), address(src), bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpyAsync, (address(dst), address(src), bytes, stream));
    default:
        return runtime_fail(cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t cudaMemcpyAsync_ptsz(
        void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RUNTIME_CALL(cuMemcpyHtoDAsync_v2_ptsz, (address(dst), src, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return RUNTIME_CALL(cuMemcpyDtoHAsync_v2_ptsz, (dst, address(src), bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return RUNTIME_CALL(cuMemcpyDtoDAsync_v2_ptsz, (address(dst), address(src), bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RUNTIME_CALL(cuMemcpyAsync_ptsz, (address(dst), address(src), bytes, stream));
    default:
        return runtime_fail(cudaErrorInvalidMemcpyDirection);
    }
}

static cudaError_t peer_contexts(int dst, int src, CUcontext *ret_dst, CUcontext *ret_src)
{
    cudaError_t error = runtime_enter();

    if (error == cudaSuccess)
        error = runtime_done(runtime_primary(dst, ret_dst));
    if (error == cudaSuccess)
        error = runtime_done(runtime_primary(src, ret_src));
    return error;
}

cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t bytes)
{
    CUcontext to;
    CUcontext from;
    cudaError_t error = peer_contexts(dst_device, src_device, &to, &from);

    return error != cudaSuccess
            ? error
            : runtime_done(DRIVER(cuMemcpyPeer, (address(dst), to, address(src), from, bytes)));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
        size_t bytes, cudaStream_t stream)
{
    CUcontext to;
    CUcontext from;
    cudaError_t error = peer_contexts(dst_device, src_device, &to, &from);

    return error != cudaSuccess ? error
                                : runtime_done(DRIVER(cuMemcpyPeerAsync,
                                        (address(dst), to, address(src), from, bytes, stream)));
}

/* ---- two and three dimensions ---- */

static bool kind_is_valid(enum cudaMemcpyKind kind)
{
    return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice
            || kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice
            || kind == cudaMemcpyDefault;
}

static CUmemorytype source_type(enum cudaMemcpyKind kind)
{
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_DEVICE;
}

static CUmemorytype target_type(enum cudaMemcpyKind kind)
{
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_DEVICE;
}

static cudaError_t rectangle(CUDA_MEMCPY2D *ret_copy, void *dst, size_t dpitch, const void *src,
        size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    if (!kind_is_valid(kind))
        return runtime_fail(cudaErrorInvalidMemcpyDirection);
    if (width > dpitch || width > spitch)
        return runtime_fail(cudaErrorInvalidPitchValue);
    *ret_copy = (CUDA_MEMCPY2D){
            .srcMemoryType = source_type(kind),
            .srcHost = src,
            .srcDevice = address(src),
            .srcPitch = spitch,
            .dstMemoryType = target_type(kind),
            .dstHost = dst,
            .dstDevice = address(dst),
            .dstPitch = dpitch,
            .WidthInBytes = width,
            .Height = height,
    };
    return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
        size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = rectangle(&copy, dst, dpitch, src, spitch, width, height, kind);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy2DUnaligned_v2, (&copy));
}

cudaError_t cudaMemcpy2D_ptds(void *dst, size_t dpitch, const void *src, size_t spitch,
        size_t width, size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = rectangle(&copy, dst, dpitch, src, spitch, width, height, kind);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy2DUnaligned_v2_ptds, (&copy));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
        size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = rectangle(&copy, dst, dpitch, src, spitch, width, height, kind);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy2DAsync_v2, (&copy, stream));
}

cudaError_t cudaMemcpy2DAsync_ptsz(void *dst, size_t dpitch, const void *src, size_t spitch,
        size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = rectangle(&copy, dst, dpitch, src, spitch, width, height, kind);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy2DAsync_v2_ptsz, (&copy, stream));
}

/* There are no arrays in this runtime, so both sides are pitched memory and counted in bytes. */
static cudaError_t cuboid(CUDA_MEMCPY3D *ret_copy, const struct cudaMemcpy3DParms *p)
{
    if (!p || (!p->srcArray && !p->srcPtr.ptr) || (!p->dstArray && !p->dstPtr.ptr))
        return runtime_fail(cudaErrorInvalidValue);
    if (p->srcArray || p->dstArray)
        return runtime_fail(cudaErrorNotSupported);
    if (!kind_is_valid(p->kind))
        return runtime_fail(cudaErrorInvalidMemcpyDirection);
    *ret_copy = (CUDA_MEMCPY3D){
            .srcXInBytes = p->srcPos.x,
            .srcY = p->srcPos.y,
            .srcZ = p->srcPos.z,
            .srcMemoryType = source_type(p->kind),
            .srcHost = p->srcPtr.ptr,
            .srcDevice = address(p->srcPtr.ptr),
            .srcPitch = p->srcPtr.pitch,
            .srcHeight = p->srcPtr.ysize,
            .dstXInBytes = p->dstPos.x,
            .dstY = p->dstPos.y,
            .dstZ = p->dstPos.z,
            .dstMemoryType = target_type(p->kind),
            .dstHost = p->dstPtr.ptr,
            .dstDevice = address(p->dstPtr.ptr),
            .dstPitch = p->dstPtr.pitch,
            .dstHeight = p->dstPtr.ysize,
            .WidthInBytes = p->extent.width,
            .Height = p->extent.height,
            .Depth = p->extent.depth,
    };
    return cudaSuccess;
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = cuboid(&copy, p);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy3D_v2, (&copy));
}

cudaError_t cudaMemcpy3D_ptds(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = cuboid(&copy, p);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy3D_v2_ptds, (&copy));
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = cuboid(&copy, p);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy3DAsync_v2, (&copy, stream));
}

cudaError_t cudaMemcpy3DAsync_ptsz(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = cuboid(&copy, p);

    return error != cudaSuccess ? error : RUNTIME_CALL(cuMemcpy3DAsync_v2_ptsz, (&copy, stream));
}

/* ---- sets ---- */

cudaError_t cudaMemset(void *ptr, int value, size_t bytes)
{
    return RUNTIME_CALL(cuMemsetD8_v2, (address(ptr), (unsigned char)value, bytes));
}

cudaError_t cudaMemset_ptds(void *ptr, int value, size_t bytes)
{
    return RUNTIME_CALL(cuMemsetD8_v2_ptds, (address(ptr), (unsigned char)value, bytes));
}

RUNTIME_PTSZ(cudaMemsetAsync, (void *ptr, int value, size_t bytes, cudaStream_t stream),
        cuMemsetD8Async, (address(ptr), (unsigned char)value, bytes, stream))

cudaError_t cudaMemset2D(void *ptr, size_t pitch, int value, size_t width, size_t height)
{
    return RUNTIME_CALL(
            cuMemsetD2D8_v2, (address(ptr), pitch, (unsigned char)value, width, height));
}

cudaError_t cudaMemset2D_ptds(void *ptr, size_t pitch, int value, size_t width, size_t height)
{
    return RUNTIME_CALL(
            cuMemsetD2D8_v2_ptds, (address(ptr), pitch, (unsigned char)value, width, height));
}

RUNTIME_PTSZ(cudaMemset2DAsync,
        (void *ptr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
        cuMemsetD2D8Async, (address(ptr), pitch, (unsigned char)value, width, height, stream))

typedef cudaError_t set_slice_fn(void *, size_t, int, size_t, size_t, cudaStream_t);

/* One rectangle for each slice; slices are ysize rows apart. */
static cudaError_t set_slices(set_slice_fn *set, struct cudaPitchedPtr ptr, int value,
        struct cudaExtent extent, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++)
        error = set((char *)ptr.ptr + z * ptr.pitch * ptr.ysize, ptr.pitch, value, extent.width,
                extent.height, stream);
    return error;
}

static cudaError_t set_slice(
        void *ptr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    (void)stream;
    return RUNTIME_CALL(
            cuMemsetD2D8_v2, (address(ptr), pitch, (unsigned char)value, width, height));
}

static cudaError_t set_slice_ptds(
        void *ptr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    (void)stream;
    return RUNTIME_CALL(
            cuMemsetD2D8_v2_ptds, (address(ptr), pitch, (unsigned char)value, width, height));
}

static cudaError_t set_slice_async(
        void *ptr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    return RUNTIME_CALL(
            cuMemsetD2D8Async, (address(ptr), pitch, (unsigned char)value, width, height, stream));
}

static cudaError_t set_slice_async_ptsz(
        void *ptr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    return RUNTIME_CALL(cuMemsetD2D8Async_ptsz,
            (address(ptr), pitch, (unsigned char)value, width, height, stream));
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr ptr, int value, struct cudaExtent extent)
{
    return set_slices(set_slice, ptr, value, extent, NULL);
}

cudaError_t cudaMemset3D_ptds(struct cudaPitchedPtr ptr, int value, struct cudaExtent extent)
{
    return set_slices(set_slice_ptds, ptr, value, extent, NULL);
}

cudaError_t cudaMemset3DAsync(
        struct cudaPitchedPtr ptr, int value, struct cudaExtent extent, cudaStream_t stream)
{
    return set_slices(set_slice_async, ptr, value, extent, stream);
}

cudaError_t cudaMemset3DAsync_ptsz(
        struct cudaPitchedPtr ptr, int value, struct cudaExtent extent, cudaStream_t stream)
{
    return set_slices(set_slice_async_ptsz, ptr, value, extent, stream);
}

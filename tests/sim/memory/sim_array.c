/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_array.h"

#include "tests/sim/memory/sim_copy.h"
#include "tests/sim/memory/sim_memory.h"

#include <stdlib.h>

struct CUarray_st {
    CUDA_ARRAY3D_DESCRIPTOR desc;
    uint64_t base, pitch, height;
    uint64_t block; /* id: a context's end may have taken the bytes */
    bool is_level;  /* of a mipmapped array, which it belongs to */
};

int sim_array_place(CUarray array, uint64_t *ret_base, uint64_t *ret_pitch, uint64_t *ret_height)
{
    if (!sim_handle_is(array, SIM_KIND_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    *ret_base = array->base;
    *ret_pitch = array->pitch;
    *ret_height = array->height;
    return 0;
}

static uint64_t element_size(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static int create(struct CUctx_st *ctx, CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    uint64_t element = element_size(desc->Format) * desc->NumChannels;
    uint64_t height = desc->Height ? desc->Height : 1;
    uint64_t depth = desc->Depth ? desc->Depth : 1;
    CUdeviceptr base;
    CUarray array;
    int r;

    if (!ret_array || desc->Width == 0 || element == 0 || desc->NumChannels > 4
            || desc->Width > 1U << 20 || height > 1U << 20 || depth > 1U << 16)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t pitch = sim_round(desc->Width * element, 32);
    r = sim_memory_alloc(ctx, pitch * height * depth, &base);
    if (r)
        return r;
    array = sim_new(sizeof(*array));
    *array = (struct CUarray_st){*desc, base, pitch, height, sim_ledger_find(base)->id, false};
    sim_handle_add(array, SIM_KIND_ARRAY);
    *ret_array = array;
    return 0;
}

CUresult cuArrayCreate_v2(CUarray *ret_array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0 && !desc)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = desc->Width,
                .Height = desc->Height,
                .Format = desc->Format,
                .NumChannels = desc->NumChannels};
        r = create(call.ctx, ret_array, &wide);
    }
    return sim_leave(&call, r);
}

CUresult cuArray3DCreate_v2(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = desc ? create(call.ctx, ret_array, desc) : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *ret_desc, CUarray array)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_desc || !sim_handle_is(array, SIM_KIND_ARRAY)))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *ret_desc = (CUDA_ARRAY_DESCRIPTOR){
                array->desc.Width, array->desc.Height, array->desc.Format, array->desc.NumChannels};
    return sim_leave(&call, r);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *ret_desc, CUarray array)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!ret_desc || !sim_handle_is(array, SIM_KIND_ARRAY)))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        *ret_desc = array->desc;
    return sim_leave(&call, r);
}

/* Waits for the context's work, as every free of device memory does. */
static void destroy(CUarray array)
{
    struct sim_block *block = sim_ledger_find(array->base);
    uint64_t id = array->block;

    sim_handle_remove(array);
    if (block && block->id == id)
        sim_queue_demand_context(block->ctx);
    block = sim_ledger_find(array->base);
    if (block && block->id == id)
        sim_memory_release(block);
    free(array);
}

CUresult cuArrayDestroy(CUarray array)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0 && (!sim_handle_is(array, SIM_KIND_ARRAY) || array->is_level))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        destroy(array);
    return sim_leave(&call, r);
}

/* ---- arrays of several levels, each half of the one before ---- */

struct CUmipmappedArray_st {
    unsigned count;
    CUarray levels[21]; /* of at most 1 << 20 elements a side */
};

static size_t half(size_t extent)
{
    return extent > 1 ? extent / 2 : extent;
}

static int create_mipmapped(struct CUctx_st *ctx, CUmipmappedArray *ret_array,
        const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned count)
{
    CUDA_ARRAY3D_DESCRIPTOR level;
    CUmipmappedArray array;
    unsigned most = 1;
    int r = 0;

    if (!ret_array || !desc || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t side = desc->Width | desc->Height | desc->Depth; side > 1; side /= 2)
        most++;
    array = sim_new(sizeof(*array));
    level = *desc;
    for (; r == 0 && array->count < (count < most ? count : most) && array->count < 21;) {
        r = create(ctx, &array->levels[array->count], &level);
        if (r)
            break;
        array->levels[array->count++]->is_level = true;
        level.Width = half(level.Width);
        level.Height = half(level.Height);
        level.Depth = half(level.Depth);
    }
    if (r) {
        while (array->count)
            destroy(array->levels[--array->count]);
        free(array);
        return r;
    }
    sim_handle_add(array, SIM_KIND_MIPMAPPED);
    *ret_array = array;
    return 0;
}

CUresult cuMipmappedArrayCreate(
        CUmipmappedArray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int count)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = create_mipmapped(call.ctx, ret_array, desc, count);
    return sim_leave(&call, r);
}

CUresult cuMipmappedArrayGetLevel(CUarray *ret_array, CUmipmappedArray array, unsigned int level)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && !sim_handle_is(array, SIM_KIND_MIPMAPPED))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0 && (!ret_array || level >= array->count))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_array = array->levels[level];
    return sim_leave(&call, r);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0 && !sim_handle_is(array, SIM_KIND_MIPMAPPED))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0) {
        sim_handle_remove(array);
        while (array->count)
            destroy(array->levels[--array->count]);
        free(array);
    }
    return sim_leave(&call, r);
}

/* ---- what they need, and what they are not ---- */

static uint64_t bytes_of(const struct CUarray_st *array)
{
    return array->pitch * array->height * (array->desc.Depth ? array->desc.Depth : 1);
}

static int valid(CUdevice device)
{
    return device >= 0 && device < sim_config.devices ? 0 : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuArrayGetMemoryRequirements(
        CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, CUarray array, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && !sim_handle_is(array, SIM_KIND_ARRAY))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        r = ret_needs ? valid(device) : CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_needs = (CUDA_ARRAY_MEMORY_REQUIREMENTS){
                .size = (size_t)sim_round(bytes_of(array), SIM_ALIGN), .alignment = SIM_ALIGN};
    return sim_leave(&call, r);
}

CUresult cuMipmappedArrayGetMemoryRequirements(
        CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, CUmipmappedArray array, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);
    uint64_t bytes = 0;

    if (r == 0 && !sim_handle_is(array, SIM_KIND_MIPMAPPED))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0)
        r = ret_needs ? valid(device) : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == 0 && i < array->count; i++)
        bytes += sim_round(bytes_of(array->levels[i]), SIM_ALIGN);
    if (r == 0)
        *ret_needs = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = bytes, .alignment = SIM_ALIGN};
    return sim_leave(&call, r);
}

/* None is sparse and none has planes: the code for arrays without. */
static CUresult refuse(const char *name, const void *array, enum sim_kind kind)
{
    struct sim_call call;
    int r = sim_enter(&call, name, SIM_NEED_CONTEXT);

    if (r == 0)
        r = sim_handle_is(array, kind) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    return sim_leave(&call, r);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *ret_properties, CUarray array)
{
    (void)ret_properties;
    return refuse(__func__, array, SIM_KIND_ARRAY);
}

CUresult cuMipmappedArrayGetSparseProperties(
        CUDA_ARRAY_SPARSE_PROPERTIES *ret_properties, CUmipmappedArray array)
{
    (void)ret_properties;
    return refuse(__func__, array, SIM_KIND_MIPMAPPED);
}

CUresult cuArrayGetPlane(CUarray *ret_plane, CUarray array, unsigned int plane)
{
    (void)ret_plane;
    (void)plane;
    return refuse(__func__, array, SIM_KIND_ARRAY);
}

/* Only sparse arrays are mapped piece by piece; the device's attribute says that there are none. */
SIM_STREAM_CALL(cuMemMapArrayAsync, SIM_NEED_CONTEXT,
        (CUarrayMapInfo * list, unsigned int count, CUstream handle),
        !list || count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED)

/* ---- copies of one dimension from and to arrays ---- */

/* A run of bytes: in an array, counted from its first byte, or at an address. */
struct run {
    CUarray array;
    uint64_t at;
};

static void put_src(CUDA_MEMCPY3D *copy, struct run run)
{
    copy->srcMemoryType = run.array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
    copy->srcArray = run.array;
    if (run.array)
        copy->srcXInBytes = run.at;
    else
        copy->srcDevice = run.at;
}

static void put_dst(CUDA_MEMCPY3D *copy, struct run run)
{
    copy->dstMemoryType = run.array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
    copy->dstArray = run.array;
    if (run.array)
        copy->dstXInBytes = run.at;
    else
        copy->dstDevice = run.at;
}

static int copy_run(struct CUstream_st *stream, struct run dst, struct run src, size_t size,
        enum sim_copy_waiting waiting)
{
    CUDA_MEMCPY3D copy = {.WidthInBytes = size, .Height = 1, .Depth = 1};

    if ((dst.array && !sim_handle_is(dst.array, SIM_KIND_ARRAY))
            || (src.array && !sim_handle_is(src.array, SIM_KIND_ARRAY)))
        return CUDA_ERROR_INVALID_HANDLE;
    put_dst(&copy, dst);
    put_src(&copy, src);
    return sim_copy_3d("copy of an array", stream, &copy, waiting);
}

#define AT(pointer)           ((struct run){NULL, (uint64_t)(uintptr_t)(pointer)})
#define INSIDE(array, offset) ((struct run){array, offset})

SIM_DEFAULT_STREAM_CALL(cuMemcpyDtoA_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUarray dst, size_t offset, CUdeviceptr src, size_t size),
        copy_run(stream, INSIDE(dst, offset), AT(src), size, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyAtoD_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUdeviceptr dst, CUarray src, size_t offset, size_t size),
        copy_run(stream, AT(dst), INSIDE(src, offset), size, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyHtoA_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUarray dst, size_t offset, const void *src, size_t size),
        copy_run(stream, INSIDE(dst, offset), AT(src), size, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyAtoH_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (void *dst, CUarray src, size_t offset, size_t size),
        copy_run(stream, AT(dst), INSIDE(src, offset), size, SIM_COPY_AS_HOST))
SIM_DEFAULT_STREAM_CALL(cuMemcpyAtoA_v2, SIM_NEED_CONTEXT | SIM_NEED_SAFE,
        (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t size),
        copy_run(stream, INSIDE(dst, dst_offset), INSIDE(src, src_offset), size, SIM_COPY_AS_HOST))
SIM_STREAM_CALL(cuMemcpyHtoAAsync_v2, SIM_NEED_CONTEXT,
        (CUarray dst, size_t offset, const void *src, size_t size, CUstream handle),
        copy_run(stream, INSIDE(dst, offset), AT(src), size, SIM_COPY_AS_STREAM))
SIM_STREAM_CALL(cuMemcpyAtoHAsync_v2, SIM_NEED_CONTEXT,
        (void *dst, CUarray src, size_t offset, size_t size, CUstream handle),
        copy_run(stream, AT(dst), INSIDE(src, offset), size, SIM_COPY_AS_STREAM))

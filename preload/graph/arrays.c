/* SPDX-License-Identifier: MIT */
#include "preload/graph/arrays.h"

#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/request/dispatch.h"

#include <stdatomic.h>

static uint64_t channel_bits(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 32;
    default:
        return 8;
    }
}

/* Elements of other formats may have less than a byte: blocks, planes. */
static bool arrays_is_plain(CUarray_format format)
{
    return channel_bits(format) > 8 || format == CU_AD_FORMAT_UNSIGNED_INT8
            || format == CU_AD_FORMAT_SIGNED_INT8;
}

static uint64_t at_least_one(uint64_t value)
{
    return value ? value : 1;
}

uint64_t arrays_element_bytes(CUarray_format format, unsigned channels)
{
    return at_least_one(channels) * channel_bits(format) / 8;
}

static bool is_layered(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return (desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level)
{
    uint64_t width = at_least_one(desc->Width >> level);
    uint64_t height = at_least_one(desc->Height >> level);
    uint64_t depth = at_least_one(is_layered(desc) ? desc->Depth : desc->Depth >> level);
    uint64_t bytes = width;

    if (__builtin_mul_overflow(bytes, height, &bytes)
            || __builtin_mul_overflow(bytes, depth, &bytes)
            || __builtin_mul_overflow(
                    bytes, arrays_element_bytes(desc->Format, desc->NumChannels), &bytes))
        return 0;
    return bytes;
}

/* At least one level, and no more than there are until every side is 1 (cuMipmappedArrayCreate). */
static uint64_t estimate(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    uint64_t side = desc->Width | desc->Height | (is_layered(desc) ? 0 : desc->Depth);
    uint64_t bytes = level_bytes(desc, 0);

    for (unsigned level = 1; level < levels && (side /= 2) != 0; level++)
        bytes += level_bytes(desc, level);
    return bytes;
}

static bool is_mapped_later(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return (desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
}

uint64_t arrays_least(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    return desc && !is_mapped_later(desc) && arrays_is_plain(desc->Format) ? estimate(desc, levels)
                                                                           : 0;
}

static CUDA_ARRAY3D_DESCRIPTOR deep_of(const CUDA_ARRAY_DESCRIPTOR *desc)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = desc->Width,
            .Height = desc->Height,
            .Format = desc->Format,
            .NumChannels = desc->NumChannels};
}

uint64_t arrays_least_flat(const CUDA_ARRAY_DESCRIPTOR *desc)
{
    CUDA_ARRAY3D_DESCRIPTOR deep;

    if (!desc)
        return 0;
    deep = deep_of(desc);
    return arrays_least(&deep, 1);
}

/* Set once the driver refuses to answer: it then refuses for all arrays that own their memory. */
static atomic_bool never_answers;

static uint64_t drivers_word(CUarray array, CUmipmappedArray mipmap, int device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS wants = {0};
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;

    if (atomic_load_explicit(&never_answers, memory_order_relaxed) || device < 0
            || !session_may_fence())
        return 0;
    if (array && REAL_HAS(cuArrayGetMemoryRequirements))
        result = REAL(cuArrayGetMemoryRequirements)(&wants, array, device);
    if (mipmap && REAL_HAS(cuMipmappedArrayGetMemoryRequirements))
        result = REAL(cuMipmappedArrayGetMemoryRequirements)(&wants, mipmap, device);
    if (result == CUDA_SUCCESS)
        return wants.size;
    atomic_store_explicit(&never_answers, true, memory_order_relaxed);
    return 0;
}

void arrays_made(CUarray array, CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
        unsigned levels)
{
    bool mapped_later = is_mapped_later(desc);
    uint64_t handle = array ? (uintptr_t)array : (uintptr_t)mipmap;
    int device = dispatch_device();
    uint64_t size = mapped_later ? 0 : drivers_word(array, mipmap, device);
    enum memclass memclass = MEMCLASS_ARRAY;

    if (size == 0 && !mapped_later) {
        memclass = MEMCLASS_ARRAY_GUESS;
        size = estimate(desc, levels);
    }
    dispatch_made(memclass, dispatch_key(MEMCLASS_ARRAY, handle), size, device);
}

void arrays_made_flat(CUarray array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    CUDA_ARRAY3D_DESCRIPTOR deep = deep_of(desc);

    arrays_made(array, NULL, &deep, 1);
}

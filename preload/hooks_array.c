/* SPDX-License-Identifier: MIT */
/*
 * Arrays and mipmapped arrays: opaque device memory, recorded under its handle and left to the driver (R18).
 *
 * The driver tells the size of an array only while that is still to be mapped (cuArrayGetMemoryRequirements is refused for
 * others), and such an array owns no memory: what is mapped into it are physical handles, which count by themselves. So the
 * size of an array that owns its memory is computed from its description, and marked as an estimate; one that is to be
 * mapped counts nothing.
 */
#include "preload/arrays.h"

#include "preload/conduct.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/resolve.h"
#include "preload/vmm.h"

#include <stdatomic.h>

/* Bits of an element's channel. Formats of several planes or of blocks are taken for a byte per channel. */
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

static uint64_t at_least_one(uint64_t value)
{
    return value ? value : 1;
}

uint64_t array_element_bytes(CUarray_format format, unsigned channels)
{
    return at_least_one(channels) * channel_bits(format) / 8;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level)
{
    bool layered = (desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    uint64_t width = at_least_one(desc->Width >> level);
    uint64_t height = at_least_one(desc->Height >> level);
    uint64_t depth = at_least_one(layered ? desc->Depth : desc->Depth >> level);
    uint64_t bytes = width;

    if (__builtin_mul_overflow(bytes, height, &bytes)
            || __builtin_mul_overflow(bytes, depth, &bytes)
            || __builtin_mul_overflow(
                    bytes, array_element_bytes(desc->Format, desc->NumChannels), &bytes))
        return 0;
    return bytes;
}

static uint64_t estimate(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    uint64_t bytes = 0;

    for (unsigned level = 0; level < levels && level < 32; level++)
        bytes += level_bytes(desc, level);
    return bytes;
}

/* Asked as long as the driver answers: one that says no to an array that owns its memory says so to all of them. */
static atomic_bool never_answers;

static uint64_t drivers_word(CUarray array, CUmipmappedArray mipmap, int device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS wants = {0};
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;

    if (atomic_load_explicit(&never_answers, memory_order_relaxed) || device < 0
            || !conduct_may_fence())
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

/* What of an array is to be recorded: `desc` as the program gave it. */
static void made(CUarray array, CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
        unsigned levels)
{
    bool mapped_later = (desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
    uint64_t handle = array ? (uintptr_t)array : (uintptr_t)mipmap;
    int device = conduct_device();
    uint64_t size = mapped_later ? 0 : drivers_word(array, mipmap, device);
    enum memclass memclass = MEMCLASS_ARRAY;

    if (size == 0 && !mapped_later) {
        memclass = MEMCLASS_ARRAY_GUESS;
        size = estimate(desc, levels);
    }
    conduct_made(memclass, conduct_key(MEMCLASS_ARRAY, handle), size, device);
}

CUresult cuArrayCreate_v2(CUarray *ret_array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    bool entered = life_enter(SLOT_cuArrayCreate_v2);
    CUresult result = REAL(cuArrayCreate_v2)(ret_array, desc);
    struct pool_ladder ladder = {.waits = 0};

    if (entered && conduct_make_room((int)result, conduct_device(), &ladder))
        result = REAL(cuArrayCreate_v2)(ret_array, desc);
    if (entered)
        conduct_refused((int)result, 0, conduct_device(), &ladder);
    if (entered && result == CUDA_SUCCESS && ret_array && desc) {
        CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = desc->Width,
                .Height = desc->Height,
                .Format = desc->Format,
                .NumChannels = desc->NumChannels};

        made(*ret_array, NULL, &wide, 1);
    }
    if (entered)
        life_leave();
    return result;
}

CUresult cuArrayCreate(CUarray *ret_array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
    bool entered = life_enter(SLOT_cuArrayCreate);
    CUresult result = REAL(cuArrayCreate)(ret_array, desc);

    if (entered && result == CUDA_SUCCESS && ret_array && desc) {
        CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = desc->Width,
                .Height = desc->Height,
                .Format = desc->Format,
                .NumChannels = desc->NumChannels};

        made(*ret_array, NULL, &wide, 1);
    }
    if (entered)
        life_leave();
    return result;
}

CUresult cuArray3DCreate_v2(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    bool entered = life_enter(SLOT_cuArray3DCreate_v2);
    CUresult result = REAL(cuArray3DCreate_v2)(ret_array, desc);
    struct pool_ladder ladder = {.waits = 0};

    if (entered && conduct_make_room((int)result, conduct_device(), &ladder))
        result = REAL(cuArray3DCreate_v2)(ret_array, desc);
    if (entered)
        conduct_refused((int)result, 0, conduct_device(), &ladder);
    if (entered && result == CUDA_SUCCESS && ret_array && desc)
        made(*ret_array, NULL, desc, 1);
    if (entered)
        life_leave();
    return result;
}

CUresult cuArray3DCreate(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
    bool entered = life_enter(SLOT_cuArray3DCreate);
    CUresult result = REAL(cuArray3DCreate)(ret_array, desc);

    if (entered && result == CUDA_SUCCESS && ret_array && desc) {
        CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = desc->Width,
                .Height = desc->Height,
                .Depth = desc->Depth,
                .Format = desc->Format,
                .NumChannels = desc->NumChannels,
                .Flags = desc->Flags};

        made(*ret_array, NULL, &wide, 1);
    }
    if (entered)
        life_leave();
    return result;
}

/* What was mapped there is forgotten before the real call: afterwards the handle may be another array's. */
static struct conduct_end ends(uint64_t handle)
{
    vmm_array_gone(handle);
    return conduct_end(conduct_key(MEMCLASS_ARRAY, handle));
}

CUresult cuArrayDestroy(CUarray array)
{
    bool entered = life_enter(SLOT_cuArrayDestroy);
    struct conduct_end end = {.key = 0};
    CUresult result;

    if (entered && array)
        end = ends((uintptr_t)array);
    result = REAL(cuArrayDestroy)(array);
    if (entered) {
        conduct_ended(&end, (int)result);
        life_leave();
    }
    return result;
}

CUresult cuMipmappedArrayCreate(
        CUmipmappedArray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
    bool entered = life_enter(SLOT_cuMipmappedArrayCreate);
    CUresult result = REAL(cuMipmappedArrayCreate)(ret_array, desc, levels);
    struct pool_ladder ladder = {.waits = 0};

    if (entered && conduct_make_room((int)result, conduct_device(), &ladder))
        result = REAL(cuMipmappedArrayCreate)(ret_array, desc, levels);
    if (entered)
        conduct_refused((int)result, 0, conduct_device(), &ladder);
    if (entered && result == CUDA_SUCCESS && ret_array && desc)
        made(NULL, *ret_array, desc, levels);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    bool entered = life_enter(SLOT_cuMipmappedArrayDestroy);
    struct conduct_end end = {.key = 0};
    CUresult result;

    if (entered && array)
        end = ends((uintptr_t)array);
    result = REAL(cuMipmappedArrayDestroy)(array);
    if (entered) {
        conduct_ended(&end, (int)result);
        life_leave();
    }
    return result;
}

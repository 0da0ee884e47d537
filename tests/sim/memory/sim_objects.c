/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that carry addresses: tensor maps, texture and surface objects. Nothing here reads
 * through them; they exist because programs make them and kedge has to see their addresses.
 */
#include "tests/sim/memory/sim_array.h"
#include "tests/sim/stream/sim_ledger.h"

#include <stdlib.h>
#include <string.h>

#define TENSOR_RANK 5

/* What the 128 opaque bytes hold. */
struct tensor_map {
    uint64_t address;
    uint64_t dim[TENSOR_RANK];
    uint64_t stride[TENSOR_RANK];
    uint32_t rank;
    uint32_t type;
};

_Static_assert(sizeof(struct tensor_map) <= sizeof(CUtensorMap), "a tensor map has 128 bytes");

static int encode(CUtensorMap *ret_map, CUtensorMapDataType type, cuuint32_t rank, void *address,
        const cuuint64_t *dim, const cuuint64_t *stride, CUtensorMapInterleave interleave)
{
    uint64_t align = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
    struct tensor_map map = {.address = (uintptr_t)address, .rank = rank, .type = type};

    if (!ret_map || !address || !dim || rank == 0 || rank > TENSOR_RANK || (rank > 1 && !stride)
            || (uintptr_t)ret_map % 64 || map.address % align
            || (unsigned)type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B)
        return CUDA_ERROR_INVALID_VALUE;
    for (cuuint32_t i = 0; i < rank; i++) {
        map.dim[i] = dim[i];
        if (dim[i] == 0 || dim[i] > (cuuint64_t)1 << 32)
            return CUDA_ERROR_INVALID_VALUE;
        if (i + 1 < rank) {
            map.stride[i] = stride[i];
            if (stride[i] % 16)
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    memset(ret_map, 0, sizeof(*ret_map));
    memcpy(ret_map, &map, sizeof(map));
    return 0;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *ret_map, CUtensorMapDataType type, cuuint32_t rank,
        void *address, const cuuint64_t *dim, const cuuint64_t *stride, const cuuint32_t *box,
        const cuuint32_t *element_stride, CUtensorMapInterleave interleave,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)swizzle;
    (void)promotion;
    (void)fill;
    if (r == 0)
        r = box && element_stride ? encode(ret_map, type, rank, address, dim, stride, interleave)
                                  : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *ret_map, CUtensorMapDataType type, cuuint32_t rank,
        void *address, const cuuint64_t *dim, const cuuint64_t *stride, const int *lower,
        const int *upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_stride,
        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
        CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)channels;
    (void)pixels;
    (void)swizzle;
    (void)promotion;
    (void)fill;
    if (r == 0)
        r = lower && upper && element_stride && rank >= 3
                ? encode(ret_map, type, rank, address, dim, stride, interleave)
                : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *ret_map, CUtensorMapDataType type,
        cuuint32_t rank, void *address, const cuuint64_t *dim, const cuuint64_t *stride, int lower,
        int upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_stride,
        CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    (void)lower;
    (void)upper;
    (void)channels;
    (void)pixels;
    (void)mode;
    (void)swizzle;
    (void)promotion;
    (void)fill;
    if (r == 0)
        r = element_stride && rank >= 3
                ? encode(ret_map, type, rank, address, dim, stride, interleave)
                : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    uint64_t value = (uintptr_t)address;

    if (r == 0 && (!map || !address || value % 16))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        memcpy(map, &value, sizeof(value));
    return sim_leave(&call, r);
}

/* ---- texture and surface objects: numbers that name a resource ---- */

struct object {
    unsigned long long number;
    CUDA_RESOURCE_DESC desc;
    bool surface;
    struct object *next;
};

static struct object *objects;
static unsigned long long next_number = 1;

static int check_resource(const CUDA_RESOURCE_DESC *desc, bool surface)
{
    uint64_t base, pitch, height;

    if (!desc)
        return CUDA_ERROR_INVALID_VALUE;
    switch (desc->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return sim_array_place(desc->res.array.hArray, &base, &pitch, &height)
                ? CUDA_ERROR_INVALID_VALUE
                : 0;
    case CU_RESOURCE_TYPE_LINEAR:
        return surface || desc->res.linear.devPtr % 512 || !sim_ledger_live(desc->res.linear.devPtr)
                ? CUDA_ERROR_INVALID_VALUE
                : 0;
    case CU_RESOURCE_TYPE_PITCH2D:
        return surface || desc->res.pitch2D.devPtr % 512 || desc->res.pitch2D.pitchInBytes % 32
                        || !sim_ledger_live(desc->res.pitch2D.devPtr)
                ? CUDA_ERROR_INVALID_VALUE
                : 0;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static int create(unsigned long long *ret_number, const CUDA_RESOURCE_DESC *desc, bool surface)
{
    int r = ret_number ? check_resource(desc, surface) : CUDA_ERROR_INVALID_VALUE;
    struct object *object;

    if (r)
        return r;
    object = sim_new(sizeof(*object));
    *object = (struct object){next_number++, *desc, surface, objects};
    objects = object;
    *ret_number = object->number;
    return 0;
}

static int destroy(unsigned long long number, bool surface)
{
    for (struct object **link = &objects; *link; link = &(*link)->next) {
        struct object *object = *link;
        if (object->number != number || object->surface != surface)
            continue;
        *link = object->next;
        free(object);
        return 0;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectCreate(CUtexObject *ret_object, const CUDA_RESOURCE_DESC *desc,
        const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    (void)view;
    if (r == 0)
        r = texture ? create(ret_object, desc, false) : CUDA_ERROR_INVALID_VALUE;
    return sim_leave(&call, r);
}

CUresult cuTexObjectDestroy(CUtexObject object)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = destroy(object, false);
    return sim_leave(&call, r);
}

CUresult cuSurfObjectCreate(CUsurfObject *ret_object, const CUDA_RESOURCE_DESC *desc)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = create(ret_object, desc, true);
    return sim_leave(&call, r);
}

CUresult cuSurfObjectDestroy(CUsurfObject object)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = destroy(object, true);
    return sim_leave(&call, r);
}

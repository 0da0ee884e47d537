/* SPDX-License-Identifier: MIT */
/*
 * Managed memory: advice, prefetches, discards. Its bytes are the host's, so a prefetch moves what the
 * device holds (sim_pages.h) and nothing else; advice is remembered per 2 MiB and told to who asks, and what
 * is wrong is refused as a driver refuses it. A discard may lose the content: here it always does.
 */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/memory/sim_pages.h"
#include "tests/sim/memory/sim_va.h"
#include "tests/sim/stream/sim_stream.h"

#include <string.h>

#define HOST_BIT ((uint32_t)1 << 31)

static int check_managed(CUdeviceptr ptr, size_t size)
{
    const struct sim_block *block = sim_ledger_live(ptr);

    if (!block || block->kind != SIM_BLOCK_MANAGED || size == 0
            || ptr + size > block->addr + block->size)
        return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

static int check_location(CUmemLocation location)
{
    switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return location.id >= 0 && location.id < sim_config.devices ? 0 : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return 0;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return location.id == 0 ? 0 : CUDA_ERROR_INVALID_DEVICE; /* there is one node */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The first forms name a device, or the host by -1. */
static CUmemLocation place_of(CUdevice device)
{
    return device == CU_DEVICE_CPU
            ? (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST}
            : (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

/* ---- what is remembered ---- */

/* The advice of all 2 MiB that the range touches. */
struct span {
    struct sim_advice *first;
    size_t count;
};

static struct span span_of(CUdeviceptr ptr, size_t size)
{
    struct sim_block *block = sim_ledger_live(ptr);
    uint64_t first = (ptr - block->addr) / SIM_GRANULE;
    uint64_t last = (ptr + size - 1 - block->addr) / SIM_GRANULE;

    if (!block->advice)
        block->advice = sim_new(block->va_size / SIM_GRANULE * sizeof(*block->advice));
    return (struct span){block->advice + first, (size_t)(last - first + 1)};
}

static uint32_t bit_of(CUmemLocation location)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (uint32_t)1 << location.id : HOST_BIT;
}

static void note_advice(struct sim_advice *at, CUmem_advise advice, CUmemLocation location)
{
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        at->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        at->preferred = location;
        return;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        at->preferred = (CUmemLocation){0};
        return;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        at->accessed_by |= bit_of(location);
        return;
    default:
        at->accessed_by &= ~bit_of(location);
    }
}

static int advise(CUdeviceptr ptr, size_t size, CUmem_advise advice, CUmemLocation location)
{
    int r = check_managed(ptr, size);

    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && advice > CU_MEM_ADVISE_UNSET_READ_MOSTLY
            && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
        r = check_location(location); /* the others do not look at it */
    if (r)
        return r;
    struct span span = span_of(ptr, size);
    for (size_t i = 0; i < span.count; i++)
        note_advice(&span.first[i], advice, location);
    return 0;
}

CUresult cuMemAdvise(CUdeviceptr ptr, size_t size, CUmem_advise advice, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = advise(ptr, size, advice, place_of(device));
    return sim_leave(&call, r);
}

CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t size, CUmem_advise advice, CUmemLocation location)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = advise(ptr, size, advice, location);
    return sim_leave(&call, r);
}

/* ---- prefetches and discards ---- */

static CUresult run_prefetch(struct sim_op *op)
{
    const CUmemLocation *place = (const CUmemLocation *)(void *)op->payload;
    int device = place->type == CU_MEM_LOCATION_TYPE_DEVICE ? place->id : -1;

    sim_pages_move(device, op->ranges[0].addr, op->ranges[0].size);
    return CUDA_SUCCESS;
}

static CUresult run_discard(struct sim_op *op)
{
    sim_va_forget(op->ranges[0].addr, op->ranges[0].size);
    return CUDA_SUCCESS;
}

/* `place`: where a prefetch goes; NULL: a discard. */
static int submit(const char *name, struct CUstream_st *stream, CUdeviceptr ptr, size_t size,
        const CUmemLocation *place)
{
    struct sim_op *op = sim_op_new(name, sizeof(*place));

    op->run = place ? run_prefetch : run_discard;
    op->is_no_use = true;
    if (place) {
        memcpy(op->payload, place, sizeof(*place));
        op->engine = place->type == CU_MEM_LOCATION_TYPE_DEVICE ? SIM_ENGINE_IN : SIM_ENGINE_OUT;
    }
    sim_op_range(op, stream->ctx->device, SIM_SIDE_COPY, ptr, size, !place);
    return sim_stream_submit(stream, op);
}

static int prefetch(
        struct CUstream_st *stream, CUdeviceptr ptr, size_t size, CUmemLocation location)
{
    int r = check_location(location);

    if (r == 0)
        r = check_managed(ptr, size);
    if (r)
        return r;
    struct span span = span_of(ptr, size);
    for (size_t i = 0; i < span.count; i++)
        span.first[i].prefetched = location;
    return submit("cuMemPrefetchAsync", stream, ptr, size, &location);
}

SIM_STREAM_CALL(cuMemPrefetchAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr ptr, size_t size, CUdevice device, CUstream handle),
        prefetch(stream, ptr, size, place_of(device)))
SIM_STREAM_CALL(cuMemPrefetchAsync_v2, SIM_NEED_CONTEXT,
        (CUdeviceptr ptr, size_t size, CUmemLocation location, unsigned int flags, CUstream handle),
        flags ? CUDA_ERROR_INVALID_VALUE : prefetch(stream, ptr, size, location))

/* Ranges, and the places from the index on that stands beside each. */
struct batch {
    const CUdeviceptr *ptrs;
    const size_t *sizes;
    size_t count;
    const CUmemLocation *places;
    const size_t *indices;
    size_t places_count;
    unsigned long long flags;
};

static int check_batch(const struct CUstream_st *stream, const struct batch *batch, bool places)
{
    if (!batch->ptrs || !batch->sizes || batch->count == 0 || batch->flags
            || sim_stream_is_legacy(stream))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < batch->count; i++)
        if (check_managed(batch->ptrs[i], batch->sizes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    if (!places)
        return 0;
    if (!batch->places || !batch->indices || batch->places_count == 0
            || batch->places_count > batch->count || batch->indices[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < batch->places_count; i++) {
        int r = check_location(batch->places[i]);
        if (r)
            return r;
        if (batch->indices[i] >= batch->count || (i && batch->indices[i] <= batch->indices[i - 1]))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return 0;
}

static int prefetch_batch(struct CUstream_st *stream, struct batch batch, bool discard)
{
    int r = check_batch(stream, &batch, true);
    size_t place = 0;

    for (size_t i = 0; r == 0 && i < batch.count; i++) {
        if (place + 1 < batch.places_count && batch.indices[place + 1] == i)
            place++;
        if (discard)
            r = submit("cuMemDiscardAndPrefetchBatchAsync", stream, batch.ptrs[i], batch.sizes[i],
                    NULL);
        if (r == 0)
            r = prefetch(stream, batch.ptrs[i], batch.sizes[i], batch.places[place]);
    }
    return r;
}

static int discard_batch(struct CUstream_st *stream, struct batch batch)
{
    int r = check_batch(stream, &batch, false);

    for (size_t i = 0; r == 0 && i < batch.count; i++)
        r = submit("cuMemDiscardBatchAsync", stream, batch.ptrs[i], batch.sizes[i], NULL);
    return r;
}

SIM_STREAM_CALL(cuMemPrefetchBatchAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *indices,
                size_t places_count, unsigned long long flags, CUstream handle),
        prefetch_batch(stream,
                (struct batch){ptrs, sizes, count, places, indices, places_count, flags}, false))
SIM_STREAM_CALL(cuMemDiscardAndPrefetchBatchAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *indices,
                size_t places_count, unsigned long long flags, CUstream handle),
        prefetch_batch(stream,
                (struct batch){ptrs, sizes, count, places, indices, places_count, flags}, true))
SIM_STREAM_CALL(cuMemDiscardBatchAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr * ptrs, size_t *sizes, size_t count, unsigned long long flags,
                CUstream handle),
        discard_batch(stream,
                (struct batch){.ptrs = ptrs, .sizes = sizes, .count = count, .flags = flags}))

/* ---- questions ---- */

/* What all of the range has in common; type 0 if it is not the same everywhere. */
static CUmemLocation common_place(struct span span, bool prefetched)
{
    CUmemLocation first = prefetched ? span.first->prefetched : span.first->preferred;

    for (size_t i = 1; i < span.count; i++) {
        CUmemLocation at = prefetched ? span.first[i].prefetched : span.first[i].preferred;
        if (at.type != first.type || at.id != first.id)
            return (CUmemLocation){0};
    }
    return first;
}

/* As a device's number, as the first questions had it. */
static int device_of(CUmemLocation location)
{
    if (location.type == CU_MEM_LOCATION_TYPE_INVALID)
        return CU_DEVICE_INVALID;
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

static void list_devices(struct span span, int *out, size_t room)
{
    uint32_t all = UINT32_MAX;
    size_t found = 0;

    for (size_t i = 0; i < span.count; i++)
        all &= span.first[i].accessed_by;
    for (int device = 0; device < sim_config.devices && found < room; device++)
        if ((all >> device) & 1)
            out[found++] = device;
    if (all & HOST_BIT && found < room)
        out[found++] = CU_DEVICE_CPU;
    while (found < room)
        out[found++] = CU_DEVICE_INVALID;
}

static int range_attribute(
        void *out, size_t room, CUmem_range_attribute which, CUdeviceptr ptr, size_t size)
{
    int answer = 1;

    if (!out || room == 0 || room % sizeof(int) || check_managed(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct span span = span_of(ptr, size);
    if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
        list_devices(span, out, room / sizeof(int));
        return 0;
    }
    if (room != sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    CUmemLocation preferred = common_place(span, false), prefetched = common_place(span, true);
    switch (which) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        for (size_t i = 0; i < span.count; i++)
            answer &= span.first[i].read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        answer = device_of(preferred);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        answer = device_of(prefetched);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        answer = (int)preferred.type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        answer = preferred.id;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        answer = (int)prefetched.type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        answer = prefetched.id;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(out, &answer, sizeof(answer));
    return 0;
}

CUresult cuMemRangeGetAttribute(
        void *ret_value, size_t room, CUmem_range_attribute which, CUdeviceptr ptr, size_t size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = range_attribute(ret_value, room, which, ptr, size);
    return sim_leave(&call, r);
}

CUresult cuMemRangeGetAttributes(void **ret_values, size_t *rooms, CUmem_range_attribute *which,
        size_t count, CUdeviceptr ptr, size_t size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && (!ret_values || !rooms || !which || count == 0))
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = range_attribute(ret_values[i], rooms[i], which[i], ptr, size);
    return sim_leave(&call, r);
}

/* SPDX-License-Identifier: MIT */
/*
 * Managed memory: advice and prefetches. It is the host's memory as much as the device's, so there
 * is nothing to move and no advice to follow; what is wrong is refused as a driver refuses it.
 */
#include "tests/sim/sim_context.h"
#include "tests/sim/sim_stream.h"

static int check_managed(CUdeviceptr ptr, size_t size)
{
    const struct sim_block *block = sim_ledger_live(ptr);

    if (!block || block->kind != SIM_BLOCK_MANAGED || size == 0
            || ptr + size > block->addr + block->size)
        return CUDA_ERROR_INVALID_VALUE;
    return 0;
}

static int check_device(CUdevice device)
{
    return device == CU_DEVICE_CPU || (device >= 0 && device < sim_config.devices)
            ? 0
            : CUDA_ERROR_INVALID_DEVICE;
}

static int check_location(CUmemLocation location)
{
    switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return location.id >= 0 ? check_device(location.id) : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return 0;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static int advise(CUdeviceptr ptr, size_t size, CUmem_advise advice, int place)
{
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    return place ? place : check_managed(ptr, size);
}

CUresult cuMemAdvise(CUdeviceptr ptr, size_t size, CUmem_advise advice, CUdevice device)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = advise(ptr, size, advice, check_device(device));
    return sim_leave(&call, r);
}

CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t size, CUmem_advise advice, CUmemLocation location)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = advise(ptr, size, advice, check_location(location));
    return sim_leave(&call, r);
}

static CUresult run_nothing(struct sim_op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

static int prefetch(struct CUstream_st *stream, CUdeviceptr ptr, size_t size, int place)
{
    struct sim_op *op;
    int r = place ? place : check_managed(ptr, size);

    if (r)
        return r;
    op = sim_op_new("cuMemPrefetchAsync", 0);
    op->run = run_nothing;
    sim_op_range(op, stream->ctx->device, SIM_SIDE_COPY, ptr, size, false);
    return sim_stream_submit(stream, op);
}

SIM_STREAM_CALL(cuMemPrefetchAsync, SIM_NEED_CONTEXT,
        (CUdeviceptr ptr, size_t size, CUdevice device, CUstream handle),
        prefetch(stream, ptr, size, check_device(device)))
SIM_STREAM_CALL(cuMemPrefetchAsync_v2, SIM_NEED_CONTEXT,
        (CUdeviceptr ptr, size_t size, CUmemLocation location, unsigned int flags, CUstream handle),
        prefetch(stream, ptr, size, flags ? CUDA_ERROR_INVALID_VALUE : check_location(location)))

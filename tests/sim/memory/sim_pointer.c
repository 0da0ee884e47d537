/* SPDX-License-Identifier: MIT */
/* What is true of a pointer: cuPointerGetAttribute and its kin. */
#include "tests/sim/memory/sim_memory.h"
#include "tests/sim/memory/sim_pool.h"
#include "tests/sim/memory/sim_va.h"
#include "tests/sim/memory/sim_vmm.h"

#include <string.h>

static void put(void *out, const void *value, size_t size)
{
    memcpy(out, value, size);
}

static void put_int(void *out, int value)
{
    put(out, &value, sizeof(value));
}

static void put_u64(void *out, unsigned long long value)
{
    put(out, &value, sizeof(value));
}

static void put_bool(void *out, bool value)
{
    put(out, &value, sizeof(value));
}

static void put_pointer(void *out, const void *value)
{
    put(out, &value, sizeof(value));
}

static bool is_device_kind(const struct sim_block *block)
{
    return block->kind != SIM_BLOCK_HOST && !(block->piece && sim_pool_is_hosts(block->piece));
}

static unsigned allowed_handle_types(const struct sim_block *block)
{
    if (block->kind == SIM_BLOCK_MAPPED)
        return sim_vmm_handle_types(block->physical);
    return block->piece ? sim_pool_handle_types(block->piece) : 0;
}

/* Attributes of a live block. Returns 0, or the driver's code for a question without an answer. */
static int answer(void *out, CUpointer_attribute which, const struct sim_block *block, uint64_t ptr)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put_pointer(out, block->ctx);
        return block->ctx ? 0 : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_int(out, is_device_kind(block) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
        return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        put_u64(out, ptr);
        return 0;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (block->kind != SIM_BLOCK_HOST && block->kind != SIM_BLOCK_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        put_u64(out, ptr);
        return 0;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put_u64(out, block->id);
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_bool(out, block->kind == SIM_BLOCK_MANAGED);
        return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_int(out, block->device >= 0 ? block->device : block->ctx->device);
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put_bool(out, block->kind == SIM_BLOCK_PLAIN);
        return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put_u64(out, block->addr);
        return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put_u64(out, block->size);
        return 0;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_bool(out, true);
        return 0;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put_u64(out, allowed_handle_types(block));
        return 0;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        put_bool(out, which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && block->sync_memops);
        return 0;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put_int(out, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        return 0;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put_pointer(out, block->piece ? sim_pool_of(block->piece) : NULL);
        return 0;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        put_u64(out, block->size);
        return 0;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        put_u64(out, block->addr);
        return 0;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static int attribute(void *out, CUpointer_attribute which, uint64_t ptr)
{
    const struct sim_block *block = sim_ledger_live(ptr);

    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (block)
        return answer(out, which, block, ptr);
    if (which == CU_POINTER_ATTRIBUTE_MAPPED && sim_vmm_is_reserved(ptr)) {
        put_bool(out, false);
        return 0;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *ret_value, CUpointer_attribute which, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0)
        r = attribute(ret_value, which, ptr);
    return sim_leave(&call, r);
}

/* The plural form never fails for a pointer that it does not know: every answer is zero then. */
static void attribute_or_zero(void *out, CUpointer_attribute which, uint64_t ptr)
{
    static const size_t sizes[] = {
            [CU_POINTER_ATTRIBUTE_CONTEXT] = 8,
            [CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = 4,
            [CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = 8,
            [CU_POINTER_ATTRIBUTE_HOST_POINTER] = 8,
            [CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = 1,
            [CU_POINTER_ATTRIBUTE_BUFFER_ID] = 8,
            [CU_POINTER_ATTRIBUTE_IS_MANAGED] = 1,
            [CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = 4,
            [CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = 1,
            [CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = 8,
            [CU_POINTER_ATTRIBUTE_RANGE_SIZE] = 8,
            [CU_POINTER_ATTRIBUTE_MAPPED] = 1,
            [CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] = 8,
            [CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = 1,
            [CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = 4,
            [CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = 8,
            [CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = 8,
            [CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = 8,
    };

    if (attribute(out, which, ptr) == 0 || (size_t)which >= sizeof(sizes) / sizeof(sizes[0]))
        return;
    if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        put_int(out, CU_DEVICE_INVALID);
    else
        memset(out, 0, sizes[which]);
}

CUresult cuPointerGetAttributes(
        unsigned int count, CUpointer_attribute *which, void **ret_values, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0 && count && (!which || !ret_values))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == 0 && i < count; i++)
        attribute_or_zero(ret_values[i], which[i], ptr);
    return sim_leave(&call, r);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);
    struct sim_block *block = r ? NULL : sim_ledger_live(ptr);
    unsigned int wanted;

    if (r == 0 && (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !block))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        memcpy(&wanted, value, sizeof(wanted));
        block->sync_memops = wanted != 0;
    }
    return sim_leave(&call, r);
}

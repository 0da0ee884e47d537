/* SPDX-License-Identifier: MIT */
/* Memory in stream order, and the pools that it comes from. */
#include "tests/codes/codes.h"

static size_t some_size(void)
{
    switch (chance(12)) {
    case 0:
        return 0;
    case 1:
        return one_in(2) ? (size_t)1 << 41 : SIZE_MAX - 5;
    case 2:
    case 3:
        return (1 + chance(state.one_context ? 16 : 6)) * MB + chance(2);
    default:
        return chance(100 << 10) + 1;
    }
}

static bool is_captured(int stream)
{
    return stream >= 0 && state.streams[stream].capturing;
}

static void keep(CUdeviceptr ptr, size_t size, int stream, bool captured)
{
    int slot = free_block_slot();
    int device = -1;

    QUIET(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr);

    if (slot >= 0)
        state.blocks[slot] = (struct block){.ptr = ptr,
                .size = size,
                .kind = captured ? BLOCK_GRAPH : BLOCK_ASYNC,
                .context = -1,
                .stream = stream,
                .device = device};
}

static void undo(CUdeviceptr ptr, CUstream handle, bool per_thread)
{
    if (per_thread)
        QUIET(cuMemFreeAsync_ptsz, ptr, handle);
    else
        QUIET(cuMemFreeAsync, ptr, handle);
}

static void op_alloc(void)
{
    bool per_thread = one_in(4);
    size_t size = some_size();
    CUdeviceptr ptr = 0;
    CUresult r;
    int stream;
    CUstream handle = some_stream(&stream);

    if (free_block_slot() < 0)
        return;
    journal_say(" %zu stream %d", size, stream);
    if (per_thread)
        r = CALL(cuMemAllocAsync_ptsz, one_in(40) ? NULL : &ptr, size, handle);
    else
        r = CALL(cuMemAllocAsync, one_in(40) ? NULL : &ptr, size, handle);
    if (journal_spared())
        undo(ptr, handle, per_thread);
    if (r == CUDA_SUCCESS)
        keep(ptr, size, stream, is_captured(stream));
}

static CUmemoryPool some_pool(void)
{
    struct mempool *pool = &state.pools[chance(POOLS)];
    static char nothing[64];

    if (pool->alive)
        return pool->handle;
    return one_in(4) ? (CUmemoryPool)(void *)nothing : state.pools[0].handle;
}

static void op_alloc_from(void)
{
    bool per_thread = one_in(4);
    size_t size = some_size();
    CUmemoryPool pool = some_pool();
    CUdeviceptr ptr = 0;
    CUresult r;
    int stream;
    CUstream handle = some_stream(&stream);

    if (free_block_slot() < 0)
        return;
    journal_say(" %zu stream %d", size, stream);
    if (per_thread)
        r = CALL(cuMemAllocFromPoolAsync_ptsz, &ptr, size, pool, handle);
    else
        r = CALL(cuMemAllocFromPoolAsync, &ptr, size, pool, handle);
    if (journal_spared())
        undo(ptr, handle, per_thread);
    if (r == CUDA_SUCCESS)
        keep(ptr, size, stream, is_captured(stream));
}

/* ---- free ---- */

/* A stream that may free what another one used: it waits for it first. */
static void order(const struct block *block, CUstream to)
{
    struct event *event = &state.events[0];

    if (!event->alive || block->stream < 0 || !state.streams[block->stream].alive)
        return;
    (void)CALL(cuEventRecord, event->handle, state.streams[block->stream].handle);
    (void)CALL(cuStreamWaitEvent, to, event->handle, 0);
}

static CUresult free_on(CUdeviceptr ptr, CUstream stream)
{
    if (one_in(4))
        return CALL(cuMemFreeAsync_ptsz, ptr, stream);
    return CALL(cuMemFreeAsync, ptr, stream);
}

static void op_free(void)
{
    int slot = some_block(1 << BLOCK_ASYNC | 1 << BLOCK_GRAPH);
    struct block block;
    CUstream to;
    int stream;

    if (slot < 0)
        return;
    block = state.blocks[slot];
    to = some_stream(&stream);
    if (block.stream >= 0 && state.streams[block.stream].alive && !one_in(3)) {
        stream = block.stream;
        to = state.streams[block.stream].handle;
    }
    if (stream != block.stream)
        order(&block, to);
    journal_say(" kind %d stream %d", block.kind, stream);
    block_gone(slot);
    if (free_on(block.ptr, to) == CUDA_SUCCESS && one_in(6)) {
        journal_say(" again");
        (void)free_on(block.ptr, to);
    }
}

static void op_free_odd(void)
{
    int slot = some_block(1 << BLOCK_ASYNC);
    CUdeviceptr ptr = slot < 0 ? unknown_address() : state.blocks[slot].ptr + 256;

    if (slot >= 0 && state.blocks[slot].size < 512)
        ptr = unknown_address();
    if (one_in(3))
        ptr = one_in(2) ? 0 : unknown_address();
    journal_say(" odd");
    (void)free_on(ptr, some_stream(NULL));
}

/* A block of cuMemAlloc: natively not memory of a pool. */
static void op_free_sync(void)
{
    int slot = some_block(1 << BLOCK_SYNC);
    CUdeviceptr ptr;
    CUstream to;
    int stream;

    if (slot < 0)
        return;
    to = some_stream(&stream);
    ptr = state.blocks[slot].ptr;
    block_gone(slot);
    journal_say(" sync stream %d", stream);
    journal_allow(RULE_R9);
    (void)CALL(cuMemFreeAsync, ptr, to);
}

/* ---- pools ---- */

static void op_pool_create(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
    unsigned slot = 1 + chance(POOLS - 1);
    CUmemoryPool pool = NULL;

    if (state.pools[slot].alive)
        return;
    props.location.type = one_in(10) ? CU_MEM_LOCATION_TYPE_INVALID : CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = one_in(10) ? 77 : (int)chance((uint32_t)state.devices);
    if (one_in(10))
        props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    if (one_in(6))
        props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (one_in(6))
        props.maxSize = 8 * MB;
    if (CALL(cuMemPoolCreate, &pool, one_in(20) ? NULL : &props) == CUDA_SUCCESS)
        state.pools[slot] = (struct mempool){pool, true};
}

static void op_pool_destroy(void)
{
    unsigned slot = chance(POOLS);
    CUmemoryPool pool = state.pools[slot].handle;
    CUdeviceptr ptr = 0;
    uint64_t value = 0;

    if (!state.pools[slot].alive)
        return;
    journal_say(" slot %u", slot);
    if (CALL(cuMemPoolDestroy, pool) != CUDA_SUCCESS)
        return;
    state.pools[slot].alive = false;
    if (one_in(2))
        (void)CALL(cuMemAllocFromPoolAsync, &ptr, 4096, pool, some_stream(NULL));
    if (one_in(2))
        (void)CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
    if (one_in(2))
        (void)CALL(cuMemPoolTrimTo, pool, 0);
    if (one_in(2))
        (void)CALL(cuDeviceSetMemPool, 0, pool);
    if (one_in(3))
        (void)CALL(cuMemPoolDestroy, pool);
}

/* Figures of reserved bytes are the allocator's own business; used ones are the program's. */
static void op_pool_get(void)
{
    CUmemPool_attribute attribute = (CUmemPool_attribute)chance(10);
    cuuint64_t value = 0;
    CUmemoryPool pool = some_pool();

    journal_say(" attribute %d", (int)attribute);
    if (CALL(cuMemPoolGetAttribute, pool, attribute, one_in(20) ? NULL : &value) != CUDA_SUCCESS)
        return;
    if (attribute <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        journal_answer("%llu", (unsigned long long)value);
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT && !state.leaky)
        journal_answer("used %llu", (unsigned long long)value);
}

static void op_pool_set(void)
{
    CUmemPool_attribute attribute = (CUmemPool_attribute)chance(10);
    cuuint64_t value = one_in(2) ? 0 : chance(2);

    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && one_in(2))
        value = UINT64_MAX;
    journal_say(" attribute %d", (int)attribute);
    (void)CALL(cuMemPoolSetAttribute, some_pool(), attribute, one_in(20) ? NULL : &value);
}

static void op_pool_trim(void)
{
    (void)CALL(cuMemPoolTrimTo, some_pool(), one_in(2) ? 0 : chance(64) * MB);
}

static void op_pool_access(void)
{
    CUmemAccessDesc desc = {.flags = one_in(8) ? (CU_MEM_ACCESS_FLAGS_PROT_READ + 8)
                    : one_in(3)                ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                                               : CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemoryPool pool = some_pool();

    desc.location.type = one_in(8) ? CU_MEM_LOCATION_TYPE_INVALID : CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = one_in(8) ? 55 : (int)chance((uint32_t)state.devices);
    if (one_in(2)) {
        (void)CALL(cuMemPoolSetAccess, pool, one_in(10) ? NULL : &desc, 1);
    } else if (CALL(cuMemPoolGetAccess, &flags, pool, &desc.location) == CUDA_SUCCESS) {
        journal_answer("%d", (int)flags);
    }
}

static void op_pool_current(void)
{
    CUdevice device = one_in(8) ? 9 : (CUdevice)chance((uint32_t)state.devices);
    CUmemoryPool pool = NULL;

    switch (chance(3)) {
    case 0:
        (void)CALL(cuDeviceSetMemPool, device, some_pool());
        break;
    case 1:
        if (CALL(cuDeviceGetMemPool, &pool, device) == CUDA_SUCCESS)
            for (int i = 0; i < POOLS; i++)
                if (state.pools[i].alive && state.pools[i].handle == pool)
                    journal_answer("slot %d", i);
        break;
    default:
        (void)CALL(cuDeviceGetDefaultMemPool, one_in(8) ? NULL : &pool, device);
    }
}

const struct op async_ops[] = {
        {op_alloc, {14, 14, 20, 10}},
        {op_alloc_from, {8, 5, 6, 4}},
        {op_free, {14, 12, 16, 10}},
        {op_free_odd, {4, 3, 2, 4}},
        {op_free_sync, {3, 2, 0, 2}},
        {op_pool_create, {4, 2, 1, 2}},
        {op_pool_destroy, {2, 1, 1, 2}},
        {op_pool_get, {5, 1, 1, 3}},
        {op_pool_set, {4, 1, 1, 3}},
        {op_pool_trim, {3, 2, 2, 2}},
        {op_pool_access, {3, 1, 0, 2}},
        {op_pool_current, {3, 1, 1, 2}},
};
const unsigned async_ops_count = sizeof async_ops / sizeof *async_ops;

/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_memory.h"

#include "tests/sim/base/sim_faults.h"
#include "tests/sim/driver/sim_device.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/memory/sim_ipc.h"
#include "tests/sim/memory/sim_pages.h"
#include "tests/sim/memory/sim_pool.h"
#include "tests/sim/memory/sim_va.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define UNITS          (SIM_GRANULE / SIM_ALIGN)
#define UNITS_PER_PAGE (SIM_HOST_PAGE / SIM_ALIGN)

struct sim_granule {
    uint64_t addr;
    struct CUctx_st *ctx;
    unsigned used_count;
    bool used[UNITS];
    struct sim_granule *next;
};

/* ---- small blocks ---- */

static bool units_free(const struct sim_granule *granule, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++)
        if (granule->used[i])
            return false;
    return true;
}

/* Applies `change` to each run of host pages under the units in which no other unit is used. */
static int each_free_page(struct sim_granule *granule, uint64_t first, uint64_t count,
        int (*change)(uint64_t addr, uint64_t size))
{
    uint64_t page = first / UNITS_PER_PAGE;
    uint64_t last = (first + count - 1) / UNITS_PER_PAGE;

    while (page <= last) {
        uint64_t end = page;
        while (end <= last && units_free(granule, end * UNITS_PER_PAGE, UNITS_PER_PAGE))
            end++;
        if (end > page) {
            int r = change(granule->addr + page * SIM_HOST_PAGE, (end - page) * SIM_HOST_PAGE);
            if (r)
                return r;
        }
        page = end + 1;
    }
    return 0;
}

static int drop_pages(uint64_t addr, uint64_t size)
{
    sim_va_drop(addr, size);
    return 0;
}

/* First fit: index of the first of `count` free units, or UNITS. */
static uint64_t find_units(const struct sim_granule *granule, uint64_t count)
{
    uint64_t run = 0;

    if (UNITS - granule->used_count < count)
        return UNITS;
    for (uint64_t i = 0; i < UNITS; i++) {
        run = granule->used[i] ? 0 : run + 1;
        if (run == count)
            return i + 1 - count;
    }
    return UNITS;
}

static struct sim_granule *granule_open(struct CUctx_st *ctx)
{
    struct sim_granule *granule;
    uint64_t addr;

    if (sim_device_hold(ctx->device, SIM_GRANULE))
        return NULL;
    addr = sim_va_take(SIM_GRANULE, SIM_GRANULE);
    if (!addr) {
        sim_device_drop(ctx->device, SIM_GRANULE);
        return NULL;
    }
    granule = sim_new(sizeof(*granule));
    granule->addr = addr;
    granule->ctx = ctx;
    granule->next = ctx->granules;
    ctx->granules = granule;
    return granule;
}

static void granule_close(struct sim_granule *granule)
{
    struct sim_granule **link = &granule->ctx->granules;

    while (*link != granule)
        link = &(*link)->next;
    *link = granule->next;
    sim_ipc_forget(granule->addr);
    sim_va_drop(granule->addr, SIM_GRANULE);
    sim_va_give(granule->addr, SIM_GRANULE);
    sim_device_drop(granule->ctx->device, SIM_GRANULE);
    free(granule);
}

static int alloc_small(struct CUctx_st *ctx, uint64_t size, uint64_t *ret_addr)
{
    uint64_t count = sim_round(size, SIM_ALIGN) / SIM_ALIGN;
    uint64_t first = UNITS;
    struct sim_granule *granule;

    for (granule = ctx->granules; granule; granule = granule->next) {
        first = find_units(granule, count);
        if (first < UNITS)
            break;
    }
    if (!granule) {
        granule = granule_open(ctx);
        first = 0;
    }
    if (!granule)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (each_free_page(granule, first, count, sim_va_back)) {
        if (granule->used_count == 0)
            granule_close(granule);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint64_t i = first; i < first + count; i++)
        granule->used[i] = true;
    granule->used_count += (unsigned)count;
    *ret_addr = granule->addr + first * SIM_ALIGN;
    return 0;
}

static void free_small(const struct sim_block *block)
{
    struct sim_granule *granule = block->ctx->granules;
    uint64_t count = sim_round(block->size, SIM_ALIGN) / SIM_ALIGN;

    while (block->addr - granule->addr >= SIM_GRANULE)
        granule = granule->next;
    uint64_t first = (block->addr - granule->addr) / SIM_ALIGN;
    for (uint64_t i = first; i < first + count; i++)
        granule->used[i] = false;
    granule->used_count -= (unsigned)count;
    (void)each_free_page(granule, first, count, drop_pages);
    if (granule->used_count == 0)
        granule_close(granule);
}

/* ---- blocks ---- */

/* Memory of its own at whole granules, which takes `held` bytes of the device. */
static int alloc_large(struct CUctx_st *ctx, uint64_t size, uint64_t held, uint64_t *ret_addr)
{
    uint64_t room = sim_round(size, SIM_GRANULE);
    uint64_t addr;

    if (room < size || sim_device_hold(ctx->device, held))
        return CUDA_ERROR_OUT_OF_MEMORY;
    addr = sim_va_take(room, SIM_GRANULE);
    if (addr && sim_va_back(addr, room) == 0) {
        *ret_addr = addr;
        return 0;
    }
    if (addr)
        sim_va_give(addr, room);
    sim_device_drop(ctx->device, held);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static int alloc_kind(
        struct CUctx_st *ctx, enum sim_block_kind kind, uint64_t size, CUdeviceptr *ret_ptr)
{
    bool small = size < SIM_GRANULE && kind == SIM_BLOCK_PLAIN;
    uint64_t held = kind == SIM_BLOCK_MANAGED ? 0 : sim_round(size, SIM_GRANULE);
    struct sim_block *block;
    uint64_t addr;
    int r;

    if (size == 0 || !ret_ptr)
        return CUDA_ERROR_INVALID_VALUE;
    r = small ? alloc_small(ctx, size, &addr) : alloc_large(ctx, size, held, &addr);
    if (r)
        return r;
    block = sim_ledger_add((struct sim_block){.addr = addr,
            .size = size,
            .kind = kind,
            .device = ctx->device,
            .ctx = ctx,
            .va_size = small ? 0 : sim_round(size, SIM_GRANULE)});
    if (kind == SIM_BLOCK_MANAGED)
        sim_pages_add(block);
    *ret_ptr = addr;
    return 0;
}

int sim_memory_alloc(struct CUctx_st *ctx, uint64_t size, CUdeviceptr *ret_ptr)
{
    return alloc_kind(ctx, SIM_BLOCK_PLAIN, size, ret_ptr);
}

void sim_memory_release(struct sim_block *block)
{
    sim_faults_freed();
    if (block->va_size) {
        sim_ipc_forget(block->addr);
        sim_va_drop(block->addr, block->va_size);
        sim_va_give(block->addr, block->va_size);
        if (block->kind == SIM_BLOCK_MANAGED)
            sim_pages_drop(block);
        else
            sim_device_drop(block->device, block->va_size);
    } else {
        free_small(block);
    }
    sim_ledger_remove(block);
}

static void host_release(struct sim_block *block)
{
    if (!block->registered)
        munmap((void *)(uintptr_t)block->addr, block->va_size);
    sim_ledger_remove(block);
}

void sim_memory_end_context(struct CUctx_st *ctx)
{
    while (ctx->blocks) {
        struct sim_block *block = ctx->blocks;
        if (block->kind == SIM_BLOCK_HOST)
            host_release(block);
        else if (block->kind == SIM_BLOCK_IMPORTED)
            sim_ipc_release(block);
        else
            sim_memory_release(block);
    }
}

/* The block whose first byte is `ptr`, or NULL. */
static struct sim_block *block_at(CUdeviceptr ptr)
{
    struct sim_block *block = sim_ledger_live(ptr);

    return block && block->addr == ptr ? block : NULL;
}

static int free_block(CUdeviceptr ptr)
{
    struct sim_block *block = block_at(ptr);

    if (ptr == 0)
        return 0;
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->piece) { /* of no context; but any further work says so once the current one has failed */
        struct CUctx_st *here;
        int r = sim_context_current(&here);

        if (r && r != CUDA_ERROR_INVALID_CONTEXT && r != CUDA_ERROR_CONTEXT_IS_DESTROYED)
            return r;
        return sim_pool_free_now(block->piece);
    }
    if (block->from_pool) {
        sim_ipc_release(block);
        return 0;
    }
    if (block->kind != SIM_BLOCK_PLAIN && block->kind != SIM_BLOCK_MANAGED && !block->external)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->ctx->sticky)
        return (int)block->ctx->sticky;
    uint64_t id = block->id;
    struct CUctx_st *ctx = block->ctx;
    sim_queue_demand_context(ctx);
    block = block_at(ptr); /* another thread may have freed it while the lock was away */
    if (!block || block->id != id)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->external)
        sim_ipc_release(block);
    else
        sim_memory_release(block);
    return ctx->alive ? (int)ctx->sticky : 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret_ptr, size_t size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0) {
        r = alloc_kind(sim_context_owner(call.ctx), SIM_BLOCK_PLAIN, size, ret_ptr);
        sim_note(&call, " size=%zu ptr=0x%llx", size, r ? 0 : *ret_ptr);
        sim_gives(&call, r ? 0 : *ret_ptr, size);
    }
    return sim_leave(&call, r);
}

CUresult cuMemAllocManaged(CUdeviceptr *ret_ptr, size_t size, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0 && flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = alloc_kind(sim_context_owner(call.ctx), SIM_BLOCK_MANAGED, size, ret_ptr);
    if (r == 0)
        sim_gives(&call, *ret_ptr, size);
    return sim_leave(&call, r);
}

CUresult cuMemAllocPitch_v2(
        CUdeviceptr *ret_ptr, size_t *ret_pitch, size_t width, size_t height, unsigned int element)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0 && (!ret_pitch || width == 0 || height == 0 || width > (size_t)1 << 40))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && element != 4 && element != 8 && element != 16)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        size_t pitch = (size_t)sim_round(width, SIM_ALIGN);
        r = height > ((size_t)1 << 44) / pitch
                ? CUDA_ERROR_OUT_OF_MEMORY
                : alloc_kind(sim_context_owner(call.ctx), SIM_BLOCK_PLAIN, pitch * height, ret_ptr);
        if (r == 0) {
            *ret_pitch = pitch;
            sim_gives(&call, *ret_ptr, pitch * height);
        }
    }
    return sim_leave(&call, r);
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    sim_note(&call, " ptr=0x%llx", ptr);
    if (r == 0)
        r = free_block(ptr);
    return sim_leave(&call, r);
}

CUresult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0) {
        if (ret_free)
            *ret_free = (size_t)sim_device_free_bytes(call.ctx->device);
        if (ret_total)
            *ret_total = (size_t)sim_device_total_bytes();
    }
    return sim_leave(&call, r);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT);

    if (r == 0) {
        const struct sim_block *block = sim_ledger_live(ptr);
        if (!block || block->kind == SIM_BLOCK_HOST)
            r = CUDA_ERROR_NOT_FOUND;
        if (r == 0 && ret_base)
            *ret_base = block->addr;
        if (r == 0 && ret_size)
            *ret_size = (size_t)block->size;
    }
    return sim_leave(&call, r);
}

/* ---- pinned host memory ---- */

static int host_alloc(struct CUctx_st *ctx, void **ret_at, size_t size, unsigned flags)
{
    size_t length = (size_t)sim_round(size, SIM_HOST_PAGE);
    void *at;

    if (!ret_at || size == 0 || flags & ~7U)
        return CUDA_ERROR_INVALID_VALUE;
    at = length < size
            ? MAP_FAILED
            : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (void)sim_ledger_add((struct sim_block){.addr = (uintptr_t)at,
            .size = size,
            .kind = SIM_BLOCK_HOST,
            .device = -1,
            .ctx = ctx,
            .va_size = length,
            .host_flags = flags});
    *ret_at = at;
    return 0;
}

CUresult cuMemHostAlloc(void **ret_at, size_t size, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = host_alloc(sim_context_owner(call.ctx), ret_at, size, flags);
    return sim_leave(&call, r);
}

CUresult cuMemAllocHost_v2(void **ret_at, size_t size)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = host_alloc(sim_context_owner(call.ctx), ret_at, size, 0);
    return sim_leave(&call, r);
}

static struct sim_block *host_block(const void *at, bool registered)
{
    struct sim_block *block = sim_ledger_find((uintptr_t)at);

    if (!block || block->kind != SIM_BLOCK_HOST || block->registered != registered
            || block->addr != (uintptr_t)at)
        return NULL;
    return block;
}

CUresult cuMemFreeHost(void *at)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);
    struct sim_block *block = r ? NULL : host_block(at, false);

    if (r == 0 && !block)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        sim_queue_demand_context(block->ctx); /* copies to it may be in flight */
        block = host_block(at, false);
        if (block)
            host_release(block);
    }
    return sim_leave(&call, r);
}

static bool overlaps(uint64_t addr, uint64_t size)
{
    uint64_t end = addr + size;

    for (uint64_t at = addr; at < end; at += SIM_HOST_PAGE)
        if (sim_ledger_find(at))
            return true;
    return sim_ledger_find(end - 1) != NULL;
}

CUresult cuMemHostRegister_v2(void *at, size_t size, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0 && (!at || size == 0 || flags & ~15U || sim_va_has((uintptr_t)at)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && overlaps((uintptr_t)at, size))
        r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (r == 0)
        (void)sim_ledger_add((struct sim_block){.addr = (uintptr_t)at,
                .size = size,
                .kind = SIM_BLOCK_HOST,
                .device = -1,
                .ctx = sim_context_owner(call.ctx),
                .registered = true,
                .host_flags = flags});
    return sim_leave(&call, r);
}

CUresult cuMemHostUnregister(void *at)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);
    struct sim_block *block = r ? NULL : host_block(at, true);

    if (r == 0 && !block)
        r = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (r == 0)
        host_release(block);
    return sim_leave(&call, r);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret_ptr, void *at, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);
    const struct sim_block *block = r ? NULL : sim_ledger_find((uintptr_t)at);

    if (ret_ptr)
        *ret_ptr = 0;
    if (r == 0 && (!ret_ptr || flags || !block || block->kind != SIM_BLOCK_HOST))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_ptr = (uintptr_t)at;
    return sim_leave(&call, r);
}

CUresult cuMemHostGetFlags(unsigned int *ret_flags, void *at)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);
    const struct sim_block *block = r ? NULL : sim_ledger_find((uintptr_t)at);

    if (r == 0 && (!ret_flags || !block || block->kind != SIM_BLOCK_HOST))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        *ret_flags = block->host_flags | CU_MEMHOSTALLOC_DEVICEMAP; /* all of it is mapped */
    return sim_leave(&call, r);
}

/* SPDX-License-Identifier: MIT */
#include "preload/request/spill.h"

#include "preload/base/bounds.h"
#include "preload/driver/mempools.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"

#include "alloc/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    SPILLED_MAX = 16, /* the high marks of further pools may be too high */
};

static atomic_bool spilled;                       /* the driver's pool has served, for */
static _Atomic(uint64_t) spilled_id[SPILLED_MAX]; /* these pools */

static bool spill_is_known(uint64_t id)
{
    for (int i = 0; i < SPILLED_MAX; i++)
        if (atomic_load_explicit(&spilled_id[i], memory_order_relaxed) == id)
            return true;
    return false;
}

/* Takes a place for the pool; the place of a destroyed pool is free again. */
static bool spill_take_place(uint64_t id)
{
    struct mempool mempool;

    for (int i = 0; i < SPILLED_MAX; i++) {
        uint64_t old = atomic_load_explicit(&spilled_id[i], memory_order_relaxed);

        if ((!old || !mempool_of_id(old, &mempool))
                && atomic_compare_exchange_strong(&spilled_id[i], &old, id))
            return true;
    }
    return false;
}

static void spill_remember(uint64_t id)
{
    if (!spill_is_known(id) && !spill_take_place(id))
        bounds_reached(BOUNDS_SPILLED);
    atomic_store_explicit(&spilled, true, memory_order_relaxed);
}

static uint64_t spill_figure(CUmemoryPool handle, CUmemPool_attribute which)
{
    cuuint64_t value = 0;

    return REAL(cuMemPoolGetAttribute)(handle, which, &value) == CUDA_SUCCESS ? value : 0;
}

/*
 * Called after a block more or less in the driver's pool: two pools' high marks of different times
 * do not add up to the mark of both.
 */
void spill_served(uint64_t id)
{
    struct mempool mempool;

    if (!id || !session_pool || !mempool_of_id(id, &mempool))
        return;
    spill_remember(id);
    pool_note_native(session_pool, id, mempool.device,
            spill_figure(mempool.handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
            spill_figure(mempool.handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

uint64_t spill_pool_of(CUdeviceptr ptr)
{
    struct mempool mempool;
    CUmemoryPool handle = NULL;

    if (!atomic_load_explicit(&spilled, memory_order_relaxed) || !ptr || !session_may_fence()
            || REAL(cuPointerGetAttribute)(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr)
                    != CUDA_SUCCESS
            || !handle || !mempool_find(handle, &mempool))
        return 0;
    return mempool.id;
}

void spill_look_again(void)
{
    if (!atomic_load_explicit(&spilled, memory_order_relaxed))
        return;
    for (int i = 0; i < SPILLED_MAX; i++)
        spill_served(atomic_load_explicit(&spilled_id[i], memory_order_relaxed));
}

static uint64_t spill_trim_pool(uint64_t id, int device)
{
    struct mempool mempool;
    uint64_t before, after;

    if (!id || !mempool_of_id(id, &mempool) || mempool.device != device)
        return 0;
    before = spill_figure(mempool.handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    (void)REAL(cuMemPoolTrimTo)(mempool.handle, 0);
    after = spill_figure(mempool.handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    spill_served(id);
    return before > after ? before - after : 0;
}

uint64_t spill_trim(int device)
{
    uint64_t bytes = 0;

    if (!atomic_load_explicit(&spilled, memory_order_relaxed))
        return 0;
    for (int i = 0; i < SPILLED_MAX; i++)
        bytes +=
                spill_trim_pool(atomic_load_explicit(&spilled_id[i], memory_order_relaxed), device);
    return bytes;
}

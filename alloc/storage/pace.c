/* SPDX-License-Identifier: MIT */
#include "alloc/storage/pace.h"

#define SECOND UINT64_C(1000000000)
#define AHEAD  60 /* seconds whose share may be used in advance */

static enum pool_pace pace_for(uint64_t debt, uint64_t share)
{
    if (debt < AHEAD * share / 2)
        return POOL_PACE_READY;
    return debt < AHEAD * share ? POOL_PACE_LAZY : POOL_PACE_SPARING;
}

void pace_look(struct pool *pool, uint64_t slot)
{
    uint64_t share = pool->opts.move_ns;
    struct pace *pace = &pool->pace;
    uint64_t now, each, moved, past;

    if (pool->opts.remap != POOL_REMAP_AUTO || !pool->driver.move_ns || !share)
        return;
    now = pool->driver.clock_ns(pool->driver.self);
    each = pool->driver.move_ns(pool->driver.self, slot);
    lock_take(&pool->lock);
    moved = (pool->counters.moved_bytes - pace->moved) / slot * each;
    past = pace->at_ns ? excess_of(now, pace->at_ns) : 0;
    pace->moved = pool->counters.moved_bytes;
    pace->at_ns = max_of(pace->at_ns, now);
    pace->debt_ns = excess_of(pace->debt_ns, past / 1000 * share / (SECOND / 1000)) + moved;
    pace->now = pace_for(pace->debt_ns, share);
    pool->counters.paces[pace->now]++;
    lock_drop(&pool->lock);
}

bool pace_is_ready(const struct pool *pool, const struct heap *heap)
{
    return heap->kind == HEAP_MAPPED && pool->opts.remap == POOL_REMAP_AUTO && !pool->opts.budget
            && pool->pace.now == POOL_PACE_READY;
}

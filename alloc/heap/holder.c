/* SPDX-License-Identifier: MIT */
#include "alloc/heap/holder.h"

#include "alloc/heap/block.h"
#include "alloc/heap/tally.h"

#include <errno.h>

static int step_free(struct holder *holder)
{
    if (holder->freed || holder->state == HOLDER_GONE)
        return -EINVAL;
    holder->freed = true;
    if (holder->state == HOLDER_LIVE)
        holder->state = holder->hold ? HOLDER_HELD : HOLDER_GONE;
    else if (holder->state == HOLDER_HUSK)
        holder->state = HOLDER_GONE;
    return 0;
}

int holder_step(struct holder *holder, enum holder_event event)
{
    /* The next state while the program has not freed the block; GONE = the event cannot happen. */
    static const enum holder_state next[HOLDER_STATE_COUNT][HOLDER_EVENT_COUNT] = {
            [HOLDER_LIVE] = {HOLDER_DEAD, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_DEAD] = {HOLDER_GONE, HOLDER_LIMBO, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_LIMBO] = {HOLDER_GONE, HOLDER_GONE, HOLDER_HUSK, HOLDER_GONE},
            [HOLDER_HUSK] = {HOLDER_GONE, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_HELD] = {HOLDER_LET_GO, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_LET_GO] = {HOLDER_GONE, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
            [HOLDER_GONE] = {HOLDER_GONE, HOLDER_GONE, HOLDER_GONE, HOLDER_GONE},
    };
    enum holder_state to;

    if (event == HOLDER_EVENT_FREE)
        return step_free(holder);
    to = next[holder->state][event];
    if (to == HOLDER_GONE)
        return -EINVAL;
    holder->state = to == HOLDER_HUSK && holder->freed ? HOLDER_GONE : to;
    return 0;
}

bool holder_is_released(const struct holder *holder)
{
    return !holder->freed
            && (holder->state == HOLDER_DEAD || holder->state == HOLDER_LIMBO
                    || holder->state == HOLDER_HUSK);
}

/* ── the records of a pool ── */

void holder_expect(struct pool *pool, uint32_t index)
{
    struct holder *holder = holder_at(pool, index);
    uint32_t *head = &pool->due[holder->rule].first;

    holder->is_listed = true;
    holder->prev = 0;
    holder->next = *head;
    if (*head)
        holder_at(pool, *head)->prev = index;
    *head = index;
}

void holder_unexpect(struct pool *pool, uint32_t index)
{
    struct holder *holder = holder_at(pool, index);

    if (holder->prev)
        holder_at(pool, holder->prev)->next = holder->next;
    else
        pool->due[holder->rule].first = holder->next;
    if (holder->next)
        holder_at(pool, holder->next)->prev = holder->prev;
    holder->is_listed = false;
    holder->prev = 0;
    holder->next = 0;
}

void holder_mark_released(struct pool *pool, const struct block *block, int by)
{
    granule_release(&pool->granules, block->node.base, block->node.size - block->slack, by);
    /* The count comes after the marks, and pairs with the acquire in pool_touch: a reader of the
     * count sees the marks. */
    atomic_fetch_add_explicit(&pool->gate.released, (uint32_t)by, memory_order_seq_cst);
}

void holder_drop(struct pool *pool, struct block *block)
{
    struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;

    if (!holder)
        return;
    if (holder->swap)
        swapset_forget(pool, holder->swap);
    if (holder->is_listed)
        holder_unexpect(pool, block->holder);
    if (holder->state == HOLDER_HELD)
        tally_held(block_segment(pool, block)->heap, -(int64_t)block->node.size);
    if (holder_is_released(holder))
        holder_mark_released(pool, block, -1);
    slab_put(&pool->holders, block->holder);
    block->holder = 0;
}

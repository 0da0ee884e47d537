/* SPDX-License-Identifier: MIT */
#include "alloc/heap/pin.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/tally.h"

#include <errno.h>

static struct pin *pin_of(const struct pool *pool, uint32_t index) POOL_LOCKED
{
    return block_at(pool, index)->flags & BLOCK_PINNED ? table_find(&pool->pins, index) : NULL;
}

uint32_t pin_count(const struct pool *pool, uint32_t index, enum pool_pin kind)
{
    const struct pin *pin = pin_of(pool, index);

    return pin ? pin->count[kind] : 0;
}

bool pin_is_hold(const struct pool *pool, uint32_t index)
{
    const struct pin *pin = pin_of(pool, index);

    return pin && pin->count[POOL_PIN_HELD] && !pin->count[POOL_PIN_GRAPH]
            && !pin->count[POOL_PIN_SHOWN];
}

int pin_add(struct pool *pool, uint32_t index, enum pool_pin kind)
{
    struct pin *pin = pin_of(pool, index);

    if (!pin) {
        pin = table_add(&pool->pins, index);
        if (!pin)
            return -ENOMEM;
        block_at(pool, index)->flags |= BLOCK_PINNED;
    }
    pin->count[kind]++;
    return 0;
}

/* Must a freed block be kept in any case (except for graphs, if the device is full)? */
static bool is_kept_by(const struct pin *pin, bool graphs_too)
{
    return (graphs_too && pin->count[POOL_PIN_GRAPH]) || pin->count[POOL_PIN_SHOWN]
            || pin->count[POOL_PIN_HELD];
}

/* A destroyed memory pool returns its memory once that is freed and its work has completed: only a
 * hint's pin keeps a block of it. */
static bool is_lost(const struct pool *pool, const struct pin *pin) POOL_LOCKED
{
    const struct heap *heap = block_segment(pool, block_at(pool, (uint32_t)pin->block))->heap;

    return heap->leaving && !pin->count[POOL_PIN_HELD] && !POOL_IS_WITHOUT(LEAVE);
}

/* Returns what table_remove does. */
static struct pin *pin_forget_one(struct pool *pool, struct pin *pin) POOL_LOCKED
{
    block_at(pool, (uint32_t)pin->block)->flags &= (uint8_t)~BLOCK_PINNED;
    return table_remove(&pool->pins, pin);
}

void pin_forget(struct pool *pool, uint32_t index)
{
    struct pin *pin = pin_of(pool, index);

    if (pin)
        (void)pin_forget_one(pool, pin);
}

/* A block without a pin that keeps it waits for the work submitted so far, like any freed block. */
static struct pin *pin_let_go(struct pool *pool, struct pin *pin) POOL_LOCKED
{
    uint32_t index = (uint32_t)pin->block;
    struct block *block = block_at(pool, index);
    struct pin *next = pin_forget_one(pool, pin);

    tally_kept(block_segment(pool, block)->heap, -(int64_t)block->node.size);
    block_push_open(pool, index);
    return next;
}

void pin_remove(struct pool *pool, uint32_t index, enum pool_pin kind)
{
    struct pin *pin = pin_of(pool, index);

    if (!pin || pin->count[kind] == 0)
        return;
    pin->count[kind]--;
    if (is_kept_by(pin, true) && !(pin->kept && is_lost(pool, pin)))
        return;
    if (pin->kept)
        (void)pin_let_go(pool, pin);
    else if (pin->count[POOL_PIN_LIVE] == 0 && pin->count[POOL_PIN_HINT] == 0)
        (void)pin_forget_one(pool, pin);
}

bool pin_keep(struct pool *pool, uint32_t index)
{
    struct pin *pin = pin_of(pool, index);

    if (!pin)
        return false;
    if (!is_kept_by(pin, true) || is_lost(pool, pin) || POOL_IS_WITHOUT(PIN)) {
        (void)pin_forget_one(pool, pin);
        return false;
    }
    pin->kept = true;
    tally_keep(pool, block_at(pool, index));
    return true;
}

void pin_leave(struct pool *pool, const struct heap *heap)
{
    struct pin *pin = table_next(&pool->pins, NULL);

    while (pin) {
        const struct segment *segment = block_segment(pool, block_at(pool, (uint32_t)pin->block));

        pin = pin->kept && segment->heap == heap && !segment->dead && is_lost(pool, pin)
                ? pin_let_go(pool, pin)
                : table_next(&pool->pins, pin);
    }
}

uint32_t pin_let_graphs_go(struct pool *pool, int device)
{
    struct pin *pin = table_next(&pool->pins, NULL);
    uint32_t gone = 0;

    while (pin) {
        const struct segment *segment = block_segment(pool, block_at(pool, (uint32_t)pin->block));

        if (pin->kept && !is_kept_by(pin, false) && !segment->dead
                && segment->heap->device->number == device) {
            pin = pin_let_go(pool, pin);
            gone++;
        } else {
            pin = table_next(&pool->pins, pin);
        }
    }
    return gone;
}

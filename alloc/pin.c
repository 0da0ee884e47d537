/* SPDX-License-Identifier: MIT */
#include "alloc/pin.h"

#include "alloc/meta.h"

#include <errno.h>

struct pin {
    uint32_t count[POOL_PIN_COUNT];
    bool kept; /* freed, and kept for the pins alone */
};

static struct pin *pin_of(const struct pool *pool, uint32_t index) POOL_LOCKED
{
    return heap_block(pool, index)->flags & BLOCK_PINNED ? lookup_find(&pool->pins, index) : NULL;
}

uint32_t pin_count(const struct pool *pool, uint32_t index, enum pool_pin kind)
{
    const struct pin *pin = pin_of(pool, index);

    return pin ? pin->count[kind] : 0;
}

int pin_add(struct pool *pool, uint32_t index, enum pool_pin kind)
{
    struct pin *pin = pin_of(pool, index);

    if (!pin) {
        pin = meta_get(sizeof(*pin));
        if (!pin)
            return -ENOMEM;
        if (lookup_add(&pool->pins, index, pin) != 0) {
            meta_put(pin, sizeof(*pin));
            return -ENOMEM;
        }
        heap_block(pool, index)->flags |= BLOCK_PINNED;
    }
    pin->count[kind]++;
    return 0;
}

void pin_forget(struct pool *pool, uint32_t index)
{
    struct pin *pin = pin_of(pool, index);

    if (!pin)
        return;
    lookup_remove(&pool->pins, index);
    meta_put(pin, sizeof(*pin));
    heap_block(pool, index)->flags &= (uint8_t)~BLOCK_PINNED;
}

/* A block that nothing keeps any more waits for the work that was submitted so far, like any freed one. */
static void let_go(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);

    pin_forget(pool, index);
    heap_count_kept(heap_segment_of(pool, block)->heap, -(int64_t)block->node.size);
    heap_push_open(pool, index);
}

void pin_remove(struct pool *pool, uint32_t index, enum pool_pin kind)
{
    struct pin *pin = pin_of(pool, index);
    bool keeps;

    if (!pin || pin->count[kind] == 0)
        return;
    pin->count[kind]--;
    keeps = pin->count[POOL_PIN_GRAPH] || pin->count[POOL_PIN_SHOWN];
    if (keeps)
        return;
    if (pin->kept)
        let_go(pool, index);
    else if (pin->count[POOL_PIN_LIVE] == 0)
        pin_forget(pool, index);
}

bool pin_keep(struct pool *pool, uint32_t index)
{
    struct pin *pin = pin_of(pool, index);

    if (!pin)
        return false;
    if ((!pin->count[POOL_PIN_GRAPH] && !pin->count[POOL_PIN_SHOWN])
            || pool->opts.mutate & POOL_MUTATE_NO_PIN) {
        pin_forget(pool, index);
        return false;
    }
    pin->kept = true;
    heap_count_kept(heap_segment_of(pool, heap_block(pool, index))->heap,
            (int64_t)heap_block(pool, index)->node.size);
    heap_block(pool, index)->state = BLOCK_KEPT;
    return true;
}

uint32_t pin_let_graphs_go(struct pool *pool, int device)
{
    uint32_t gone = 0;
    uint32_t at = 0;

    /* A removal moves what follows it, so the walk begins anew; there are few such blocks and it is the last resort. */
    while (at < pool->pins.room) {
        const struct pin *pin = pool->pins.slots[at].value;
        uint32_t index = (uint32_t)pool->pins.slots[at].key;
        const struct segment *segment;

        at++;
        if (!pin || !pin->kept || pin->count[POOL_PIN_SHOWN])
            continue;
        segment = heap_segment_of(pool, heap_block(pool, index));
        if (segment->dead || segment->heap->device->number != device)
            continue;
        let_go(pool, index);
        gone++;
        at = 0;
    }
    return gone;
}

/* Alone inside. */
void pin_done(struct pool *pool)
{
    for (uint32_t at = 0; at < pool->pins.room; at++)
        if (pool->pins.slots[at].value)
            meta_put(pool->pins.slots[at].value, sizeof(struct pin));
    lookup_done(&pool->pins);
}

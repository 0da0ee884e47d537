/* SPDX-License-Identifier: MIT */
#include "tracker/numtable.h"
#include "tracker/site.h"

#include "alloc/meta.h"

#include <errno.h>

#define FIRST_SLOTS 1024u

struct numtable_slots {
    uint32_t mask;
    uint32_t spare;
    _Atomic uint64_t slot[]; /* hash << 32 | number, 0 = empty */
};

/* The upper half carries the position: site_hash mixes all bits, and the lower half alone decides about equality of
 * memos elsewhere. */
static uint32_t fold(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

uint32_t numtable_find(const struct numtable *table, uint64_t hash,
        bool (*same)(uint32_t number, const void *key), const void *key)
{
    /* acquire: pairs with the release in numtable_add, so that a number's entry is complete when it is found */
    struct numtable_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    uint32_t tag = fold(hash);

    if (!slots)
        return 0;
    for (uint32_t i = tag & slots->mask;; i = (i + 1) & slots->mask) {
        uint64_t slot = atomic_load_explicit(&slots->slot[i], memory_order_acquire);

        if (slot == 0)
            return 0;
        if ((uint32_t)(slot >> 32) == tag && same((uint32_t)slot, key))
            return (uint32_t)slot;
    }
}

static void put(struct numtable_slots *slots, uint64_t value)
{
    uint32_t i = (uint32_t)(value >> 32) & slots->mask;

    while (atomic_load_explicit(&slots->slot[i], memory_order_relaxed) != 0)
        i = (i + 1) & slots->mask;
    atomic_store_explicit(&slots->slot[i], value, memory_order_release);
}

static int grow(struct numtable *table)
{
    struct numtable_slots *old = atomic_load_explicit(&table->slots, memory_order_relaxed);
    uint64_t count = old ? 2 * ((uint64_t)old->mask + 1) : FIRST_SLOTS;
    struct numtable_slots *slots;

    if (count > (UINT64_C(1) << 31))
        return -ENOMEM;
    slots = meta_map(sizeof *slots + count * sizeof slots->slot[0]);
    if (!slots)
        return -ENOMEM;
    slots->mask = (uint32_t)count - 1;
    for (uint32_t i = 0; old && i <= old->mask; i++) {
        uint64_t slot = atomic_load_explicit(&old->slot[i], memory_order_relaxed);

        if (slot != 0)
            put(slots, slot);
    }
    atomic_store_explicit(&table->slots, slots, memory_order_release);
    return 0;
}

int numtable_add(struct numtable *table, uint64_t hash, uint32_t number)
{
    struct numtable_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);

    if (!slots || table->used >= (slots->mask + 1) / 4 * 3) {
        int r = grow(table);

        if (r < 0)
            return r;
        slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    }
    put(slots, (uint64_t)fold(hash) << 32 | number);
    table->used++;
    return 0;
}

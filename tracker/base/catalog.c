/* SPDX-License-Identifier: MIT */
#include "tracker/base/catalog.h"

#include <errno.h>
#include <string.h>

#define FIRST_SLOTS 1024u

struct catalog_slots {
    uint32_t mask;
    uint32_t spare;
    _Atomic uint64_t slot[]; /* hash << 32 | number, 0 = empty */
};

/* The position comes from the upper half of a hash: site_hash mixes all bits, and other caches
 * compare only the lower half. */
static uint32_t catalog_fold(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

uint32_t catalog_find(const struct catalog *catalog, uint64_t hash, const void *key)
{
    /* acquire: pairs with the release in put_slot, so that the record of a found number is
     * complete */
    struct catalog_slots *slots = atomic_load_explicit(&catalog->slots, memory_order_acquire);
    uint32_t tag = catalog_fold(hash);

    if (!slots)
        return 0;
    for (uint32_t i = tag & slots->mask;; i = (i + 1) & slots->mask) {
        uint64_t slot = atomic_load_explicit(&slots->slot[i], memory_order_acquire);

        if (slot == 0)
            return 0;
        if ((uint32_t)(slot >> 32) == tag && catalog->same((uint32_t)slot, key))
            return (uint32_t)slot;
    }
}

static void put_slot(struct catalog_slots *slots, uint64_t value)
{
    uint32_t i = (uint32_t)(value >> 32) & slots->mask;

    while (atomic_load_explicit(&slots->slot[i], memory_order_relaxed) != 0)
        i = (i + 1) & slots->mask;
    atomic_store_explicit(&slots->slot[i], value, memory_order_release);
}

/* A table of twice the size replaces the old one in one store. The old one stays mapped, since a
 * reader may use it: all old ones together are smaller than the new one. */
static int grow_slots(struct catalog *catalog)
{
    struct catalog_slots *old = atomic_load_explicit(&catalog->slots, memory_order_relaxed);
    uint64_t count = old ? 2 * ((uint64_t)old->mask + 1) : FIRST_SLOTS;
    struct catalog_slots *slots;

    if (count > (UINT64_C(1) << 31))
        return -ENOMEM;
    slots = meta_map(sizeof *slots + count * sizeof slots->slot[0]);
    if (!slots)
        return -ENOMEM;
    slots->mask = (uint32_t)count - 1;
    for (uint32_t i = 0; old && i <= old->mask; i++) {
        uint64_t slot = atomic_load_explicit(&old->slot[i], memory_order_relaxed);

        if (slot != 0)
            put_slot(slots, slot);
    }
    atomic_store_explicit(&catalog->slots, slots, memory_order_release);
    return 0;
}

uint32_t catalog_add(struct catalog *catalog, uint64_t hash, const void *record)
{
    const struct catalog_slots *slots = atomic_load_explicit(&catalog->slots, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&catalog->count, memory_order_relaxed) + 1;

    if (number > catalog->max
            || span_commit(&catalog->records, ((size_t)number + 1) * catalog->bytes) < 0
            || ((!slots || number > (slots->mask + 1) / 4 * 3) && grow_slots(catalog) < 0))
        return 0;
    memcpy(catalog_at(catalog, number), record, catalog->bytes);
    atomic_store_explicit(&catalog->count, number, memory_order_release);
    put_slot(atomic_load_explicit(&catalog->slots, memory_order_relaxed),
            (uint64_t)catalog_fold(hash) << 32 | number);
    return number;
}

uint32_t catalog_number(
        struct catalog *catalog, struct lock *lock, uint64_t hash, const void *record)
{
    uint32_t number = catalog_find(catalog, hash, record);

    if (number != 0)
        return number;
    lock_take(lock);
    number = catalog_find(catalog, hash, record);
    if (number == 0)
        number = catalog_add(catalog, hash, record);
    lock_drop(lock);
    return number;
}

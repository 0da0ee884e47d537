/* SPDX-License-Identifier: MIT */
#include "tracker/catalog.h"

#include <string.h>

uint32_t catalog_add(struct catalog *catalog, uint64_t hash, const void *record)
{
    uint32_t number = atomic_load_explicit(&catalog->count, memory_order_relaxed) + 1;

    if (number > catalog->max
            || span_commit(&catalog->records, ((size_t)number + 1) * catalog->bytes) < 0)
        return 0;
    memcpy(catalog_at(catalog, number), record, catalog->bytes);
    atomic_store_explicit(&catalog->count, number, memory_order_release);
    return numtable_add(&catalog->table, hash, number) == 0 ? number : 0;
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

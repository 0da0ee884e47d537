/* SPDX-License-Identifier: MIT */
/*
 * catalog.h - unique records of one size, numbered from 1 in the order of arrival.
 *
 *     key ─ hash ─► slots ─ same? ─► number                     without a lock
 *                     └─ no ─► lock ─ look again ─ copy ─ count ─ enter
 *
 * Separate from alloc/base/table.h, because it is read without a lock: each allocation and each
 * edge looks up several keys, in all threads at once. So nothing is ever removed, a record never
 * moves and never changes, and it is counted before it can be found: a thread with a number may
 * read its record at once. A lookup that races with an addition may miss it, so the key is looked
 * up again under the lock before it is added. The slots hold 32 bits of the hash and the number,
 * with linear probing, at most three quarters of them.
 *
 * Memory: meta.h, reserved for all records, committed as they are added, never freed. Bounded;
 * beyond that the number is 0.
 * Threads: any. The lock is the caller's, so that several catalogs may share one.
 */
#ifndef KEDGE_TRACKER_CATALOG_H
#define KEDGE_TRACKER_CATALOG_H

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct catalog_slots;

struct catalog {
    /* fixed at creation: */
    size_t bytes; /* of a record */
    uint32_t max; /* records */
    bool (*same)(uint32_t number, const void *key);
    /* guarded by the caller's lock for adding: */
    struct span records;
    _Atomic(struct catalog_slots *) slots;
    _Atomic uint32_t count;
};

#define CATALOG_OF(type, max_, same_)                            \
    {                                                            \
        .bytes = sizeof(type), .max = (max_), .same = (same_),   \
        .records = SPAN_OF(((size_t)(max_) + 1) * sizeof(type)), \
    }

/* The record of a valid number. */
static inline void *catalog_at(const struct catalog *catalog, uint32_t number)
{
    return catalog->records.base + (size_t)number * catalog->bytes;
}

/* The number of records; all of them are complete. */
static inline uint32_t catalog_count(const struct catalog *catalog)
{
    return atomic_load_explicit(&catalog->count, memory_order_acquire);
}

/* Is the number in use? */
static inline bool catalog_has(const struct catalog *catalog, uint32_t number)
{
    return number != 0 && number <= catalog_count(catalog);
}

/* The number of the record that `same` recognises by the key, 0 = none yet. */
uint32_t catalog_find(const struct catalog *catalog, uint64_t hash, const void *key);

/* Adds a copy of the record; under the lock, and only if there is no equal one. Returns its number,
 * 0 = full. */
uint32_t catalog_add(struct catalog *catalog, uint64_t hash, const void *record);

/* The number of an equal record (the record is also the key), added if needed. 0 = full. Takes the
 * lock to add. */
uint32_t catalog_number(
        struct catalog *catalog, struct lock *lock, uint64_t hash, const void *record);

#endif

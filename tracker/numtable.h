/* SPDX-License-Identifier: MIT */
/*
 * numtable.h - from a key's hash to its number, read without a lock.
 *
 * Interning gives dense numbers to keys that live elsewhere (strings, stack nodes, paths). This table only finds the
 * number again: slots of {32 bits of hash, number}, linear probing, doubled when it is three quarters full. A full-size
 * table replaces the old one in one store; the old one stays mapped, since a reader may be in it (all old ones together
 * are smaller than the current one).
 *
 * A look-up that races with an addition may miss it; the caller looks again under its lock before it adds.
 * Threads: numtable_find any; numtable_add under the caller's lock. Memory: meta.h.
 */
#ifndef KEDGE_TRACKER_NUMTABLE_H
#define KEDGE_TRACKER_NUMTABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct numtable_slots;

/* All zero is an empty table. */
struct numtable {
    _Atomic(struct numtable_slots *) slots;
    uint32_t used; /* guarded by the caller's lock */
};

/* The number whose key `same` recognises, 0 = none. */
uint32_t numtable_find(const struct numtable *table, uint64_t hash,
        bool (*same)(uint32_t number, const void *key), const void *key);

/* Adds a number (not 0) that is not in it. 0 or -ENOMEM. */
int numtable_add(struct numtable *table, uint64_t hash, uint32_t number);

#endif

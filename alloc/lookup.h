/* SPDX-License-Identifier: MIT */
/*
 * lookup.h - from a number to a record: a small hash table for heaps by owner, streams by identity, shelves by size.
 *
 * uthash (table.h) hangs its links into the items and expands into every function that uses it; what the pool needs is
 * only "which record has this key". Open addressing, linear probing, removal by moving back, so there are no marks of
 * removed keys; at most three quarters full.
 * Threads: the caller's lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_LOOKUP_H
#define KEDGE_ALLOC_LOOKUP_H

#include <stdint.h>

struct lookup_slot {
    uint64_t key;
    void *value; /* NULL = empty */
};

/* Zero-initialised is empty. */
struct lookup {
    struct lookup_slot *slots;
    uint32_t room; /* a power of two, or 0 */
    uint32_t count;
};

/* The value of a key, NULL = not there. */
void *lookup_find(const struct lookup *lookup, uint64_t key);
/* Adds a key that is not there; value not NULL. 0 or -ENOMEM. */
int lookup_add(struct lookup *lookup, uint64_t key, void *value);
/* Removes a key; not there is fine. */
void lookup_remove(struct lookup *lookup, uint64_t key);
void lookup_done(struct lookup *lookup);

#endif

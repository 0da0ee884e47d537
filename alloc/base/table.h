/* SPDX-License-Identifier: MIT */
/*
 * table.h - records of one size, found by a 64-bit key.
 *
 *     struct mapping {
 *         uint64_t address;      the key: the first word of the record, never 0
 *         uint64_t size, handle;
 *     };
 *     static struct table mappings = TABLE_OF(struct mapping);
 *
 * Open addressing with linear probing, at most three quarters full, doubled beyond. A removal moves
 * displaced records back, so that there are no tombstones. The records are in the table itself: a
 * pointer to one is valid until the next addition or removal.
 *
 * Not uthash: for 100,000 records of 24 bytes an insert takes 251 instructions and a find 27
 * (callgrind, gcc -O2); with uthash 2.3 372 and 108, and each record is an allocation of its own.
 *
 * Threads: the caller's lock. For readers without a lock there is tracker/base/catalog.h, which
 * never removes. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_TABLE_H
#define KEDGE_ALLOC_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised it is an empty table of pointers (table_put). */
struct table {
    char *records;
    uint32_t room; /* a power of two, or 0 */
    uint32_t count;
    uint32_t bytes; /* of a record, a multiple of 8 */
};

#define TABLE_OF(type)         \
    {                          \
        .bytes = sizeof(type), \
    }

/* ---- internal; a search is inlined, since allocations make it ---- */

static inline void *table_at(const struct table *table, uint32_t at)
{
    return table->records + (size_t)at * table->bytes;
}

/* 0: the entry is empty. */
static inline uint64_t table_key(const void *record)
{
    return *(const uint64_t *)record;
}

/* Keys are addresses, sizes and numbers, mostly multiples: the middle bits of a product depend on
 * all bits of the key. */
static inline uint32_t table_home(const struct table *table, uint64_t key)
{
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(key >> 32) & (table->room - 1);
}

/* The entry of a key, or the empty one where it would go; for key 0 an empty one. There is always
 * an empty one. */
static inline void *table_place(const struct table *table, uint64_t key)
{
    uint32_t at = table_home(table, key);
    void *record = table_at(table, at);

    while (table_key(record) && table_key(record) != key) {
        at = (at + 1) & (table->room - 1);
        record = table_at(table, at);
    }
    return record;
}

/* ---- records ---- */

/* The record of a key, NULL = none. */
static inline void *table_find(const struct table *table, uint64_t key)
{
    void *record = table->count ? table_place(table, key) : NULL;

    return record && table_key(record) ? record : NULL;
}

/* The same, but adds a missing record: zero except for the key. NULL = no memory, or key 0; the
 * table is unchanged. */
void *table_add(struct table *table, uint64_t key);

/* The records in any order: the first one (after NULL), then the one after a record; NULL = no
 * more. */
void *table_next(const struct table *table, const void *record);

/*
 * Removes a record (NULL: nothing) and returns where a walk by table_next continues:
 *
 *     for (at = table_next(&table, NULL); at;
 *             at = ends(at) ? table_remove(&table, at) : table_next(&table, at))
 *
 * visits every record, and records that a removal at the end of the table moves to the front a
 * second time.
 */
void *table_remove(struct table *table, void *record);

/* Removes all records and frees the memory. */
void table_clear(struct table *table);

/* ---- records with a pointer ---- */

struct table_pointer {
    uint64_t key;
    void *to;
};

/* NULL = the key is missing. */
void *table_get(const struct table *table, uint64_t key);
/* Sets the pointer of a key. 0, or -ENOMEM. */
int table_put(struct table *table, uint64_t key, void *to);

#endif

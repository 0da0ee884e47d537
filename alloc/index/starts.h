/* SPDX-License-Identifier: MIT */
/*
 * starts.h - the beginnings of blocks in one segment: from an address to its block.
 *
 * One 4-byte block index per 512 bytes, written only where a block begins, so a free of a valid
 * pointer is one load; and bits in four levels above it, so that an interior pointer finds the
 * beginning before it in a few steps for any block size. 0.8 % of the segment as address space,
 * touched only where blocks begin.
 *
 *     level 3   one bit per nonzero word of level 2 ...
 *     level 0   one bit per unit where a block begins
 *     index     its number
 *
 * Does not know blocks.
 * Threads: the caller holds the pool lock. Memory: meta.h, or a span where the segment is large and
 * grows (starts_grow).
 */
#ifndef KEDGE_ALLOC_STARTS_H
#define KEDGE_ALLOC_STARTS_H

#include "alloc/base/meta.h"

#define STARTS_UNIT   512u
#define STARTS_LEVELS 4

struct starts {
    uint32_t *index;
    uint64_t *bits[STARTS_LEVELS];
    uint64_t units;
    uint64_t usable;  /* units that starts_grow has made usable */
    size_t bits_size; /* bytes of all levels, which precede the index */
    void *small;      /* the memory if it is from meta_get, */
    struct span span; /* or if it is a span */
};

/* For a segment of `size` bytes. 0 or -ENOMEM. Call starts_grow before use. */
int starts_init(struct starts *starts, uint64_t size);
void starts_done(struct starts *starts);
/* Makes offsets below `size` usable. 0 or -ENOMEM. */
int starts_grow(struct starts *starts, uint64_t size);

/* A block begins, or no longer begins, at `offset`, a multiple of the unit below the usable
 * size. */
void starts_set(struct starts *starts, uint64_t offset, uint32_t block);
void starts_clear(struct starts *starts, uint64_t offset);

/* The block that begins exactly at `offset`, which may be any number; 0 = none. */
static inline uint32_t starts_at(const struct starts *starts, uint64_t offset)
{
    uint64_t unit = offset / STARTS_UNIT;

    return offset % STARTS_UNIT == 0 && unit < starts->usable ? starts->index[unit] : 0;
}

/* The last block that begins at or before `offset`; 0 = none. */
uint32_t starts_before(const struct starts *starts, uint64_t offset);

#endif

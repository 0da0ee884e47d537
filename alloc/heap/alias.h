/* SPDX-License-Identifier: MIT */
/*
 * alias.h - small hinted blocks on shared physical handles.
 *
 * Only a whole mapping can be removed, so a block whose storage may be released before its address
 * needs its own mapping. It does not need its own handle: the driver maps one handle at several
 * addresses. Each such block has a range as large as a handle; the whole handle is mapped there,
 * and the block lies where its parts of the handle are mapped:
 *
 *     handle      |AAAAAA  BBBB  CCCCCCCC|      in ALIAS_PARTS parts
 *     range of A  |AAAAAA::::::::::::::::|      :: margins, which belong to no block
 *     range of B  |::::::::BBBB::::::::::|
 *
 * Storage that a hint releases is unmapped at its own address and faults there from then on, in
 * trap too (R57, early release); its parts go to the next block, at another address. No two blocks
 * ever share an address, so frees, lookups and the buffers of a call are unambiguous. The parts of
 * a released or freed block go to another block only after a fence of all streams, so it does not
 * matter which stream uses which part; a device need not order two users of one handle (R95,
 * aliases). Parts are at least 32 KiB: two users never share a cache line.
 *
 * Sharing is opt-in (backend: alias): each such block costs a mapping at its allocation and an
 * unmapping at its end, and a scan of the shared handles of its heap, under the pool's lock, for
 * the fullest that has enough free parts.
 *
 * Does not call the driver.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_ALIAS_H
#define KEDGE_ALLOC_ALIAS_H

#include "alloc/heap/records.h"

#define ALIAS_PARTS 64 /* parts of a handle: the bits of a word */

/* A range where a shared handle is mapped, or will be. */
struct alias {
    uint64_t range;  /* address of the range: the key */
    uint64_t handle; /* 0 = none yet */
    uint64_t parts;  /* parts of the handle that belong to the block */
};

/* A shared handle of `unit` bytes. */
struct alias_handle {
    uint64_t handle; /* the key */
    uint64_t used;   /* parts that belong to a block */
    uint64_t mark;   /* scratch of a walk; 0 between walks */
};

/* The size of the parts of a handle of `unit` bytes. */
static inline uint64_t alias_part(uint64_t unit)
{
    return unit / ALIAS_PARTS;
}

/* Number of parts. */
static inline uint64_t alias_count(uint64_t parts)
{
    uint64_t count = 0;

    for (; parts; parts &= parts - 1)
        count++;
    return count;
}

/* True if a handle has `size` bytes of free neighbouring parts. */
bool alias_fits(const struct heap *heap, uint64_t size, uint64_t unit);

/* Creates an alias for a range, on parts of an existing handle. 0; -ENOENT: no handle has enough
 * free parts, and the range has no alias; -ENOMEM: nothing was done. */
int alias_begin(struct heap *heap, devptr_t range, uint64_t size, uint64_t unit);

/* Creates the alias on parts of a new handle. 0, or -ENOMEM. */
int alias_open(struct heap *heap, devptr_t range, uint64_t size, uint64_t unit, uint64_t handle);

/* The alias of a range; NULL: none. */
const struct alias *alias_find(const struct heap *heap, devptr_t range);

/* Marks the parts of this alias in its handle. */
void alias_mark(const struct heap *heap, const struct alias *alias);

/* The range was unmapped. Returns its handle if no block uses a part of it now: it then belongs to
 * the caller; else 0. */
uint64_t alias_end(struct heap *heap, devptr_t range);

/* The range of a block with BLOCK_SHARED. */
static inline devptr_t alias_range(const struct segment *segment, const struct block *block)
{
    return block->node.base & ~(segment->slot - 1);
}

/* Cuts the margins off the BUSY block of a range; returns the block that is left. Needs two
 * records. */
uint32_t alias_cut(struct pool *pool, uint32_t index, uint64_t size) POOL_LOCKED;

/* Merges a block, which is in no index and no chain, with its margins: the BUSY block of the
 * range. */
uint32_t alias_join(struct pool *pool, uint32_t index) POOL_LOCKED;

#endif

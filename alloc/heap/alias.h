/* SPDX-License-Identifier: MIT */
/*
 * alias.h - small hinted blocks on physical handles that they share.
 *
 * Only a whole mapping can be removed, so a block whose storage may go before its address does needs a mapping of its own. It
 * need not have a handle of its own: a driver maps one handle at several addresses. Each such block has a range as large as
 * a handle; the whole handle is mapped there, and the block stands at the place of its parts of the handle:
 *
 *     handle      |AAAAAA  BBBB  CCCCCCCC|      in ALIAS_PARTS parts
 *     range of A  |AAAAAA::::::::::::::::|      :: margins, which are nobody's
 *     range of B  |::::::::BBBB::::::::::|
 *
 * What a hint releases is unmapped at its own address and faults there from then on, in trap too (R57); its parts are the next
 * block's, at an address that nobody else has. No block ever has another one's address, so frees, look-ups and what a call
 * names stay without doubt. The parts of a block that was released or freed become another's only behind a fence of all
 * streams, so it does not matter which stream uses what; a device need not order two users of one handle (R95). Parts are
 * no smaller than 32 KiB: two users never share a line of a cache.
 *
 * It has to be asked for (backend: alias): each such block costs a mapping at its allocation and an unmapping at its end, and
 * a look at each shared handle of its heap, under the pool's lock, to find the fullest that has room.
 *
 * Does not call the driver. Threads: the caller holds the pool lock. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_ALIAS_H
#define KEDGE_ALLOC_ALIAS_H

#include "alloc/heap/records.h"

#define ALIAS_PARTS 64 /* of a handle: bits of a word */

/* A range where a handle is mapped, or is to be. */
struct alias {
    uint64_t range;  /* its address: the key */
    uint64_t handle; /* 0 = none yet */
    uint64_t parts;  /* of the handle that are the block's */
};

/* A handle that aliases name, `unit` bytes large. */
struct alias_handle {
    uint64_t handle; /* the key */
    uint64_t used;   /* parts that are some block's */
    uint64_t mark;   /* of a walk; 0 between walks */
};

/* The size of the parts of a handle of `unit` bytes. */
static inline uint64_t alias_part(uint64_t unit)
{
    return unit / ALIAS_PARTS;
}

/* How many parts. */
static inline uint64_t alias_count(uint64_t parts)
{
    uint64_t count = 0;

    for (; parts; parts &= parts - 1)
        count++;
    return count;
}

/* True if a handle has so many bytes of neighbouring parts that are nobody's. */
bool alias_fits(const struct heap *heap, uint64_t size, uint64_t unit);

/* A range begins, with parts of such a handle. 0, -ENOENT: there is none, and the range has none yet; -ENOMEM: nothing was done. */
int alias_begin(struct heap *heap, devptr_t range, uint64_t size, uint64_t unit);

/* The same range takes its parts of a handle that is new here. 0, or -ENOMEM. */
int alias_open(struct heap *heap, devptr_t range, uint64_t size, uint64_t unit, uint64_t handle);

/* NULL: nothing is mapped there by us. */
const struct alias *alias_find(const struct heap *heap, devptr_t range);

/* The parts of this alias are marked in its handle. */
void alias_mark(const struct heap *heap, const struct alias *alias);

/* The range is not mapped any more. Returns its handle if nobody has a part of that now, it is the caller's then; else 0. */
uint64_t alias_end(struct heap *heap, devptr_t range);

/* The range of a block with BLOCK_SHARED. */
static inline devptr_t alias_range(const struct segment *segment, const struct block *block)
{
    return block->node.base & ~(segment->slot - 1);
}

/* Cuts the margins off the BUSY block of a range; returns the block that is left. Needs two records. */
uint32_t alias_cut(struct pool *pool, uint32_t index, uint64_t size) POOL_LOCKED;

/* Joins a block, which is in no index and no chain, with its margins: the BUSY block of the range. */
uint32_t alias_join(struct pool *pool, uint32_t index) POOL_LOCKED;

#endif

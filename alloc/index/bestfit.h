/* SPDX-License-Identifier: MIT */
/*
 * bestfit.h - free blocks by (size, address): the smallest that is large enough, of equal ones the
 * lowest.
 *
 * Two levels: size classes with a bitmap (exact multiples of the 512-byte quantum up to 32 KiB,
 * then 32 classes per power of two), and in each class a treap by (size, address) whose priorities
 * are hashed from the block's number. The bitmap makes the cost independent of the number of live
 * blocks and nearly independent of the number of free ones; the treap makes the fit exact, where a
 * two-level scheme with lists takes the next class and loses up to 17 %.
 *
 *     size ─► class ─► treap: lower bound ─┬─ found
 *                                          └─ none: next class in the bitmap ─► its first
 *
 * Links are in the block records (struct block, records.h), by index: no allocation, no failure.
 * Does not merge, split or know streams: freelist.h does, with one index per class.
 * Threads: none of it is safe alone; the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_BESTFIT_H
#define KEDGE_ALLOC_BESTFIT_H

#include "alloc/base/meta.h"
#include "alloc/base/types.h"

#define BESTFIT_QUANTUM 512u
#define BESTFIT_CLASSES 1024u

/* The fields of a block that bestfit uses, the head of struct block. */
struct bestfit_node {
    devptr_t base;
    uint64_t size;        /* a multiple of BESTFIT_QUANTUM, not 0 */
    uint32_t left, right; /* indices in the slab, 0 = none */
};

struct bestfit {
    uint64_t summary;                   /* one bit per nonzero word of `map` */
    uint64_t map[BESTFIT_CLASSES / 64]; /* one bit per nonempty class */
    uint32_t root[BESTFIT_CLASSES];     /* the treaps */
    uint32_t count;                     /* number of blocks */
    uint64_t bytes;                     /* sum of their sizes */
    const struct slab *slab; /* the table of the indices; records begin with struct bestfit_node */
};

void bestfit_init(struct bestfit *fit, const struct slab *slab);

/* The class of a size; monotonic. */
uint32_t bestfit_class(uint64_t size);

void bestfit_insert(struct bestfit *fit, uint32_t index);
/* The block must be in the index, with unchanged size and address. */
void bestfit_remove(struct bestfit *fit, uint32_t index);

/* Replaces a block in the index by its smaller end `rest`, if it can keep its place: it is the
 * first of its class before and after. False: nothing has changed. */
bool bestfit_shrink(struct bestfit *fit, uint32_t index, const struct bestfit_node *rest);

/* The first block in (size, address) order that is >= (size, base); 0 = none. */
uint32_t bestfit_lower_bound(const struct bestfit *fit, uint64_t size, devptr_t base);

/* The best fit for `size` bytes at a multiple of `align` (a power of two): examines a few blocks in
 * order and then takes the first that is large enough at any address. 0 = none. */
uint32_t bestfit_find(const struct bestfit *fit, uint64_t size, uint64_t align);

/* Calls `visit` with each block in (size, address) order until that returns false; the index must
 * not change meanwhile. */
typedef bool bestfit_visit(void *self, uint32_t index);
void bestfit_each(const struct bestfit *fit, bestfit_visit *visit, void *self);

/* Exchanges the blocks of two indices of one slab. */
void bestfit_swap(struct bestfit *a, struct bestfit *b);

/* The largest block, 0 = empty. */
uint32_t bestfit_largest(const struct bestfit *fit);

/* Checks all invariants; 0 or -EINVAL. For tests and pool_check. */
int bestfit_check(const struct bestfit *fit);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * granule.h - the map from any address to its segment: a table of 2 MiB granules over the whole
 * address space.
 *
 * Two levels: 2^22 words that point to leaves of 2^14 granules (32 GiB each). A foreign address
 * costs one or two loads. A granule belongs to at most one segment: segments begin and end on
 * granules (grow.c).
 *
 *     address >> 21 ─► top[ >> 14 ] ─► leaf[ & 0x3fff ] = { segment, released, swaps }
 *
 * `released` counts the ranges on this granule that hints have released, so that a guard without a
 * lock can skip other granules (pool_touch); `swaps` counts those of evictable blocks
 * (pool_call_name).
 * Threads: lookups any, without a lock; changes under the pool lock. Leaves are never unmapped.
 * Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_GRANULE_H
#define KEDGE_ALLOC_GRANULE_H

#include "alloc/base/types.h"

#include <stdatomic.h>

#define GRANULE_SHIFT      21
#define GRANULE_SIZE       (UINT64_C(1) << GRANULE_SHIFT)
#define GRANULE_LEAF_SHIFT 14
#define GRANULE_TOP_SHIFT  22 /* addresses of 57 bits */

struct granule {
    _Atomic uint32_t segment; /* index, 0 = not ours */
    _Atomic uint32_t released;
    _Atomic uint32_t swaps;
};

struct granules {
    _Atomic(struct granule *) *top;
    uint64_t lo, hi; /* existing leaves lie in [lo, hi) of `top` */
};

int granule_init(struct granules *granules);
void granule_done(struct granules *granules);

/* Creates the leaves for a range. 0, -ENOMEM, or -EINVAL if it is outside the address space of the
 * table. */
int granule_prepare(struct granules *granules, devptr_t base, uint64_t size);

/* Sets the segment of all granules of a range that was prepared before. */
void granule_set(struct granules *granules, devptr_t base, uint64_t size, uint32_t segment);

/* Clears those granules of a range that belong to this segment: after a late removal the others may
 * belong to another one. */
void granule_clear(struct granules *granules, devptr_t base, uint64_t size, uint32_t segment);

/* Adds to the count of released ranges on all granules that the range touches. */
void granule_release(struct granules *granules, devptr_t base, uint64_t size, int by);

/* True if a released range may be in [base, base + size). */
bool granule_is_released(const struct granules *granules, devptr_t base, uint64_t size);

/* The same two for evictable blocks. */
void granule_swap(struct granules *granules, devptr_t base, uint64_t size, int by);
bool granule_has_swaps(const struct granules *granules, devptr_t base, uint64_t size);

static inline struct granule *granule_at(const struct granules *granules, devptr_t ptr)
{
    uint64_t number = ptr >> GRANULE_SHIFT;
    struct granule *leaf;

    if (number >> (GRANULE_LEAF_SHIFT + GRANULE_TOP_SHIFT))
        return NULL;
    /* pairs with the release in granule_prepare */
    leaf = atomic_load_explicit(&granules->top[number >> GRANULE_LEAF_SHIFT], memory_order_acquire);
    return leaf ? &leaf[number & ((1u << GRANULE_LEAF_SHIFT) - 1)] : NULL;
}

static inline uint32_t granule_segment(const struct granules *granules, devptr_t ptr)
{
    struct granule *granule = granule_at(granules, ptr);

    return granule ? atomic_load_explicit(&granule->segment, memory_order_relaxed) : 0;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * usemap.h - from any address to the live slot of the allocation that it lies in.
 *
 * A tree over 48 bits of address, read without a lock:
 *
 *     root, 64 GiB each ─► 64 MiB each ─► node, 128 KiB each ─► node, 256 B each
 *                                └ a range ┘       └ a range ┘          └ a range
 *
 * A cell holds nothing, a range (the only one in the cell's stretch), or a node (there are more). So a lookup costs one
 * load per level and ends as early as it can: a large block fills large cells, whatever their number. A range is always
 * checked against its own bounds at the end, so what a reader without a lock meets on the way may be old, but never leads it
 * to a range that does not hold the address. A range that stays is found at any time, whatever happens beside it.
 *
 * Memory: meta.h. Nodes and ranges that are given up are used again, and stay readable for good. A node costs 4 KiB,
 * for each stretch that holds more than one range.
 * Threads: any; writers take a lock of rank USES, and may hold locks of the capture.
 */
#ifndef KEDGE_TRACKER_USEMAP_H
#define KEDGE_TRACKER_USEMAP_H

#include "tracker/format.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define USEMAP_BITS 48u /* addresses from 1 << USEMAP_BITS on have no place here */

struct usemap_range {
    uint64_t lo, size;
    struct format_live *slot;
    struct usemap_range *next; /* among those that are not in use */
};

/* Empties the map. No other thread may be inside. */
void usemap_init(void);

/*
 * [lo, lo + size) belongs to `slot` from now on. What overlaps is taken for dead, its end being on the way, and goes.
 * 0, -ENOMEM, or -ERANGE (no address of ours; another range within the same 256 bytes). Size 0 is nothing, and fine.
 */
int usemap_add(uint64_t lo, uint64_t size, struct format_live *slot);

/* The range that begins at lo, if it is this slot's. */
void usemap_remove(uint64_t lo, const struct format_live *slot);

enum {
    USEMAP_ROOT_SHIFT = 36,
    USEMAP_MID_SHIFT = 26,
    USEMAP_NODE_SHIFT = 17, /* of the topmost nodes */
    USEMAP_LEAF_SHIFT = 8,
    USEMAP_NODE_BITS = 9,
    USEMAP_ROOT_CELLS = 1 << (USEMAP_BITS - USEMAP_ROOT_SHIFT),
    USEMAP_MID_CELLS = 1 << (USEMAP_ROOT_SHIFT - USEMAP_MID_SHIFT),
    USEMAP_NODE_CELLS = 1 << USEMAP_NODE_BITS,
};

/* What a stretch holds: 0, a range with the lowest bit set, or a node, whose cells come first in it. */
typedef _Atomic(uintptr_t) usemap_cell;

extern _Atomic(usemap_cell *) usemap_root[USEMAP_ROOT_CELLS]; /* USEMAP_MID_CELLS each */

/* The range around an address, NULL = none. No lock. */
static inline const struct usemap_range *usemap_find(uint64_t addr)
{
    const struct usemap_range *range;
    usemap_cell *cells;
    uintptr_t value;

    if (addr >> USEMAP_BITS)
        return NULL;
    cells = atomic_load_explicit(&usemap_root[addr >> USEMAP_ROOT_SHIFT], memory_order_acquire);
    if (!cells)
        return NULL;
    value = atomic_load_explicit(
            &cells[addr >> USEMAP_MID_SHIFT & (USEMAP_MID_CELLS - 1)], memory_order_acquire);
    /* at most two nodes, also for one who looks up what is being freed: a node may have come back on another level */
    if (!(value & 1)) {
        if (!value)
            return NULL;
        value = atomic_load_explicit(
                &((usemap_cell *)value)[addr >> USEMAP_NODE_SHIFT & (USEMAP_NODE_CELLS - 1)],
                memory_order_acquire);
    }
    if (!(value & 1)) {
        if (!value)
            return NULL;
        value = atomic_load_explicit(
                &((usemap_cell *)value)[addr >> USEMAP_LEAF_SHIFT & (USEMAP_NODE_CELLS - 1)],
                memory_order_acquire);
    }
    if (!(value & 1))
        return NULL;
    range = (const struct usemap_range *)(value & ~(uintptr_t)1);
    if (addr - __atomic_load_n(&range->lo, __ATOMIC_RELAXED)
            >= __atomic_load_n(&range->size, __ATOMIC_RELAXED))
        return NULL;
    return range;
}

/* The range that holds the lowest address in [lo, lo + size), NULL = none. No lock. */
const struct usemap_range *usemap_first(uint64_t lo, uint64_t size);

#endif

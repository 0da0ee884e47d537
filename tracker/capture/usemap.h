/* SPDX-License-Identifier: MIT */
/*
 * usemap.h - from any address to the live slot of the allocation that contains it.
 *
 * A tree over 48 bits of address, read without a lock, by the beginnings of ranges:
 *
 *     root, 64 GiB each ─► 64 MiB each ─► node, 128 KiB each ─► leaf, 256 B each
 *                                └ a range ┘       └ a range ┘          └ a range
 *
 * A cell is empty, or holds a range (the only one in that 64 MiB; below, the only one that begins
 * in the cell), or a node. The range around an address is the last one that begins at or before it,
 * found by the bits of nodes; a range from an earlier 64 MiB is entered in each node that it
 * reaches. So a range costs one cell and one bit per 64 MiB of it, whatever its size and its
 * neighbours, and a lookup at most three nodes. A range is always checked against its own bounds at
 * the end, so a reader without a lock may meet old values, but never gets a range that does not
 * contain the address. An unchanged range is found at any time, whatever changes beside it: no
 * other range begins between its beginning and the address.
 *
 * Where a block ends and the next one has the same address and size, the tree stays unchanged: the
 * range stays in its cell with size 0, and is revived without a lock unless another range has taken
 * its cell meanwhile. With another size it keeps its cell if it ends in the same 64 MiB. While more
 * than USEMAP_RESTING ranges are in the tree, ended ones are removed at once.
 *
 * Memory: meta.h. Removed nodes and ranges are reused, and stay readable for good. A node costs 4
 * KiB, for each 64 MiB or 128 KiB in which more than one range begins.
 * Threads: any; writers take a lock of rank USES, and may hold locks of the capture.
 */
#ifndef KEDGE_TRACKER_USEMAP_H
#define KEDGE_TRACKER_USEMAP_H

#include "tracker/format/format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USEMAP_BITS 48u /* addresses from 1 << USEMAP_BITS on are not in the map */

struct usemap_range {
    uint64_t lo;
    uint64_t size; /* 0: range unused */
    struct format_live *slot;
    /* its size in the tree; changed by its owner, who holds the lock */
    uint64_t extent;
    struct usemap_range *next; /* in the list of unused ones */
    atomic_bool has_place;
    bool is_kept; /* it has an owner (usemap_enter), so the map does not free it */
};

/* Empties the map. No other thread may be inside, and no range may have an owner any more. */
void usemap_init(void);

/* Assigns [lo, lo + size) to `slot`. Overlapping ranges are removed: their blocks have ended, and
 * the frees are not yet recorded. 0, -ENOMEM, or -ERANGE (outside the map; another range begins
 * within the same 256 bytes). Size 0 does nothing and returns 0. */
int usemap_add(uint64_t lo, uint64_t size, struct format_live *slot);

/* Removes the range that begins at lo, if it is this slot's. */
void usemap_remove(uint64_t lo, const struct format_live *slot);

/* ---- for an owner with successive blocks at one address, and its own lock around these ---- */

enum {
    USEMAP_RESTING = 1 << 14,
};

extern _Atomic uint32_t usemap_places; /* ranges in the tree */

/* The slow paths of usemap_enter and usemap_leave. */
int usemap_place(struct usemap_range **keep, uint64_t lo, uint64_t size, struct format_live *slot);
void usemap_displace(struct usemap_range *range);

/* As usemap_add. *keep is the owner's range for the address lo: NULL at first, and after a failure.
 * Takes no lock if it only revives the range. */
static inline int usemap_enter(
        struct usemap_range **keep, uint64_t lo, uint64_t size, struct format_live *slot)
{
    struct usemap_range *range = *keep;

    if (__builtin_expect(range && range->extent == size, 1)) {
        __atomic_store_n(&range->slot, slot, __ATOMIC_RELAXED);
        /* against displace_locked: one of the two sees the other's store */
        (void)__atomic_exchange_n(&range->size, size, __ATOMIC_SEQ_CST);
        if (__builtin_expect(atomic_load(&range->has_place), 1))
            return 0;
    }
    return usemap_place(keep, lo, size, slot);
}

/* Its block has ended; the range stays in its cell. */
static inline void usemap_leave(struct usemap_range *range)
{
    __atomic_store_n(&range->size, 0, __ATOMIC_RELAXED);
    if (__builtin_expect(
                atomic_load_explicit(&usemap_places, memory_order_relaxed) > USEMAP_RESTING, 0))
        usemap_displace(range);
}

/* The owner forgets the address. */
void usemap_drop(struct usemap_range *range);

/* ---- lookup; no lock ---- */

enum {
    USEMAP_ROOT_SHIFT = 36,
    USEMAP_MID_SHIFT = 26,
    USEMAP_NODE_SHIFT = 17, /* of the upper nodes */
    USEMAP_LEAF_SHIFT = 8,
    USEMAP_NODE_BITS = 9,
    USEMAP_ROOT_CELLS = 1 << (USEMAP_BITS - USEMAP_ROOT_SHIFT),
    USEMAP_MID_CELLS = 1 << (USEMAP_ROOT_SHIFT - USEMAP_MID_SHIFT),
    USEMAP_NODE_CELLS = 1 << USEMAP_NODE_BITS,
};

/* The value of a cell: 0, a range with the lowest bit set, or a node, which begins with its
 * cells. */
typedef _Atomic(uintptr_t) usemap_cell;

extern _Atomic(usemap_cell *) usemap_root[USEMAP_ROOT_CELLS]; /* USEMAP_MID_CELLS each */

/* Bytes of the range from an address on, 0 = none. */
static inline __attribute__((always_inline)) uint64_t usemap_room(
        const struct usemap_range *range, uint64_t addr)
{
    uint64_t offset = addr - __atomic_load_n(&range->lo, __ATOMIC_RELAXED);
    uint64_t size = __atomic_load_n(&range->size, __ATOMIC_ACQUIRE);

    return offset < size ? size - offset : 0;
}

/* Beyond lo in any case, though the range may be ending. */
static inline uint64_t usemap_end(const struct usemap_range *range)
{
    uint64_t size = __atomic_load_n(&range->size, __ATOMIC_RELAXED);

    return __atomic_load_n(&range->lo, __ATOMIC_RELAXED) + (size ? size : 1);
}

/* The last range that begins at or before an address, in the part of this node; NULL = none. */
const struct usemap_range *usemap_look_back(uintptr_t node, uint64_t addr);

/* The range around an address if it begins in the same cell, and *ret_room as usemap_room. If
 * that is 0, the result is not the range; another one may be if *ret_node is not 0
 * (usemap_look_back). */
static inline __attribute__((always_inline)) const struct usemap_range *usemap_look(
        uint64_t addr, uint64_t *ret_room, uintptr_t *ret_node)
{
    const struct usemap_range *range;
    usemap_cell *cells;
    uintptr_t value;

    *ret_room = 0;
    *ret_node = 0;
    if (addr >> USEMAP_BITS)
        return NULL;
    cells = atomic_load_explicit(&usemap_root[addr >> USEMAP_ROOT_SHIFT & (USEMAP_ROOT_CELLS - 1)],
            memory_order_acquire);
    if (!cells)
        return NULL;
    value = atomic_load_explicit(
            &cells[addr >> USEMAP_MID_SHIFT & (USEMAP_MID_CELLS - 1)], memory_order_acquire);
    if (!(value & 1)) {
        if (!value)
            return NULL;
        *ret_node = value;
        value = atomic_load_explicit(
                &((usemap_cell *)value)[addr >> USEMAP_NODE_SHIFT & (USEMAP_NODE_CELLS - 1)],
                memory_order_acquire);
        /* at most two nodes, also for a lookup of memory being freed: a node may have been reused
         * on another level */
        if (!(value & 1) && value)
            value = atomic_load_explicit(
                    &((usemap_cell *)value)[addr >> USEMAP_LEAF_SHIFT & (USEMAP_NODE_CELLS - 1)],
                    memory_order_acquire);
        if (!(value & 1))
            return NULL;
    }
    range = (const struct usemap_range *)(value - 1);
    *ret_room = usemap_room(range, addr);
    return range;
}

/* The range around an address, NULL = none. */
static inline const struct usemap_range *usemap_find(uint64_t addr)
{
    uint64_t room;
    uintptr_t node;
    const struct usemap_range *range = usemap_look(addr, &room, &node);

    if (room || !node)
        return room ? range : NULL;
    range = usemap_look_back(node, addr);
    return range && usemap_room(range, addr) ? range : NULL;
}

/* The range that holds the lowest address in [lo, lo + size), NULL = none. */
const struct usemap_range *usemap_first(uint64_t lo, uint64_t size);

/* The range after `range` that has an address of [*io_lo, end), NULL = none. *io_lo becomes the
 * first address after `range`. */
static inline const struct usemap_range *usemap_next(
        const struct usemap_range *range, uint64_t *io_lo, uint64_t end)
{
    uint64_t next = usemap_end(range);

    if (next >= end || next <= *io_lo)
        return NULL;
    *io_lo = next;
    return usemap_first(next, end - next);
}

#endif

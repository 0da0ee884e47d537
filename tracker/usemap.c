/* SPDX-License-Identifier: MIT */
#include "tracker/usemap.h"

#include "alloc/lock.h"
#include "alloc/meta.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 18, /* memory is taken in these */
};

struct node {
    usemap_cell cells[USEMAP_NODE_CELLS];
    struct node *next; /* among those that are not in use */
    uint32_t used;     /* cells that hold something */
};

struct mid {
    usemap_cell cells[USEMAP_MID_CELLS];
};

struct piece {
    struct piece *next;
    uint64_t used;
};

static struct lock map_lock = LOCK_INIT(LOCK_RANK_USES);
_Atomic(usemap_cell *) usemap_root[USEMAP_ROOT_CELLS];
/* guarded by map_lock: */
static struct node *spare_nodes;
static struct usemap_range *spare_ranges;
static struct piece *pieces;

/* ---- memory --------------------------------------------------------------------------------- */

static void *take_locked(size_t size)
{
    char *at;

    if (!pieces || pieces->used + size > PIECE_BYTES) {
        struct piece *fresh = meta_map(PIECE_BYTES);

        if (!fresh)
            return NULL;
        fresh->next = pieces;
        fresh->used = sizeof *fresh;
        pieces = fresh;
    }
    at = (char *)pieces + pieces->used;
    pieces->used += size;
    return at;
}

static struct node *node_new_locked(void)
{
    struct node *node = spare_nodes;

    if (!node)
        return take_locked(sizeof *node);
    spare_nodes = node->next;
    return node;
}

/* All its cells are empty. */
static void node_put_locked(struct node *node)
{
    node->next = spare_nodes;
    spare_nodes = node;
}

static struct usemap_range *range_new_locked(void)
{
    struct usemap_range *range = spare_ranges;

    if (!range)
        return take_locked(sizeof *range);
    spare_ranges = range->next;
    return range;
}

/* A reader may have it in hand: its bounds hold no address from now on, and its slot stays one of the file. */
static void range_put_locked(struct usemap_range *range)
{
    __atomic_store_n(&range->size, 0, __ATOMIC_RELAXED);
    range->next = spare_ranges;
    spare_ranges = range;
}

void usemap_init(void)
{
    for (int i = 0; i < USEMAP_ROOT_CELLS; i++) {
        usemap_cell *mid = atomic_exchange(&usemap_root[i], NULL);

        if (mid)
            meta_unmap(mid, sizeof(struct mid));
    }
    while (pieces) {
        struct piece *next = pieces->next;

        meta_unmap(pieces, PIECE_BYTES);
        pieces = next;
    }
    spare_nodes = NULL;
    spare_ranges = NULL;
    lock_init(&map_lock, LOCK_RANK_USES);
}

/* ---- looking -------------------------------------------------------------------------------- */

static bool is_range(uintptr_t value)
{
    return (value & 1) != 0;
}

static struct usemap_range *range_of(uintptr_t value)
{
    return (struct usemap_range *)(value & ~(uintptr_t)1);
}

static uintptr_t value_of(const struct usemap_range *range)
{
    return (uintptr_t)range | 1;
}

/* The cell of the lowest level that an address falls into, and how far it stretches. */
static uintptr_t cell_at(uint64_t addr, unsigned *ret_shift)
{
    usemap_cell *mid =
            atomic_load_explicit(&usemap_root[addr >> USEMAP_ROOT_SHIFT], memory_order_acquire);
    unsigned shift = USEMAP_MID_SHIFT;
    uintptr_t value;

    *ret_shift = USEMAP_ROOT_SHIFT;
    if (!mid)
        return 0;
    value = atomic_load_explicit(
            &mid[addr >> USEMAP_MID_SHIFT & (USEMAP_MID_CELLS - 1)], memory_order_acquire);
    while (value && !is_range(value) && shift > USEMAP_LEAF_SHIFT) {
        shift -= USEMAP_NODE_BITS;
        value = atomic_load_explicit(
                &((struct node *)value)->cells[addr >> shift & (USEMAP_NODE_CELLS - 1)],
                memory_order_acquire);
    }
    *ret_shift = shift;
    return value;
}

const struct usemap_range *usemap_first(uint64_t lo, uint64_t size)
{
    uint64_t end = lo + size;
    unsigned shift;

    if (end < lo || end > UINT64_C(1) << USEMAP_BITS)
        end = UINT64_C(1) << USEMAP_BITS;
    while (lo < end) {
        uintptr_t value = cell_at(lo, &shift);

        if (is_range(value)) {
            const struct usemap_range *range = range_of(value);
            uint64_t begin = __atomic_load_n(&range->lo, __ATOMIC_RELAXED);
            uint64_t bytes = __atomic_load_n(&range->size, __ATOMIC_RELAXED);

            if (bytes != 0 && begin < end && lo < begin + bytes)
                return range;
        }
        lo = ((lo >> shift) + 1) << shift;
    }
    return NULL;
}

/* ---- changing ------------------------------------------------------------------------------- */

/* The part of a range that lies in the stretch of 1 << shift bytes at base, as numbers of cells of 1 << below. */
static void cells_of(const struct usemap_range *range, uint64_t base, unsigned shift,
        unsigned below, unsigned *ret_first, unsigned *ret_last)
{
    uint64_t last = range->lo + range->size - 1;
    uint64_t top = base + ((UINT64_C(1) << shift) - 1);
    uint64_t from = range->lo > base ? range->lo : base;

    *ret_first = (unsigned)((from - base) >> below);
    *ret_last = (unsigned)(((last < top ? last : top) - base) >> below);
}

static int put_locked(usemap_cell *at, uint64_t base, unsigned shift, struct usemap_range *range);

/* Into the cells of a node that stretches 1 << shift bytes from base. */
static int fill_locked(struct node *node, uint64_t base, unsigned shift, struct usemap_range *range)
{
    unsigned below = shift - USEMAP_NODE_BITS;
    unsigned first, last;

    cells_of(range, base, shift, below, &first, &last);
    for (unsigned i = first; i <= last; i++) {
        bool was_empty = !atomic_load_explicit(&node->cells[i], memory_order_relaxed);
        int r = put_locked(&node->cells[i], base + ((uint64_t)i << below), below, range);

        if (r < 0)
            return r;
        node->used += was_empty ? 1 : 0;
    }
    return 0;
}

/* A cell with one range becomes a node that holds it, and is seen only when it does. */
static int split_locked(usemap_cell *at, uint64_t base, unsigned shift)
{
    struct usemap_range *range = range_of(atomic_load_explicit(at, memory_order_relaxed));
    struct node *node = shift > USEMAP_LEAF_SHIFT ? node_new_locked() : NULL;

    if (!node)
        return shift > USEMAP_LEAF_SHIFT ? -ENOMEM : -ERANGE;
    (void)fill_locked(node, base, shift, range); /* into empty cells: cannot fail */
    atomic_store_explicit(at, (uintptr_t)node, memory_order_release);
    return 0;
}

/* Into a cell that stretches 1 << shift bytes from base. */
static int put_locked(usemap_cell *at, uint64_t base, unsigned shift, struct usemap_range *range)
{
    uintptr_t value = atomic_load_explicit(at, memory_order_relaxed);
    int r;

    if (!value) {
        atomic_store_explicit(at, value_of(range), memory_order_release);
        return 0;
    }
    if (is_range(value)) {
        r = split_locked(at, base, shift);
        if (r < 0)
            return r;
        value = atomic_load_explicit(at, memory_order_relaxed);
    }
    return fill_locked((struct node *)value, base, shift, range);
}

/* Out of a cell; a node that holds nothing any more goes. */
static void clear_locked(
        usemap_cell *at, uint64_t base, unsigned shift, const struct usemap_range *range)
{
    uintptr_t value = atomic_load_explicit(at, memory_order_relaxed);
    struct node *node = (struct node *)value;
    unsigned below = shift - USEMAP_NODE_BITS;
    unsigned first, last;

    if (is_range(value)) {
        if (range_of(value) == range)
            atomic_store_explicit(at, 0, memory_order_release);
        return;
    }
    if (!value)
        return;
    cells_of(range, base, shift, below, &first, &last);
    for (unsigned i = first; i <= last; i++) {
        if (!atomic_load_explicit(&node->cells[i], memory_order_relaxed))
            continue;
        clear_locked(&node->cells[i], base + ((uint64_t)i << below), below, range);
        if (!atomic_load_explicit(&node->cells[i], memory_order_relaxed))
            node->used--;
    }
    if (node->used == 0) {
        atomic_store_explicit(at, 0, memory_order_release);
        node_put_locked(node);
    }
}

static usemap_cell *mid_locked(uint64_t addr)
{
    _Atomic(usemap_cell *) *at = &usemap_root[addr >> USEMAP_ROOT_SHIFT];
    usemap_cell *mid = atomic_load_explicit(at, memory_order_relaxed);

    if (!mid) {
        mid = meta_map(sizeof(struct mid));
        if (mid)
            atomic_store_explicit(at, mid, memory_order_release);
    }
    return mid;
}

static void remove_locked(struct usemap_range *range)
{
    uint64_t last = range->lo + range->size - 1;

    for (uint64_t at = range->lo >> USEMAP_MID_SHIFT; at <= last >> USEMAP_MID_SHIFT; at++) {
        usemap_cell *mid = atomic_load_explicit(
                &usemap_root[at >> (USEMAP_ROOT_SHIFT - USEMAP_MID_SHIFT)], memory_order_relaxed);

        if (mid)
            clear_locked(&mid[at & (USEMAP_MID_CELLS - 1)], at << USEMAP_MID_SHIFT,
                    USEMAP_MID_SHIFT, range);
    }
    range_put_locked(range);
}

static int add_locked(struct usemap_range *range)
{
    uint64_t last = range->lo + range->size - 1;
    int r = 0;

    for (uint64_t at = range->lo >> USEMAP_MID_SHIFT; at <= last >> USEMAP_MID_SHIFT && r == 0;
            at++) {
        usemap_cell *mid = mid_locked(at << USEMAP_MID_SHIFT);

        r = mid ? put_locked(&mid[at & (USEMAP_MID_CELLS - 1)], at << USEMAP_MID_SHIFT,
                    USEMAP_MID_SHIFT, range)
                : -ENOMEM;
    }
    if (r < 0)
        remove_locked(range);
    return r;
}

int usemap_add(uint64_t lo, uint64_t size, struct format_live *slot)
{
    struct usemap_range *range;
    int r = -ENOMEM;

    if (size == 0)
        return 0;
    if (lo + size < lo || lo + size > UINT64_C(1) << USEMAP_BITS)
        return -ERANGE;
    lock_take(&map_lock);
    for (const struct usemap_range *old = usemap_first(lo, size); old; old = usemap_first(lo, size))
        remove_locked((struct usemap_range *)(uintptr_t)old);
    range = range_new_locked();
    if (range) {
        __atomic_store_n(&range->lo, lo, __ATOMIC_RELAXED);
        __atomic_store_n(&range->slot, slot, __ATOMIC_RELAXED);
        __atomic_store_n(&range->size, size, __ATOMIC_RELAXED);
        r = add_locked(range);
    }
    lock_drop(&map_lock);
    return r;
}

void usemap_remove(uint64_t lo, const struct format_live *slot)
{
    const struct usemap_range *range;

    lock_take(&map_lock);
    range = usemap_find(lo);
    if (range && range->lo == lo && range->slot == slot)
        remove_locked((struct usemap_range *)(uintptr_t)range);
    lock_drop(&map_lock);
}

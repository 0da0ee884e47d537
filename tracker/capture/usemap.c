/* SPDX-License-Identifier: MIT */
#include "tracker/capture/usemap.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 18, /* memory is allocated in pieces of this size */
    WORD_BITS = 64,
    NODE_WORDS = USEMAP_NODE_CELLS / WORD_BITS,
};

/* A node of 64 MiB, or a leaf of 128 KiB. A cell of a node has the ranges that begin in it; a cell
 * of a leaf has one range. */
struct node {
    usemap_cell cells[USEMAP_NODE_CELLS];
    _Atomic uint64_t taken[NODE_WORDS];    /* a bit for each nonempty cell */
    _Atomic(struct usemap_range *) before; /* a range that reaches into the 64 MiB from below */
    struct node *next;                     /* in the list of unused ones */
    uint32_t used;                         /* nonempty cells, plus 1 for `before` */
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
_Atomic uint32_t usemap_places; /* changed under map_lock */
/* guarded by map_lock: */
static struct node *spare_nodes;
static struct usemap_range *spare_ranges;
static struct piece *pieces;

/* ---- memory --------------------------------------------------------------------------------- */

static void *usemap_take_locked(size_t size)
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
        return usemap_take_locked(sizeof *node);
    spare_nodes = node->next;
    return node;
}

/* All its cells must be empty. */
static void node_put_locked(struct node *node)
{
    node->next = spare_nodes;
    spare_nodes = node;
}

static struct usemap_range *range_new_locked(bool is_kept)
{
    struct usemap_range *range = spare_ranges;

    if (range)
        spare_ranges = range->next;
    else
        range = usemap_take_locked(sizeof *range);
    if (range)
        range->is_kept = is_kept;
    return range;
}

/* A reader may still hold it: its bounds contain no address from now on, and its slot stays in the
 * file. */
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
    atomic_store(&usemap_places, 0);
    lock_init(&map_lock, LOCK_RANK_USES);
}

/* ---- lookup --------------------------------------------------------------------------------- */

static bool is_range(uintptr_t value)
{
    return (value & 1) != 0;
}

static struct usemap_range *usemap_range_of(uintptr_t value)
{
    return (struct usemap_range *)(value & ~(uintptr_t)1);
}

static uintptr_t usemap_value_of(const struct usemap_range *range)
{
    return (uintptr_t)range | 1;
}

static uintptr_t load(const usemap_cell *cell)
{
    return atomic_load_explicit(cell, memory_order_acquire);
}

static uint64_t usemap_begin_of(const struct usemap_range *range)
{
    return __atomic_load_n(&range->lo, __ATOMIC_RELAXED);
}

static unsigned node_cell(uint64_t addr)
{
    return addr >> USEMAP_NODE_SHIFT & (USEMAP_NODE_CELLS - 1);
}

static unsigned leaf_cell(uint64_t addr)
{
    return addr >> USEMAP_LEAF_SHIFT & (USEMAP_NODE_CELLS - 1);
}

/* The cell value of the 64 MiB around an address. */
static uintptr_t stretch_at(uint64_t addr)
{
    const usemap_cell *mid =
            atomic_load_explicit(&usemap_root[addr >> USEMAP_ROOT_SHIFT], memory_order_acquire);

    return mid ? load(&mid[addr >> USEMAP_MID_SHIFT & (USEMAP_MID_CELLS - 1)]) : 0;
}

/* The last nonempty cell before `limit`, -1 = none. */
static int last_taken(const struct node *node, unsigned limit)
{
    unsigned word = limit / WORD_BITS;
    uint64_t bits = 0;

    if (limit % WORD_BITS)
        bits = atomic_load_explicit(&node->taken[word], memory_order_acquire)
                & ((UINT64_C(1) << limit % WORD_BITS) - 1);
    while (!bits && word > 0)
        bits = atomic_load_explicit(&node->taken[--word], memory_order_acquire);
    return bits ? (int)(word * WORD_BITS + 63u - (unsigned)__builtin_clzll(bits)) : -1;
}

/* The first nonempty cell from `from` on, -1 = none. */
static int next_taken(const struct node *node, unsigned from)
{
    unsigned word = from / WORD_BITS;
    uint64_t bits;

    if (from >= USEMAP_NODE_CELLS)
        return -1;
    bits = atomic_load_explicit(&node->taken[word], memory_order_acquire)
            & ~UINT64_C(0) << from % WORD_BITS;
    while (!bits && ++word < NODE_WORDS)
        bits = atomic_load_explicit(&node->taken[word], memory_order_acquire);
    return bits ? (int)(word * WORD_BITS + (unsigned)__builtin_ctzll(bits)) : -1;
}

/* The last range of a leaf that begins at or before addr, also in cell `limit`. */
static struct usemap_range *last_of_leaf(const struct node *leaf, unsigned limit, uint64_t addr)
{
    uintptr_t value = limit < USEMAP_NODE_CELLS ? load(&leaf->cells[limit]) : 0;
    int at;

    if (is_range(value) && usemap_begin_of(usemap_range_of(value)) <= addr)
        return usemap_range_of(value);
    at = last_taken(leaf, limit);
    value = at >= 0 ? load(&leaf->cells[at]) : 0;
    return is_range(value) ? usemap_range_of(value) : NULL;
}

/* The last range of a node that begins at or before addr, including `before`. */
static struct usemap_range *last_of_node(const struct node *node, uint64_t addr)
{
    unsigned limit = node_cell(addr);
    uintptr_t value = load(&node->cells[limit]);
    struct usemap_range *range = NULL;
    int at;

    if (is_range(value))
        range = usemap_begin_of(usemap_range_of(value)) <= addr ? usemap_range_of(value) : NULL;
    else if (value)
        range = last_of_leaf((const struct node *)value, leaf_cell(addr), addr);
    if (range)
        return range;
    at = last_taken(node, limit);
    if (at < 0)
        return atomic_load_explicit(&node->before, memory_order_acquire);
    value = load(&node->cells[at]);
    if (is_range(value))
        return usemap_range_of(value);
    return value ? last_of_leaf((const struct node *)value, USEMAP_NODE_CELLS, addr) : NULL;
}

const struct usemap_range *usemap_look_back(uintptr_t node, uint64_t addr)
{
    return last_of_node((const struct node *)node, addr);
}

/* The first range of a node that begins at or after addr. */
static struct usemap_range *next_of_node(const struct node *node, uint64_t addr)
{
    unsigned first = node_cell(addr);

    for (int at = next_taken(node, first); at >= 0; at = next_taken(node, (unsigned)at + 1)) {
        unsigned from = (unsigned)at == first ? leaf_cell(addr) : 0;
        uintptr_t value = load(&node->cells[at]);
        const struct node *leaf = (const struct node *)value;

        if (value && !is_range(value))
            for (int in = next_taken(leaf, from); in >= 0;
                    in = next_taken(leaf, (unsigned)in + 1)) {
                value = load(&leaf->cells[in]);
                if (is_range(value) && usemap_begin_of(usemap_range_of(value)) >= addr)
                    break;
                value = 0;
            }
        if (is_range(value) && usemap_begin_of(usemap_range_of(value)) >= addr)
            return usemap_range_of(value);
    }
    return NULL;
}

/* The first range that begins in [lo, end). */
static struct usemap_range *next_begin(uint64_t lo, uint64_t end)
{
    while (lo < end) {
        unsigned shift =
                atomic_load_explicit(&usemap_root[lo >> USEMAP_ROOT_SHIFT], memory_order_acquire)
                ? USEMAP_MID_SHIFT
                : USEMAP_ROOT_SHIFT;
        uintptr_t value = stretch_at(lo);
        struct usemap_range *range = NULL;

        if (is_range(value))
            range = usemap_range_of(value);
        else if (value)
            range = next_of_node((const struct node *)value, lo);
        if (range && usemap_begin_of(range) >= lo)
            return usemap_begin_of(range) < end ? range : NULL;
        lo = ((lo >> shift) + 1) << shift;
    }
    return NULL;
}

const struct usemap_range *usemap_first(uint64_t lo, uint64_t size)
{
    uint64_t end = lo + size;
    const struct usemap_range *range = size ? usemap_find(lo) : NULL;

    if (range)
        return range;
    if (end < lo || end > UINT64_C(1) << USEMAP_BITS)
        end = UINT64_C(1) << USEMAP_BITS;
    for (range = next_begin(lo, end); range; range = next_begin(lo, end)) {
        if (__atomic_load_n(&range->size, __ATOMIC_ACQUIRE))
            return range;
        lo = usemap_begin_of(range) >= lo ? usemap_begin_of(range) + 1 : lo + 1;
    }
    return NULL;
}

/* ---- changes -------------------------------------------------------------------------------- */

static uint64_t stretch_begin(uint64_t addr)
{
    return addr >> USEMAP_MID_SHIFT << USEMAP_MID_SHIFT;
}

/* Sets the cell before its bit, and clears it after the bit: a reader that sees the bit finds the
 * range. */
static void set_locked(struct node *node, unsigned at, uintptr_t value)
{
    _Atomic uint64_t *word = &node->taken[at / WORD_BITS];
    uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);

    atomic_store_explicit(&node->cells[at], value, memory_order_release);
    atomic_store_explicit(word, bits | UINT64_C(1) << at % WORD_BITS, memory_order_release);
    node->used++;
}

static void unset_locked(struct node *node, unsigned at)
{
    _Atomic uint64_t *word = &node->taken[at / WORD_BITS];
    uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);

    atomic_store_explicit(word, bits & ~(UINT64_C(1) << at % WORD_BITS), memory_order_release);
    atomic_store_explicit(&node->cells[at], 0, memory_order_release);
    node->used--;
}

/* Enters a range into a leaf. */
static int put_leaf_locked(struct node *leaf, const struct usemap_range *range)
{
    unsigned at = leaf_cell(range->lo);

    if (load(&leaf->cells[at]))
        return -ERANGE;
    set_locked(leaf, at, usemap_value_of(range));
    return 0;
}

/* Enters a range into a node of the 64 MiB at base. A cell with one range becomes a leaf, which is
 * published once it contains that range. */
static int usemap_put_node_locked(struct node *node, uint64_t base, struct usemap_range *range)
{
    unsigned at = node_cell(range->lo);
    uintptr_t value;
    struct node *leaf;

    if (range->lo < base) {
        atomic_store_explicit(&node->before, range, memory_order_release);
        node->used++;
        return 0;
    }
    value = load(&node->cells[at]);
    if (!value) {
        set_locked(node, at, usemap_value_of(range));
        return 0;
    }
    if (is_range(value)) {
        leaf = node_new_locked();
        if (!leaf)
            return -ENOMEM;
        (void)put_leaf_locked(leaf, usemap_range_of(value)); /* it is empty */
        value = (uintptr_t)leaf;
        atomic_store_explicit(&node->cells[at], value, memory_order_release);
    }
    return put_leaf_locked((struct node *)value, range);
}

/* Enters a range into the 64 MiB at base. */
static int put_locked(usemap_cell *cell, uint64_t base, struct usemap_range *range)
{
    uintptr_t value = load(cell);
    struct node *node;

    if (!value) {
        atomic_store_explicit(cell, usemap_value_of(range), memory_order_release);
        return 0;
    }
    if (is_range(value)) {
        node = node_new_locked();
        if (!node)
            return -ENOMEM;
        (void)usemap_put_node_locked(node, base, usemap_range_of(value)); /* it is empty */
        value = (uintptr_t)node;
        atomic_store_explicit(cell, value, memory_order_release);
    }
    return usemap_put_node_locked((struct node *)value, base, range);
}

/* Removes a range from a node; an empty leaf is freed. */
static void clear_node_locked(struct node *node, uint64_t base, const struct usemap_range *range)
{
    unsigned at = node_cell(range->lo);
    uintptr_t value = load(&node->cells[at]);
    struct node *leaf = (struct node *)value;

    if (range->lo < base) {
        if (atomic_load_explicit(&node->before, memory_order_relaxed) != range)
            return;
        atomic_store_explicit(&node->before, NULL, memory_order_release);
        node->used--;
    } else if (value == usemap_value_of(range)) {
        unset_locked(node, at);
    } else if (value && !is_range(value)) {
        if (load(&leaf->cells[leaf_cell(range->lo)]) != usemap_value_of(range))
            return;
        unset_locked(leaf, leaf_cell(range->lo));
        if (leaf->used > 0)
            return;
        unset_locked(node, at);
        node_put_locked(leaf);
    }
}

/* Removes a range from the 64 MiB at base. */
static void clear_locked(usemap_cell *cell, uint64_t base, const struct usemap_range *range)
{
    uintptr_t value = load(cell);
    struct node *node = (struct node *)value;

    if (value == usemap_value_of(range)) {
        atomic_store_explicit(cell, 0, memory_order_release);
    } else if (value && !is_range(value)) {
        clear_node_locked(node, base, range);
        if (node->used > 0)
            return;
        atomic_store_explicit(cell, 0, memory_order_release);
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

static uint64_t next_stretch(uint64_t base)
{
    return base + (UINT64_C(1) << USEMAP_MID_SHIFT);
}

/* Removes a range from the tree. The owner may be reviving it: either the owner sees that it has no
 * place, or its stored size is cleared, too. */
static void displace_locked(struct usemap_range *range)
{
    uint64_t end = range->lo + range->extent;

    atomic_store(&range->has_place, false);
    (void)__atomic_exchange_n(&range->size, 0, __ATOMIC_SEQ_CST);
    for (uint64_t base = stretch_begin(range->lo); base < end; base = next_stretch(base)) {
        usemap_cell *mid =
                atomic_load_explicit(&usemap_root[base >> USEMAP_ROOT_SHIFT], memory_order_relaxed);

        if (mid)
            clear_locked(&mid[base >> USEMAP_MID_SHIFT & (USEMAP_MID_CELLS - 1)], base, range);
    }
    atomic_fetch_sub_explicit(&usemap_places, 1, memory_order_relaxed);
    if (!range->is_kept)
        range_put_locked(range);
}

/* A range of the tree that overlaps, or lies unused in the cell where this one begins. */
static struct usemap_range *obstacle_locked(uint64_t lo, uint64_t end)
{
    uintptr_t value = stretch_at(lo);
    struct usemap_range *range = NULL;
    const struct usemap_range *beside;
    uintptr_t unused_node;
    uint64_t unused_room;

    if (is_range(value))
        range = usemap_range_of(value);
    else if (value)
        range = last_of_node((const struct node *)value, lo);
    if (range && range->lo <= lo && lo - range->lo < range->extent)
        return range;
    beside = usemap_look(lo, &unused_room, &unused_node);
    if (beside && beside->lo >> USEMAP_LEAF_SHIFT == lo >> USEMAP_LEAF_SHIFT
            && !__atomic_load_n(&beside->size, __ATOMIC_RELAXED))
        return (struct usemap_range *)(uintptr_t)beside;
    return next_begin(lo, end);
}

/* Places a range in the tree, for size bytes from lo. Removes ranges in its way. */
static int place_locked(
        struct usemap_range *range, uint64_t lo, uint64_t size, struct format_live *slot)
{
    uint64_t end = lo + size;
    int r = 0;

    for (struct usemap_range *old = obstacle_locked(lo, end); old; old = obstacle_locked(lo, end))
        displace_locked(old);
    __atomic_store_n(&range->lo, lo, __ATOMIC_RELAXED);
    __atomic_store_n(&range->slot, slot, __ATOMIC_RELAXED);
    range->extent = size;
    __atomic_store_n(&range->size, size, __ATOMIC_RELEASE);
    atomic_store(&range->has_place, true);
    atomic_fetch_add_explicit(&usemap_places, 1, memory_order_relaxed);
    for (uint64_t base = stretch_begin(lo); base < end && r == 0; base = next_stretch(base)) {
        usemap_cell *mid = mid_locked(base);

        r = mid ? put_locked(&mid[base >> USEMAP_MID_SHIFT & (USEMAP_MID_CELLS - 1)], base, range)
                : -ENOMEM;
    }
    if (r < 0)
        displace_locked(range);
    return r;
}

static bool has_address(uint64_t lo, uint64_t size)
{
    return lo + size >= lo && lo + size <= UINT64_C(1) << USEMAP_BITS;
}

int usemap_add(uint64_t lo, uint64_t size, struct format_live *slot)
{
    struct usemap_range *range;
    int r = -ENOMEM;

    if (size == 0)
        return 0;
    if (!has_address(lo, size))
        return -ERANGE;
    lock_take(&map_lock);
    range = range_new_locked(false);
    if (range)
        r = place_locked(range, lo, size, slot);
    lock_drop(&map_lock);
    return r;
}

void usemap_remove(uint64_t lo, const struct format_live *slot)
{
    const struct usemap_range *range;

    lock_take(&map_lock);
    range = usemap_find(lo);
    if (range && !range->is_kept && range->lo == lo && range->slot == slot)
        displace_locked((struct usemap_range *)(uintptr_t)range);
    lock_drop(&map_lock);
}

/* ---- ranges with an owner ------------------------------------------------------------------- */

static void displace_if_placed_locked(struct usemap_range *range)
{
    if (atomic_load(&range->has_place))
        displace_locked(range);
}

/* The next block of the same address has another size, as where blocks are cut and merged. If that
 * ends in the same 64 MiB, the range keeps its cell, and only ranges in the added part are removed.
 * False: nothing is done. */
static bool resize_locked(struct usemap_range *range, uint64_t size, struct format_live *slot)
{
    uint64_t from = range->lo + range->extent;
    uint64_t end = range->lo + size;

    if (!atomic_load(&range->has_place) || size == 0 || end < range->lo
            || stretch_begin(from - 1) != stretch_begin(end - 1))
        return false;
    for (struct usemap_range *old = next_begin(from, end); old; old = next_begin(from, end))
        displace_locked(old);
    __atomic_store_n(&range->slot, slot, __ATOMIC_RELAXED);
    range->extent = size;
    __atomic_store_n(&range->size, size, __ATOMIC_RELEASE);
    return true;
}

int usemap_place(struct usemap_range **keep, uint64_t lo, uint64_t size, struct format_live *slot)
{
    int r = -ENOMEM;

    lock_take(&map_lock);
    if (*keep && resize_locked(*keep, size, slot)) {
        lock_drop(&map_lock);
        return 0;
    }
    if (!*keep)
        *keep = range_new_locked(true);
    else
        displace_if_placed_locked(*keep);
    if (*keep && size > 0 && has_address(lo, size))
        r = place_locked(*keep, lo, size, slot);
    else if (*keep)
        r = size > 0 ? -ERANGE : 0;
    if (*keep && r < 0) {
        range_put_locked(*keep);
        *keep = NULL;
    }
    lock_drop(&map_lock);
    return r;
}

void usemap_displace(struct usemap_range *range)
{
    lock_take(&map_lock);
    displace_if_placed_locked(range);
    lock_drop(&map_lock);
}

void usemap_drop(struct usemap_range *range)
{
    lock_take(&map_lock);
    displace_if_placed_locked(range);
    range_put_locked(range);
    lock_drop(&map_lock);
}

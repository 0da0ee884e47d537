/* SPDX-License-Identifier: MIT */
#include "alloc/storage/trim.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/alias.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/handles.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/spot.h"
#include "alloc/storage/vacate.h"

/* When the program synchronises, handles are kept if at least KEEP_FROM bytes could go, and while
 * this fraction of the device is free. */
#define KEEP_FROM (UINT64_C(1) << 30)
#define KEEP_FREE 8

/* ── the four kinds of memory that can go ── */

/* Each function returns the bytes of one piece of at most `most`, 0 = none. */

/* Release a handle already counted in tally.going. */
static void release_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle)
{
    (void)DRIVE(pool, handle_release, handle);
    lock_take(&pool->lock);
    heap->tally.going -= size;
    lock_drop(&pool->lock);
}

/* Releases a spare handle. */
static uint64_t spare_one(struct pool *pool, struct heap *heap)
{
    uint64_t handle = 0;
    uint64_t size = 0;

    lock_take(&pool->lock);
    for (const struct shelf *shelf = table_next(&heap->spares, NULL); shelf && !handle;
            shelf = table_next(&heap->spares, shelf)) {
        size = shelf->size;
        handle = handles_take_spare(heap, size);
    }
    lock_drop(&pool->lock);
    if (!handle)
        return 0;
    (void)DRIVE(pool, handle_release, handle);
    return size;
}

/* Makes a handle spare, if there is memory for its record. */
static bool keep_spare(struct heap *heap, uint64_t size, uint64_t handle)
{
    if (handles_put_spare(heap, size, handle) != 0)
        return false;
    tally_reserved(heap, -(int64_t)size);
    return true;
}

/* A handle of a shelf that is not mapped at a vacated slot: the driver would not get that memory
 * back yet. 0 = none. */
static uint64_t take_unvacated(struct heap *heap, const struct shelf *shelf)
{
    for (uint32_t i = shelf->count; i > 0; i--) {
        uint64_t handle = shelf->handles[i - 1];

        if (vacate_names(heap, handle))
            continue;
        shelf->handles[i - 1] = shelf->handles[shelf->count - 1];
        shelf->handles[shelf->count - 1] = handle;
        return handles_take(heap, shelf->size);
    }
    return 0;
}

/* A handle of another size than `but`; handles of `keep` bytes become spare instead. */
static uint64_t shelf_one(
        struct pool *pool, struct heap *heap, uint64_t most, uint64_t but, uint64_t keep)
{
    uint64_t handle = 0;
    uint64_t size = 0;

    lock_take(&pool->lock);
    for (const struct shelf *shelf = table_next(&heap->shelves, NULL); shelf && !handle;
            shelf = table_next(&heap->shelves, shelf)) {
        if (shelf->size > most || shelf->size == but)
            continue;
        handle = take_unvacated(heap, shelf);
        size = handle ? shelf->size : 0;
    }
    if (handle && size == keep && keep_spare(heap, size, handle)) {
        handle = 0;
    } else if (handle) {
        tally_reserved(heap, -(int64_t)size);
        heap->tally.going += size;
    }
    lock_drop(&pool->lock);
    if (handle)
        release_handle(pool, heap, size, handle);
    return size;
}

void trim_put_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle)
{
    int r;

    lock_take(&pool->lock);
    r = handles_put(heap, size, handle);
    if (r != 0) {
        tally_reserved(heap, -(int64_t)size);
        heap->tally.going += size;
    }
    lock_drop(&pool->lock);
    if (r != 0)
        release_handle(pool, heap, size, handle);
}

bool trim_unmap(struct pool *pool, struct heap *heap, uint64_t *handles,
        const struct bestfit_node *node, uint64_t each, trim_put *put)
{
    bool is_done = node->size > each && DRIVE(pool, unmap, node->base, node->size) == 0;

    for (uint64_t done = 0; done < node->size; done += each) {
        uint64_t handle;

        if (!is_done && DRIVE(pool, unmap, node->base + done, each) != 0)
            return false;
        lock_take(&pool->lock);
        handle = handles[done / each];
        handles[done / each] = 0;
        lock_drop(&pool->lock);
        put(pool, heap, each, handle);
    }
    return true;
}

void trim_settle(struct pool *pool, uint32_t index, bool is_stuck)
{
    struct block *block = block_at(pool, index);

    if (!block_segment(pool, block)->dead && !is_stuck) {
        freelist_put_decommitted(pool, index);
        return;
    }
    block->state = BLOCK_KEPT;
    if (!block_segment(pool, block)->dead)
        tally_kept(block_segment(pool, block)->heap, (int64_t)block->node.size);
}

/* Unmaps the storage of a BUSY block, in pieces of `each` bytes. Returns the bytes, 0 = it is
 * stuck. */
static uint64_t unmap_block(
        struct pool *pool, struct heap *heap, uint32_t index, uint64_t *handles, uint64_t each)
{
    const struct bestfit_node node = block_at(pool, index)->node;
    bool unmapped = trim_unmap(pool, heap, handles, &node, each, trim_put_handle);

    lock_take(&pool->lock);
    heap->busy--;
    trim_settle(pool, index, !unmapped);
    lock_drop(&pool->lock);
    return unmapped ? node.size : 0;
}

/* Puts the handle of an idle hinted block on the shelf. */
static uint64_t idle_one(struct pool *pool, struct heap *heap, uint64_t most)
{
    uint64_t *handles = NULL;
    uint32_t index;

    lock_take(&pool->lock);
    index = bestfit_largest(&heap->idle);
    if (index && block_at(pool, index)->node.size > most)
        index = bestfit_lower_bound(&heap->idle, 0, 0); /* the smallest, if any fits */
    if (index && block_at(pool, index)->node.size > most)
        index = 0;
    if (index) {
        freelist_pull(pool, index);
        handles = spot_handles(pool, block_at(pool, index));
        heap->busy++;
    }
    lock_drop(&pool->lock);
    return index ? unmap_block(pool, heap, index, handles, block_at(pool, index)->node.size) : 0;
}

/* True for a plain segment that is all free. */
static bool trim_is_free(const struct pool *pool, const struct segment *segment) POOL_LOCKED
{
    const struct block *block = block_at(pool, segment->first);

    return segment->kind == SEGMENT_PLAIN && !segment->dead && block->state == BLOCK_FREE
            && block->node.size == segment->size;
}

static void trim_note_trim(struct pool *pool, uint64_t bytes)
{
    if (!bytes)
        return;
    lock_take(&pool->lock);
    pool->counters.trims++;
    pool->counters.trimmed_bytes += bytes;
    lock_drop(&pool->lock);
}

/* 0 if the heap's context has no work that a free of its segments would wait for. */
static int ask_quiet(struct pool *pool, const struct heap *heap, uint32_t timeout_ms)
{
    return pool->driver.context_quiet && !POOL_IS_WITHOUT(QUIET)
            ? DRIVE(pool, context_quiet, heap->owner, timeout_ms)
            : 0;
}

static bool is_quiet(struct pool *pool, const struct heap *heap, uint32_t timeout_ms)
{
    int r = ask_quiet(pool, heap, timeout_ms);

    return r == 0 || r == -ENOENT;
}

bool trim_is_held_up(struct pool *pool, const struct heap *heap)
{
    return ask_quiet(pool, heap, 0) == -EAGAIN;
}

/* Returns a plain segment that is one idle free block, 0 = none; drops the lock, which the caller
 * holds. */
static uint64_t give_segment(struct pool *pool, struct heap *heap, uint32_t number)
        TSA(release_capability(pool->lock))
{
    struct segment found = {.raw_size = 0};

    if (number) {
        found = *segment_at(pool, number);
        segment_remove(pool, number);
        tally_reserved(heap, -(int64_t)found.raw_size);
    }
    lock_drop(&pool->lock);
    if (found.raw_size)
        (void)DRIVE(pool, mem_free, found.context, found.raw_base);
    return found.raw_size;
}

/* A plain segment that is one idle free block; only sealed ones if `sealed`. 0 = none. */
static uint32_t find_segment(
        struct pool *pool, struct heap *heap, uint64_t most, bool sealed) POOL_LOCKED
{
    const struct order_node *at;

    freecache_settle(pool, heap);
    for (at = order_below(heap->whole, UINT64_MAX); at; at = order_below(heap->whole, at->number)) {
        uint32_t number = segment_number(pool, at);

        if (segment_at(pool, number)->raw_size <= most
                && (!sealed || segment_at(pool, number)->sealed))
            return number;
    }
    return 0;
}

static uint64_t segment_one(struct pool *pool, struct heap *heap, uint64_t most, bool sealed)
{
    lock_take(&pool->lock);
    return give_segment(pool, heap, find_segment(pool, heap, most, sealed));
}

/* True if there is such a segment and its free does not wait. */
static bool may_give_segments(
        struct pool *pool, struct heap *heap, uint64_t most, bool sealed, uint32_t timeout_ms)
{
    bool any;

    lock_take(&pool->lock);
    any = heap->kind == HEAP_PLAIN && find_segment(pool, heap, most, sealed) != 0;
    lock_drop(&pool->lock);
    return any && is_quiet(pool, heap, timeout_ms);
}

uint64_t trim_segment(struct pool *pool, struct heap *heap, const struct want *want, uint64_t most)
{
    uint64_t given;
    uint32_t number;

    if (!is_quiet(pool, heap, 0))
        return 0;
    lock_take(&pool->lock);
    number = block_at(pool, fit_find(pool, heap, want))->segment;
    if (!trim_is_free(pool, segment_at(pool, number)) || segment_at(pool, number)->size <= most)
        number = 0;
    given = give_segment(pool, heap, number);
    trim_note_trim(pool, given);
    return given;
}

void trim_sealed(struct pool *pool, struct heap *heap)
{
    uint64_t given = 0;
    uint64_t one;

    lock_take(&pool->lock);
    one = heap->sealed.count; /* 0 = no segment has to be examined */
    lock_drop(&pool->lock);
    one = one && may_give_segments(pool, heap, UINT64_MAX, true, 0);
    while (one) {
        one = segment_one(pool, heap, UINT64_MAX, true);
        given += one;
    }
    trim_note_trim(pool, given);
}

/* Cuts the whole slots out of the highest idle free block of an arena below *from, BUSY. */
static uint32_t pick_slots(struct pool *pool, struct heap *heap, uint32_t number, devptr_t *from,
        uint64_t bytes) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, number);
    uint32_t index;

    if (slab_prepare(&pool->blocks, 2) != 0)
        return 0;
    freecache_settle(pool, heap);
    if (!heap->clean.count) /* below, all blocks are looked at */
        return 0;
    index = *from > segment->base ? starts_before(&segment->starts, *from - 1 - segment->base) : 0;
    for (; index; index = block_at(pool, index)->prev) {
        const struct block *block = block_at(pool, index);
        struct slots slots = slots_in(segment, &block->node);

        if (block->state != BLOCK_FREE || block->stream || slots_bytes(slots) == 0)
            continue;
        if (bytes < slots_bytes(slots)) /* then the top may leave the range */
            slots.lo = slots.hi - round_up(bytes, segment->slot);
        *from = slots.lo;
        return freelist_cut(pool, index, slots.lo - block->node.base, slots_bytes(slots));
    }
    return 0;
}

/* The next arena of a heap's segments after `after` (0 = the first); 0 = none. Arenas live as long
 * as the heap. */
static uint32_t next_arena(
        const struct pool *pool, const struct heap *heap, uint32_t after) POOL_LOCKED
{
    uint32_t number = after ? segment_at(pool, after)->next : heap->segments;

    if (heap->kind == HEAP_PLAIN)
        return 0;
    while (number && segment_at(pool, number)->kind != SEGMENT_ARENA)
        number = segment_at(pool, number)->next;
    return number;
}

/* Moves storage of free slots of one arena to the shelf. Returns the bytes. */
static uint64_t harvest(struct pool *pool, struct heap *heap, uint32_t number, uint64_t bytes)
{
    devptr_t from = UINT64_MAX;
    uint64_t moved = 0;
    uint64_t one = 1;

    while (moved < bytes && one) {
        uint64_t *handles = NULL;
        uint64_t slot;
        uint32_t index;

        lock_take(&pool->lock);
        slot = segment_at(pool, number)->slot;
        index = pick_slots(pool, heap, number, &from, bytes - moved);
        if (index) {
            handles = spot_handles(pool, block_at(pool, index));
            heap->busy++;
        }
        lock_drop(&pool->lock);
        one = index ? unmap_block(pool, heap, index, handles, slot) : 0;
        moved += one;
    }
    return moved;
}

/* ── heaps and devices ── */

/* The bytes still to return, and the largest piece. */
struct goal {
    uint64_t bytes;
    uint64_t given;
    bool strictly;
    uint64_t keep;     /* size of handles that become spare, else 0 */
    bool is_device;    /* the device needs the memory: spare handles count */
    uint64_t stay;     /* size of slots that stay because a request is about to use them; else 0 */
    uint32_t quiet_ms; /* how long contexts may be busy whose segments are to go */
};

static uint64_t left(const struct goal *goal)
{
    return excess_of(goal->bytes, goal->given);
}

static uint64_t most(const struct goal *goal)
{
    return goal->strictly ? left(goal) : UINT64_MAX;
}

static void empty_shelves(struct pool *pool, struct heap *heap, struct goal *goal)
{
    uint64_t one = 1;

    while (left(goal) && one) {
        one = shelf_one(pool, heap, most(goal), goal->stay, goal->keep);
        goal->given += one;
    }
}

uint64_t trim_shelves(struct pool *pool, struct heap *heap, uint64_t bytes)
{
    struct goal goal = {.bytes = bytes};

    empty_shelves(pool, heap, &goal);
    trim_note_trim(pool, goal.given);
    return goal.given;
}

/* Bytes of slots of an arena: as many as needed, or at most that. */
static uint64_t trim_slots_of(const struct goal *goal, uint64_t slot, uint64_t moved)
{
    uint64_t bytes = excess_of(left(goal), moved);

    if (slot == goal->stay)
        return 0;
    return goal->strictly ? bytes & ~(slot - 1) : bytes;
}

static uint64_t arena_one(struct pool *pool, struct heap *heap, const struct goal *goal)
{
    uint64_t moved = 0;
    uint32_t number = 0;

    do {
        uint64_t bytes = 0;

        lock_take(&pool->lock);
        number = next_arena(pool, heap, number);
        if (number)
            bytes = trim_slots_of(goal, segment_at(pool, number)->slot, moved);
        lock_drop(&pool->lock);
        moved += bytes ? harvest(pool, heap, number, bytes) : 0;
    } while (number);
    return moved;
}

/* False if trim_to would find nothing. */
static bool has_free(struct pool *pool, struct heap *heap)
{
    bool any;

    lock_take(&pool->lock);
    any = heap->tally.cached || heap->tally.spare || heap->idle.count;
    if (!any) {
        freecache_settle(pool, heap);
        any = heap->kind == HEAP_PLAIN ? heap->whole != NULL : heap->clean.count > 0;
    }
    if (!any) /* nor recent blocks, for they were settled */
        heap_delist(heap, HEAPS_GIVING);
    lock_drop(&pool->lock);
    return any;
}

static uint64_t trim_to(struct pool *pool, struct heap *heap, struct goal goal)
{
    uint64_t one = 1;

    lock_take(&pool->lock);
    heap->busy++;
    lock_drop(&pool->lock);
    while (left(&goal) && goal.is_device && (one = spare_one(pool, heap)) != 0)
        goal.given += one;
    empty_shelves(pool, heap, &goal);
    one = left(&goal) && may_give_segments(pool, heap, most(&goal), false, goal.quiet_ms);
    while (left(&goal) && one) {
        one = segment_one(pool, heap, most(&goal), false);
        goal.given += one;
    }
    while (left(&goal) && idle_one(pool, heap, most(&goal)) != 0)
        empty_shelves(pool, heap, &goal);
    while (left(&goal) && arena_one(pool, heap, &goal) != 0)
        empty_shelves(pool, heap, &goal);
    empty_shelves(pool, heap, &goal); /* storage that was unmapped before the driver refused more */
    heap_let_go(pool, heap);
    trim_note_trim(pool, goal.given);
    return goal.given;
}

uint64_t trim_heap(struct pool *pool, struct heap *heap, uint64_t bytes)
{
    if (!bytes)
        return 0;
    return trim_to(pool, heap, (struct goal){.bytes = bytes, .strictly = true});
}

/* The size of handles that may be kept when the program synchronises and `bytes` could go, 0 =
 * none: few bytes cost few calls, or another user may need the memory. */
static uint64_t size_to_keep(struct pool *pool, const struct heap *heap, uint64_t bytes)
{
    uint64_t total = 0;
    uint64_t available = 0;
    uint64_t size;

    lock_take(&pool->lock);
    size = heap->leaving || !heap->arena ? 0 : segment_at(pool, heap->arena)->slot;
    bytes = min_of(bytes, excess_of(heap->tally.reserved, heap->tally.stored));
    lock_drop(&pool->lock);
    if (bytes < KEEP_FROM || DRIVE(pool, memory, heap->device->number, &total, &available) != 0
            || available < total / KEEP_FREE)
        return 0;
    return size;
}

uint64_t trim_at_wait(struct pool *pool, struct heap *heap, uint64_t bytes)
{
    if (!bytes)
        return 0;
    return trim_to(
            pool, heap, (struct goal){.bytes = bytes, .keep = size_to_keep(pool, heap, bytes)});
}

/* `user`: the heap whose slots stay, NULL = none. */
static uint64_t trim_heaps(struct pool *pool, int device, const struct heap *user, uint64_t bytes)
{
    struct heap *heap;
    struct goal goal;
    uint64_t given = 0;
    uint64_t slot = 0;

    lock_take(&pool->lock);
    if (user && user->arena)
        slot = segment_at(pool, user->arena)->slot;
    lock_drop(&pool->lock);
    for (heap = heap_walk_list(pool, NULL, device, HEAPS_GIVING); heap && given < bytes;
            heap = heap_walk_list(pool, heap, device, HEAPS_GIVING)) {
        if (heap != user && !has_free(pool, heap))
            continue;
        goal = (struct goal){.bytes = bytes - given, .is_device = true};
        if (heap == user)
            goal.stay = slot;
        given += trim_to(pool, heap, goal);
    }
    if (heap)
        heap_let_go(pool, heap);
    return given;
}

uint64_t trim_spares(struct pool *pool, struct device *device, uint64_t bytes)
{
    struct heap *heap;
    uint64_t given = 0;
    uint64_t one;
    bool any;

    lock_take(&pool->lock);
    any = device->spare > 0;
    lock_drop(&pool->lock);
    heap = any ? heap_walk(pool, NULL, device->number) : NULL;
    for (; heap && given < bytes; heap = heap_walk(pool, heap, device->number)) {
        while (given < bytes && (one = spare_one(pool, heap)) != 0)
            given += one;
    }
    if (heap)
        heap_let_go(pool, heap);
    return given;
}

void trim_spares_for(struct pool *pool, struct device *device, uint64_t size)
{
    uint64_t over = 0;
    uint64_t after;

    lock_take(&pool->lock);
    after = device->reserved + device->asked + size;
    if (device->spare)
        over = excess_of(after + device->spare, max_of(after, device->reserved_high));
    lock_drop(&pool->lock);
    if (over)
        (void)trim_spares(pool, device, over);
}

uint64_t trim_device(struct pool *pool, int device, uint64_t bytes)
{
    return trim_heaps(pool, device, NULL, bytes);
}

uint64_t trim_busy(struct pool *pool, int device, uint32_t timeout_ms)
{
    struct goal goal = {.bytes = UINT64_MAX, .is_device = true, .quiet_ms = timeout_ms};
    uint64_t given = 0;

    for (struct heap *heap = heap_walk(pool, NULL, device); heap;
            heap = heap_walk(pool, heap, device))
        given += heap->kind == HEAP_PLAIN ? trim_to(pool, heap, goal) : 0;
    return given;
}

uint64_t trim_for(struct pool *pool, const struct heap *heap, uint64_t bytes)
{
    return trim_heaps(pool, heap->device->number, heap, bytes);
}

/* Returns `count` handles that are mapped side by side, `size` bytes each; false if the driver does
 * not unmap one. */
static bool give_back_handles(struct pool *pool, const struct heap *heap, const uint64_t *handles,
        uint64_t count, devptr_t base, uint64_t size)
{
    bool is_done = count > 1 && DRIVE(pool, unmap, base, count * size) == 0;
    bool is_empty = true;

    for (uint64_t i = 0; i < count; i++) {
        if (!is_done && DRIVE(pool, unmap, base + i * size, size) != 0)
            is_empty = false;
        else if (!vacate_names(heap, handles[i]))
            (void)DRIVE(pool, handle_release, handles[i]);
    }
    return is_empty;
}

/* Returns the mapped slots of an arena. */
static bool give_back_slots(
        struct pool *pool, const struct heap *heap, const struct segment *segment)
{
    uint64_t end = segment->top / segment->slot;
    bool is_empty = true;
    uint64_t from, to;

    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        if (block_at(pool, at)->state == BLOCK_VACATED) { /* the driver has refused to unmap it */
            *spot_handles(pool, block_at(pool, at)) = 0;
            is_empty = false;
        }
    }
    for (from = 0; from < end; from = to + 1) {
        for (to = from; to < end && segment->handles[to]; to++)
            ;
        is_empty &= give_back_handles(pool, heap, segment->handles + from, to - from,
                segment->base + from * segment->slot, segment->slot);
    }
    return is_empty;
}

/* Returns the mappings of hinted blocks, one by one. */
static bool give_back_hinted(
        struct pool *pool, const struct heap *heap, const struct segment *segment)
{
    bool is_empty = true;

    for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);
        devptr_t base = round_up(block->node.base, segment->slot);

        for (; base < block->node.base + block->node.size; base += block->node.size) {
            const uint64_t *handle = &segment->handles[(base - segment->base) / segment->slot];

            is_empty &=
                    !*handle || give_back_handles(pool, heap, handle, 1, base, block->node.size);
        }
    }
    return is_empty;
}

/* Returns the mappings of shared handles; false if the driver does not unmap one. */
static bool give_back_aliases(struct pool *pool, const struct heap *heap, uint64_t unit)
{
    struct alias_handle *of;
    bool is_empty = true;

    for (const struct alias *at = table_next(&heap->aliases, NULL); at;
            at = table_next(&heap->aliases, at)) {
        of = table_find(&heap->alias_handles, at->handle);
        if (!of || DRIVE(pool, unmap, at->range, unit) != 0)
            is_empty = false;
        else
            of->used &= ~at->parts;
    }
    for (of = table_next(&heap->alias_handles, NULL); of;
            of = table_next(&heap->alias_handles, of)) {
        if (!of->used)
            (void)DRIVE(pool, handle_release, of->handle);
    }
    return is_empty;
}

/* `was_dead`: the memory ended with its context. */
static void give_back_segment(struct pool *pool, struct heap *heap, uint32_t number, bool was_dead)
{
    struct segment *segment = segment_at(pool, number);
    bool is_empty;

    if (segment_is_piece(segment)) {
        if (!heap->dropped && !was_dead)
            (void)DRIVE(pool, mem_free, segment->context, segment->raw_base);
        return;
    }
    if (segment->kind == SEGMENT_ARENA) {
        is_empty = give_back_slots(pool, heap, segment);
    } else {
        is_empty = give_back_aliases(pool, heap, segment->slot);
        is_empty &= give_back_hinted(pool, heap, segment);
    }
    if (is_empty)
        (void)DRIVE(pool, address_free, segment->raw_base, segment->raw_size);
}

/* No other thread can see the heap: its own fields are read without the lock, and the lock is taken
 * for shared structures. */
void trim_whole_heap(struct pool *pool, struct heap *heap)
{
    struct goal all = {.bytes = UINT64_MAX};

    vacate_end(pool, heap);
    while (heap->segments) {
        uint32_t number = heap->segments;
        bool was_dead;

        /* Forget its addresses before the driver gets them back and gives them to others. */
        lock_take(&pool->lock);
        was_dead = segment_at(pool, number)->dead;
        segment_kill(pool, number);
        lock_drop(&pool->lock);
        give_back_segment(pool, heap, number, was_dead);
        lock_take(&pool->lock);
        segment_remove(pool, number);
        lock_drop(&pool->lock);
    }
    empty_shelves(pool, heap, &all);
    while (spare_one(pool, heap) != 0)
        ;
    lock_take(&pool->lock);
    tally_reserved(heap, -(int64_t)heap->tally.reserved);
    heap_free(pool, heap);
    lock_drop(&pool->lock);
}

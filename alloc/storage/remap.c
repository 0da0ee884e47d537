/* SPDX-License-Identifier: MIT */
#include "alloc/storage/remap.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/spot.h"
#include "alloc/storage/stream_order.h"
#include "alloc/storage/vacate.h"

#include <errno.h>

#define SMALL_MOVES (UINT64_C(192) << 20)

/* The whole slots inside a free block whose storage can move for the request. */
static struct slots remap_slots_of(const struct pool *pool, uint32_t index) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const struct segment *segment = block_segment(pool, block);

    if (segment->kind != SEGMENT_ARENA || segment->dead)
        return (struct slots){0, 0};
    return slots_in(segment, &block->node);
}

/* The next larger free block of an index that contains a whole slot (0 = the first); 0 = none. */
static uint32_t next_free(
        const struct pool *pool, const struct bestfit *fit, uint32_t before) POOL_LOCKED
{
    const struct block *block = block_at(pool, before);

    return before ? bestfit_lower_bound(fit, block->node.size, block->node.base + 1)
                  : bestfit_lower_bound(fit, BESTFIT_QUANTUM, 0);
}

/* Bytes of whole slots in the blocks of an index; stops at about `most`. */
static uint64_t bytes_in(
        const struct pool *pool, const struct bestfit *fit, uint64_t most) POOL_LOCKED
{
    uint64_t bytes = 0;
    uint32_t at;

    for (at = next_free(pool, fit, 0); at && bytes < most; at = next_free(pool, fit, at))
        bytes += slots_bytes(remap_slots_of(pool, at));
    return bytes;
}

uint64_t remap_finished(struct pool *pool, struct heap *heap, uint64_t most)
{
    freecache_settle(pool, heap);
    return min_of(bytes_in(pool, &heap->clean, most), most);
}

uint64_t remap_available(struct pool *pool, const struct remap *remap, uint64_t most)
{
    const struct heap_stream *own = heap_class(remap->heap, remap->stream);
    uint64_t bytes;

    freecache_settle(pool, remap->heap);
    bytes = bytes_in(pool, &remap->heap->clean, most);
    if (own)
        bytes += bytes_in(pool, &own->fit, excess_of(most, bytes));
    return min_of(bytes, most);
}

/* The end of a block to take slots from: beside a gap, so that two gaps merge; else the low end. */
static struct slots cut_slots(
        const struct pool *pool, uint32_t index, struct slots slots, uint64_t bytes) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const struct block *next = block_at(pool, block->next);

    if (slots_bytes(slots) <= bytes)
        return slots;
    if (block->next && next->state == BLOCK_DECOMMITTED)
        slots.lo = slots.hi - bytes;
    else
        slots.hi = slots.lo + bytes;
    return slots;
}

/* A block to take slots from. */
struct victim {
    uint32_t index;      /* 0 = none */
    uint64_t bytes;      /* that move, */
    uint64_t left_bytes; /* and that stay; both in quanta */
};

/* The block whose slots leave the fewest bytes per moved byte: the rest around them is too small
 * for most requests. On real training steps the order (by size, address, rest) changes 0.3 % of
 * held memory. */
static void best_victim(
        const struct pool *pool, const struct bestfit *fit, struct victim *best) POOL_LOCKED
{
    uint32_t at;

    for (at = next_free(pool, fit, 0); at && (!best->index || best->left_bytes);
            at = next_free(pool, fit, at)) {
        uint64_t bytes = slots_bytes(remap_slots_of(pool, at)) / BESTFIT_QUANTUM;
        uint64_t left_bytes = block_at(pool, at)->node.size / BESTFIT_QUANTUM - bytes;

        if (bytes && (!best->index || left_bytes * best->bytes < best->left_bytes * bytes))
            *best = (struct victim){.index = at, .bytes = bytes, .left_bytes = left_bytes};
    }
}

/* Gives a block any whole slot? Where several streams leave parts of slots, in less than
 * SMALL_MOVES live, that reaches 0.004 more than the rule below (DESIGN.md). */
static bool gives_any(const struct heap *heap)
{
    return heap_is_below(heap, heap->stream_count > 1 ? SMALL_MOVES : HEAP_TINY);
}

/* If no idle block is left: free blocks of the request's stream. Their slots cannot be reused until
 * the device has left them, and the rest around them stays unmerged as long. So three fifths of a
 * block move, or none of it (DESIGN.md), but of a small program any slot. */
static void best_of_streams(
        const struct pool *pool, const struct remap *remap, struct victim *best) POOL_LOCKED
{
    bool any = POOL_IS_WITHOUT(MOVE) || (remap->stream && POOL_IS_WITHOUT(ALIAS));

    for (const struct heap_stream *at = remap->heap->streams; at && !best->index; at = at->next) {
        if (any || at->stream == remap->stream)
            best_victim(pool, &at->fit, best);
    }
    if (best->left_bytes * 3 > best->bytes * 2 && !gives_any(remap->heap))
        best->index = 0;
}

static uint32_t pick(struct pool *pool, struct remap *remap) POOL_LOCKED
{
    struct victim victim = {.index = 0};
    struct slots slots;

    if (slab_prepare(&pool->blocks, 2) != 0)
        return 0;
    freecache_settle(pool, remap->heap);
    best_victim(pool, &remap->heap->clean, &victim);
    if (!victim.index)
        best_of_streams(pool, remap, &victim);
    if (!victim.index)
        return 0;
    remap->is_alias = block_at(pool, victim.index)->stream && !POOL_IS_WITHOUT(MOVE);
    slots = cut_slots(pool, victim.index, remap_slots_of(pool, victim.index), remap->left);
    return freelist_cut(pool, victim.index, slots.lo - block_at(pool, victim.index)->node.base,
            slots_bytes(slots));
}

/* Splits a BUSY victim when no more storage is taken from it: `done` bytes without storage, then
 * perhaps a slot that the driver did not unmap, then the untouched rest. */
static void remap_split(struct pool *pool, struct remap *remap) POOL_LOCKED
{
    uint32_t at = remap->block;
    const struct segment *segment = block_segment(pool, block_at(pool, at));
    uint64_t size = block_at(pool, at)->node.size;
    uint64_t kept = remap->stuck ? segment->slot : 0;
    bool cuts = (remap->done && remap->done < size) || (kept && remap->done + kept < size);

    if (cuts && slab_prepare(&pool->blocks, 2) != 0) {
        remap->done = 0; /* cannot be split: counts as lost */
        kept = size;
    }
    if (remap->done) {
        uint32_t gap = at;

        at = remap->done < block_at(pool, gap)->node.size ? block_cut(pool, gap, remap->done) : 0;
        freelist_put_decommitted(pool, gap);
    }
    if (at && kept) {
        uint32_t stuck = at;

        at = kept < block_at(pool, stuck)->node.size ? block_cut(pool, stuck, kept) : 0;
        tally_keep(pool, block_at(pool, stuck));
    }
    if (at)
        spot_put_back(pool, at);
}

void remap_end(struct pool *pool, struct remap *remap)
{
    struct block *block = block_at(pool, remap->block);

    if (!remap->block)
        return;
    lock_take(&pool->lock);
    remap->heap->busy--;
    if (block_segment(pool, block)->dead)
        block->state = BLOCK_KEPT;
    else
        remap_split(pool, remap);
    lock_drop(&pool->lock);
    remap->block = 0;
    remap->done = 0;
    remap->bare = 0;
    remap->stuck = false;
}

/* May the storage of the victim be taken? */
static bool may_take(struct pool *pool, const struct remap *remap)
{
    return remap->is_alias || vacate_is_quiet(pool);
}

/* Unmaps all of an idle victim in one call, assuming that all of it moves. If the driver refuses,
 * each slot is unmapped when it is needed. */
static void remap_unmap_all(struct pool *pool, struct remap *remap)
{
    const struct block *block = block_at(pool, remap->block);
    const struct bestfit_node node = block->node;

    if (node.size > block_segment(pool, block)->slot
            && DRIVE(pool, unmap, node.base, node.size) == 0)
        remap->bare = node.size;
}

/* Chooses another victim. */
static bool go_on(struct pool *pool, struct remap *remap)
{
    remap_end(pool, remap);
    lock_take(&pool->lock);
    remap->block = pick(pool, remap);
    if (remap->block)
        remap->heap->busy++;
    lock_drop(&pool->lock);
    if (remap->block && !may_take(pool, remap)) {
        remap_end(pool, remap);
        return false;
    }
    if (remap->block && !remap->is_alias)
        remap_unmap_all(pool, remap);
    return remap->block != 0;
}

/* The next slot of a victim that the device may still use. */
static int next_alias(struct pool *pool, struct remap *remap, uint64_t *ret_handle)
{
    uint64_t slot, point;
    uint32_t rest;
    bool is_own;
    int r;

    lock_take(&pool->lock);
    is_own = block_at(pool, remap->block)->stream == remap->stream;
    slot = block_segment(pool, block_at(pool, remap->block))->slot;
    point = block_at(pool, remap->block)->seq;
    r = vacate_slot(pool, remap->block, &rest, ret_handle);
    if (r == 0) {
        remap->block = rest;
        remap->heap->busy -= rest == 0;
        remap->point = is_own ? max_of(remap->point, point) : remap->point;
        remap->aliased++;
        remap->moved++;
        remap->left -= slot;
    }
    lock_drop(&pool->lock);
    return r;
}

/* The handle of a victim's next slot, which is unmapped. */
static uint64_t remap_take_handle(struct pool *pool, struct remap *remap, uint64_t slot)
{
    uint64_t *at;
    uint64_t handle;

    lock_take(&pool->lock);
    at = spot_handles(pool, block_at(pool, remap->block)) + remap->done / slot;
    handle = *at;
    *at = 0;
    lock_drop(&pool->lock);
    remap->done += slot;
    return handle;
}

/* The next slot of an idle victim. */
static int next_clean(struct pool *pool, struct remap *remap, uint64_t *ret_handle)
{
    uint64_t slot = block_segment(pool, block_at(pool, remap->block))->slot;
    devptr_t base = block_at(pool, remap->block)->node.base + remap->done;

    if (remap->done == remap->bare && DRIVE(pool, unmap, base, slot) != 0) {
        remap->stuck = true;
        return -ENOENT;
    }
    remap->bare = max_of(remap->bare, remap->done + slot);
    *ret_handle = remap_take_handle(pool, remap, slot);
    remap->left -= slot;
    remap->moved++;
    return 0;
}

bool remap_rest(struct pool *pool, struct remap *remap, uint64_t *ret_handle)
{
    if (!remap->block || remap->done == remap->bare)
        return false;
    *ret_handle =
            remap_take_handle(pool, remap, block_segment(pool, block_at(pool, remap->block))->slot);
    return true;
}

int remap_next(struct pool *pool, struct remap *remap, uint64_t *ret_handle)
{
    if (remap->stuck || !remap->left
            || ((!remap->block || remap->done == block_at(pool, remap->block)->node.size)
                    && !go_on(pool, remap))
            || (remap->is_alias && next_alias(pool, remap, ret_handle) != 0)) {
        remap->left = 0;
        return -ENOENT;
    }
    return remap->is_alias ? 0 : next_clean(pool, remap, ret_handle);
}

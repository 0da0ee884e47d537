/* SPDX-License-Identifier: MIT */
#include "alloc/storage/spot.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/fit.h"

#include <errno.h>

/* The parameters of one search. */
struct look {
    struct pool *pool;
    const struct want *want;
    struct spot *best; /* missing = UINT64_MAX: none yet */
    uint64_t align;    /* of the spot's address */
};

static bool spot_is_free(const struct look *look, uint32_t index)
{
    const struct block *block = block_at(look->pool, index);

    return index && block->state == BLOCK_FREE
            && (!block->stream || block->stream == look->want->stream);
}

static bool spot_is_gap(const struct look *look, uint32_t index)
{
    return index && block_at(look->pool, index)->state == BLOCK_DECOMMITTED;
}

static devptr_t spot_end_of(const struct block *block)
{
    return block->node.base + block->node.size;
}

static uint64_t bytes_from(const struct look *look, devptr_t base)
{
    return (-base & (look->align - 1)) + look->want->size;
}

static void spot_note(
        const struct look *look, uint32_t number, uint32_t first, devptr_t base, uint64_t missing)
{
    const struct block *block = block_at(look->pool, first);

    *look->best = (struct spot){
            .segment = number,
            .first = first,
            .skip = first ? base - block->node.base : 0,
            .bytes = bytes_from(look, base),
            .missing = missing,
    };
}

/* Records the run that begins at `base`, in block `first`, if it is long enough and lacks less than
 * the best so far. */
static void spot_try_from(const struct look *look, uint32_t number, uint32_t first, devptr_t base)
{
    const struct segment *segment = segment_at(look->pool, number);
    uint64_t left = bytes_from(look, base);
    uint64_t missing = 0;
    devptr_t from = base;
    uint32_t at = first;

    while (at) {
        const struct block *block = block_at(look->pool, at);
        uint64_t part = min_of(left, spot_end_of(block) - from);

        if (spot_is_gap(look, at))
            missing += round_up(part, segment->slot);
        else if (!spot_is_free(look, at))
            return;
        if (missing >= look->best->missing)
            return;
        left -= part;
        if (!left)
            break;
        from = spot_end_of(block);
        at = block->next;
    }
    if (left) {
        left = round_up(left, segment->slot);
        if (left > segment->size - segment->top)
            return;
        missing += left;
    }
    if (missing < look->best->missing)
        spot_note(look, number, first, base, missing);
}

/* The first of the free blocks before `index`; `index` itself if there is none. */
static uint32_t left_of(const struct look *look, uint32_t index)
{
    uint32_t before = block_at(look->pool, index)->prev;

    while (spot_is_free(look, before)) {
        index = before;
        before = block_at(look->pool, index)->prev;
    }
    return index;
}

/* Tries runs from the free blocks before a gap, and runs that begin in the gap and end with the
 * free blocks after it. */
static void try_gap(const struct look *look, uint32_t gap)
{
    const struct block *block = block_at(look->pool, gap);
    const struct segment *segment = block_segment(look->pool, block);
    uint32_t first = left_of(look, gap);
    devptr_t end = spot_end_of(block);
    devptr_t base;

    spot_try_from(look, block->segment, first, block_at(look->pool, first)->node.base);
    for (uint32_t at = block->next; spot_is_free(look, at); at = block_at(look->pool, at)->next)
        end = spot_end_of(block_at(look->pool, at));
    base = (end - look->want->size) & ~(segment->slot - 1);
    while (base < block->node.base
            && (spot_is_free(look, block->prev) || spot_is_gap(look, block->prev))) {
        gap = block->prev;
        block = block_at(look->pool, gap);
    }
    if (spot_is_gap(look, gap) && base > block->node.base && base < spot_end_of(block))
        spot_try_from(look, block->segment, gap, base);
}

/* Tries the top of the range, from the free blocks there on. */
static void try_top(const struct look *look, uint32_t number)
{
    const struct segment *segment = segment_at(look->pool, number);
    uint32_t first = segment->last;

    if (spot_is_free(look, first))
        first = left_of(look, first);
    else
        first = 0;
    spot_try_from(look, number, first,
            first ? block_at(look->pool, first)->node.base : segment->base + segment->top);
}

uint64_t spot_align(const struct pool *pool, const struct heap *heap, const struct want *want)
{
    return want->on_slot ? max_of(want->align, segment_at(pool, heap->arena)->slot) : want->align;
}

/* Bytes of a free block beside a gap; UINT64_MAX: its run goes on behind it, or at the top. */
static inline uint64_t room_beside(const struct look *look, uint32_t index, uint32_t behind)
{
    const struct block *block = block_at(look->pool, index);
    uint8_t state;

    if (index && block->state != BLOCK_FREE)
        return 0;
    state = block_at(look->pool, behind)->state;
    return !behind || state == BLOCK_FREE || state == BLOCK_DECOMMITTED ? UINT64_MAX
                                                                        : block->node.size;
}

/* False if the run around a gap is too short: mostly that is a gap between two live blocks. */
static inline bool spot_may_fit(const struct look *look, const struct block *gap)
{
    uint64_t before = room_beside(look, gap->prev, block_at(look->pool, gap->prev)->prev);
    uint64_t after = room_beside(look, gap->next, block_at(look->pool, gap->next)->next);

    return before == UINT64_MAX || after == UINT64_MAX
            || before + gap->node.size + after >= look->want->size;
}

static bool visit_gap(void *self, uint32_t index)
{
    const struct look *look = self;
    const struct block *gap = block_at(look->pool, index);

    if (spot_may_fit(look, gap))
        try_gap(look, index);
    /* no run that lacks storage can lack less */
    return look->best->missing > block_segment(look->pool, gap)->slot;
}

static struct spot spot_by_gaps(struct look *look, const struct heap *heap)
{
    look->best->missing = UINT64_MAX;
    bestfit_each(&heap->decommitted, visit_gap, look);
    return *look->best;
}

/* A request that finds no block asks several times for the same spot before anything changes. */
static struct spot spot_remembered(struct look *look, struct heap *heap)
{
    struct spot_memo *memo = &heap->spot_memo;

    if (!memo->size || memo->changes != heap->changes || memo->size != look->want->size
            || memo->align != look->align || memo->stream != look->want->stream)
        *memo = (struct spot_memo){
                .changes = heap->changes,
                .size = look->want->size,
                .align = look->align,
                .stream = look->want->stream,
                .spot = spot_by_gaps(look, heap),
        };
    return memo->spot;
}

int spot_find(struct pool *pool, struct heap *heap, const struct want *want, struct spot *ret)
{
    struct spot best = {.missing = UINT64_MAX};
    struct look look = {.pool = pool, .want = want, .best = &best};

    look.align = spot_align(pool, heap, want);
    freecache_settle(pool, heap);
    best = spot_remembered(&look, heap);
    for (uint32_t number = heap->segments; number && best.missing;
            number = segment_at(pool, number)->next) {
        const struct segment *segment = segment_at(pool, number);

        if (segment->kind == SEGMENT_ARENA && !segment->dead)
            try_top(&look, number);
    }
    if (best.missing == UINT64_MAX)
        return -ENOENT;
    *ret = best;
    return 0;
}

void spot_put_back(struct pool *pool, uint32_t index)
{
    struct block *block = block_at(pool, index);

    if (block->stream && block->seq > streams_at(pool, block->stream)->newest) {
        /* its stream was lost meanwhile: its points never pass */
        block_name_stream(pool, block, 0);
        block_push_open(pool, index);
    } else {
        (void)freelist_put(pool, index, block->stream, block->seq);
    }
}

/* Frees the part of the last block beyond the end of the spot, so that other requests can use its
 * storage, and so that it can move to where this very request lacks some. */
static void put_surplus(struct pool *pool, uint32_t at, uint64_t part, bool is_gap) POOL_LOCKED
{
    const struct block *block = block_at(pool, at);
    uint32_t rest;

    if (is_gap)
        part = round_up(part, block_segment(pool, block)->slot);
    if (part >= block->node.size)
        return;
    rest = block_cut(pool, at, part);
    if (is_gap)
        freelist_put_decommitted(pool, rest);
    else
        (void)freelist_put(pool, rest, block->stream, block->seq);
}

/* Takes the blocks of the spot below the top, from `first` on. Returns the last; *left is the part
 * above it. */
static uint32_t take_blocks(
        struct pool *pool, uint32_t first, uint64_t skip, uint64_t *left) POOL_LOCKED
{
    uint32_t at = first;

    for (;;) {
        const struct block *block = block_at(pool, at);
        bool is_gap = block->state != BLOCK_FREE; /* a gap with a skip is BUSY already */
        uint64_t part = min_of(*left, block->node.size);

        if (at != first || !skip)
            freelist_pull(pool, at);
        *left -= part;
        if (!*left)
            put_surplus(pool, at, part, is_gap);
        if (!*left || !block->next)
            return at;
        at = block->next;
    }
}

uint32_t spot_take(struct pool *pool, const struct spot *spot, uint32_t *ret_last)
{
    const struct segment *segment = segment_at(pool, spot->segment);
    devptr_t end = segment->base + segment->top;
    uint32_t first = spot->first;
    devptr_t base = first ? block_at(pool, first)->node.base + spot->skip : end;
    uint64_t left = spot->bytes;
    uint32_t top = 0;

    /* Two cuts and the top here, two more when the request is cut out. */
    if (slab_prepare(&pool->blocks, 5) != 0)
        return 0;
    if (spot->bytes > end - base) {
        top = segment_extend(
                pool, spot->segment, round_up(base + spot->bytes - end, segment->slot));
        if (!top)
            return 0;
        *ret_last = top;
        if (!first)
            return top;
        left = end - base;
    }
    if (spot->skip) {
        uint32_t gap = first;

        freelist_pull(pool, gap);
        first = block_cut(pool, gap, spot->skip);
        freelist_put_decommitted(pool, gap);
    }
    *ret_last = take_blocks(pool, first, spot->skip, &left);
    if (top)
        *ret_last = top;
    return first;
}

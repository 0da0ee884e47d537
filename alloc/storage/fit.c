/* SPDX-License-Identifier: MIT */
#include "alloc/storage/fit.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/segment.h"

#define UNJOINED_FEW   64 /* blocks */
#define UNJOINED_LEAST 2  /* blocks, in a small program (heap.h), for requests of at least */
#define JOINED_SMALL   (4 * FIT_JOINED_MIN) /* bytes */
#define JOINED_AT_ONCE 8 /* blocks: so few are merged without checking whether that helps */

/* ── which block ── */

/* A free segment of exactly this size. */
static uint32_t find_whole(
        const struct pool *pool, const struct heap *heap, uint64_t size) POOL_LOCKED
{
    devptr_t from = 0;
    uint32_t index;

    while ((index = bestfit_lower_bound(&heap->clean, size, from)) != 0) {
        const struct block *block = block_at(pool, index);
        const struct segment *segment = block_segment(pool, block);

        if (block->node.size != size)
            return 0;
        if (segment->size == size && segment->raw_base == block->node.base)
            return index;
        from = block->node.base + 1;
    }
    return 0;
}

/* True for the last block of the growing range. */
static bool is_top(const struct pool *pool, const struct heap *heap, uint32_t index) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);

    return !block->next && heap->arena && block->segment == heap->arena;
}

/* The best fit in an index, which may be missing; the top block only if it is the only fit. */
static uint32_t fit_find_in(const struct pool *pool, const struct heap *heap,
        const struct bestfit *fit, const struct want *want) POOL_LOCKED
{
    uint32_t index = fit && fit->count ? bestfit_find(fit, want->size, want->align) : 0;
    const struct bestfit_node *node;
    uint64_t least;
    uint32_t other;

    if (!index || !is_top(pool, heap, index))
        return index;
    /* a block of this size fits wherever it begins */
    least = want->align > BESTFIT_QUANTUM ? want->size + want->align - BESTFIT_QUANTUM : want->size;
    node = &block_at(pool, index)->node;
    other = node->size < least ? bestfit_lower_bound(fit, least, 0)
                               : bestfit_lower_bound(fit, node->size, node->base + 1);
    return other ? other : index;
}

/* The better fit of two; either may be 0. */
static uint32_t better(
        const struct pool *pool, const struct heap *heap, uint32_t a, uint32_t b) POOL_LOCKED
{
    if (!a || !b)
        return a ? a : b;
    if (is_top(pool, heap, a))
        return b;
    if (is_top(pool, heap, b))
        return a;
    return block_at(pool, b)->node.size < block_at(pool, a)->node.size ? b : a;
}

uint32_t fit_find(const struct pool *pool, const struct heap *heap, const struct want *want)
{
    const struct heap_stream *class = want->stream ? heap_class(heap, want->stream) : NULL;
    const struct bestfit *clean = want->small ? &heap->small : &heap->clean;
    uint32_t fragment = 0;
    uint32_t index;

    if (want->whole)
        return find_whole(pool, heap, want->size);
    if (heap->arena && want->size < 2 * segment_at(pool, heap->arena)->slot)
        fragment =
                better(pool, heap, fit_find_in(pool, heap, class ? &class->fragments : NULL, want),
                        fit_find_in(pool, heap, &heap->fragments, want));
    if (fragment && !is_top(pool, heap, fragment))
        return fragment;
    index = better(pool, heap, fit_find_in(pool, heap, class ? &class->fit : NULL, want),
            fit_find_in(pool, heap, clean, want));
    if (index && want->most && block_at(pool, index)->node.size > want->most)
        index = 0;
    if (!index && want->rests && !want->small)
        return fit_find_in(pool, heap, &heap->fragments, want);
    return index ? index : fragment;
}

static bool has_exact(const struct pool *pool, const struct bestfit *fit, uint64_t size) POOL_LOCKED
{
    uint32_t index = bestfit_lower_bound(fit, size, 0);

    return index && block_at(pool, index)->node.size == size;
}

bool fit_is_exact(const struct pool *pool, struct heap *heap, const struct want *want)
{
    return freecache_slot(pool, &heap->recent_clean, want->size)
            || has_exact(pool, &heap->clean, want->size)
            || has_exact(pool, &heap->fragments, want->size);
}

/* ── which end ── */

/* When a neighbour was allocated; UINT64_MAX if it is not live, since it may be reused at any
 * time. */
static uint64_t fit_born(const struct pool *pool, uint32_t index) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);

    if (!index)
        return 0; /* the beginning of the range never changes */
    return block->state == BLOCK_LIVE ? block->seq : UINT64_MAX;
}

static bool fit_is_like(
        const struct pool *pool, uint32_t index, const struct want *want) POOL_LOCKED
{
    return index && block_at(pool, index)->node.size == want->size;
}

/* The start address of the request if it is cut from an end of the block. */
static devptr_t start_at(const struct block *block, const struct want *want, bool high)
{
    return high ? (block->node.base + block->node.size - want->size) & ~(want->align - 1)
                : round_up(block->node.base, want->align);
}

/* Bytes of whole slots that remain in a block after the request is cut from an end of it. */
static uint64_t rest_of(const struct pool *pool, const struct block *block, const struct want *want,
        bool high) POOL_LOCKED
{
    const struct segment *segment = block_segment(pool, block);
    devptr_t start = start_at(block, want, high);
    devptr_t end = block->node.base + block->node.size;

    return slots_bytes(slots_between(segment, block->node.base, start))
            + slots_bytes(slots_between(segment, start + want->size, end));
}

static bool is_high(
        const struct pool *pool, const struct block *block, const struct want *want) POOL_LOCKED
{
    bool low_like = fit_is_like(pool, block->prev, want);
    bool high_like = fit_is_like(pool, block->next, want);
    uint64_t low_rest, high_rest;

    if (block_segment(pool, block)->kind != SEGMENT_ARENA
            || start_at(block, want, true) <= start_at(block, want, false))
        return false;
    if (low_like != high_like)
        return high_like;
    low_rest = rest_of(pool, block, want, false);
    high_rest = rest_of(pool, block, want, true);
    if (low_rest != high_rest)
        return high_rest > low_rest;
    return block->next && !heap_is_below(block_segment(pool, block)->heap, HEAP_TINY)
            && fit_born(pool, block->next) < fit_born(pool, block->prev);
}

uint64_t fit_skip(const struct pool *pool, const struct block *block, const struct want *want)
{
    bool high = block->node.size > want->size && is_high(pool, block, want);

    return start_at(block, want, high) - block->node.base;
}

/* True if the cut costs no whole slot. */
static bool fit_is_free(
        const struct pool *pool, const struct block *block, const struct want *want) POOL_LOCKED
{
    return rest_of(pool, block, want, is_high(pool, block, want))
            == slots_bytes(slots_in(block_segment(pool, block), &block->node));
}

/* ── taking the block ── */

/* Free bytes of the heap that this request may use, recent blocks of all streams included. */
static uint64_t free_for(const struct heap *heap, const struct want *want)
{
    const struct heap_stream *class = want->stream ? heap_class(heap, want->stream) : NULL;
    uint64_t bytes = heap->clean.bytes + heap->fragments.bytes + heap->recent_bytes;

    return class ? bytes + class->fit.bytes + class->fragments.bytes : bytes;
}

static bool is_recent(const struct pool *pool, uint32_t index) POOL_LOCKED
{
    return index && block_at(pool, index)->flags & BLOCK_RECENT;
}

/* True if no other block can serve the request, even after merges: all other free memory is
 * smaller. */
static bool is_only_place(const struct pool *pool, const struct heap *heap, const struct want *want,
        const struct block *block) POOL_LOCKED
{
    return free_for(heap, want) - block->node.size < want->size && !is_recent(pool, block->prev)
            && !is_recent(pool, block->next);
}

/* May the request take this block without merging recent blocks first? Unmerged neighbours drive it
 * to larger blocks, which costs an arena whole slots. A block of exactly the size costs none, nor
 * does a cut from an end without whole slots; but if many blocks stay unmerged, the last pass over
 * a recorded step still has to move storage. Eager heaps, which buy efficiency with moves, merge
 * everything at each request: otherwise a program whose device is behind would hold up to 0.01
 * more. And where only one block is large enough, even after merges, the many small ones beside it
 * would only be cut again for the next small requests. */
static bool is_tight(const struct pool *pool, const struct heap *heap, const struct want *want,
        uint32_t index) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);

    if (!index)
        return false;
    if (!heap->arena || want->size < FIT_JOINED_MIN
            || (want->size < JOINED_SMALL && heap_is_below(heap, HEAP_SMALL)))
        return true;
    if (pool->opts.remap == POOL_REMAP_EAGER)
        return false;
    return block->node.size == want->size
            || (heap->recent_count >= JOINED_AT_ONCE && is_only_place(pool, heap, want, block))
            || (heap->recent_count
                            < (heap_is_below(heap, HEAP_SMALL) ? UNJOINED_LEAST : UNJOINED_FEW)
                    && fit_is_free(pool, block, want));
}

/* The fit after merging recent blocks: first those right below the top, which often suffice. */
static __attribute__((noinline)) uint32_t find_joined(
        struct pool *pool, struct heap *heap, const struct want *want) POOL_LOCKED
{
    if (freecache_settle_below_top(pool, heap)) {
        uint32_t index = fit_find(pool, heap, want);

        if (!heap->recent_count || is_tight(pool, heap, want, index))
            return index;
    }
    freecache_settle(pool, heap);
    return fit_find(pool, heap, want);
}

/* Would the request get the same fit if the held large block were merged with its neighbours? A
 * step alternates between a large block (a workspace) and a few small ones: merging the large one
 * at each small request would mean fitting and cutting it each time. */
static bool is_apart(const struct pool *pool, const struct heap *heap, uint32_t fit) POOL_LOCKED
{
    const struct block *block = block_at(pool, fit);
    const struct block *large = block_at(pool, heap->large);

    /* The last block of a range is cut after all others, whatever its size. */
    return fit && block->node.size <= large->node.size && block->next && block->next != heap->large
            && block->prev != heap->large;
}

uint32_t fit_take(struct pool *pool, struct heap *heap, const struct want *want)
{
    uint32_t index = 0;

    /* Recent blocks have at most FREECACHE_MAX bytes, so no request with a large alignment takes
     * one. */
    if (heap->recent_count && want->size <= FREECACHE_MAX) {
        if (want->stream)
            index = freecache_get(pool, heap, want->stream, want->small, want->size);
        if (!index)
            index = freecache_get(pool, heap, 0, want->small, want->size);
        if (index)
            return index;
    }
    return fit_fit(pool, heap, want);
}

uint32_t fit_fit(struct pool *pool, struct heap *heap, const struct want *want)
{
    uint32_t index;

    if (heap->large && want->size >= FIT_JOINED_MIN)
        freecache_settle_held(pool, heap);
    index = fit_find(pool, heap, want);
    if (heap->large && !is_apart(pool, heap, index)) {
        freecache_settle_held(pool, heap);
        index = fit_find(pool, heap, want);
    }
    if (heap->recent_count && !is_tight(pool, heap, want, index))
        index = find_joined(pool, heap, want);
    if (!index)
        return 0;
    return freelist_cut(pool, index, fit_skip(pool, block_at(pool, index), want), want->size);
}

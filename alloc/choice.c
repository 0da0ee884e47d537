/* SPDX-License-Identifier: MIT */
#include "alloc/choice.h"

/* ── which block ── */

/* A free segment of exactly this size. */
static uint32_t find_whole(
        const struct pool *pool, const struct heap *heap, uint64_t size) POOL_LOCKED
{
    devptr_t from = 0;
    uint32_t index;

    while ((index = bestfit_lower_bound(&heap->clean, size, from)) != 0) {
        const struct block *block = heap_block(pool, index);
        const struct segment *segment = heap_segment_of(pool, block);

        if (block->node.size != size)
            return 0;
        if (segment->size == size && segment->raw_base == block->node.base)
            return index;
        from = block->node.base + 1;
    }
    return 0;
}

/* The last block of the range that grows. */
static bool is_top(const struct pool *pool, const struct heap *heap, uint32_t index) POOL_LOCKED
{
    const struct block *block = heap_block(pool, index);

    return !block->next && heap->arena && block->segment == heap->arena;
}

/* The best fit in an index, which need not be there; the top only where it is the only one. */
static uint32_t find_in(const struct pool *pool, const struct heap *heap, const struct bestfit *fit,
        const struct heap_want *want) POOL_LOCKED
{
    uint32_t index = fit && fit->count ? bestfit_find(fit, want->size, want->align) : 0;
    const struct bestfit_node *node;
    uint64_t least;
    uint32_t other;

    if (!index || !is_top(pool, heap, index))
        return index;
    /* what is of this size fits wherever it begins */
    least = want->align > BESTFIT_QUANTUM ? want->size + want->align - BESTFIT_QUANTUM : want->size;
    node = &heap_block(pool, index)->node;
    other = node->size < least ? bestfit_lower_bound(fit, least, 0)
                               : bestfit_lower_bound(fit, node->size, node->base + 1);
    return other ? other : index;
}

/* The better of two, either of which may be 0. */
static uint32_t better(
        const struct pool *pool, const struct heap *heap, uint32_t a, uint32_t b) POOL_LOCKED
{
    if (!a || !b)
        return a ? a : b;
    if (is_top(pool, heap, a))
        return b;
    if (is_top(pool, heap, b))
        return a;
    return heap_block(pool, b)->node.size < heap_block(pool, a)->node.size ? b : a;
}

uint32_t choice_find(const struct pool *pool, const struct heap *heap, const struct heap_want *want)
{
    const struct heap_stream *class = want->stream ? heap_class(heap, want->stream) : NULL;
    const struct bestfit *clean = want->small ? &heap->small : &heap->clean;
    uint32_t crumb = 0;
    uint32_t index;

    if (want->whole)
        return find_whole(pool, heap, want->size);
    if (heap->arena && want->size < 2 * heap_segment(pool, heap->arena)->slot)
        crumb = better(pool, heap, find_in(pool, heap, class ? &class->crumbs : NULL, want),
                find_in(pool, heap, &heap->crumbs, want));
    if (crumb && !is_top(pool, heap, crumb))
        return crumb;
    index = better(pool, heap, find_in(pool, heap, class ? &class->fit : NULL, want),
            find_in(pool, heap, clean, want));
    if (index && want->most && heap_block(pool, index)->node.size > want->most)
        index = 0;
    return index ? index : crumb;
}

/* ── which end ── */

/* When a neighbour was handed out; what is not the program's may be anybody's at any time. */
static uint64_t born(const struct pool *pool, uint32_t index) POOL_LOCKED
{
    const struct block *block = heap_block(pool, index);

    if (!index)
        return 0; /* the beginning of the range stays for ever */
    return block->state == BLOCK_LIVE ? block->seq : UINT64_MAX;
}

static bool is_like(
        const struct pool *pool, uint32_t index, const struct heap_want *want) POOL_LOCKED
{
    return index && heap_block(pool, index)->node.size == want->size;
}

/* The whole slots between two addresses, in bytes. */
static uint64_t slots_between(const struct segment *segment, devptr_t from, devptr_t to)
{
    devptr_t lo = heap_round(from, segment->slot);
    devptr_t hi = to & ~(segment->slot - 1);

    return hi > lo ? hi - lo : 0;
}

/* Where the request begins if it is cut from an end of a block that it fits in. */
static devptr_t start_at(const struct block *block, const struct heap_want *want, bool high)
{
    return high ? (block->node.base + block->node.size - want->size) & ~(want->align - 1)
                : heap_round(block->node.base, want->align);
}

/* The whole slots, in bytes, that are left in a block when the request was cut from an end of it. */
static uint64_t rest_of(const struct pool *pool, const struct block *block,
        const struct heap_want *want, bool high) POOL_LOCKED
{
    const struct segment *segment = heap_segment_of(pool, block);
    devptr_t start = start_at(block, want, high);

    return slots_between(segment, block->node.base, start)
            + slots_between(segment, start + want->size, block->node.base + block->node.size);
}

bool choice_is_high(
        const struct pool *pool, const struct block *block, const struct heap_want *want)
{
    bool low_like = is_like(pool, block->prev, want);
    bool high_like = is_like(pool, block->next, want);
    uint64_t low_rest, high_rest;

    if (heap_segment_of(pool, block)->kind != SEGMENT_ARENA
            || start_at(block, want, true) <= start_at(block, want, false))
        return false;
    if (low_like != high_like)
        return high_like;
    low_rest = rest_of(pool, block, want, false);
    high_rest = rest_of(pool, block, want, true);
    if (low_rest != high_rest)
        return high_rest > low_rest;
    return block->next && born(pool, block->next) < born(pool, block->prev);
}

bool choice_is_free(
        const struct pool *pool, const struct block *block, const struct heap_want *want)
{
    devptr_t end = block->node.base + block->node.size;

    return rest_of(pool, block, want, choice_is_high(pool, block, want))
            == slots_between(heap_segment_of(pool, block), block->node.base, end);
}

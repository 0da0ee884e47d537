/* SPDX-License-Identifier: MIT */
#include "alloc/heap/freelist.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/streams.h"

/* A plain segment above this size may be returned although a block below a granule is cut off it.
 * Mean utilisation of 68 recorded traces and variants of them, with devices that keep up and are a
 * pass behind (budget 1.05), and the worst: 4 MiB 0.889, 0.765; 8 MiB 0.891, 0.765; 16 MiB 0.890,
 * 0.765; 20 MiB 0.887, 0.760; any size 0.883, 0.718. */
#define REST_SEGMENT_MAX (UINT64_C(8) << 20)

/* True if the block contains no whole slot of an arena, or is less than a granule of a large plain
 * segment. */
static inline bool is_fragment(const struct segment *segment, const struct bestfit_node *node)
{
    if (segment->kind == SEGMENT_PLAIN)
        return !segment->small && segment->size > REST_SEGMENT_MAX && node->size < GRANULE_SIZE;
    return segment->kind == SEGMENT_ARENA && slots_bytes(slots_in(segment, node)) == 0;
}

/* The class that lists a block; NULL: none. */
static inline struct heap_stream *class_of(const struct pool *pool, const struct block *block)
{
    const struct segment *segment = block_segment(pool, block);

    return block->stream && !segment->sealed ? heap_class(segment->heap, block->stream) : NULL;
}

/* The index of a FREE, DECOMMITTED or IDLE block of this class. */
static inline struct bestfit *fit_of(
        const struct pool *pool, const struct block *block, struct heap_stream *class)
{
    const struct segment *segment = block_segment(pool, block);
    struct heap *heap = segment->heap;

    if (block->state == BLOCK_IDLE)
        return &heap->idle;
    if (block->state == BLOCK_DECOMMITTED)
        return segment->kind == SEGMENT_HINT ? &heap->hint_decommitted : &heap->decommitted;
    if (segment->sealed)
        return &heap->sealed;
    if (class)
        return is_fragment(segment, &block->node) ? &class->fragments : &class->fit;
    if (is_fragment(segment, &block->node))
        return &heap->fragments;
    return segment->small ? &heap->small : &heap->clean;
}

/* ── the blocks of a class by point ── */

/* The block after which one with this point belongs; 0 = before all. What is freed now has the
 * latest point, and a part of a block that was just taken belongs where that was, so few are passed
 * by. */
static uint32_t place_of(const struct pool *pool, const struct heap_stream *class, uint64_t point)
{
    uint32_t at = class->latest;

    if (!at || block_at(pool, at)->seq <= point)
        return at;
    at = class->near ? class->near : at;
    while (at && block_at(pool, at)->seq > point)
        at = block_at(pool, at)->earlier;
    while (at && block_at(pool, block_at(pool, at)->later)->seq < point)
        at = block_at(pool, at)->later;
    return at;
}

static void list_by_point(struct pool *pool, struct heap_stream *class, uint32_t index)
{
    struct block *block = block_at(pool, index);
    uint32_t earlier = place_of(pool, class, block->seq);
    uint32_t later = earlier ? block_at(pool, earlier)->later : class->earliest;

    block->earlier = earlier;
    block->later = later;
    *(earlier ? &block_at(pool, earlier)->later : &class->earliest) = index;
    *(later ? &block_at(pool, later)->earlier : &class->latest) = index;
    if (later)
        class->near = index;
}

static void unlist_by_point(struct pool *pool, struct heap_stream *class, uint32_t index)
{
    const struct block *block = block_at(pool, index);
    uint32_t earlier = block->earlier;
    uint32_t later = block->later;

    if (block->seq < block_at(pool, class->latest)->seq || class->near == index)
        class->near = earlier ? earlier : later;
    *(earlier ? &block_at(pool, earlier)->later : &class->earliest) = later;
    *(later ? &block_at(pool, later)->earlier : &class->latest) = earlier;
}

uint32_t freelist_passed(const struct pool *pool, const struct heap_stream *class, uint64_t point)
{
    uint32_t index = class->earliest;

    return index && block_at(pool, index)->seq <= point ? index : 0;
}

void freelist_swap(struct heap_stream *a, struct heap_stream *b)
{
    const uint32_t earliest = a->earliest;
    const uint32_t latest = a->latest;

    bestfit_swap(&a->fit, &b->fit);
    bestfit_swap(&a->fragments, &b->fragments);
    a->near = a->earliest = b->earliest;
    a->latest = b->latest;
    b->near = b->earliest = earliest;
    b->latest = latest;
    heap_fill(a);
    heap_fill(b);
    a->heap->changes++;
}

/* ── indices ── */

/* True for a block that is a plain segment. */
static bool is_whole(const struct segment *segment, const struct bestfit_node *node)
{
    return segment->kind == SEGMENT_PLAIN && node->size == segment->size;
}

static void freelist_insert(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    struct segment *segment = block_segment(pool, block);
    struct heap *heap = segment->heap;
    struct heap_stream *class = class_of(pool, block);
    struct bestfit *fit = fit_of(pool, block, class);

    heap->changes++;
    bestfit_insert(fit, index);
    if (class) {
        list_by_point(pool, class, index);
        heap_fill(class);
    }
    if (is_whole(segment, &block->node)) {
        order_insert(&heap->whole, &segment->place);
        heap_list(heap, HEAPS_GIVING);
    } else if (fit == &heap->clean && heap->kind != HEAP_PLAIN) {
        heap_list(heap, HEAPS_GIVING);
    }
}

static void freelist_remove(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    struct heap_stream *class = class_of(pool, block);

    bestfit_remove(fit_of(pool, block, class), index);
    if (class)
        unlist_by_point(pool, class, index);
}

/* May a free block merge with this neighbour? Where only one stream ever freed, idle memory joins
 * that stream's class: no other stream would lose it. */
static bool can_join(const struct heap *heap, const struct block *block, const struct block *other)
{
    if (other->state != BLOCK_FREE || other->flags & BLOCK_RECENT)
        return false;
    return block->stream == other->stream
            || (heap->stream_count <= 1 && (!block->stream || !other->stream));
}

uint32_t freelist_put(struct pool *pool, uint32_t index, uint32_t stream, uint64_t point)
{
    struct block *block = block_at(pool, index);
    struct heap *heap = block_segment(pool, block)->heap;
    const struct block *other;

    stream = streams_class_of(pool, stream, point);
    block->state = BLOCK_FREE;
    block->flags = 0;
    block->seq = stream ? point : 0;
    block_name_stream(pool, block, stream);
    other = block_at(pool, block->prev);
    if (block->prev && can_join(heap, block, other)) {
        index = block->prev;
        freelist_remove(pool, index);
        block_join(pool, index);
        block = block_at(pool, index);
    }
    other = block_at(pool, block->next);
    if (block->next && can_join(heap, block, other)) {
        freelist_remove(pool, block->next);
        block_join(pool, index);
    }
    freelist_insert(pool, index);
    return index;
}

/* The gap in front of a hinted block. Margins of aliases are less than a slot. */
static bool freelist_is_gap(const struct segment *segment, const struct block *block)
{
    return segment->kind == SEGMENT_HINT && block->state == BLOCK_MARGIN
            && block->node.size == segment->slot;
}

void freelist_put_decommitted(struct pool *pool, uint32_t index)
{
    struct block *block = block_at(pool, index);
    struct segment *segment = block_segment(pool, block);

    segment->heap->changes++;
    block_name_stream(pool, block, 0);
    if (block->prev && freelist_is_gap(segment, block_at(pool, block->prev))) {
        index = block->prev;
        block_join(pool, index);
        block = block_at(pool, index);
    }
    block->state = BLOCK_DECOMMITTED;
    block->flags = 0;
    block->seq = 0;
    if (block->prev && block_at(pool, block->prev)->state == BLOCK_DECOMMITTED) {
        index = block->prev;
        block = block_at(pool, index);
        freelist_remove(pool, index);
        block_join(pool, index);
    }
    if (block->next && block_at(pool, block->next)->state == BLOCK_DECOMMITTED) {
        freelist_remove(pool, block->next);
        block_join(pool, index);
    }
    if (block->next) {
        bestfit_insert(fit_of(pool, block, NULL), index);
        return;
    }
    segment->top = block->node.base - segment->base;
    granule_set(&pool->granules, block->node.base, block->node.size, 0);
    block_delete(pool, index);
}

void freelist_pull(struct pool *pool, uint32_t index)
{
    struct block *block = block_at(pool, index);
    struct segment *segment = block_segment(pool, block);

    segment->heap->changes++;
    freelist_remove(pool, index);
    if (is_whole(segment, &block->node))
        order_remove(&segment->heap->whole, &segment->place);
    block->state = BLOCK_BUSY;
}

uint32_t freelist_carve(struct pool *pool, uint32_t index, uint64_t skip, uint64_t size)
{
    struct block *block = block_at(pool, index);
    uint32_t rest;

    if (skip) {
        rest = block_cut(pool, index, skip);
        (void)freelist_put(pool, index, block->stream, block->seq);
        index = rest;
        block = block_at(pool, index);
    }
    if (block->node.size > size) {
        rest = block_cut(pool, index, size);
        (void)freelist_put(pool, rest, block->stream, block_at(pool, rest)->seq);
    }
    return index;
}

/* True if a block keeps its place in its index when it loses an end. */
static bool can_shrink(const struct pool *pool, const struct block *block, uint32_t index,
        const struct bestfit_node *rest) POOL_LOCKED
{
    const struct segment *segment = block_segment(pool, block);

    return !is_whole(segment, &block->node)
            && is_fragment(segment, &block->node) == is_fragment(segment, rest)
            && bestfit_shrink(fit_of(pool, block, class_of(pool, block)), index, rest);
}

uint32_t freelist_cut(struct pool *pool, uint32_t index, uint64_t skip, uint64_t size)
{
    struct block *block = block_at(pool, index);
    struct segment *segment = block_segment(pool, block);
    devptr_t base = block->node.base + skip;
    struct bestfit_node rest = {
            .base = skip ? block->node.base : base + size,
            .size = block->node.size - size,
    };
    struct block *piece;
    uint32_t taken;

    if (!rest.size || (skip && skip != rest.size) || !can_shrink(pool, block, index, &rest)) {
        freelist_pull(pool, index);
        return freelist_carve(pool, index, skip, size);
    }
    segment->heap->changes++;
    taken = block_new(pool, block->segment, skip ? index : block->prev, base, size);
    if (!skip)
        starts_set(&segment->starts, rest.base - segment->base, index);
    piece = block_at(pool, taken);
    piece->last = block->last;
    piece->seq = block->seq;
    block_name_stream(pool, piece, block->stream);
    if (POOL_IS_WITHOUT(CUT) && block->stream) {
        unlist_by_point(pool, class_of(pool, block), index);
        block->seq = 0;
        list_by_point(pool, class_of(pool, block), index);
    }
    return taken;
}

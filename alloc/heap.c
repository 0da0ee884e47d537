/* SPDX-License-Identifier: MIT */
#include "alloc/heap.h"

#include "alloc/choice.h"
#include "alloc/pin.h"

#include <errno.h>
#include <string.h>

/* From this size on a request to an arena looks for a fit only after recent blocks were joined with their neighbours, unless it
 * has a tight one or few are unjoined. On real training steps that is worth 1.5 % of what is held; below it, nothing. */
#define SETTLE_LEAST (UINT64_C(64) << 10)
#define UNJOINED_FEW 64 /* blocks */

/* ── finding ── */

static struct heap *new_heap(
        struct pool *pool, enum heap_kind kind, uint64_t owner, int device) POOL_LOCKED
{
    struct heap *heap = meta_get(sizeof(*heap));

    if (!heap)
        return NULL;
    heap->kind = kind;
    heap->owner = owner;
    heap->device = &pool->devices[device];
    heap->attrs.reuse_opportunistic = true;
    heap->attrs.reuse_internal_dependencies = true;
    bestfit_init(&heap->small, &pool->blocks);
    bestfit_init(&heap->clean, &pool->blocks);
    bestfit_init(&heap->crumbs, &pool->blocks);
    bestfit_init(&heap->gaps, &pool->blocks);
    bestfit_init(&heap->hint_gaps, &pool->blocks);
    bestfit_init(&heap->idle, &pool->blocks);
    bestfit_init(&heap->sealed, &pool->blocks);
    if (lookup_add(&pool->heap_of[kind], owner, heap) != 0) {
        meta_put(heap, sizeof(*heap));
        return NULL;
    }
    heap->next = pool->heaps;
    pool->heaps = heap;
    return heap;
}

struct heap *heap_get(struct pool *pool, enum heap_kind kind, uint64_t owner, int device)
{
    struct heap *heap = pool->last[kind];

    if (heap && heap->owner == owner)
        return heap;
    heap = lookup_find(&pool->heap_of[kind], owner);
    if (!heap && device >= 0 && device < POOL_DEVICES_MAX)
        heap = new_heap(pool, kind, owner, device);
    if (heap)
        pool->last[kind] = heap;
    return heap;
}

void heap_retire(struct pool *pool, struct heap *heap)
{
    struct heap **link = &pool->heaps;

    while (*link != heap)
        link = &(*link)->next;
    *link = heap->next;
    lookup_remove(&pool->heap_of[heap->kind], heap->owner);
    if (pool->last[heap->kind] == heap)
        pool->last[heap->kind] = NULL;
    pool->last_class = NULL;
    heap->leaving = true;
    heap->next_leaving = pool->leaving;
    pool->leaving = heap;
}

uint32_t heap_find_stream(struct pool *pool, uint64_t key)
{
    struct stream *stream;
    uint32_t index;

    if (key == 0)
        return 0;
    stream = lookup_find(&pool->stream_of, key);
    if (stream) {
        pool->last_stream = stream;
        return stream->index;
    }
    index = slab_take(&pool->streams);
    if (!index)
        return 0;
    stream = heap_stream_at(pool, index);
    if (lookup_add(&pool->stream_of, key, stream) != 0) {
        slab_put(&pool->streams, index);
        return 0;
    }
    stream->key = key;
    stream->index = index;
    return index;
}

uint32_t heap_find(const struct pool *pool, devptr_t ptr)
{
    uint32_t number = granule_segment(&pool->granules, ptr);
    const struct segment *segment;
    const struct block *block;
    uint32_t index;

    if (!number)
        return 0;
    segment = heap_segment(pool, number);
    index = starts_before(&segment->starts, ptr - segment->base);
    if (!index)
        return 0;
    block = heap_block(pool, index);
    return ptr - block->node.base < block->node.size ? index : 0;
}

/* ── segments ── */

static void link_segment(struct pool *pool, struct heap *heap, uint32_t number) POOL_LOCKED
{
    struct segment *segment = heap_segment(pool, number);

    segment->next = heap->segments;
    segment->prev = 0;
    if (heap->segments)
        heap_segment(pool, heap->segments)->prev = number;
    heap->segments = number;
}

static uint32_t new_block(struct pool *pool, uint32_t number, uint32_t after, devptr_t base,
        uint64_t size) POOL_LOCKED
{
    struct segment *segment = heap_segment(pool, number);
    uint32_t index = slab_take(&pool->blocks);
    struct block *block = heap_block(pool, index);

    if (!index)
        return 0;
    block->node.base = base;
    block->node.size = size;
    block->segment = number;
    block->state = BLOCK_BUSY;
    block->prev = after;
    block->next = after ? heap_block(pool, after)->next : segment->first;
    if (after)
        heap_block(pool, after)->next = index;
    else
        segment->first = index;
    if (block->next)
        heap_block(pool, block->next)->prev = index;
    else
        segment->last = index;
    starts_set(&segment->starts, base - segment->base, index);
    return index;
}

static void delete_block(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    struct segment *segment = heap_segment_of(pool, block);

    if (block->prev)
        heap_block(pool, block->prev)->next = block->next;
    else
        segment->first = block->next;
    if (block->next)
        heap_block(pool, block->next)->prev = block->prev;
    else
        segment->last = block->prev;
    starts_clear(&segment->starts, block->node.base - segment->base);
    pin_forget(pool, index);
    heap_name_stream(pool, block, 0);
    slab_put(&pool->blocks, index);
}

int heap_add_segment(
        struct pool *pool, struct heap *heap, const struct segment *like, uint32_t *ret_segment)
{
    uint32_t number = slab_take(&pool->segments);
    struct segment *segment = heap_segment(pool, number);
    int r;

    if (!number)
        return -ENOMEM;
    *segment = *like;
    segment->heap = heap;
    r = starts_init(&segment->starts, segment->size);
    if (r != 0)
        goto put_segment;
    if (segment->kind == SEGMENT_PLAIN) {
        r = starts_grow(&segment->starts, segment->size);
        if (r == 0)
            r = granule_prepare(&pool->granules, segment->base, segment->size);
        if (r != 0)
            goto done_starts;
        if (!new_block(pool, number, 0, segment->base, segment->size)) {
            r = -ENOMEM;
            goto done_starts;
        }
        segment->top = segment->size;
        granule_set(&pool->granules, segment->base, segment->size, number);
    } else {
        r = span_init(&segment->handle_span, segment->size / segment->slot * sizeof(uint64_t));
        if (r != 0)
            goto done_starts;
        segment->handles = (uint64_t *)(void *)segment->handle_span.base;
    }
    link_segment(pool, heap, number);
    *ret_segment = number;
    return 0;

done_starts:
    starts_done(&segment->starts);
put_segment:
    slab_put(&pool->segments, number);
    return r;
}

void heap_remove_segment(struct pool *pool, uint32_t number)
{
    struct segment *segment = heap_segment(pool, number);
    struct heap *heap = segment->heap;

    while (segment->first) {
        struct block *block = heap_block(pool, segment->first);

        if (block->state == BLOCK_FREE || block->state == BLOCK_GAP || block->state == BLOCK_IDLE)
            heap_pull(pool, segment->first);
        delete_block(pool, segment->first);
    }
    if (segment->top && !segment->dead)
        granule_clear(&pool->granules, segment->base, segment->top, number);
    if (segment->prev)
        heap_segment(pool, segment->prev)->next = segment->next;
    else
        heap->segments = segment->next;
    if (segment->next)
        heap_segment(pool, segment->next)->prev = segment->prev;
    if (heap->arena == number)
        heap->arena = 0;
    if (heap->hint == number)
        heap->hint = 0;
    starts_done(&segment->starts);
    span_done(&segment->handle_span);
    slab_put(&pool->segments, number);
}

uint32_t heap_extend(struct pool *pool, uint32_t number, uint64_t size)
{
    struct segment *segment = heap_segment(pool, number);
    uint64_t top = segment->top + size;
    uint32_t index;

    if (top > segment->size || top < size || starts_grow(&segment->starts, top) != 0
            || span_commit(&segment->handle_span, top / segment->slot * sizeof(uint64_t)) != 0
            || granule_prepare(&pool->granules, segment->base + segment->top, size) != 0)
        return 0;
    index = new_block(pool, number, segment->last, segment->base + segment->top, size);
    if (!index)
        return 0;
    granule_set(&pool->granules, segment->base + segment->top, size, number);
    segment->top = top;
    return index;
}

/* Drops from a chain what lies in dead segments. */
static void purge_chain(struct pool *pool, struct fence_chain *chain) POOL_LOCKED
{
    uint32_t index = chain->head;

    *chain = (struct fence_chain){0};
    while (index) {
        struct block *block = heap_block(pool, index);
        uint32_t next = block->chain;

        if (heap_segment_of(pool, block)->dead)
            block->state = BLOCK_KEPT;
        else
            heap_chain(pool, chain, index);
        index = next;
    }
}

static void purge_graces(struct pool *pool) POOL_LOCKED
{
    for (struct grace *grace = pool->grace_first; grace; grace = grace->next) {
        uint32_t *link = &grace->holders;

        while (*link) {
            struct holder *holder = heap_holder(pool, *link);

            if (heap_segment_of(pool, heap_block(pool, holder->block))->dead)
                *link = holder->next; /* the record itself goes with its block */
            else
                link = &holder->next;
        }
    }
}

static void kill_block(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    struct heap *heap = heap_segment_of(pool, block)->heap;
    struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;
    bool dead = holder && holder->mode != HINT_SHADOW
            && (holder->state == HOLDER_DEAD || holder->state == HOLDER_LIMBO);
    bool husk = holder && holder->mode != HINT_SHADOW && holder->state == HOLDER_HUSK;

    pin_forget(pool, index);
    if (block->state == BLOCK_FREE || block->state == BLOCK_GAP || block->state == BLOCK_IDLE) {
        heap_pull(pool, index);
        block->state = BLOCK_KEPT;
        return;
    }
    if (block->state == BLOCK_PENDING && !(block->flags & BLOCK_GONE) && !dead)
        heap_count_pending(heap, -(int64_t)block->node.size);
    if (block->state == BLOCK_KEPT)
        heap_count_kept(heap, -(int64_t)block->node.size);
    if (dead)
        heap_count_limbo(heap, -(int64_t)block->node.size);
    if (husk && !holder->freed)
        heap_count_husk(heap, -(int64_t)block->node.size);
    if (block->state == BLOCK_LIVE && !(holder && holder->freed))
        heap_count_death(pool, heap, block);
    heap_drop_holder(pool, block);
    if (block->state != BLOCK_BUSY)
        block->state = BLOCK_KEPT;
}

void heap_kill_segment(struct pool *pool, uint32_t number)
{
    struct segment *segment = heap_segment(pool, number);

    if (segment->dead)
        return;
    segment->dead = true;
    if (segment->top)
        granule_clear(&pool->granules, segment->base, segment->top, number);
    purge_graces(pool);
    for (uint32_t index = segment->first; index; index = heap_block(pool, index)->next)
        kill_block(pool, index);
    purge_chain(pool, &pool->open);
    purge_chain(pool, &pool->removals);
    pool->waiting_bytes = 0;
    for (struct fence_mark *mark = pool->epochs.first; mark; mark = mark->next) {
        purge_chain(pool, &mark->chain);
        pool->waiting_bytes += mark->chain.bytes;
    }
}

/* ── blocks ── */

struct heap_stream *heap_new_class(struct pool *pool, struct heap *heap, uint32_t stream)
{
    struct heap_stream *at = meta_get(sizeof(*at));

    if (!at)
        return NULL;
    at->stream = stream;
    at->line_of = heap_stream_at(pool, stream);
    at->key = at->line_of->key;
    at->heap = heap;
    at->next = heap->streams;
    bestfit_init(&at->fit, &pool->blocks);
    bestfit_init(&at->crumbs, &pool->blocks);
    heap->streams = at;
    heap->stream_count++;
    return at;
}

/* The index that a FREE, GAP or IDLE block stands in. */
static struct bestfit *fit_of(const struct pool *pool, const struct block *block)
{
    const struct segment *segment = heap_segment_of(pool, block);
    struct heap *heap = segment->heap;

    if (block->state == BLOCK_IDLE)
        return &heap->idle;
    if (block->state == BLOCK_GAP)
        return segment->kind == SEGMENT_HINT ? &heap->hint_gaps : &heap->gaps;
    if (segment->sealed)
        return &heap->sealed;
    if (block->stream) {
        struct heap_stream *class = heap_class(heap, block->stream);

        return heap_is_crumb(segment, block) ? &class->crumbs : &class->fit;
    }
    if (heap_is_crumb(segment, block))
        return &heap->crumbs;
    return segment->small ? &heap->small : &heap->clean;
}

uint32_t heap_cut(struct pool *pool, uint32_t index, uint64_t size)
{
    struct block *block = heap_block(pool, index);
    uint32_t rest = new_block(
            pool, block->segment, index, block->node.base + size, block->node.size - size);
    struct block *other = heap_block(pool, rest);

    block->node.size = size;
    other->state = block->state;
    other->flags = block->flags;
    other->last = block->last;
    other->seq = pool->opts.mutate & POOL_MUTATE_CUT_POINT ? 0 : block->seq;
    heap_name_stream(pool, other, block->stream);
    return rest;
}

void heap_join(struct pool *pool, uint32_t index)
{
    struct block *block = heap_block(pool, index);
    struct block *other = heap_block(pool, block->next);

    block->node.size += other->node.size;
    if (other->stream) {
        if (!block->stream)
            block->seq = 0;
        if ((other->seq > block->seq) != (bool)(pool->opts.mutate & POOL_MUTATE_LEAST_POINT))
            block->seq = other->seq;
        heap_name_stream(pool, block, other->stream);
    }
    delete_block(pool, block->next);
}

/* May a free block be one with this neighbour? Where only one stream ever freed, clean memory joins its class: there is nobody
 * else to whom it would be lost. */
static bool can_join(const struct heap *heap, const struct block *block, const struct block *other)
{
    if (other->state != BLOCK_FREE || other->flags & BLOCK_RECENT)
        return false;
    return block->stream == other->stream
            || (heap->stream_count <= 1 && (!block->stream || !other->stream));
}

uint32_t heap_put(struct pool *pool, uint32_t index, uint32_t stream, uint64_t point)
{
    struct block *block = heap_block(pool, index);
    struct heap *heap = heap_segment_of(pool, block)->heap;
    const struct block *other;

    stream = heap_class_of(pool, stream, point);
    block->state = BLOCK_FREE;
    block->flags = 0;
    block->seq = stream ? point : 0;
    heap_name_stream(pool, block, stream);
    other = heap_block(pool, block->prev);
    if (block->prev && can_join(heap, block, other)) {
        index = block->prev;
        bestfit_remove(fit_of(pool, other), index);
        heap_join(pool, index);
        block = heap_block(pool, index);
    }
    other = heap_block(pool, block->next);
    if (block->next && can_join(heap, block, other)) {
        bestfit_remove(fit_of(pool, other), block->next);
        heap_join(pool, index);
    }
    bestfit_insert(fit_of(pool, block), index);
    return index;
}

uint32_t *heap_new_slot(struct pool *pool, struct heap *heap, uint32_t *slots, uint64_t size)
{
    uint32_t *home = heap_recent_home(slots, size);
    uint32_t *other = heap_recent_other(slots, home);

    if (!*home || *other)
        heap_settle_slot(pool, heap, home);
    return *home ? other : home;
}

void heap_settle_slot(struct pool *pool, struct heap *heap, uint32_t *slot)
{
    while (*slot) {
        uint32_t index = heap_pop_recent(pool, heap, slot);
        const struct block *block = heap_block(pool, index);

        (void)heap_put(pool, index, block->stream, block->seq);
    }
}

void heap_settle_large(struct pool *pool, struct heap *heap)
{
    uint32_t index = heap->large;
    const struct block *block = heap_block(pool, index);

    heap_unhold(pool, heap);
    (void)heap_put(pool, index, block->stream, block->seq);
}

static void settle_slots(struct pool *pool, struct heap *heap, uint32_t *slots) POOL_LOCKED
{
    for (uint32_t i = 0; i < RECENT_SLOTS && heap->recent_count; i++)
        if (slots[i])
            heap_settle_slot(pool, heap, &slots[i]);
}

void heap_settle(struct pool *pool, struct heap *heap)
{
    if (!heap->recent_count)
        return;
    if (heap->large)
        heap_settle_large(pool, heap);
    settle_slots(pool, heap, heap->recent_small);
    settle_slots(pool, heap, heap->recent_clean);
    for (struct heap_stream *at = heap->streams; at; at = at->next)
        settle_slots(pool, heap, at->recent);
}

void heap_put_gap(struct pool *pool, uint32_t index)
{
    struct block *block = heap_block(pool, index);
    struct segment *segment = heap_segment_of(pool, block);

    block->state = BLOCK_GAP;
    block->flags = 0;
    block->seq = 0;
    heap_name_stream(pool, block, 0);
    if (block->prev && heap_block(pool, block->prev)->state == BLOCK_GAP) {
        index = block->prev;
        block = heap_block(pool, index);
        bestfit_remove(fit_of(pool, block), index);
        heap_join(pool, index);
    }
    if (block->next && heap_block(pool, block->next)->state == BLOCK_GAP) {
        bestfit_remove(fit_of(pool, heap_block(pool, block->next)), block->next);
        heap_join(pool, index);
    }
    if (block->next) {
        bestfit_insert(fit_of(pool, block), index);
        return;
    }
    segment->top = block->node.base - segment->base;
    granule_set(&pool->granules, block->node.base, block->node.size, 0);
    delete_block(pool, index);
}

/* A recent block that is not the first of its slot. */
static void pull_recent(struct pool *pool, struct heap *heap, uint32_t index) POOL_LOCKED
{
    const struct block *block = heap_block(pool, index);
    uint32_t *link;

    if (heap->large == index) {
        heap_unhold(pool, heap);
        return;
    }
    link = heap_recent_slot(pool,
            heap_recent_slots(heap, block->stream, heap_segment_of(pool, block)->small),
            block->node.size);

    while (*link != index)
        link = &heap_block(pool, *link)->node.left;
    (void)heap_pop_recent(pool, heap, link);
}

void heap_pull(struct pool *pool, uint32_t index)
{
    struct block *block = heap_block(pool, index);

    if (block->flags & BLOCK_RECENT)
        pull_recent(pool, heap_segment_of(pool, block)->heap, index);
    else
        bestfit_remove(fit_of(pool, block), index);
    block->state = BLOCK_BUSY;
}

uint32_t heap_carve(struct pool *pool, uint32_t index, const struct heap_want *want)
{
    struct block *block = heap_block(pool, index);
    uint64_t skip = -block->node.base & (want->align - 1);
    uint32_t rest;

    if (block->node.size > want->size && choice_is_high(pool, block, want))
        skip = ((block->node.base + block->node.size - want->size) & ~(want->align - 1))
                - block->node.base;
    if (skip) {
        rest = heap_cut(pool, index, skip);
        (void)heap_put(pool, index, block->stream, block->seq);
        index = rest;
        block = heap_block(pool, index);
    }
    if (block->node.size > want->size) {
        rest = heap_cut(pool, index, want->size);
        (void)heap_put(pool, rest, block->stream, heap_block(pool, rest)->seq);
    }
    return index;
}

/*
 * May a request take this block without the recent ones being joined first? Unjoined neighbours drive it to larger blocks, which
 * an arena pays for in whole slots. A block of the very size costs none, nor does an end that cuts none; but if many blocks stay
 * unjoined, the last pass over a recorded step still has to move storage. Who pays for efficiency with moves has all joined at
 * each request: there a program whose device is behind would hold up to 0.01 more. Here it is 0.001 in the mean of 288 traces
 * where nothing can move, and nothing elsewhere, for a sixth of the instructions (tests/bench).
 */
static bool is_tight(const struct pool *pool, const struct heap *heap, const struct heap_want *want,
        uint32_t index) POOL_LOCKED
{
    const struct block *block = heap_block(pool, index);

    if (!index)
        return false;
    if (!heap->arena || want->size < SETTLE_LEAST)
        return true;
    if (pool->opts.remap == POOL_REMAP_EAGER)
        return false;
    return block->node.size == want->size
            || (heap->recent_count < UNJOINED_FEW && choice_is_free(pool, block, want));
}

/*
 * Would a request have this fit, too, if the large block that is held were joined with its neighbours? A step asks for a large block
 * (a workspace) and a few small ones by turns: to join the one at each of the others is to fit and cut it each time, and to join all
 * that is recent with it. In the GPT of tests/frameworks 108 of 124 large blocks were joined so, and 12 are now.
 */
static bool is_apart(const struct pool *pool, const struct heap *heap, uint32_t fit) POOL_LOCKED
{
    const struct block *block = heap_block(pool, fit);
    const struct block *large = heap_block(pool, heap->large);

    /* The last block of a range is cut after all others, whatever its size. */
    return fit && block->node.size <= large->node.size && block->next && block->next != heap->large
            && block->prev != heap->large;
}

uint32_t heap_take(struct pool *pool, struct heap *heap, const struct heap_want *want)
{
    uint32_t index = 0;

    /* What is recent is at most RECENT_MAX, so it is never asked for with a large alignment. */
    if (heap->recent_count && want->size <= RECENT_MAX) {
        if (want->stream)
            index = heap_take_recent(pool, heap, want->stream, want->small, want->size);
        if (!index)
            index = heap_take_recent(pool, heap, 0, want->small, want->size);
        if (index)
            return index;
    }
    if (heap->large && want->size >= SETTLE_LEAST)
        heap_settle_large(pool, heap);
    index = choice_find(pool, heap, want);
    if (heap->large && !is_apart(pool, heap, index)) {
        heap_settle_large(pool, heap);
        index = choice_find(pool, heap, want);
    }
    if (heap->recent_count && !is_tight(pool, heap, want, index)) {
        heap_settle(pool, heap);
        index = choice_find(pool, heap, want);
    }
    if (!index)
        return 0;
    heap_pull(pool, index);
    return heap_carve(pool, index, want);
}

static bool run_fits(const struct block *first, uint64_t bytes, const struct heap_want *want)
{
    uint64_t skip = -first->node.base & (want->align - 1);

    return skip + want->size <= bytes;
}

/* Free neighbours in one segment. */
struct run {
    uint32_t first, last;
    uint64_t bytes;
};

/* Drops from the left of a run that ends in `at` what is not needed. */
static void shorten_run(const struct pool *pool, const struct heap_want *want, uint32_t at,
        struct run *run) POOL_LOCKED
{
    while (run->first != at) {
        const struct block *left = heap_block(pool, run->first);

        if (!run_fits(heap_block(pool, left->next), run->bytes - left->node.size, want))
            return;
        run->bytes -= left->node.size;
        run->first = left->next;
    }
}

/* Improves on *best with the runs of one segment. */
static void best_run_in(const struct pool *pool, const struct segment *segment,
        const struct heap_want *want, bool any, struct run *best) POOL_LOCKED
{
    struct run run = {0};

    for (uint32_t at = segment->first; at; at = heap_block(pool, at)->next) {
        const struct block *block = heap_block(pool, at);

        if (block->state != BLOCK_FREE
                || !(any || !block->stream || block->stream == want->stream)) {
            run = (struct run){0};
            continue;
        }
        if (!run.first)
            run.first = at;
        run.last = at;
        run.bytes += block->node.size;
        shorten_run(pool, want, at, &run);
        if (run.bytes < best->bytes && run_fits(heap_block(pool, run.first), run.bytes, want))
            *best = run;
    }
}

/* Can there be a run at all? Most misses end here, without a look at each block. */
static bool may_have_run(const struct heap *heap, const struct heap_want *want, bool any)
{
    uint64_t clean = heap->clean.bytes + heap->crumbs.bytes;
    uint64_t of_streams = 0;

    for (const struct heap_stream *at = heap->streams; at; at = at->next) {
        if (any || at->stream == want->stream)
            of_streams += at->fit.bytes + at->crumbs.bytes;
    }
    /* Clean neighbours are one block already, and heap_take has looked at that. */
    if (!of_streams && want->align <= BESTFIT_QUANTUM)
        return false;
    return clean + of_streams >= want->size;
}

int heap_run(struct pool *pool, struct heap *heap, const struct heap_want *want, bool any,
        uint32_t *ret_first, uint32_t *ret_last)
{
    struct run best = {.bytes = UINT64_MAX};

    if (want->whole)
        return -ENOENT; /* in a segment of one class free neighbours are one block already */
    heap_settle(pool, heap);
    if (!may_have_run(heap, want, any))
        return -ENOENT;
    for (uint32_t number = heap->segments; number; number = heap_segment(pool, number)->next) {
        const struct segment *segment = heap_segment(pool, number);

        if (segment->kind != SEGMENT_HINT && !segment->small && !segment->sealed && !segment->dead)
            best_run_in(pool, segment, want, any, &best);
    }
    if (best.bytes == UINT64_MAX)
        return -ENOENT;
    *ret_first = best.first;
    *ret_last = best.last;
    return 0;
}

uint32_t heap_join_run(struct pool *pool, uint32_t first, uint32_t last)
{
    struct block *block = heap_block(pool, first);

    if (block->state == BLOCK_FREE)
        heap_pull(pool, first);
    while (first != last) {
        uint32_t next = block->next;
        struct block *other = heap_block(pool, next);

        if (other->state == BLOCK_FREE)
            heap_pull(pool, next);
        if (block->stream && other->stream && block->stream != other->stream)
            pool->counters.point_merges++;
        if (next == last)
            last = first;
        heap_join(pool, first);
    }
    return first;
}

/* Of one index of a stream. */
static uint32_t sweep(
        struct pool *pool, const struct heap_stream *at, const struct bestfit *fit) POOL_LOCKED
{
    uint64_t passed = heap_stream_at(pool, at->stream)->line.passed;
    uint32_t swept = 0;
    uint64_t size = 0;
    devptr_t base = 0;
    uint32_t index;

    while ((index = bestfit_lower_bound(fit, size, base)) != 0) {
        const struct block *block = heap_block(pool, index);

        size = block->node.size;
        base = block->node.base + 1;
        if (block->seq > passed)
            continue;
        heap_pull(pool, index);
        heap_block(pool, index)->last = (uint16_t)at->stream;
        (void)heap_put(pool, index, 0, 0);
        swept++;
    }
    return swept;
}

uint32_t heap_sweep(struct pool *pool, struct heap *heap)
{
    uint32_t swept = 0;

    heap_settle(pool, heap);
    for (struct heap_stream *at = heap->streams; at; at = at->next) {
        uint64_t passed = heap_stream_at(pool, at->stream)->line.passed;

        if (at->swept == passed)
            continue;
        at->swept = passed;
        swept += sweep(pool, at, &at->fit);
        swept += sweep(pool, at, &at->crumbs);
    }
    return swept;
}

/* ── books ── */

void heap_count_stored(struct heap *heap, int64_t by)
{
    heap->tally.stored += (uint64_t)by;
    heap->device->stored += (uint64_t)by;
}

void heap_count_reserved(struct heap *heap, int64_t by)
{
    heap->tally.reserved += (uint64_t)by;
    heap->device->reserved += (uint64_t)by;
    heap_raise(&heap->tally.reserved_high, heap->tally.reserved + heap->tally.native_reserved);
    heap_raise(&heap->device->reserved_high, heap->device->reserved);
}

void heap_count_pending(struct heap *heap, int64_t by)
{
    heap->tally.pending += (uint64_t)by;
}

void heap_count_kept(struct heap *heap, int64_t by)
{
    heap->tally.kept += (uint64_t)by;
    heap_raise(&heap->tally.kept_high, heap->tally.kept);
}

void heap_count_limbo(struct heap *heap, int64_t by)
{
    heap->tally.limbo += (uint64_t)by;
}

void heap_count_husk(struct heap *heap, int64_t by)
{
    heap->tally.husk += (uint64_t)by;
}

static void drop_heap_stream(struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED
{
    pool->last_class = NULL;
    for (struct heap_stream **link = &heap->streams; *link; link = &(*link)->next) {
        struct heap_stream *at = *link;

        if (at->stream != stream)
            continue;
        *link = at->next;
        meta_put(at, sizeof(*at));
        return; /* stream_count stays: it says how many there ever were */
    }
}

void heap_forget_streams(struct pool *pool)
{
    struct heap *heap;

    if (!pool->streams_gone)
        return;
    for (uint32_t i = 1; i < pool->streams.top; i++) {
        struct stream *stream = heap_stream_at(pool, i);

        if (stream->index != i || !stream->gone || stream->refs || stream->line.first)
            continue;
        for (heap = pool->heaps; heap; heap = heap->next)
            drop_heap_stream(pool, heap, i);
        for (heap = pool->leaving; heap; heap = heap->next_leaving)
            drop_heap_stream(pool, heap, i);
        stream->index = 0;
        slab_put(&pool->streams, i);
        pool->streams_gone--;
    }
}

/* ── shelves ── */

static struct shelf *shelf_of(const struct heap *heap, uint64_t size)
{
    return lookup_find(&heap->shelf_of, size);
}

static struct shelf *new_shelf(struct heap *heap, uint64_t size)
{
    struct shelf *shelf = meta_get(sizeof(*shelf));

    if (!shelf)
        return NULL;
    if (lookup_add(&heap->shelf_of, size, shelf) != 0) {
        meta_put(shelf, sizeof(*shelf));
        return NULL;
    }
    shelf->size = size;
    shelf->next = heap->shelves;
    heap->shelves = shelf;
    return shelf;
}

uint32_t heap_shelved(const struct heap *heap, uint64_t size)
{
    const struct shelf *shelf = shelf_of(heap, size);

    return shelf ? shelf->count : 0;
}

int heap_shelve(struct heap *heap, uint64_t size, uint64_t handle)
{
    struct shelf *shelf = shelf_of(heap, size);

    if (!shelf)
        shelf = new_shelf(heap, size);
    if (!shelf)
        return -ENOMEM;
    if (shelf->count == shelf->room) {
        uint32_t room = shelf->room ? shelf->room * 2 : 8;
        uint64_t *handles = meta_get(room * sizeof(*handles));

        if (!handles)
            return -ENOMEM;
        if (shelf->room)
            memcpy(handles, shelf->handles, shelf->count * sizeof(*handles));
        meta_put(shelf->handles, shelf->room * sizeof(*handles));
        shelf->handles = handles;
        shelf->room = room;
    }
    shelf->handles[shelf->count++] = handle;
    heap->tally.cached += size;
    return 0;
}

uint64_t heap_unshelve(struct heap *heap, uint64_t size)
{
    struct shelf *shelf = shelf_of(heap, size);

    if (!shelf || !shelf->count)
        return 0;
    heap->tally.cached -= size;
    return shelf->handles[--shelf->count];
}

/* ── chains and holders ── */

void heap_expect(struct pool *pool, uint32_t index)
{
    struct holder *holder = heap_holder(pool, index);
    uint32_t *head = &pool->due[holder->rule];

    holder->prev = 0;
    holder->next = *head;
    if (*head)
        heap_holder(pool, *head)->prev = index;
    *head = index;
}

void heap_unexpect(struct pool *pool, uint32_t index)
{
    struct holder *holder = heap_holder(pool, index);

    if (holder->prev)
        heap_holder(pool, holder->prev)->next = holder->next;
    else
        pool->due[holder->rule] = holder->next;
    if (holder->next)
        heap_holder(pool, holder->next)->prev = holder->prev;
    holder->prev = 0;
    holder->next = 0;
}

void heap_mark_released(struct pool *pool, const struct block *block, int by)
{
    granule_release(&pool->granules, block->node.base, block->node.size - block->slack, by);
    /* The count comes after the marks, and pairs with the acquire in pool_touch: who sees it sees them. */
    atomic_fetch_add_explicit(&pool->gate.released, (uint32_t)by, memory_order_seq_cst);
}

void heap_drop_holder(struct pool *pool, struct block *block)
{
    struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;

    if (!holder)
        return;
    if (holder->state == HOLDER_LIVE)
        heap_unexpect(pool, block->holder);
    if (holder_is_released(holder))
        heap_mark_released(pool, block, -1);
    slab_put(&pool->holders, block->holder);
    block->holder = 0;
}

/* ── ends ── */

void heap_free(struct pool *pool, struct heap *heap)
{
    pool->counters.allocs += heap->allocs;
    pool->counters.frees += heap->frees;
    pool->counters.misses += heap->misses;
    pool->last_class = NULL;
    while (heap->streams) {
        struct heap_stream *at = heap->streams;

        heap->streams = at->next;
        meta_put(at, sizeof(*at));
    }
    while (heap->shelves) {
        struct shelf *shelf = heap->shelves;

        heap->shelves = shelf->next;
        meta_put(shelf->handles, shelf->room * sizeof(*shelf->handles));
        meta_put(shelf, sizeof(*shelf));
    }
    lookup_done(&heap->shelf_of);
    meta_put(heap, sizeof(*heap));
}

/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/census.h"
#include "alloc/drive.h"
#include "alloc/heap.h"
#include "alloc/pin.h"
#include "alloc/reclaim.h"
#include "alloc/serve.h"
#include "alloc/trim.h"

#include <sched.h>
#include <string.h>

#define HEAPS_LOOK 64 /* heaps that pool_synchronised looks at in one call */
#define TRIM_LOOKS 64 /* at fences that a trim has just recorded */

enum frozen {
    FROZEN_NOT,
    FROZEN_PROCESS, /* the structures are sound, the driver is not to be called */
    FROZEN_CHILD,   /* a forked child: not even the structures may be trusted */
};

/* ── making one ── */

void pool_opts_init(struct pool_opts *opts)
{
    *opts = (struct pool_opts){
            .quantum =
                    512, /* what frameworks assume of cudaMalloc, more than the 256 that is promised */
            .large = GRANULE_SIZE,
            .align_large = GRANULE_SIZE,
            /* On real training steps 2 MiB would cost the stream entrance 5 to 14 % of what it holds. */
            .align_stream = 512,
            /* On real training steps 1.05 x is held of what native allocations would hold, for a tenth of their driver calls. */
            .cut = 2,
            /* Small blocks live apart, so that a forgotten few bytes do not hold a large segment. */
            .small = UINT64_C(1) << 20,
            .small_chunk = GRANULE_SIZE, /* the driver's own page: less would hold as much */
            /* Exact segments: a segment that holds one block can be given back when that dies, which keeps what is held near
         * what is live; larger ones were not better on real traces (0.904 against 0.906). */
            .chunk = 0,
            .handle =
                    GRANULE_SIZE, /* the smallest: what is free can be moved in the smallest pieces */
            .epoch_bytes = UINT64_C(64) << 20, /* a fence costs microseconds, so does asking it; */
            .epoch_count = 128,                /* spread over so many frees it disappears */
            .fence_timeout_ms = 5000,
    };
}

static bool is_power(uint64_t n)
{
    return n && !(n & (n - 1));
}

static int check_opts(const struct pool_opts *opts)
{
    if (!is_power(opts->quantum) || opts->quantum < BESTFIT_QUANTUM || opts->quantum > GRANULE_SIZE
            || !is_power(opts->align_large) || opts->align_large > GRANULE_SIZE
            || !is_power(opts->align_stream) || opts->align_stream > GRANULE_SIZE || opts->cut == 0
            || opts->small > opts->large || opts->epoch_count == 0 || !is_power(opts->handle))
        return -EINVAL;
    return 0;
}

int pool_new(const struct driver *driver, const struct pool_opts *opts, struct pool **ret_pool)
{
    struct pool *pool;
    int r = check_opts(opts);

    if (r != 0)
        return r;
    pool = meta_map(sizeof(*pool));
    if (!pool)
        return -ENOMEM;
    pool->driver = *driver;
    pool->opts = *opts;
    lock_init(&pool->lock, LOCK_RANK_POOL);
    for (int i = 0; i < POOL_DEVICES_MAX; i++)
        pool->devices[i].number = i;
    r = slab_init(&pool->blocks, sizeof(struct block), BLOCKS_MAX);
    if (r == 0)
        r = slab_init(&pool->segments, sizeof(struct segment), SEGMENTS_MAX);
    if (r == 0)
        r = slab_init(&pool->holders, sizeof(struct holder), HOLDERS_MAX);
    if (r == 0)
        r = slab_init(&pool->streams, sizeof(struct stream), STREAMS_MAX);
    if (r == 0)
        r = granule_init(&pool->granules);
    /* Record 0 of each is read, never written: it must be there. */
    if (r == 0
            && (slab_prepare(&pool->blocks, 1) != 0 || slab_prepare(&pool->segments, 1) != 0
                    || slab_prepare(&pool->holders, 1) != 0
                    || slab_prepare(&pool->streams, 1) != 0))
        r = -ENOMEM;
    if (r != 0) {
        pool_free_all(pool);
        return r;
    }
    *ret_pool = pool;
    return 0;
}

static void free_line(struct pool *pool, struct fence_line *line)
{
    struct fence_mark *mark;
    uint64_t fence;
    bool put;

    while ((mark = fence_pass(line, UINT64_MAX)) != NULL) {
        if (fence_drop(mark, &fence, &put) && put)
            drive_fence_put(pool, fence);
    }
}

static void free_lists(struct pool *pool)
{
    for (uint32_t i = 1; i < pool->streams.top; i++)
        free_line(pool, &((struct stream *)heap_stream_at(pool, i))->line);
    free_line(pool, &pool->epochs);
    while (pool->grace_first) {
        struct grace *grace = pool->grace_first;

        pool->grace_first = grace->next;
        meta_put(grace, sizeof(*grace));
    }
    while (pool->news_first) {
        struct news *news = pool->news_first;

        pool->news_first = news->next;
        meta_put(news, sizeof(*news));
    }
    lookup_done(&pool->stream_of);
    pin_done(pool);
    for (int i = 0; i < HEAP_KIND_COUNT; i++)
        lookup_done(&pool->heap_of[i]);
    if (pool->due)
        meta_put(pool->due, (hint_count(pool->hints) + 1) * sizeof(*pool->due));
}

/* Alone inside, so what is shared is read without the lock. */
void pool_free_all(struct pool *pool) TSA(no_thread_safety_analysis)
{
    struct heap *heap;

    if (!pool)
        return;
    while (pool->heaps)
        heap_retire(pool, pool->heaps);
    while (pool->leaving) {
        heap = pool->leaving;
        pool->leaving = heap->next_leaving;
        trim_whole_heap(pool, heap);
    }
    if (pool->streams.span.base)
        free_lists(pool);
    slab_done(&pool->blocks);
    slab_done(&pool->segments);
    slab_done(&pool->holders);
    slab_done(&pool->streams);
    granule_done(&pool->granules);
    meta_unmap(pool, sizeof(*pool));
}

int pool_set_hints(struct pool *pool, const struct hints *hints)
{
    uint32_t *due = meta_get((hint_count(hints) + 1) * sizeof(*due));
    int r = 0;

    if (!due)
        return -ENOMEM;
    lock_take(&pool->lock);
    if (pool->hints) {
        r = -EEXIST;
    } else {
        pool->hints = hints;
        pool->due = due;
    }
    lock_drop(&pool->lock);
    if (r != 0)
        meta_put(due, (hint_count(hints) + 1) * sizeof(*due));
    return r;
}

/* ── allocation ── */

int pool_alloc(struct pool *pool, const struct pool_request *request, struct outcome *ret)
{
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return -EAGAIN;
    if (request->size == 0 || request->owner == 0 || request->device < 0
            || request->device >= POOL_DEVICES_MAX)
        return -EINVAL;
    return serve_request(pool, request, ret);
}

/* ── free ── */

/* The block is not the program's any more: told and counted. Where it goes now is the caller's. */
static inline void tell_death(struct pool *pool, struct heap *heap, const struct block *block,
        uint64_t stream, struct outcome *ret) POOL_LOCKED
{
    *ret = (struct outcome){
            .kind = OUTCOME_FREE,
            .heap = heap->kind,
            .ptr = block->node.base,
            .size = block->node.size - block->slack,
            .rounded = block->node.size,
            .seq = heap_seq(pool),
            .alloc_seq = block->seq,
            .stream = stream,
            .reserved = heap->device->reserved,
            .rule = -1,
            .device = heap->device->number,
    };
    heap_count_death(pool, block);
    heap->frees++;
}

/* The storage of a hinted block is on its way out: the free is noted, the release goes its way (holder.h). */
static bool is_on_its_way(struct pool *pool, struct block *block) POOL_LOCKED
{
    struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;

    if (!holder || holder->mode == HINT_SHADOW
            || (holder->state != HOLDER_DEAD && holder->state != HOLDER_LIMBO))
        return false;
    heap_mark_released(pool, block, -1);
    (void)holder_step(holder, HOLDER_EVENT_FREE);
    block->state = BLOCK_PENDING;
    return true;
}

static void keep(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);

    heap_count_kept(heap_segment_of(pool, block)->heap, (int64_t)block->node.size);
    block->state = BLOCK_KEPT;
}

static void let_go(struct pool *pool, const struct block *block, struct outcome *ret) POOL_LOCKED
{
    const struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;
    const struct stream *stream = heap_stream_at(pool, block->stream);

    tell_death(
            pool, heap_segment_of(pool, block)->heap, block, block->stream ? stream->key : 0, ret);
    if (holder) {
        ret->rule = holder->rule;
        ret->mode = holder->mode;
    }
    if (block->flags & BLOCK_HINTED)
        ret->how = OUTCOME_HINTED;
}

/* A block that its holder lets go: the program's free came before the edge, or after everything was gone. */
static void leave_holder(struct pool *pool, struct block *block) POOL_LOCKED
{
    const struct holder *holder = heap_holder(pool, block->holder);

    if (holder->mode != HINT_SHADOW && holder->state == HOLDER_HUSK) {
        heap_count_husk(heap_segment_of(pool, block)->heap, -(int64_t)block->node.size);
        if (holder->mode == HINT_LIVE)
            block->flags |= BLOCK_GONE;
    }
    heap_drop_holder(pool, block);
}

/* The stream whose order the free keeps, 0 = it goes through an epoch. */
static uint32_t stream_of_free(struct pool *pool, const struct block *block,
        const struct pool_free_request *request) POOL_LOCKED
{
    struct heap *heap = heap_segment_of(pool, block)->heap;
    uint32_t stream;

    if (request->entrance != ENTRANCE_STREAM || request->stream == 0 || heap->kind != HEAP_MAPPED
            || block->flags & BLOCK_HINTED)
        return 0;
    stream = heap_stream_index(pool, request->stream);
    return stream && heap_prepare_stream(pool, heap, stream) ? stream : 0;
}

static void put_on_stream(
        struct pool *pool, uint32_t index, uint32_t number, uint64_t point) POOL_LOCKED
{
    struct stream *stream = heap_stream_at(pool, number);

    if (point > stream->newest)
        stream->newest = point;
    heap_put_recent(pool, index, number, point);
}

/* The event of the free is recorded at once (R71, R69): later it would cover more than it must, or could not be. */
static __attribute__((noinline)) void record_and_put(
        struct pool *pool, struct heap *heap, uint32_t index, uint32_t stream)
{
    uint64_t number = 0;
    int r = reclaim_record(pool, stream, &number);

    lock_take(&pool->lock);
    heap->busy--;
    if (heap_segment_of(pool, heap_block(pool, index))->dead)
        heap_block(pool, index)->state = BLOCK_KEPT;
    else if (r == 0)
        put_on_stream(pool, index, stream, number);
    else if (r == -EBUSY || r == -ENOMEM || r == -ECANCELED)
        put_on_stream(pool, index, stream, fence_next(&heap_stream_at(pool, stream)->line));
    else
        heap_push_open(pool, index);
    lock_drop(&pool->lock);
}

/* What a free does under the lock; returns the stream on which an event must be recorded now, 0 = all is done. */
static __attribute__((noinline)) uint32_t free_locked(struct pool *pool, uint32_t index,
        const struct pool_free_request *request, struct outcome *ret) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    struct heap *heap = heap_segment_of(pool, block)->heap;
    uint32_t stream;

    let_go(pool, block, ret);
    if (is_on_its_way(pool, block))
        return 0;
    if (block->holder)
        leave_holder(pool, block);
    if (request->quarantine) {
        pin_forget(pool, index);
        keep(pool, index);
        return 0;
    }
    if (pin_keep(pool, index))
        return 0;
    stream = stream_of_free(pool, block, request);
    if (!stream) {
        heap_push_open(pool, index);
        return 0;
    }
    if (request->may_fence && (request->record_now || stream != block->stream)) {
        block->state = BLOCK_BUSY;
        heap->busy++;
        return stream;
    }
    put_on_stream(pool, index, stream, fence_next(&heap_stream_at(pool, stream)->line));
    return 0;
}

/* The common cases, without a look at anything that they do not need: an ordinary block that goes to the open epoch, or
 * back to the stream that allocated it. False: nothing has happened, go the long way. */
static inline bool free_quickly(struct pool *pool, struct heap *heap, uint32_t index,
        const struct pool_free_request *request, struct outcome *ret) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    struct stream *stream = pool->last_stream;

    if (block->holder || request->quarantine || block->flags & (BLOCK_HINTED | BLOCK_PINNED))
        return false;
    if (heap->kind == HEAP_PLAIN) {
        tell_death(pool, heap, block, 0, ret);
        heap_push_open(pool, index);
        return true;
    }
    if (!stream || stream->index != block->stream || stream->key != request->stream
            || request->entrance != ENTRANCE_STREAM || request->record_now
            || !heap_prepare_stream(pool, heap, stream->index))
        return false;
    tell_death(pool, heap, block, stream->key, ret);
    put_on_stream(pool, index, stream->index, fence_next(&stream->line));
    return true;
}

/* In a child nothing but the granules may be looked at; else a block that was not freed is told from the rest. The driver
 * may say what the others are, unless it would take the address for a segment of ours. */
static int find_frozen(struct pool *pool, devptr_t ptr)
{
    uint32_t number = granule_segment(&pool->granules, ptr);
    const struct segment *segment;
    uint32_t index;
    int r = 0;

    if (!number)
        return -ENOENT;
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return 0;
    lock_take(&pool->lock);
    number = granule_segment(&pool->granules, ptr);
    segment = heap_segment(pool, number);
    index = number ? starts_at(&segment->starts, ptr - segment->base) : 0;
    if (!index || heap_block(pool, index)->state != BLOCK_LIVE)
        r = number && ptr == segment->raw_base ? -EINVAL : -ENOENT;
    lock_drop(&pool->lock);
    return r;
}

static __attribute__((noinline)) int free_frozen(
        struct pool *pool, devptr_t ptr, struct outcome *ret)
{
    int r = find_frozen(pool, ptr);

    if (r == 0)
        *ret = (struct outcome){.kind = OUTCOME_FREE, .ptr = ptr, .rule = -1};
    return r;
}

int pool_free(struct pool *pool, devptr_t ptr, const struct pool_free_request *request,
        struct outcome *ret)
{
    const struct segment *segment;
    struct heap *heap = NULL;
    uint32_t number, index;
    uint32_t stream = 0;
    int r = 0;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return free_frozen(pool, ptr, ret);
    lock_take(&pool->lock);
    number = granule_segment(&pool->granules, ptr);
    if (!number) {
        lock_drop(&pool->lock);
        return -ENOENT;
    }
    segment = heap_segment(pool, number);
    index = starts_at(&segment->starts, ptr - segment->base);
    if (index && heap_block(pool, index)->state == BLOCK_LIVE) {
        heap = segment->heap;
        if (!free_quickly(pool, heap, index, request, ret))
            stream = free_locked(pool, index, request, ret);
    } else {
        pool->counters.bad_frees++;
        r = -EINVAL;
    }
    lock_drop(&pool->lock);
    if (stream)
        record_and_put(pool, heap, index, stream);
    return r;
}

/* ── looking up ── */

static void fill_segment(struct pool *pool, const struct block *block, devptr_t ptr,
        struct block_info *ret) POOL_LOCKED
{
    const struct segment *segment = heap_segment_of(pool, block);

    ret->segment_tenants = segment->tenants;
    ret->context = segment->context;
    ret->mapped = segment->kind != SEGMENT_PLAIN;
    switch (segment->kind) {
    case SEGMENT_PLAIN:
        ret->segment_base = segment->raw_base;
        ret->segment_size = segment->raw_size;
        break;
    case SEGMENT_ARENA:
        ret->segment_base = ptr & ~(segment->slot - 1);
        ret->segment_size = segment->slot;
        break;
    case SEGMENT_HINT:
        ret->segment_base = block->node.base;
        ret->segment_size = block->node.size;
        break;
    }
}

static void fill_info(struct pool *pool, const struct block *block, devptr_t ptr,
        struct block_info *ret) POOL_LOCKED
{
    const struct heap *heap = heap_segment_of(pool, block)->heap;
    const struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;

    *ret = (struct block_info){
            .heap = heap->kind,
            .owner = heap->owner,
            .base = block->node.base,
            .rounded = block->node.size,
            .state = HOLDER_GONE,
            .rule = -1,
            .device = heap->device->number,
    };
    fill_segment(pool, block, ptr, ret);
    if (block->state != BLOCK_LIVE)
        return;
    ret->size = block->node.size - block->slack;
    ret->state = holder ? holder->state : HOLDER_LIVE;
    ret->mode = holder ? holder->mode : HINT_OFF;
    ret->rule = holder ? holder->rule : -1;
    ret->stream = block->stream ? heap_stream_at(pool, block->stream)->key : 0;
    ret->alloc_seq = block->seq;
}

int pool_find(struct pool *pool, devptr_t ptr, struct block_info *ret)
{
    uint32_t index;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return -EAGAIN;
    if (!granule_segment(&pool->granules, ptr))
        return -ENOENT; /* most addresses that are asked for are not ours: no lock for them */
    lock_take(&pool->lock);
    index = heap_find(pool, ptr);
    if (index)
        fill_info(pool, heap_block(pool, index), ptr, ret);
    lock_drop(&pool->lock);
    return index ? 0 : -ENOENT;
}

/* Free blocks of a segment leave the index that requests look into for the one that they do not. Those that are freed
 * later go there by themselves (heap_put). */
static void seal(struct pool *pool, struct segment *segment) POOL_LOCKED
{
    uint32_t pulled = 0;

    heap_settle(pool, segment->heap);
    for (uint32_t at = segment->first; at; at = heap_block(pool, at)->next) {
        struct block *block = heap_block(pool, at);

        if (block->state != BLOCK_FREE)
            continue;
        heap_pull(pool, at);
        block->chain = pulled;
        pulled = at;
    }
    segment->sealed = true;
    while (pulled) {
        struct block *block = heap_block(pool, pulled);
        uint32_t next = block->chain;

        block->chain = 0;
        (void)heap_put(pool, pulled, block->stream, block->seq);
        pulled = next;
    }
}

static int export_locked(struct pool *pool, devptr_t ptr) POOL_LOCKED
{
    uint32_t index = heap_find(pool, ptr);
    struct segment *segment;
    struct block *block;

    if (!index)
        return -ENOENT;
    block = heap_block(pool, index);
    segment = heap_segment_of(pool, block);
    if (segment->kind != SEGMENT_PLAIN || block->state != BLOCK_LIVE || block->node.base != ptr)
        return -EINVAL;
    if (segment->raw_base != ptr || segment->tenants != 1)
        return -EBUSY;
    if (!segment->sealed)
        seal(pool, segment);
    return 0;
}

int pool_export(struct pool *pool, devptr_t ptr)
{
    int r;

    if (!granule_segment(&pool->granules, ptr))
        return -ENOENT;
    lock_take(&pool->lock);
    r = export_locked(pool, ptr);
    lock_drop(&pool->lock);
    return r;
}

/* ── hints ── */

/* What one edge has found. */
struct edge_walk {
    const struct edge *edge;
    struct outcome *ret;
    size_t max;
    size_t count;
    uint32_t dead; /* chain of holders marked dead */
};

static void note_edge(struct pool *pool, struct edge_walk *walk, const struct holder *holder,
        enum outcome_kind kind, uint32_t how) POOL_LOCKED
{
    const struct block *block = heap_block(pool, holder->block);
    const struct heap *heap = heap_segment_of(pool, block)->heap;
    struct outcome *ret = &walk->ret[walk->count++];

    *ret = (struct outcome){
            .kind = kind,
            .heap = heap->kind,
            .ptr = block->node.base,
            .size = block->node.size - block->slack,
            .rounded = block->node.size,
            .seq = heap_seq(pool),
            .alloc_seq = block->seq,
            .stream = block->stream ? heap_stream_at(pool, block->stream)->key : 0,
            .reserved = heap->device->reserved,
            .rule = holder->rule,
            .how = how | (block->flags & BLOCK_HINTED ? OUTCOME_HINTED : 0),
            .device = heap->device->number,
            .mode = holder->mode,
    };
}

/* The storage of a due block stays: its hint is told so, and expects nothing more of it. */
static bool is_refused(struct pool *pool, struct edge_walk *walk, uint32_t index) POOL_LOCKED
{
    const struct holder *holder = heap_holder(pool, index);
    struct block *block = heap_block(pool, holder->block);
    bool pinned = block->flags & BLOCK_PINNED;

    if (!pinned && hint_may(pool->hints, holder->rule, holder->mode))
        return false;
    note_edge(pool, walk, holder, OUTCOME_REFUSED, pinned ? OUTCOME_PINNED : 0);
    heap_drop_holder(pool, block);
    return true;
}

/* One block is due: in shadow on paper, else its range is dead from here on. */
static void release(struct pool *pool, struct edge_walk *walk, uint32_t index) POOL_LOCKED
{
    struct holder *holder = heap_holder(pool, index);
    const struct block *block = heap_block(pool, holder->block);
    struct heap *heap = heap_segment_of(pool, block)->heap;
    uint64_t requested = block->node.size - block->slack;

    if (is_refused(pool, walk, index))
        return;
    heap_unexpect(pool, index);
    (void)holder_step(holder, HOLDER_EVENT_DUE);
    heap_mark_released(pool, block, 1);
    note_edge(
            pool, walk, holder, holder->mode == HINT_SHADOW ? OUTCOME_SHADOW : OUTCOME_RELEASE, 0);
    if (holder->mode == HINT_SHADOW) {
        (void)holder_step(holder, HOLDER_EVENT_QUIET);
        (void)holder_step(holder, HOLDER_EVENT_REMOVED);
        pool->counters.shadow_count++;
        pool->counters.shadow_bytes += requested;
        return;
    }
    heap_count_stored(heap, -(int64_t)block->node.size);
    heap_count_limbo(heap, (int64_t)block->node.size);
    pool->counters.released_count++;
    pool->counters.released_bytes += requested;
    holder->next = walk->dead;
    walk->dead = index;
}

static void walk_rule(struct pool *pool, struct edge_walk *walk, size_t rule) POOL_LOCKED
{
    bool matches = hint_edge_matches(hint_rule(pool->hints, (int)rule), walk->edge);
    uint32_t next;

    for (uint32_t at = pool->due[rule]; at && walk->count < walk->max; at = next) {
        const struct holder *holder = heap_holder(pool, at);

        next = holder->next;
        if (holder->due_anchor ? holder->due_anchor == walk->edge->anchor : matches)
            release(pool, walk, at);
    }
}

int pool_edge(struct pool *pool, const struct edge *edge, struct outcome *ret, size_t max,
        size_t *ret_count)
{
    struct edge_walk walk = {.edge = edge, .ret = ret, .max = max};
    struct grace *grace = NULL;
    int r = 0;

    *ret_count = 0;
    if (!pool_is_armed(pool) || atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return 0;
    grace = meta_get(sizeof(*grace)); /* first: what is marked must be able to go on */
    if (!grace)
        return -ENOMEM;
    lock_take(&pool->lock);
    for (size_t rule = 0; pool->due && rule < hint_count(pool->hints); rule++) {
        if (pool->due[rule] && hint_rule(pool->hints, (int)rule)->when.kind == edge->kind)
            walk_rule(pool, &walk, rule);
    }
    lock_drop(&pool->lock);
    *ret_count = walk.count;
    if (walk.dead)
        reclaim_grace(pool, grace, walk.dead);
    else
        meta_put(grace, sizeof(*grace));
    return r;
}

static void fill_hit(const struct block *block, const struct holder *holder, struct pool_hit *ret)
{
    *ret = (struct pool_hit){
            .base = block->node.base,
            .size = block->node.size - block->slack,
            .alloc_seq = block->seq,
            .rule = holder->rule,
            .state = holder->state,
            .mode = holder->mode,
    };
}

/* The first released block in the range, if any. */
static int touch_locked(
        struct pool *pool, devptr_t lo, uint64_t len, struct pool_hit *ret) POOL_LOCKED
{
    devptr_t at = lo;

    while (at - lo < len) {
        uint32_t index = heap_find(pool, at);
        const struct block *block = heap_block(pool, index);
        const struct holder *holder;

        if (!index) {
            at = (at | (GRANULE_SIZE - 1)) + 1; /* a segment fills its granules */
            continue;
        }
        holder = block->holder && block->state == BLOCK_LIVE ? heap_holder(pool, block->holder)
                                                             : NULL;
        if (holder && holder_is_released(holder)
                && at - block->node.base < block->node.size - block->slack) {
            fill_hit(block, holder, ret);
            return 1;
        }
        at = block->node.base + block->node.size;
    }
    return 0;
}

int pool_touch_slow(struct pool *pool, devptr_t lo, uint64_t len, struct pool_hit *ret)
{
    int r;

    if (len == 0 || lo + len < lo
            || atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD
            || !granule_is_released(&pool->granules, lo, len))
        return 0;
    lock_take(&pool->lock);
    r = touch_locked(pool, lo, len, ret);
    lock_drop(&pool->lock);
    return r;
}

/* ── pins ── */

/* The first block in the range that the program holds, 0 = none. */
static uint32_t first_live(struct pool *pool, devptr_t lo, uint64_t len) POOL_LOCKED
{
    devptr_t at = lo;

    while (at - lo < len) {
        uint32_t index = heap_find(pool, at);
        const struct block *block = heap_block(pool, index);

        if (!index)
            at = (at | (GRANULE_SIZE - 1)) + 1;
        else if (block->state == BLOCK_LIVE
                && at - block->node.base < block->node.size - block->slack)
            return index;
        else
            at = block->node.base + block->node.size;
    }
    return 0;
}

static int pin_locked(struct pool *pool, uint32_t index, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit) POOL_LOCKED
{
    const struct block *block = heap_block(pool, index);
    const struct holder *holder = block->holder ? heap_holder(pool, block->holder) : NULL;

    if (holder && holder->mode != HINT_SHADOW && holder_is_released(holder)) {
        fill_hit(block, holder, ret_hit);
        return -EBUSY;
    }
    *ret = (struct pool_pinned){
            .base = block->node.base,
            .alloc_seq = block->seq,
            .end = block->node.base + block->node.size,
            .size = block->node.size - block->slack,
            .rule = holder ? holder->rule : -1,
            .device = heap_segment_of(pool, block)->heap->device->number,
            .first = pin_count(pool, index, kind) == 0,
    };
    return pin_add(pool, index, kind);
}

/* Most addresses that are asked about lie in memory that is not ours: no lock for them. */
static bool is_foreign(const struct pool *pool, devptr_t lo, uint64_t len)
{
    return len == 0 || lo + len < lo
            || atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD
            || (!granule_segment(&pool->granules, lo)
                    && !granule_segment(&pool->granules, lo + len - 1));
}

int pool_pin(struct pool *pool, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit)
{
    int r = -ENOENT;
    uint32_t index;

    if (is_foreign(pool, lo, len))
        return -ENOENT;
    lock_take(&pool->lock);
    index = first_live(pool, lo, len);
    if (index)
        r = pin_locked(pool, index, kind, ret, ret_hit);
    lock_drop(&pool->lock);
    return r;
}

/* The pinned block that was called so when it was pinned, 0 = it is gone. */
static uint32_t find_pinned(struct pool *pool, devptr_t base, uint64_t alloc_seq) POOL_LOCKED
{
    uint32_t index = heap_find(pool, base);
    const struct block *block = heap_block(pool, index);

    return index && block->node.base == base && block->seq == alloc_seq
                    && block->flags & BLOCK_PINNED
            ? index
            : 0;
}

int pool_repin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind)
{
    uint32_t index;
    int r = -ENOENT;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return -ENOENT;
    lock_take(&pool->lock);
    index = find_pinned(pool, base, alloc_seq);
    if (index)
        r = pin_add(pool, index, kind);
    lock_drop(&pool->lock);
    return r;
}

void pool_unpin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind)
{
    uint32_t index;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return;
    lock_take(&pool->lock);
    index = find_pinned(pool, base, alloc_seq);
    if (index)
        pin_remove(pool, index, kind);
    lock_drop(&pool->lock);
}

/* ── progress, trim, ends ── */

int pool_poll(struct pool *pool, bool may_fence, struct outcome *ret, size_t max, size_t *ret_count)
{
    struct news *news;
    size_t count = 0;
    int r = 0;

    *ret_count = 0;
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return 0;
    if (may_fence)
        r = reclaim_poll(pool, false);
    while (count < max) {
        lock_take(&pool->lock);
        news = pool->news_first;
        if (news) {
            pool->news_first = news->next;
            if (!news->next)
                pool->news_last = NULL;
            atomic_fetch_sub_explicit(&pool->gate.news, 1, memory_order_relaxed);
        }
        lock_drop(&pool->lock);
        if (!news)
            break;
        ret[count++] = news->outcome;
        meta_put(news, sizeof(*news));
    }
    *ret_count = count;
    return r;
}

/* The heap of a key with a hold on it, or NULL. */
static struct heap *hold_heap(struct pool *pool, enum heap_kind kind, uint64_t owner)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, kind, owner, -1);
    if (heap)
        heap->busy++;
    lock_drop(&pool->lock);
    return heap;
}

static void let_heap_go(struct pool *pool, struct heap *heap)
{
    lock_take(&pool->lock);
    heap->busy--;
    lock_drop(&pool->lock);
}

/* Is something of the heap free but for a fence? */
static bool is_waiting(struct pool *pool, const struct heap *heap)
{
    bool waiting;

    lock_take(&pool->lock);
    waiting = heap->tally.pending > 0;
    for (const struct heap_stream *at = heap->streams; at && !waiting; at = at->next)
        waiting = at->fit.count > 0;
    lock_drop(&pool->lock);
    return waiting;
}

/* A program that trims has mostly synchronised before, but the fences that say so to us are recorded only now, and take
 * some microseconds to arrive on an idle device. */
static void look_at_fences(struct pool *pool, struct heap *heap)
{
    for (int i = 0; i < TRIM_LOOKS; i++) {
        (void)reclaim_poll(pool, true);
        (void)reclaim_points(pool, heap, 0);
        if (!is_waiting(pool, heap))
            return;
        (void)sched_yield();
    }
}

int pool_trim(struct pool *pool, enum heap_kind kind, uint64_t owner, uint64_t keep_bytes,
        uint64_t *ret_bytes)
{
    struct heap *heap = hold_heap(pool, kind, owner);
    uint64_t held;

    if (!heap)
        return -ENOENT;
    look_at_fences(pool, heap);
    lock_take(&pool->lock);
    held = heap->tally.reserved;
    lock_drop(&pool->lock);
    *ret_bytes = held > keep_bytes ? trim_heap(pool, heap, held - keep_bytes, true) : 0;
    let_heap_go(pool, heap);
    return 0;
}

/* Up to HEAPS_LOOK heaps that hold more than their release threshold, each with a hold on it. */
static size_t hold_heaps_over(struct pool *pool, struct heap *list[HEAPS_LOOK])
{
    size_t count = 0;

    lock_take(&pool->lock);
    for (struct heap *heap = pool->heaps; heap && count < HEAPS_LOOK; heap = heap->next) {
        if (heap->kind != HEAP_MAPPED || heap->tally.reserved <= heap->attrs.release_threshold)
            continue;
        heap->busy++;
        list[count++] = heap;
    }
    lock_drop(&pool->lock);
    return count;
}

uint64_t pool_trim_device(struct pool *pool, int device, bool may_wait)
{
    if (device < 0 || atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return 0;
    (void)reclaim_poll(pool, true);
    while (may_wait && reclaim_wait(pool) == 0)
        ;
    if (may_wait)
        reclaim_wait_device_points(pool, device);
    (void)reclaim_device_points(pool, device);
    return trim_device(pool, device, UINT64_MAX);
}

/* What is free on any device, once what has passed is known to be free. */
static void trim_all(struct pool *pool)
{
    (void)reclaim_poll(pool, true);
    for (int device = 0; device < POOL_DEVICES_MAX; device++) {
        bool any;

        lock_take(&pool->lock);
        any = pool->devices[device].reserved > 0;
        lock_drop(&pool->lock);
        if (any)
            (void)trim_device(pool, device, UINT64_MAX);
    }
}

void pool_synchronised(struct pool *pool)
{
    struct heap *list[HEAPS_LOOK];
    size_t count;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed)
            || pool->opts.trim == POOL_TRIM_NEVER)
        return;
    if (pool->opts.trim == POOL_TRIM_EAGER)
        trim_all(pool);
    count = hold_heaps_over(pool, list);
    for (size_t i = 0; i < count; i++) {
        uint64_t keep_bytes, bytes;

        lock_take(&pool->lock);
        keep_bytes = list[i]->attrs.release_threshold;
        lock_drop(&pool->lock);
        (void)pool_trim(pool, HEAP_MAPPED, list[i]->owner, keep_bytes, &bytes);
        let_heap_go(pool, list[i]);
    }
}

static void stream_gone(struct pool *pool, uint64_t stream_key, bool may_record)
{
    struct stream *stream;
    uint64_t number;
    uint32_t index = 0;
    bool needed = false;
    int r = 0;

    lock_take(&pool->lock);
    stream = lookup_find(&pool->stream_of, stream_key);
    if (stream) {
        index = stream->index;
        needed = stream->newest > stream->line.begun;
    }
    lock_drop(&pool->lock);
    if (!stream)
        return;
    if (needed)
        r = may_record ? reclaim_record(pool, index, &number) : -ENOENT;
    lock_take(&pool->lock);
    if (lookup_find(&pool->stream_of, stream_key) == stream) {
        if (r != 0)
            reclaim_lose_stream(pool, index);
        lookup_remove(&pool->stream_of, stream_key);
        pool->last_stream = NULL;
        stream->gone = true;
        pool->streams_gone++;
        heap_forget_streams(pool);
    }
    lock_drop(&pool->lock);
}

void pool_stream_gone(struct pool *pool, uint64_t stream_key)
{
    stream_gone(pool, stream_key, true);
}

void pool_stream_lost(struct pool *pool, uint64_t stream_key)
{
    stream_gone(pool, stream_key, false);
}

/* A mapped heap without VMM has plain segments of several contexts: those of the dead one go. */
static void kill_segments_of(struct pool *pool, struct heap *heap, uint64_t context) POOL_LOCKED
{
    uint32_t next;

    for (uint32_t number = heap->segments; number; number = next) {
        const struct segment *segment = heap_segment(pool, number);

        next = segment->next;
        if (segment->kind != SEGMENT_PLAIN || segment->context != context || segment->dead)
            continue;
        heap_count_reserved(heap, -(int64_t)segment->raw_size);
        heap_kill_segment(pool, number);
        if (!heap->busy)
            heap_remove_segment(pool, number); /* else the records stay until the heap goes */
    }
}

/* Work of the context may use its mapped memory to the end, so that is not given back before. */
static void leave_with_context(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    for (uint32_t at = heap->segments; at; at = heap_segment(pool, at)->next)
        heap_kill_segment(pool, at);
    heap->dropped = true;
    if (heap->kind == HEAP_PRIVATE) {
        heap->held = true;
        heap->busy++;
    }
    heap_retire(pool, heap);
}

static void hide_segments(
        struct pool *pool, struct heap *heap, uint64_t context, bool hidden) POOL_LOCKED
{
    for (uint32_t number = heap->segments; number; number = heap_segment(pool, number)->next) {
        struct segment *segment = heap_segment(pool, number);

        if (segment->kind != SEGMENT_PLAIN || segment->context != context || segment->dead)
            continue;
        if (hidden)
            granule_clear(&pool->granules, segment->base, segment->top, number);
        else
            granule_set(&pool->granules, segment->base, segment->top, number);
    }
}

void pool_context_hide(struct pool *pool, uint64_t context, bool hidden)
{
    lock_take(&pool->lock);
    if (hidden)
        pool->contexts_gone++; /* memory that is got meanwhile is not taken in */
    for (struct heap *heap = pool->leaving; heap; heap = heap->next_leaving)
        hide_segments(pool, heap, context, hidden);
    for (struct heap *heap = pool->heaps; heap; heap = heap->next)
        hide_segments(pool, heap, context, hidden);
    lock_drop(&pool->lock);
}

void pool_context_going(struct pool *pool, uint64_t context)
{
    struct heap *heap, *next;

    lock_take(&pool->lock);
    pool->contexts_gone++;
    for (heap = pool->leaving; heap; heap = heap->next_leaving)
        kill_segments_of(pool, heap, context);
    for (heap = pool->heaps; heap; heap = next) {
        next = heap->next;
        if (heap->kind == HEAP_MAPPED)
            kill_segments_of(pool, heap, context);
        else if (heap->owner == context)
            leave_with_context(pool, heap);
    }
    lock_drop(&pool->lock);
}

void pool_context_gone(struct pool *pool, uint64_t context)
{
    pool_context_going(pool, context); /* again: something may have come in between */
    lock_take(&pool->lock);
    for (struct heap *heap = pool->leaving; heap; heap = heap->next_leaving) {
        if (!heap->held || heap->owner != context)
            continue;
        heap->held = false;
        heap->busy--;
    }
    lock_drop(&pool->lock);
    reclaim_leaving(pool);
}

void pool_foreign(struct pool *pool, devptr_t ptr, uint64_t size)
{
    for (devptr_t at = ptr; at - ptr < size; at = (at | (GRANULE_SIZE - 1)) + 1) {
        uint32_t number;

        if (!granule_segment(&pool->granules, at))
            continue; /* nearly always: no lock for that */
        lock_take(&pool->lock);
        number = granule_segment(&pool->granules, at);
        if (number && heap_segment(pool, number)->kind == SEGMENT_PLAIN)
            granule_clear(&pool->granules, at, 1, number); /* the rest goes with the context */
        lock_drop(&pool->lock);
    }
}

int pool_heap_gone(struct pool *pool, uint64_t owner)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, -1);
    if (heap)
        heap_retire(pool, heap);
    lock_drop(&pool->lock);
    if (!heap)
        return -ENOENT;
    (void)reclaim_poll(pool, true);
    return 0;
}

void pool_forget(struct pool *pool)
{
    atomic_store_explicit(&pool->frozen, FROZEN_CHILD, memory_order_relaxed);
    lock_forget_thread();
    lock_init(&pool->lock, LOCK_RANK_POOL);
    meta_forget();
}

void pool_freeze(struct pool *pool)
{
    uint32_t expected = FROZEN_NOT;

    (void)atomic_compare_exchange_strong(&pool->frozen, &expected, FROZEN_PROCESS);
}

bool pool_is_frozen(const struct pool *pool)
{
    return atomic_load_explicit(&pool->frozen, memory_order_relaxed) != FROZEN_NOT;
}

/* ── figures ── */

int pool_heap_attrs(struct pool *pool, uint64_t owner, int device, struct pool_heap_attrs *ret)
{
    const struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, device);
    if (heap)
        *ret = heap->attrs;
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOMEM;
}

int pool_set_heap_attrs(
        struct pool *pool, uint64_t owner, int device, const struct pool_heap_attrs *attrs)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, owner, device);
    if (heap)
        heap->attrs = *attrs;
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOMEM;
}

void pool_stats(struct pool *pool, int device, struct pool_stats *ret)
{
    lock_take(&pool->lock);
    census_device(pool, device, ret);
    lock_drop(&pool->lock);
}

int pool_heap_stats(struct pool *pool, enum heap_kind kind, uint64_t owner, struct pool_stats *ret)
{
    const struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, kind, owner, -1);
    if (heap)
        census_heap(pool, heap, ret);
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOENT;
}

int pool_reset_high(
        struct pool *pool, enum heap_kind kind, uint64_t owner, bool used, bool reserved)
{
    struct heap *heap;

    lock_take(&pool->lock);
    heap = heap_get(pool, kind, owner, -1);
    if (heap && used) {
        heap->tally.used_high = heap->tally.used;
        heap->tally.live_requested_high = heap->tally.live_requested;
    }
    if (heap && reserved)
        heap->tally.reserved_high = heap->tally.reserved;
    lock_drop(&pool->lock);
    return heap ? 0 : -ENOENT;
}

uint64_t pool_seq_next(struct pool *pool)
{
    return heap_seq(pool);
}

int pool_check(struct pool *pool, const char **ret_what)
{
    int r;

    lock_take(&pool->lock);
    r = census_check(pool, ret_what);
    lock_drop(&pool->lock);
    return r;
}

/* SPDX-License-Identifier: MIT */
#include "alloc/heap/census.h"

#include "alloc/heap/alias.h"
#include "alloc/heap/block.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/swapset.h"
#include "alloc/heap/tally.h"

/* ── figures ── */

static void add_tally(struct pool_stats *to, const struct tally *tally)
{
    to->live_count += tally->live_count;
    to->live_requested += tally->live_requested;
    to->live_rounded += tally->live_rounded;
    to->used += tally->used;
    to->stored += tally->stored;
    to->reserved += tally->reserved;
    to->pending += tally->pending;
    to->quarantined += tally->kept;
    to->held += tally->held;
    to->limbo += tally->limbo;
    to->husk += tally->husk;
    to->cached += tally->cached;
    to->used_high += tally->used_high;
    to->stored_high += tally->stored_high;
    to->reserved_high += tally->reserved_high;
    to->quarantined_high += tally->kept_high;
}

static uint64_t free_bytes(const struct heap *heap)
{
    uint64_t bytes = heap->small.bytes + heap->clean.bytes + heap->fragments.bytes
            + heap->idle.bytes + heap->recent_bytes;

    for (const struct heap_stream *at = heap->streams; at; at = at->next)
        bytes += at->fit.bytes + at->fragments.bytes;
    return bytes;
}

static void census_add_heap(struct pool_stats *to, const struct heap *heap)
{
    add_tally(to, &heap->tally);
    to->free += free_bytes(heap);
    to->allocs += heap->allocs;
    to->frees += heap->frees;
    to->misses += heap->misses;
}

void census_heap(const struct heap *heap, struct pool_stats *ret)
{
    *ret = (struct pool_stats){.grows = heap->grows};
    census_add_heap(ret, heap);
    ret->hits = ret->allocs - ret->misses;
}

/* Sums with high marks of their own per device: the high mark of a sum is not the sum of the high
 * marks. */
static void set_device(struct pool_stats *to, const struct device *from)
{
    to->live_requested_high += from->live_requested_high;
    to->stored_high += from->stored_high;
    to->reserved_high += from->reserved_high;
}

void census_device(struct pool *pool, int device, struct pool_stats *ret)
{
    *ret = pool->counters;
    ret->driver_calls = atomic_load_explicit(&pool->driver_calls, memory_order_relaxed);
    for (const struct heap *heap = heap_any(pool, NULL); heap; heap = heap_any(pool, heap)) {
        if (device < 0 || heap->device->number == device)
            census_add_heap(ret, heap);
    }
    ret->stored_high = 0;
    ret->reserved_high = 0;
    for (int i = 0; i < POOL_DEVICES_MAX; i++) {
        if (device < 0 || device == i)
            set_device(ret, &pool->devices[i]);
    }
    ret->hits = ret->allocs - ret->misses;
}

/* ── invariants ── */

/* The walk's counts of one heap, to be compared with its tally. */
struct count {
    struct tally tally;
    uint32_t free_blocks; /* FREE, DECOMMITTED and IDLE */
    uint32_t holders;
    uint32_t released;
    uint32_t pinned;
    uint32_t pending; /* blocks in the open chain or epochs */
    uint32_t vacated;
    bool busy; /* a block or the heap is in a driver call: storage cannot be counted */
};

/* The checks return the first broken invariant, NULL = none. */

static const char *check_holder(struct pool *pool, uint32_t index, struct count *count) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const struct holder *holder = holder_at(pool, block->holder);
    bool on_way = holder->state == HOLDER_DEAD || holder->state == HOLDER_LIMBO;

    count->holders++;
    if (holder->block != index)
        return "a holder names another block";
    if (holder->state == HOLDER_GONE && !holder->freed)
        return "a holder is gone without a free";
    if (block->state == BLOCK_LIVE && holder->freed)
        return "a live block is freed in its holder";
    if ((holder->state == HOLDER_HELD || holder->state == HOLDER_LET_GO)
            != (block->state == BLOCK_KEPT))
        return "a block is held, or kept, alone";
    if (holder->state == HOLDER_HELD) {
        count->tally.held += block->node.size;
        count->tally.stored += block->node.size;
    }
    if (holder->mode != HINT_SHADOW && !holder->hold && !(block->flags & BLOCK_HINTED))
        return "a hint acts on a block that has no handle of its own";
    if (holder_is_released(holder))
        count->released++;
    if (holder->mode != HINT_SHADOW && on_way)
        count->tally.limbo += block->node.size;
    if (holder->mode != HINT_SHADOW && holder->state == HOLDER_HUSK)
        count->tally.husk += block->node.size;
    return NULL;
}

static void count_live(
        struct pool *pool, const struct block *block, struct count *count) POOL_LOCKED
{
    uint64_t requested = block->node.size - block->slack;

    count->tally.live_count++;
    count->tally.live_requested += requested;
    count->tally.live_rounded += block->node.size;
    count->tally.used += round_up(requested, 512);
    if (holder_is_stored(pool, block))
        count->tally.stored += block->node.size;
}

static bool is_alike(const struct heap *heap, const struct block *a, const struct block *b)
{
    if (a->state == BLOCK_DECOMMITTED && b->state == BLOCK_DECOMMITTED)
        return true;
    return a->state == BLOCK_FREE && b->state == BLOCK_FREE
            && !((a->flags | b->flags) & BLOCK_RECENT)
            && (a->stream == b->stream || (heap->stream_count <= 1 && (!a->stream || !b->stream)));
}

static const char *check_place(
        struct pool *pool, uint32_t number, uint32_t index, devptr_t at) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, number);
    const struct block *block = block_at(pool, index);
    const struct block *next = block_at(pool, block->next);

    if (block->segment != number)
        return "a block names another segment";
    if (block->node.base != at)
        return "blocks do not follow each other";
    if (block->node.size == 0 || block->node.size % BESTFIT_QUANTUM)
        return "a block has an odd size";
    if (starts_at(&segment->starts, at - segment->base) != index)
        return "a block cannot be looked up";
    if (block_find(pool, at + block->node.size - 1) != index)
        return "an interior look-up fails";
    if (!block->next)
        return segment->last != index ? "the last block is another" : NULL;
    if (next->prev != index || is_alike(segment->heap, block, next))
        return "neighbours do not agree, or are free and not one";
    return NULL;
}

static const char *check_block(struct pool *pool, uint32_t index, struct count *count) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const char *what = NULL;

    count->pinned += block->flags & BLOCK_PINNED ? 1 : 0;
    if (block->holder
            && (block->state == BLOCK_LIVE || block->state == BLOCK_PENDING
                    || block->state == BLOCK_KEPT))
        what = check_holder(pool, index, count);
    if (what)
        return what;
    switch ((enum block_state)block->state) {
    case BLOCK_LIVE:
        count_live(pool, block, count);
        return NULL;
    case BLOCK_FREE:
    case BLOCK_DECOMMITTED:
    case BLOCK_IDLE:
        count->free_blocks++;
        return NULL;
    case BLOCK_PENDING:
        if ((!block->holder || block->flags & BLOCK_POISONED) && block_is_awaited(pool, block))
            count->tally.pending += block->node.size;
        return NULL;
    case BLOCK_KEPT:
        count->tally.kept += block->node.size;
        return NULL;
    case BLOCK_BUSY:
        count->busy = true;
        return NULL;
    case BLOCK_VACATED:
        count->vacated++;
        /* its handle counts at the slot where it was mapped last */
        count->tally.reserved -= block->node.size;
        return NULL;
    case BLOCK_MARGIN:
        return NULL;
    default:
        return "a block has no state";
    }
}

static void count_storage(
        struct pool *pool, const struct segment *segment, struct count *count) POOL_LOCKED
{
    if (segment->kind == SEGMENT_PLAIN)
        count->tally.reserved += segment->raw_size;
    if (segment->kind == SEGMENT_MANAGED && swapset_is_held(pool, block_at(pool, segment->first)))
        count->tally.reserved += segment->size;
    if (segment->kind == SEGMENT_ARENA) {
        for (uint64_t at = 0; at < segment->top / segment->slot; at++)
            count->tally.reserved += segment->handles[at] ? segment->slot : 0;
    }
    if (segment->kind == SEGMENT_HINT) {
        for (uint32_t at = segment->first; at; at = block_at(pool, at)->next) {
            const struct bestfit_node *node = &block_at(pool, at)->node;

            if (segment->handles[(node->base - segment->base) / segment->slot])
                count->tally.reserved += node->size;
        }
    }
}

/* Is the segment in heap.whole exactly if it should be? */
static bool census_is_placed(const struct pool *pool, const struct segment *segment) POOL_LOCKED
{
    const struct block *block = block_at(pool, segment->first);
    bool is_whole = segment->kind == SEGMENT_PLAIN && block->state == BLOCK_FREE
            && !(block->flags & BLOCK_RECENT) && !block->next;

    return is_whole
            == (order_below(segment->heap->whole, segment->place.number + 1) == &segment->place);
}

static const char *check_segment(
        struct pool *pool, uint32_t number, struct count *count) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, number);
    devptr_t at = segment->base;
    uint64_t live = count->tally.live_count;
    const char *what = NULL;

    if (segment->base % GRANULE_SIZE || segment->top % GRANULE_SIZE)
        return "a segment does not lie on granules";
    for (uint32_t index = segment->first; index; index = block_at(pool, index)->next) {
        what = check_place(pool, number, index, at);
        if (!what)
            what = check_block(pool, index, count);
        if (what)
            return what;
        at += block_at(pool, index)->node.size;
    }
    if (at != segment->base + segment->top)
        return "blocks do not fill their segment";
    if (segment->tenants != count->tally.live_count - live)
        return "tenants are miscounted";
    if (segment->top && granule_segment(&pool->granules, at - 1) != number)
        return "a segment cannot be looked up";
    if (!census_is_placed(pool, segment))
        return "the list of free segments is broken";
    count_storage(pool, segment, count);
    return NULL;
}

/* Checks that blocks in recent slots are flagged, FREE and of the class. Returns their number,
 * UINT32_MAX if one is wrong; adds their sizes. */
static uint32_t count_recent(struct pool *pool, const struct freecache *cache, uint32_t stream,
        uint64_t *bytes) POOL_LOCKED
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < FREECACHE_SLOTS; i++) {
        for (uint32_t at = cache->slot[i]; at; at = block_at(pool, at)->node.left) {
            const struct block *block = block_at(pool, at);

            if (block->state != BLOCK_FREE || !(block->flags & BLOCK_RECENT)
                    || block->stream != stream || !(cache->used >> i & 1)
                    || block->node.size != block_at(pool, cache->slot[i])->node.size)
                return UINT32_MAX;
            count++;
            *bytes += block->node.size;
        }
    }
    return count;
}

static const char *check_recent(struct pool *pool, const struct heap *heap) POOL_LOCKED
{
    uint64_t bytes = 0;
    uint64_t count = count_recent(pool, &heap->recent_small, 0, &bytes);

    count += count_recent(pool, &heap->recent_clean, 0, &bytes);
    if (heap->large) {
        const struct block *held = block_at(pool, heap->large);

        count += held->state == BLOCK_FREE && held->flags & BLOCK_RECENT ? 1 : UINT32_MAX;
        bytes += held->node.size;
    }
    for (const struct heap_stream *at = heap->streams; at; at = at->next)
        count += count_recent(pool, &at->recent, at->stream, &bytes);
    return count != heap->recent_count || bytes != heap->recent_bytes
            ? "recent blocks are miscounted"
            : NULL;
}

/* Are the blocks of a class listed by point? */
static bool is_by_point(const struct pool *pool, const struct heap_stream *class) POOL_LOCKED
{
    uint32_t count = 0;
    uint32_t before = 0;

    for (uint32_t at = class->earliest; at; at = block_at(pool, at)->later) {
        const struct block *block = block_at(pool, at);

        if (block->earlier != before || block->stream != class->stream
                || (before && block->seq < block_at(pool, before)->seq)
                || ++count > heap_class_count(class))
            return false;
        before = at;
    }
    return count == heap_class_count(class) && before == class->latest;
}

/* Is a heap in the lists of its device where it has to be? */
static bool is_enlisted(const struct heap *heap)
{
    bool has_recent = heap->recent_count > 0;
    bool gives = has_recent || heap->tally.cached || heap->tally.spare || heap->idle.count
            || (heap->kind == HEAP_PLAIN ? heap->whole != NULL : heap->clean.count > 0);
    bool waits = has_recent || heap->filled;

    return (!gives || heap->is_listed[HEAPS_GIVING]) && (!waits || heap->is_listed[HEAPS_WAITING]);
}

static const char *check_fits(
        const struct pool *pool, const struct heap *heap, const struct count *count) POOL_LOCKED
{
    const struct bestfit *fits[] = {&heap->small, &heap->clean, &heap->fragments,
            &heap->decommitted, &heap->hint_decommitted, &heap->idle, &heap->sealed};
    uint32_t blocks = heap->recent_count;

    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        if (bestfit_check(fits[i]) != 0)
            return "an index of free blocks is broken";
        blocks += fits[i]->count;
    }
    for (const struct heap_stream *at = heap->streams; at; at = at->next) {
        if (bestfit_check(&at->fit) != 0 || bestfit_check(&at->fragments) != 0)
            return "an index of a stream is broken";
        blocks += heap_class_count(at);
        if ((heap_class_count(at) || at->vacated) && (!at->is_filled || !at->moved_link))
            return "a stream's free blocks are not listed";
        if (!is_by_point(pool, at))
            return "a stream's free blocks are not in the order of their points";
    }
    if (!is_enlisted(heap))
        return "a heap is not in the lists of its device";
    return blocks != count->free_blocks ? "free blocks are missing from their index" : NULL;
}

static const char *census_compare(const struct heap *heap, const struct count *count)
{
    const struct tally *is = &heap->tally;
    const struct tally *should = &count->tally;

    if (is->live_count != should->live_count || is->live_requested != should->live_requested
            || is->live_rounded != should->live_rounded || is->used != should->used)
        return "live blocks are miscounted";
    if (is->stored != should->stored)
        return "stored bytes are miscounted";
    if (is->limbo != should->limbo)
        return "limbo bytes are miscounted";
    if (is->husk != should->husk)
        return "husk bytes are miscounted";
    if (count->busy)
        return NULL;
    if (is->pending != should->pending)
        return "pending bytes are miscounted";
    if (is->kept != should->kept)
        return "quarantined bytes are miscounted";
    if (is->held != should->held)
        return "bytes that hints hold are miscounted";
    return is->reserved != should->reserved + is->cached ? "held bytes are miscounted" : NULL;
}

/* Each used part of a shared handle belongs to one block, and the heap holds the handle. */
static const char *check_aliases(
        struct pool *pool, const struct heap *heap, struct count *count) POOL_LOCKED
{
    uint64_t used = 0;
    uint64_t parts = 0;

    for (const struct alias_handle *at = table_next(&heap->alias_handles, NULL); at;
            at = table_next(&heap->alias_handles, at)) {
        used += alias_count(at->used);
        count->tally.reserved += segment_at(pool, heap->hint)->slot;
        if (at->mark)
            return "a walk over shared handles has left its mark";
    }
    for (const struct alias *at = table_next(&heap->aliases, NULL); at;
            at = table_next(&heap->aliases, at))
        parts += alias_count(at->parts);
    return used != parts ? "parts of shared handles are miscounted" : NULL;
}

static const char *check_chain(struct pool *pool, const struct fence_chain *chain) POOL_LOCKED
{
    uint32_t count = 0;
    uint32_t last = 0;
    uint64_t bytes = 0;

    for (uint32_t at = chain->head; at; at = block_at(pool, at)->chain) {
        const struct block *block = block_at(pool, at);

        if (count++ > chain->count)
            return "a chain has a ring";
        if (block->state != BLOCK_PENDING && block->state != BLOCK_VACATED && !block->holder)
            return "a chain holds what is not freed";
        bytes += block->node.size;
        last = at;
    }
    if (count != chain->count || bytes != chain->bytes || last != chain->tail)
        return "a chain is miscounted";
    return NULL;
}

/* Each vacated slot is recorded under its handle, and waiting slots are counted by their
 * streams. */
static const char *check_vacated(
        struct pool *pool, const struct heap *heap, const struct count *count) POOL_LOCKED
{
    uint64_t mappings = 0;
    uint32_t waiting = 0;

    for (const struct vacated *at = table_next(&heap->vacated_handles, NULL); at;
            at = table_next(&heap->vacated_handles, at))
        mappings += at->mappings;
    for (const struct heap_stream *at = heap->streams; at; at = at->next)
        waiting += at->vacated;
    if (waiting != heap->vacated.count || mappings != heap->vacating
            || (!count->busy && mappings != count->vacated))
        return "vacated slots are miscounted";
    return check_chain(pool, &heap->vacated);
}

static uint64_t bytes_on(const struct table *shelves)
{
    uint64_t bytes = 0;

    for (const struct shelf *shelf = table_next(shelves, NULL); shelf;
            shelf = table_next(shelves, shelf))
        bytes += shelf->size * shelf->count;
    return bytes;
}

static const char *check_heap(struct pool *pool, struct heap *heap, struct count *sum) POOL_LOCKED
{
    struct count count = {.busy = heap->busy > 0};
    uint64_t cached;
    const char *what = NULL;

    for (uint32_t at = heap->segments; at && !what; at = segment_at(pool, at)->next) {
        if (!segment_at(pool, at)->dead)
            what = check_segment(pool, at, &count);
    }
    cached = bytes_on(&heap->shelves);
    if (!what)
        what = check_aliases(pool, heap, &count);
    if (!what)
        what = check_vacated(pool, heap, &count);
    if (!what && (cached != heap->tally.cached || bytes_on(&heap->spares) != heap->tally.spare))
        what = "the shelf is miscounted";
    if (!what)
        what = check_fits(pool, heap, &count);
    if (!what)
        what = check_recent(pool, heap);
    if (!what)
        what = census_compare(heap, &count);
    sum->holders += count.holders;
    sum->pinned += count.pinned;
    sum->released += count.released;
    sum->busy = sum->busy || count.busy;
    return what;
}

/* A chain of a device has only its own blocks: fences of other devices do not cover them. */
static const char *check_own(
        struct pool *pool, const struct device *device, const struct fence_chain *chain) POOL_LOCKED
{
    const char *what = check_chain(pool, chain);

    for (uint32_t at = chain->head; at && !what; at = block_at(pool, at)->chain)
        if (block_device(pool, block_at(pool, at)) != device)
            what = "a block waits for another device";
    return what;
}

static const char *check_timeline(struct pool *pool, const struct device *device,
        const struct fence_timeline *timeline, bool in_order) POOL_LOCKED
{
    const char *what = NULL;
    uint64_t number = timeline->passed;
    uint64_t bytes = 0;
    uint32_t marks = 0;

    for (const struct fence_mark *mark = timeline->first; mark && !what; mark = mark->next) {
        if (in_order && mark->number <= number)
            return "epochs are out of order";
        number = mark->number;
        bytes += mark->chain.bytes;
        marks++;
        what = check_own(pool, device, &mark->chain);
    }
    if (!what && (bytes != timeline->bytes || marks != timeline->marks))
        what = "epochs are miscounted";
    return what;
}

static const char *check_waiting(struct pool *pool, const struct device *device) POOL_LOCKED
{
    const char *what = check_own(pool, device, &device->open);

    if (!what)
        what = check_own(pool, device, &device->aside);
    if (!what)
        what = check_timeline(pool, device, &device->epochs, true);
    return what ? what : check_timeline(pool, device, &device->events, false);
}

static const char *check_timelines(struct pool *pool) POOL_LOCKED
{
    const char *what = check_chain(pool, &pool->removals);

    if (!what)
        what = check_chain(pool, &pool->vacant);
    for (int i = 0; i < pool->devices_top && !what; i++)
        what = check_waiting(pool, &pool->devices[i]);
    return what;
}

/* Every pin record belongs to a block that is flagged as pinned, and is live or kept. */
static const char *check_pins(struct pool *pool, const struct count *sum) POOL_LOCKED
{
    for (const struct pin *pin = table_next(&pool->pins, NULL); pin;
            pin = table_next(&pool->pins, pin)) {
        const struct block *block = block_at(pool, (uint32_t)pin->block);

        if (!(block->flags & BLOCK_PINNED)
                || (block->state != BLOCK_LIVE && block->state != BLOCK_KEPT))
            return "a pin is on a block that is free";
    }
    return !sum->busy && sum->pinned != pool->pins.count ? "a pinned block has no record" : NULL;
}

static const char *check_due(struct pool *pool) POOL_LOCKED
{
    size_t rules = pool->due ? hint_count(pool->hints) : 0;

    for (size_t rule = 0; rule < rules; rule++) {
        uint32_t before = 0;

        for (uint32_t at = pool->due[rule].first; at; at = holder_at(pool, at)->next) {
            const struct holder *holder = holder_at(pool, at);

            if (holder->rule != (int)rule || holder->prev != before || holder->swap
                    || holder->state != (holder->hold ? HOLDER_HELD : HOLDER_LIVE))
                return "a list of expected edges is broken";
            before = at;
        }
    }
    return NULL;
}

/* Each holder under grace belongs to a block that refers to it. */
static const char *check_graces(struct pool *pool) POOL_LOCKED
{
    for (const struct grace *grace = pool->grace_first; grace; grace = grace->next) {
        for (uint32_t at = grace->holders; at; at = holder_at(pool, at)->next) {
            const struct holder *holder = holder_at(pool, at);

            if (holder->state != (holder->hold ? HOLDER_LET_GO : HOLDER_DEAD)
                    || block_at(pool, holder->block)->holder != at)
                return "a grace names a holder that is not dead";
        }
    }
    return NULL;
}

const char *census_check(struct pool *pool)
{
    struct count sum = {.busy = false};
    uint64_t reserved = 0;
    uint64_t devices = 0;
    const char *what = NULL;

    for (struct heap *heap = heap_any(pool, NULL); heap && !what; heap = heap_any(pool, heap)) {
        if (!heap->dropped)
            what = check_heap(pool, heap, &sum);
        reserved += heap->tally.reserved;
        sum.busy = sum.busy || (heap->leaving && heap->busy);
    }
    for (int i = 0; i < POOL_DEVICES_MAX; i++)
        devices += pool->devices[i].reserved;
    if (what)
        return what;
    if (!sum.busy && devices != reserved)
        return "a device's held bytes are not those of its heaps";
    if (!sum.busy && sum.holders != pool->holders.used)
        return "a holder has no block";
    if (sum.released != atomic_load_explicit(&pool->gate.released, memory_order_relaxed))
        return "released ranges are miscounted";
    what = swapset_check(pool);
    if (!what)
        what = check_pins(pool, &sum);
    if (!what)
        what = check_timelines(pool);
    if (!what)
        what = check_graces(pool);
    return what ? what : check_due(pool);
}

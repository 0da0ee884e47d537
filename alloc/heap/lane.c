/* SPDX-License-Identifier: MIT */
#include "alloc/heap/lane.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/tally.h"

#include <stddef.h>

#define WORTH 64 /* blocks that repay opening and closing a lane */
#define WAIT_MOST \
    1023 /* requests that find the pool's lock taken, before an unprofitable lane opens again */
#define CREDIT_MOST (UINT64_C(1) << 30)

#define NUMBERS 256 /* sequence numbers that a lane takes at once */

/* ── pending sums ── */

static void lane_add(uint64_t *sum, int64_t by)
{
    *sum += (uint64_t)by;
}

/* Updates sums of a heap and of its device, those that have high marks; the marks stay. */
static void book(struct heap *heap, const struct lane_debt *debt)
{
    struct tally *tally = &heap->tally;
    struct device *device = heap->device;

    lane_add(&tally->live_requested, debt->requested);
    lane_add(&device->live_requested, debt->requested);
    lane_add(&tally->live_rounded, debt->rounded);
    lane_add(&tally->stored, debt->rounded);
    lane_add(&device->stored, debt->rounded);
    lane_add(&tally->used, debt->used);
}

static uint64_t room_below(uint64_t mark, uint64_t sum)
{
    return mark > sum ? mark - sum : 0;
}

/* Bytes by which all sums with high marks may rise without raising a mark. */
static uint64_t room_below_marks(const struct heap *heap)
{
    const struct tally *tally = &heap->tally;
    const struct device *device = heap->device;
    uint64_t room = room_below(tally->used_high, tally->used + tally->native_used);

    room = min_of(room, room_below(tally->stored_high, tally->stored));
    room = min_of(room, room_below(device->stored_high, device->stored));
    return min_of(room, room_below(device->live_requested_high, device->live_requested));
}

bool lanes_would_raise(const struct pool *pool, const struct heap *heap, uint64_t rounded)
{
    return lanes_are_open(pool) && room_below_marks(heap) < rounded;
}

/* ── opening and closing ── */

static void recall(struct lock *lock) TSA(no_thread_safety_analysis)
{
    lanes_recall((struct pool *)(void *)((char *)lock - offsetof(struct pool, lock)));
}

void lanes_init(struct pool *pool)
{
    pool->lock.recall = recall;
    atomic_store_explicit(&pool->lanes_open, 0, memory_order_relaxed);
    for (size_t i = 0; i < LANES; i++) {
        pool->lanes[i] = (struct lane){.class = NULL};
        lock_init(&pool->lanes[i].lock, LOCK_RANK_LANE);
    }
}

static uint64_t bit_of(const struct pool *pool, const struct lane *lane)
{
    return UINT64_C(1) << (lane - pool->lanes);
}

/* Gives the lane a part of the credit below the marks, so that other lanes get some, too. */
static void give_credit(struct lane *lane) LANE_LOCKED
{
    struct heap *heap = lane->class->heap;
    int64_t credit = (int64_t)min_of(room_below_marks(heap) / LANES, CREDIT_MOST);

    lane->credit = credit;
    book(heap, &(struct lane_debt){credit, credit, credit});
    lane->owed = (struct lane_debt){-credit, -credit, -credit};
}

void lane_open(struct pool *pool, struct heap_stream *class)
{
    struct lane *lane = lane_of(pool, class->key);

    if (lane->class || !class->heap->arena)
        return;
    if (lane->wait) {
        lane->wait--;
        return;
    }
    lock_take_leaf(&lane->lock);
    lane->class = class;
    lane->owner = class->heap->owner;
    lane->segment = class->heap->arena;
    lane->point = fence_next(&class->timeline_of->timeline);
    lane->allocs = lane->frees = 0;
    lane->seq = lane->last_seq = 0;
    lane->numbers = pool->unrecorded ? NUMBERS : 0;
    give_credit(lane);
    atomic_store_explicit(&lane->key, class->key, memory_order_relaxed);
    lock_drop_leaf(&lane->lock);
    atomic_fetch_or_explicit(&pool->lanes_open, bit_of(pool, lane), memory_order_relaxed);
}

/* Adds the lane's unreused frees to the heap's recent list. */
static void pay(struct pool *pool, struct lane *lane) POOL_LOCKED LANE_LOCKED
{
    struct heap *heap = lane->class->heap;
    struct stream *stream = lane->class->timeline_of;
    uint32_t fewer = (uint32_t)(lane->frees - lane->allocs);

    book(heap, &lane->owed);
    heap->tally.live_count -= lane->frees - lane->allocs;
    heap->recent_count += fewer;
    heap->recent_bytes -= (uint64_t)(lane->owed.rounded + lane->credit);
    heap->allocs += lane->allocs;
    heap->frees += lane->frees;
    ((struct segment *)slab_at(&pool->segments, lane->segment))->tenants -= fewer;
    if (!lane->frees)
        return;
    stream->newest = max_of(stream->newest, lane->point);
    heap_use_slots(heap, &lane->class->recent, UINT64_MAX);
}

static void close_one(struct pool *pool, struct lane *lane) POOL_LOCKED
{
    lock_take_leaf(&lane->lock);
    pay(pool, lane);
    lane->backoff = lane->allocs + lane->frees < WORTH
            ? (uint32_t)min_of(2 * (uint64_t)lane->backoff + 1, WAIT_MOST)
            : lane->backoff / 2;
    lane->wait = lane->backoff;
    lane->class = NULL;
    atomic_store_explicit(&lane->key, 0, memory_order_relaxed);
    lock_drop_leaf(&lane->lock);
    atomic_fetch_and_explicit(&pool->lanes_open, ~bit_of(pool, lane), memory_order_relaxed);
}

bool lane_close(struct pool *pool, const struct heap_stream *class)
{
    struct lane *lane = lane_of(pool, class->key);
    bool is_open = lane->class == class;

    if (is_open)
        close_one(pool, lane);
    return is_open;
}

void lanes_recall(struct pool *pool)
{
    uint64_t open;

    while ((open = atomic_load_explicit(&pool->lanes_open, memory_order_relaxed)) != 0)
        close_one(pool, &pool->lanes[__builtin_ctzll(open)]);
}

/* ── sequence numbers ── */

uint64_t lane_take_numbers(struct pool *pool, struct lane *lane)
{
    if (!lane->numbers)
        return records_next_seq(pool);
    lane->seq = atomic_fetch_add_explicit(&pool->seq, lane->numbers, memory_order_relaxed);
    lane->last_seq = lane->seq + lane->numbers;
    return ++lane->seq;
}

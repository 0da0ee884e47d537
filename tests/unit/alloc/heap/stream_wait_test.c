/* SPDX-License-Identifier: MIT */
/* covers: stream_wait.c */
#include "alloc/heap/stream_wait.h"

#include "alloc/heap/streams.h"
#include "tests/unit/alloc/pool_bench.h"

/* Streams 1 .. n of a pool that has served each. */
static struct bench *with_streams(uint32_t n, uint32_t *ret_index)
{
    struct bench *b = bench_new(1 * GiB);

    for (uint32_t i = 0; i < n; i++)
        CHECK_NE(bench_alloc_on(b, 4096, i + 1), 0);
    lock_take(&b->pool->lock);
    for (uint32_t i = 0; i < n; i++)
        ret_index[i] = streams_find(b->pool, i + 1);
    lock_drop(&b->pool->lock);
    return b;
}

TEST(a_stream_comes_behind_the_points_that_it_has_waited_for)
{
    uint32_t at[3];
    struct bench *b = with_streams(3, at);
    struct pool *pool = b->pool;

    lock_take(&pool->lock);
    CHECK(!stream_wait_covers(pool, at[0], at[1], 1));
    stream_wait_note(pool, at[0], at[1], 7);
    CHECK(stream_wait_covers(pool, at[0], at[1], 5));
    CHECK(stream_wait_covers(pool, at[0], at[1], 7));
    CHECK(!stream_wait_covers(pool, at[0], at[1], 8));
    stream_wait_note(pool, at[0], at[1], 6); /* two threads, the other way round */
    CHECK(stream_wait_covers(pool, at[0], at[1], 7));
    CHECK(!stream_wait_covers(pool, at[1], at[0], 1));
    CHECK(!stream_wait_covers(pool, at[2], at[1], 1));
    CHECK(!stream_wait_covers(pool, at[0], at[2], 1));
    lock_drop(&pool->lock);
    bench_end(b);
}

/* What has passed makes room, else what was noted first: what is not known costs a wait and no more. */
TEST(of_streams_too_many_the_first_is_forgotten)
{
    uint32_t at[FENCE_SET_MAX + 3];
    struct bench *b = with_streams(FENCE_SET_MAX + 3, at);
    struct pool *pool = b->pool;

    lock_take(&pool->lock);
    for (uint32_t i = 1; i <= FENCE_SET_MAX + 1; i++)
        stream_wait_note(pool, at[0], at[i], 3);
    CHECK(!stream_wait_covers(pool, at[0], at[1], 3));
    for (uint32_t i = 2; i <= FENCE_SET_MAX + 1; i++)
        CHECK(stream_wait_covers(pool, at[0], at[i], 3));
    streams_at(pool, at[3])->timeline.passed = 3;
    stream_wait_note(pool, at[0], at[FENCE_SET_MAX + 2], 3);
    CHECK(stream_wait_covers(pool, at[0], at[2], 3));
    CHECK(!stream_wait_covers(pool, at[0], at[3], 3));
    CHECK(stream_wait_covers(pool, at[0], at[FENCE_SET_MAX + 2], 3));
    lock_drop(&pool->lock);
    bench_end(b);
}

TEST(a_record_that_becomes_another_streams_is_forgotten)
{
    uint32_t at[3];
    struct bench *b = with_streams(3, at);
    struct pool *pool = b->pool;
    devptr_t a = bench_alloc_on(b, 512, 4);
    uint32_t record;

    lock_take(&pool->lock);
    record = streams_find(pool, 4);
    while (fence_take(&streams_at(pool, record)->timeline) < 7)
        ;
    stream_wait_note(pool, at[0], record, 7);
    stream_wait_tell(pool, at[1], record, 7);
    stream_wait_tell(pool, at[1], at[2], 9);
    stream_wait_tell(pool, record, at[2], 9);
    CHECK(stream_wait_covers(pool, at[0], record, 7));
    CHECK_EQ(stream_wait_set(pool, at[1])->count, 2);
    lock_drop(&pool->lock);
    CHECK_EQ(bench_free_on(b, a, 4), 0);
    fake_drain(b->fake);
    pool_stream_gone(pool, 4);
    lock_take(&pool->lock);
    CHECK_EQ(streams_at(pool, record)->index, 0);
    CHECK_EQ(stream_wait_set(pool, at[1])->count, 1);
    lock_drop(&pool->lock);

    CHECK_NE(bench_alloc_on(b, 512, 5), 0);
    lock_take(&pool->lock);
    CHECK_EQ(streams_find(pool, 5), record);
    CHECK(!stream_wait_covers(
            pool, at[0], record, fence_next(&streams_at(pool, record)->timeline)));
    CHECK(!stream_wait_covers(
            pool, at[1], record, fence_next(&streams_at(pool, record)->timeline)));
    CHECK(stream_wait_covers(pool, at[1], at[2], 9));
    CHECK(!stream_wait_covers(pool, record, at[2], 9));
    CHECK_EQ(stream_wait_set(pool, at[1])->count, 1);
    lock_drop(&pool->lock);
    bench_end(b);
}

/* ---- events of the program's ---- */

/* The point that a free on the stream takes now. */
static uint64_t next_point(struct bench *b, uint32_t index)
{
    uint64_t point;

    lock_take(&b->pool->lock);
    point = fence_next(&streams_at(b->pool, index)->timeline);
    lock_drop(&b->pool->lock);
    return point;
}

static uint64_t upto(struct bench *b, uint32_t stream, uint32_t other)
{
    uint64_t point;

    lock_take(&b->pool->lock);
    point = stream_wait_told(b->pool, stream, other);
    lock_drop(&b->pool->lock);
    return point;
}

TEST(an_event_covers_what_was_freed_before_it_and_nothing_later)
{
    uint32_t at[2];
    struct bench *b = with_streams(2, at);
    devptr_t first = bench_alloc_on(b, 64 * KiB, 1);
    devptr_t second = bench_alloc_on(b, 64 * KiB, 1);
    uint64_t point = next_point(b, at[0]);
    struct pool_order order;

    CHECK_EQ(bench_free_on(b, first, 1), 0);
    pool_events_now(b->pool, 1, &order);
    CHECK_EQ(bench_free_on(b, second, 1), 0);
    CHECK_GT(next_point(b, at[0]), point);
    CHECK_EQ(upto(b, at[1], at[0]), 0);
    pool_events_follow(b->pool, 2, &order);
    CHECK_EQ(upto(b, at[1], at[0]), point);
    /* an event behind which nothing was freed takes no number of its own */
    pool_events_now(b->pool, 1, &order);
    point = next_point(b, at[0]);
    pool_events_now(b->pool, 1, &order);
    CHECK_EQ(next_point(b, at[0]), point);
    CHECK_EQ(b->fake->stream_records, 0);
    bench_end(b);
}

TEST(an_order_names_nothing_that_has_passed)
{
    uint32_t at[2];
    struct bench *b = with_streams(2, at);
    devptr_t block = bench_alloc_on(b, 64 * KiB, 1);
    struct pool_order order;

    CHECK_EQ(bench_free_on(b, block, 1), 0);
    pool_events_now(b->pool, 1, &order);
    CHECK_EQ(order.count, 1);
    pool_events_follow(b->pool, 2, &order);
    pool_events_now(b->pool, 2, &order);
    CHECK_EQ(order.count, 1);
    fake_drain(b->fake);
    (void)pool_trim_device(b->pool, 0, true);
    pool_events_now(b->pool, 1, &order);
    CHECK_EQ(order.count, 0);
    pool_events_now(b->pool, 2, &order);
    CHECK_EQ(order.count, 0);
    bench_end(b);
}

TEST(order_goes_by_way_of_a_stream_that_has_no_memory)
{
    uint32_t at[2];
    struct bench *b = with_streams(2, at);
    devptr_t block = bench_alloc_on(b, 64 * KiB, 1);
    struct pool_order order;
    uint64_t point;

    CHECK_EQ(bench_free_on(b, block, 1), 0);
    pool_events_now(b->pool, 1, &order);
    point = next_point(b, at[0]) - 1;
    pool_events_follow(b->pool, 77, &order);
    pool_events_now(b->pool, 77, &order);
    pool_events_follow(b->pool, 2, &order);
    CHECK_EQ(upto(b, at[1], at[0]), point);
    pool_events_now(b->pool, 78, &order); /* of which nothing is known */
    CHECK_EQ(order.count, 0);
    bench_end(b);
}

TEST(an_order_says_nothing_of_the_stream_that_has_got_the_record)
{
    uint32_t at[2];
    struct bench *b = with_streams(2, at);
    devptr_t block = bench_alloc_on(b, 64 * KiB, 5);
    struct pool_order order;
    uint32_t index;

    CHECK_EQ(bench_free_on(b, block, 5), 0);
    lock_take(&b->pool->lock);
    index = streams_find(b->pool, 5);
    lock_drop(&b->pool->lock);
    pool_events_now(b->pool, 5, &order);
    CHECK_EQ(order.count, 1);
    pool_stream_gone(b->pool, 5);
    fake_drain(b->fake);
    (void)pool_trim_device(b->pool, 0, true);
    CHECK_NE(bench_alloc_on(b, 4096, 6), 0);
    lock_take(&b->pool->lock);
    CHECK_EQ(streams_find(b->pool, 6), index);
    lock_drop(&b->pool->lock);
    pool_events_follow(b->pool, 2, &order);
    CHECK_EQ(upto(b, at[1], index), 0);
    bench_end(b);
}

TEST(a_pool_wants_to_know_when_several_streams_have_freed)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t one = bench_alloc_on(b, 4096, 1);
    devptr_t two = bench_alloc_on(b, 4096, 2);

    CHECK_EQ(bench_free_on(b, one, 1), 0);
    CHECK(!pool_wants_orders(b->pool));
    CHECK_EQ(bench_free_on(b, two, 2), 0);
    CHECK(pool_wants_orders(b->pool));
    bench_end(b);
}

/* SPDX-License-Identifier: MIT */
#include "alloc/behind.h"

#include "alloc/streams.h"
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
    CHECK(!behind_covers(pool, at[0], at[1], 1));
    behind_note(pool, at[0], at[1], 7);
    CHECK(behind_covers(pool, at[0], at[1], 5));
    CHECK(behind_covers(pool, at[0], at[1], 7));
    CHECK(!behind_covers(pool, at[0], at[1], 8));
    behind_note(pool, at[0], at[1], 6); /* two threads, the other way round */
    CHECK(behind_covers(pool, at[0], at[1], 7));
    CHECK(!behind_covers(pool, at[1], at[0], 1));
    CHECK(!behind_covers(pool, at[2], at[1], 1));
    CHECK(!behind_covers(pool, at[0], at[2], 1));
    lock_drop(&pool->lock);
    bench_end(b);
}

/* What has passed makes room; without room nothing is known, which costs a wait and no more. */
TEST(a_stream_too_many_is_not_known)
{
    uint32_t at[FENCE_SET_MAX + 2];
    struct bench *b = with_streams(FENCE_SET_MAX + 2, at);
    struct pool *pool = b->pool;

    lock_take(&pool->lock);
    for (uint32_t i = 1; i <= FENCE_SET_MAX; i++)
        behind_note(pool, at[0], at[i], 3);
    behind_note(pool, at[0], at[FENCE_SET_MAX + 1], 3);
    CHECK(!behind_covers(pool, at[0], at[FENCE_SET_MAX + 1], 3));
    streams_at(pool, at[2])->timeline.passed = 3;
    behind_note(pool, at[0], at[FENCE_SET_MAX + 1], 3);
    CHECK(behind_covers(pool, at[0], at[FENCE_SET_MAX + 1], 3));
    CHECK(behind_covers(pool, at[0], at[1], 3));
    lock_drop(&pool->lock);
    bench_end(b);
}

TEST(a_record_that_becomes_another_streams_is_forgotten)
{
    uint32_t at[3];
    struct bench *b = with_streams(3, at);
    struct pool *pool = b->pool;

    lock_take(&pool->lock);
    behind_note(pool, at[0], at[1], 7);
    behind_note(pool, at[0], at[2], 9);
    behind_note(pool, at[1], at[2], 9);
    behind_forget(pool, at[1]);
    CHECK(!behind_covers(pool, at[0], at[1], 1));
    CHECK(behind_covers(pool, at[0], at[2], 9));
    CHECK(!behind_covers(pool, at[1], at[2], 9));
    lock_drop(&pool->lock);
    bench_end(b);
}

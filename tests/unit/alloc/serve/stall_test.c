/* SPDX-License-Identifier: MIT */
/* covers: stall.c pool_stall.c */
/* Streams that may wait for the host (stall.h): what was freed before has its fence in time, and nobody is made to wait. */
#include "alloc/serve/stall.h"

#include "alloc/heap/streams.h"
#include "tests/unit/alloc/pool_bench.h"

/* Nothing passes by itself, and the budget is what one block takes. */
static struct bench *begin(void)
{
    struct bench *b = bench_with_budget(1 * GiB, 8 * MiB);

    b->fake->hangs = true;
    return b;
}

static void stall(struct bench *b, uint64_t stream)
{
    pool_stall_begin(b->pool, stream, true);
    fake_submit(b->fake, stream, 0, 0);
    pool_stall_end(b->pool, stream, false);
}

static devptr_t free_on(struct bench *b, uint64_t size, uint64_t stream)
{
    devptr_t ptr = bench_alloc_on(b, size, stream);

    fake_submit(b->fake, stream, ptr, size);
    CHECK_EQ(bench_free_on(b, ptr, stream), 0);
    return ptr;
}

TEST(r71_what_was_freed_before_has_one_fence_and_nothing_has_none)
{
    struct bench *b = begin();

    stall(b, 1);
    CHECK_EQ(b->fake->stream_records, 0);
    (void)free_on(b, 2 * MiB, 2);
    (void)free_on(b, 4 * MiB, 2);
    stall(b, 2);
    CHECK_EQ(b->fake->stream_records, 1);
    stall(b, 2);
    pool_settle_stream(b->pool, 2);
    CHECK_EQ(b->fake->stream_records, 1);
    (void)free_on(b, 2 * MiB, 3);
    (void)free_on(b, 2 * MiB, 4);
    pool_settle_streams(b->pool);
    CHECK_EQ(b->fake->stream_records, 3);
    BENCH_CHECK(b);
    bench_end(b);
}

/* Its record is held for the time of the call, and no longer. */
TEST(a_stream_that_was_settled_is_named_by_what_named_it_before)
{
    struct bench *b = begin();
    const struct stream *stream;
    uint32_t refs;

    (void)free_on(b, 2 * MiB, 2);
    lock_take(&b->pool->lock);
    stream = streams_at(b->pool, streams_find(b->pool, 2));
    lock_drop(&b->pool->lock);
    refs = stream->refs;
    CHECK_NE(refs, 0);
    pool_settle_stream(b->pool, 2);
    CHECK_EQ(stream->refs, refs);
    bench_end(b);
}

TEST(r71_what_was_freed_by_the_sync_api_has_its_fence_unless_it_may_not)
{
    struct bench *b = begin();

    CHECK_EQ(bench_free(b, bench_alloc(b, 2 * MiB)), 0);
    pool_stall_begin(b->pool, 1, false);
    pool_stall_end(b->pool, 1, false);
    CHECK_EQ(bench_stats(b).epochs, 0);
    stall(b, 1);
    CHECK_EQ(bench_stats(b).epochs, 1);
    stall(b, 1);
    CHECK_EQ(bench_stats(b).epochs, 1);
    bench_end(b);
}

TEST(r72_r104_no_stream_is_made_to_wait_until_it_is_over)
{
    struct bench *b = begin();
    devptr_t a;

    stall(b, 3);
    a = free_on(b, 6 * MiB, 1);
    CHECK(stall_goes_on(b->pool, 0));
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    CHECK_EQ(bench_stats(b).inserted_waits, 0);
    fake_drain(b->fake);
    CHECK(!stall_goes_on(b->pool, 0));
    CHECK(!pool_has_stalls(b->pool));
    b->fake->hangs = true;
    a = free_on(b, 6 * MiB, 1);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    BENCH_CHECK(b);
    bench_end(b);
}

TEST(r72_r104_a_call_on_its_way_counts)
{
    struct bench *b = begin();

    pool_stall_begin(b->pool, 1, true);
    CHECK(stall_goes_on(b->pool, 0));
    pool_stall_end(b->pool, 1, false);
    fake_drain(b->fake);
    CHECK(!stall_goes_on(b->pool, 0));
    bench_end(b);
}

/* Else nobody could record it later. */
TEST(r69_a_threads_own_stream_is_recorded_at_once)
{
    struct bench *b = begin();

    pool_stall_begin(b->pool, 1, true);
    pool_stall_end(b->pool, 1, true);
    CHECK_EQ(b->fake->stream_records, 1);
    b->fake->streams[1].gone = true;
    pool_stream_lost(b->pool, 1);
    CHECK_EQ(b->fake->stream_records, 1);
    fake_drain(b->fake);
    CHECK(!stall_goes_on(b->pool, 0));
    bench_end(b);
}

TEST(r107_a_stream_that_is_gone_leaves_no_stall)
{
    struct bench *b = begin();

    stall(b, 1);
    pool_stream_gone(b->pool, 1);
    CHECK_EQ(b->fake->stream_records, 1);
    b->fake->streams[1].gone = true;
    CHECK(stall_goes_on(b->pool, 0));
    stall(b, 2);
    b->fake->streams[2].gone = true; /* nobody saw it go */
    fake_drain(b->fake);
    CHECK(!stall_goes_on(b->pool, 0));
    BENCH_CHECK(b);
    bench_end(b);
}

/* SPDX-License-Identifier: MIT */
/* covers: stream_take.c stream_order.c */
/* Free blocks of other streams become a stream's own, and no work on them comes too early. */
#include "alloc/heap/streams.h"
#include "tests/unit/alloc/ordered.h"

#define SLOT   ORDERED_SLOT
#define CROWD  40 /* requests after which a stream that asks for nothing is idle */
#define PIECE  (SLOT / 2)
#define PIECES 16

/* A device far behind, where blocks of half a slot are free side by side, of the streams 1 and 2 by turns. */
static struct bench *free_by_turns(uint64_t budget, devptr_t *ret_lo)
{
    struct bench *b = bench_with_budget(1 * GiB, budget);
    devptr_t pieces[PIECES];

    b->fake->hangs = true;
    for (uint64_t i = 0; i < PIECES; i++) {
        pieces[i] = bench_alloc_on(b, PIECE, 1 + i % 2);
        fake_submit(b->fake, 1 + i % 2, pieces[i], PIECE);
        CHECK_EQ(pieces[i], pieces[0] + i * PIECE);
    }
    for (uint64_t i = 0; i < PIECES; i++)
        CHECK_EQ(bench_free_on(b, pieces[i], 1 + i % 2), 0);
    *ret_lo = pieces[0];
    return b;
}

/* Streams that ask for nothing for a while; what is asked for meanwhile fits nowhere else and stays. */
static void let_time_pass(struct bench *b, uint64_t stream)
{
    for (int i = 0; i < CROWD; i++) {
        devptr_t a = bench_alloc_on(b, 512, stream);

        CHECK_NE(a, 0);
        CHECK_EQ(bench_free_on(b, a, stream), 0);
    }
}

/* A slot that is half of one stream and half of another one can move for neither. */
TEST(r72_storage_that_two_streams_share_moves_for_a_third)
{
    struct bench *b = bench_with_budget(1 * GiB, 10 * SLOT);
    devptr_t pieces[PIECES];

    b->fake->hangs = true;
    for (uint64_t i = 0; i < PIECES; i++) {
        pieces[i] = bench_alloc_on(b, PIECE, 1 + i % 2);
        fake_submit(b->fake, 1 + i % 2, pieces[i], PIECE);
        if (i % 8 == 7)
            CHECK_NE(bench_alloc_on(b, SLOT, 3), 0); /* stays: two holes of four slots */
    }
    for (uint64_t i = 0; i < PIECES; i++)
        CHECK_EQ(bench_free_on(b, pieces[i], 1 + i % 2), 0);
    CHECK_EQ(b->fake->held, 10 * SLOT);
    CHECK_NE(bench_alloc_on(b, 6 * SLOT, 3), 0);
    CHECK_EQ(b->fake->held, 10 * SLOT);
    CHECK_EQ(bench_stats(b).granules_aliased, 6);
    CHECK_EQ(bench_stats(b).inserted_waits, 2);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    CHECK(fake_is_ordered(b->fake, 1, PIECES / 2, 3));
    CHECK(fake_is_ordered(b->fake, 2, PIECES / 2, 3));
    BENCH_CHECK(b);
    bench_end(b);
}

/* A stream that has fewer free blocks than it takes puts them among those: what lies side by side is one again. */
TEST(r72_few_blocks_of_a_stream_join_the_many_that_it_takes)
{
    struct bench *b = bench_with_budget(1 * GiB, 10 * SLOT);
    devptr_t pieces[PIECES];
    uint64_t streams[PIECES];

    b->fake->hangs = true;
    for (uint64_t i = 0; i < PIECES; i++) {
        streams[i] = i == 2 || i == 11 ? 2 : 1;
        pieces[i] = bench_alloc_on(b, PIECE, streams[i]);
        fake_submit(b->fake, streams[i], pieces[i], PIECE);
        if (i % 8 == 7)
            CHECK_NE(bench_alloc_on(b, SLOT, 3), 0); /* stays: two holes of four slots */
    }
    for (uint64_t i = 0; i < PIECES; i++)
        CHECK_EQ(bench_free_on(b, pieces[i], streams[i]), 0);
    CHECK_NE(bench_alloc_on(b, 6 * SLOT, 2), 0);
    CHECK_EQ(b->fake->held, 10 * SLOT);
    CHECK_EQ(bench_stats(b).inserted_waits, 1);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    CHECK(fake_is_ordered(b->fake, 1, PIECES - 2, 2));
    BENCH_CHECK(b);
    bench_end(b);
}

/* One wait for each, then all that the idle streams have freed is the third one's, without another word to the driver. */
TEST(r72_what_idle_streams_have_freed_needs_one_wait_each)
{
    devptr_t lo;
    struct bench *b = free_by_turns(12 * SLOT, &lo);
    uint64_t calls;

    let_time_pass(b, 3);
    CHECK_NE(bench_alloc_on(b, 3 * SLOT, 3), 0); /* the budget is used up */
    CHECK_EQ(bench_stats(b).inserted_waits, 0);
    CHECK_NE(bench_alloc_on(b, 2 * SLOT, 3), 0);
    CHECK(b->last.how & OUTCOME_ORDERED);
    CHECK_EQ(bench_stats(b).inserted_waits, 2);
    calls = b->fake->calls;
    for (int i = 0; i < 3; i++) {
        devptr_t next = bench_alloc_on(b, 2 * SLOT, 3);

        CHECK(next >= lo && next < lo + PIECES * PIECE);
        CHECK(b->last.how & OUTCOME_HIT);
    }
    CHECK_EQ(b->fake->calls, calls);
    BENCH_CHECK(b);
    bench_end(b);
}

/* A stream that still asks keeps what the request of another one did not need. */
TEST(r72_a_busy_stream_keeps_the_rest)
{
    struct bench *b = bench_with_budget(1 * GiB, 8 * SLOT);
    devptr_t parts[4];

    b->fake->hangs = true;
    for (int i = 0; i < 4; i++) {
        parts[i] = bench_alloc_on(b, 2 * SLOT, 1);
        fake_submit(b->fake, 1, parts[i], 2 * SLOT);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(bench_free_on(b, parts[i], 1), 0);
    CHECK_NE(bench_alloc_on(b, 2 * SLOT, 2), 0);
    CHECK_EQ(b->fake->stream_waits, 1);
    CHECK_NE(bench_alloc_on(b, 6 * SLOT, 1), 0);
    CHECK(b->last.how & OUTCOME_HIT);
    CHECK_EQ(b->fake->stream_waits, 1);
    bench_end(b);
}

/* Freed behind work that uses it. */
static void use_and_free(struct bench *b, devptr_t ptr, uint64_t size, uint64_t stream)
{
    fake_submit(b->fake, stream, ptr, size);
    CHECK_EQ(bench_free_on(b, ptr, stream), 0);
}

/* What it had freed by the point that was waited for needs no second wait; what it frees later does. */
TEST(r72_a_stream_waits_once_for_each_point)
{
    struct bench *b = bench_with_budget(1 * GiB, 8 * SLOT);
    devptr_t parts[4], again;

    b->fake->hangs = true;
    for (int i = 0; i < 4; i++)
        parts[i] = bench_alloc_on(b, 2 * SLOT, 1);
    for (int i = 0; i < 3; i++)
        use_and_free(b, parts[i], 2 * SLOT, 1);
    for (int i = 0; i < 2; i++) {
        again = bench_alloc_on(b, 2 * SLOT, 2);
        CHECK_NE(again, 0);
        fake_submit(b->fake, 2, again, 2 * SLOT);
        CHECK_EQ(b->fake->stream_waits, 1);
        CHECK_EQ(bench_stats(b).inserted_waits, 1);
    }
    again = bench_alloc_on(b, 2 * SLOT, 1); /* its own, the last that is free; used once more */
    CHECK_NE(again, 0);
    use_and_free(b, again, 2 * SLOT, 1);
    CHECK_EQ(bench_alloc_on(b, 2 * SLOT, 2), again);
    CHECK_EQ(b->fake->stream_waits, 2);
    CHECK(fake_is_ordered(b->fake, 1, 4, 2));
    CHECK_EQ(b->fake->held, 8 * SLOT);
    fake_submit(b->fake, 2, again, 2 * SLOT);
    BENCH_CHECK(b);
    bench_end(b);
}

/* Another stream with the number of one that is gone has made no wait. */
TEST(r72_a_stream_of_the_same_number_waits_anew)
{
    struct bench *b = bench_with_budget(1 * GiB, 4 * SLOT);
    devptr_t a = bench_alloc_on(b, 2 * SLOT, 1);
    devptr_t c = bench_alloc_on(b, 2 * SLOT, 1);

    b->fake->hangs = true;
    use_and_free(b, a, 2 * SLOT, 1);
    use_and_free(b, c, 2 * SLOT, 1);
    CHECK_NE(bench_alloc_on(b, 2 * SLOT, 2), 0);
    CHECK_EQ(b->fake->stream_waits, 1);
    pool_stream_gone(b->pool, 2);
    CHECK_NE(bench_alloc_on(b, 2 * SLOT, 2), 0);
    CHECK_EQ(b->fake->stream_waits, 2);
    bench_end(b);
}

static uint32_t record_of(struct bench *b, uint64_t stream)
{
    uint32_t index;

    lock_take(&b->pool->lock);
    index = streams_find(b->pool, stream);
    lock_drop(&b->pool->lock);
    return index;
}

/* What was known of a stream is not taken for what is known of the one that has its record. */
TEST(r72_a_stream_with_the_record_of_one_that_is_gone_is_waited_for)
{
    struct bench *b = bench_with_budget(1 * GiB, 2 * SLOT);
    devptr_t a = bench_alloc_on(b, 2 * SLOT, 1);
    devptr_t rest = bench_alloc_on(b, 512, 1);
    uint32_t index = record_of(b, 1);
    uint64_t waits;

    b->fake->hangs = true;
    use_and_free(b, a, 2 * SLOT, 1);
    CHECK_EQ(bench_alloc_on(b, 2 * SLOT, 2), a);
    CHECK_EQ(b->fake->stream_waits, 1);
    CHECK_EQ(bench_free_on(b, rest, 1), 0);
    b->fake->hangs = false;
    fake_drain(b->fake);
    /* asks all fences, so that nothing of stream 1 waits */
    CHECK_NE(bench_alloc_on(b, 4 * SLOT, 2), 0);
    pool_stream_gone(b->pool, 1);
    CHECK_EQ(bench_free_on(b, a, 2), 0);
    CHECK_EQ(bench_alloc_on(b, 2 * SLOT, 3), a);
    REQUIRE_EQ(record_of(b, 3), index);
    b->fake->hangs = true;
    use_and_free(b, a, 2 * SLOT, 3);
    waits = b->fake->stream_waits;
    CHECK_EQ(bench_alloc_on(b, 2 * SLOT, 2), a);
    CHECK_EQ(b->fake->stream_waits, waits + 1);
    CHECK(fake_is_ordered(b->fake, 3, 1, 2));
    bench_end(b);
}

/* Where the first stream gets it back, its work comes behind that of the one that had it. */
TEST(r70_what_was_adopted_goes_back_behind_a_wait)
{
    devptr_t lo, back;
    struct bench *b = free_by_turns(PIECES * PIECE, &lo);
    devptr_t all = bench_alloc_on(b, PIECES * PIECE, 3);
    uint64_t waits;

    CHECK_EQ(all, lo);
    fake_submit(b->fake, 3, all, PIECES * PIECE);
    CHECK_EQ(bench_free_on(b, all, 3), 0);
    waits = b->fake->stream_waits;
    back = bench_alloc_on(b, PIECE, 1);
    CHECK(back >= lo && back < lo + PIECES * PIECE);
    CHECK_EQ(b->fake->stream_waits, waits + 1);
    CHECK(fake_is_ordered(b->fake, 3, 1, 1));
    bench_end(b);
}

TEST(r72_without_internal_dependencies_nothing_is_adopted)
{
    devptr_t lo;
    struct bench *b = free_by_turns(PIECES * PIECE, &lo);
    struct pool_heap_attrs attrs;

    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.reuse_internal_dependencies = false;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    CHECK_NE(bench_alloc_on(b, SLOT, 3), 0);
    CHECK_EQ(b->fake->stream_waits, 0);
    bench_end(b);
}

/* On a full device a stream waits, not the host. */
TEST(r73_on_a_full_device_streams_wait_before_the_host_does)
{
    struct bench *b = bench_new(8 * SLOT);
    devptr_t a = bench_alloc_on(b, 4 * SLOT, 1);
    devptr_t c = bench_alloc_on(b, 4 * SLOT, 2);

    b->fake->hangs = true;
    use_and_free(b, a, 4 * SLOT, 1);
    use_and_free(b, c, 4 * SLOT, 2);
    CHECK_EQ(bench_alloc_on(b, 8 * SLOT, 3), a);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    CHECK_EQ(b->fake->stream_waits, 2);
    bench_end(b);
}

/* The n-th driver call fails, until none does: each request is served or refused, and nothing is lost. */
TEST(r31_each_call_of_an_adoption_may_fail)
{
    bool fired = true;

    for (int at = 1; fired; at++) {
        devptr_t lo;
        struct bench *b = free_by_turns(PIECES * PIECE, &lo);

        b->fake->fail_at = at;
        for (int i = 0; i < 4; i++) {
            devptr_t a = bench_alloc_on(b, (i % 2 ? 1 : 3) * SLOT, 3 + (uint64_t)i % 2);

            if (a)
                fake_submit(b->fake, 3 + (uint64_t)i % 2, a, SLOT);
        }
        fired = b->fake->fired;
        b->fake->fail_at = 0;
        BENCH_CHECK(b);
        fake_drain(b->fake);
        CHECK_EQ(b->fake->wrong, 0);
        bench_end(b);
        REQUIRE(at < 1000);
    }
}

/* On a device that keeps up, neighbours of several streams join before they are cut, and nothing waits. */
TEST(r72_a_heap_of_several_streams_asks_their_fences_once_in_a_turn)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    devptr_t parts[48], next;
    uint64_t records;

    for (uint64_t i = 0; i < 48; i++)
        parts[i] = bench_alloc_on(b, SLOT, 1 + i % 3);
    for (uint64_t i = 0; i < 20; i++)
        CHECK_EQ(bench_free_on(b, parts[i], 1 + i % 3), 0);
    CHECK_EQ(b->fake->stream_records, 0);
    CHECK_EQ(bench_alloc_on(b, 8 * SLOT, 1),
            parts[0]); /* all three are asked, and their blocks are one */
    CHECK_EQ(b->fake->stream_records, 3);
    records = b->fake->stream_records;
    next = bench_alloc_on(b, 4 * SLOT, 2);
    CHECK(next >= parts[8] && next < parts[20]);
    CHECK_EQ(b->fake->stream_records, records);
    CHECK_EQ(bench_stats(b).inserted_waits, 0);
    bench_end(b);
}

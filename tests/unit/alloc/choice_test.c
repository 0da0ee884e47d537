/* SPDX-License-Identifier: MIT */
#include "tests/unit/alloc/pool_bench.h"

/* Which free block of an arena a request is cut from, and from which end. Slots are of 2 MiB; sizes above 1 MiB are fitted each
 * time. */

#define STREAM 1

static devptr_t take(struct bench *b, uint64_t size)
{
    devptr_t ptr = bench_alloc_on(b, size, STREAM);

    REQUIRE(ptr != 0);
    CHECK(fake_is_accessible(b->fake, ptr, size));
    BENCH_CHECK(b);
    return ptr;
}

static void give(struct bench *b, devptr_t ptr)
{
    REQUIRE_EQ(bench_free_on(b, ptr, STREAM), 0);
    BENCH_CHECK(b);
}

TEST(the_top_of_the_arena_is_cut_only_where_nothing_else_fits)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t hole = take(b, 8 * MiB);
    devptr_t top;

    (void)take(b, 2 * MiB);
    top = take(b, 4 * MiB);
    give(b, hole);
    give(b, top);
    CHECK_EQ(take(b, 3 * MiB), hole); /* 4 MiB would be the best fit */
    CHECK_EQ(take(b, 5 * MiB), hole + 3 * MiB);
    CHECK_EQ(take(b, 3 * MiB), top);
    CHECK(b->last.how & OUTCOME_HIT); /* rather than to look for room to grow in */
    CHECK_EQ(b->fake->held, 14 * MiB);
    bench_end(b);
}

TEST(the_top_is_cut_last_even_where_it_is_part_of_a_slot)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t hole = take(b, 8 * MiB);
    devptr_t end = take(b, 3 * MiB) + 3 * MiB; /* and 1 MiB above it is free */

    give(b, hole);
    CHECK_EQ(take(b, 600 * KiB), hole);
    (void)take(b, 8 * MiB - 600 * KiB);
    CHECK_EQ(take(b, 600 * KiB), end);
    CHECK(b->last.how & OUTCOME_HIT);
    CHECK_EQ(b->fake->held, 12 * MiB);
    bench_end(b);
}

/* The request begins in a hole of 8 MiB, or so, between two blocks. */
static void check_start(
        uint64_t before, uint64_t hole, uint64_t after, uint64_t size, uint64_t start)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t ptr;

    (void)take(b, before);
    ptr = take(b, hole);
    (void)take(b, after);
    (void)take(b, 10 * MiB); /* no top beside it */
    give(b, ptr);
    CHECK_EQ(take(b, size) - ptr, start);
    bench_end(b);
}

TEST(a_request_is_cut_beside_a_block_of_its_own_size)
{
    check_start(4 * MiB, 12 * MiB, 6 * MiB, 6 * MiB, 6 * MiB);
    check_start(4 * MiB, 12 * MiB, 6 * MiB, 4 * MiB, 0);
    check_start(4 * MiB, 12 * MiB, 4 * MiB, 4 * MiB, 0); /* both are: the older one */
    /* though the low end costs a slot less */
    check_start(2560 * KiB, 5632 * KiB, 1536 * KiB, 1536 * KiB, 4096 * KiB);
}

TEST(a_request_is_cut_where_it_costs_fewer_slots)
{
    check_start(3584 * KiB, 5632 * KiB, 3 * MiB, 1 * MiB,
            4608 * KiB); /* 3.5 to 9 MiB: the last one is no slot */
    check_start(3 * MiB, 5632 * KiB, 3584 * KiB, 1 * MiB, 0);
}

TEST(a_request_is_cut_beside_the_older_block)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t before = take(b, 2 * MiB);
    devptr_t hole = take(b, 8 * MiB);

    (void)take(b, 2 * MiB);
    give(b, hole);
    CHECK_EQ(take(b, 4 * MiB), hole);
    give(b, hole);

    hole = take(b, 8 * MiB);
    give(b, before);
    CHECK_EQ(take(b, 2 * MiB), before); /* younger now than what is behind the hole */
    give(b, hole);
    CHECK_EQ(take(b, 4 * MiB), hole + 4 * MiB);
    bench_end(b);
}

TEST(small_requests_leave_whole_slots_whole)
{
    struct pool_opts opts;
    devptr_t hole, wall, slot;
    struct bench *b;

    pool_opts_init(&opts);
    opts.remap = POOL_REMAP_EAGER;
    b = bench_new_with(1 * GiB, &opts);
    (void)take(b, 1280 * KiB);
    hole = take(b,
            2304 * KiB); /* begins and ends inside slots: no whole one, though it is larger than one */
    wall = take(b, 512 * KiB);
    slot = take(b, 2 * MiB);
    (void)take(b, 2 * MiB);
    give(b, hole);
    give(b, slot);
    CHECK_LT(take(b, 1536 * KiB), wall); /* best fit alone would take the slot, which is smaller */
    (void)take(b, 2 * MiB);
    CHECK_EQ(b->fake->held, 8 * MiB);
    bench_end(b);
}

TEST(best_fit_takes_the_smallest_hole_that_fits_at_its_low_end)
{
    struct bench *b = bench_new(1 * GiB);
    static const uint64_t sizes[] = {
            6 * MiB, 1536 * KiB, 10 * MiB, 1536 * KiB, 8 * MiB, 1536 * KiB};
    devptr_t big = bench_alloc_on(b, 64 * MiB, 1);
    devptr_t parts[6];

    CHECK_EQ(bench_free_on(b, big, 1), 0);
    for (int i = 0; i < 6; i++)
        parts[i] = bench_alloc_on(b, sizes[i], 1);
    CHECK_EQ(parts[0], big); /* low end, in address order */
    for (int i = 1; i < 6; i++)
        CHECK_EQ(parts[i], parts[i - 1] + sizes[i - 1]);
    for (int i = 0; i < 6; i += 2)
        CHECK_EQ(bench_free_on(b, parts[i], 1), 0);
    CHECK_EQ(bench_alloc_on(b, 7 * MiB, 1), parts[4]);
    CHECK_EQ(bench_alloc_on(b, 9 * MiB, 1), parts[2]);
    CHECK_EQ(bench_alloc_on(b, 2 * MiB, 1), parts[0]);
    CHECK_EQ(bench_stats(b).grows, 1);
    bench_end(b);
}

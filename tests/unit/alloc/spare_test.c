/* SPDX-License-Identifier: MIT */
/* covers: handles.c pool_trim.c trim.c */
/* Handles that a wait gives back and that the next request uses again. */
#include "tests/unit/alloc/pool_bench.h"

#define SLOT         (2 * MiB)
#define SLOTS_IN_GIB 512

/* A huge block comes and goes, and the program waits. */
static void cycle(struct bench *b, uint64_t size)
{
    devptr_t ptr = bench_alloc_on(b, size, 1);

    CHECK_NE(ptr, 0);
    CHECK_EQ(bench_free_on(b, ptr, 1), 0);
    fake_drain(b->fake);
    pool_synchronised(b->pool);
    BENCH_CHECK(b);
}

TEST(r78_spare_handles_count_as_given_back_and_are_used_again)
{
    struct bench *b = bench_new(64 * GiB);
    uint64_t first, calls;

    cycle(b, 4 * GiB);
    first = b->fake->calls;
    CHECK_EQ(bench_heap_stats(b).reserved, 0);
    CHECK_EQ(b->fake->held, 4 * GiB);
    cycle(b, 4 * GiB);
    calls = b->fake->calls - first;
    CHECK_EQ(b->fake->creates, 4 * SLOTS_IN_GIB);
    CHECK_EQ(b->fake->unmap_calls, 2);
    printf("a cycle of 4 GiB: %llu driver calls, then %llu\n", (unsigned long long)first,
            (unsigned long long)calls);
    CHECK_EQ(calls,
            4 * SLOTS_IN_GIB + 7); /* maps; memory twice, access, record, query, put, unmap */
    CHECK_EQ(bench_heap_stats(b).reserved_high, 4 * GiB);
    bench_end(b);
}

TEST(r78_less_than_a_gib_is_given_back_at_once)
{
    struct bench *b = bench_new(64 * GiB);

    cycle(b, 1 * GiB - SLOT);
    CHECK_EQ(b->fake->held, 0);
    cycle(b, 1 * GiB);
    CHECK_EQ(b->fake->held, 1 * GiB);
    bench_end(b);
}

TEST(r78_growth_of_others_is_paid_from_what_was_given_back)
{
    struct bench *b = bench_new(64 * GiB);

    cycle(b, 4 * GiB);
    CHECK_NE(bench_alloc(b, 1 * GiB), 0);
    CHECK_EQ(b->fake->held, 4 * GiB);
    CHECK_NE(bench_alloc_on(b, 512 * MiB, 2), 0);
    CHECK_EQ(b->fake->held, 4 * GiB);
    CHECK_EQ(b->fake->held_high, 4 * GiB);
    CHECK_NE(bench_alloc(b, 4 * GiB), 0);
    CHECK_EQ(b->fake->held, 4 * GiB + 1536 * MiB); /* nothing is spare any more */
    BENCH_CHECK(b);
    bench_end(b);
}

TEST(r81_the_device_has_all_back_when_it_is_asked_for)
{
    struct bench *b = bench_new(64 * GiB);
    struct pool_memory memory = {.driver_free = 60 * GiB, .total = 64 * GiB};

    cycle(b, 4 * GiB);
    CHECK_EQ(b->fake->held, 4 * GiB);
    CHECK_EQ(pool_available(b->pool, 0, &memory), 64 * GiB);
    CHECK_EQ(pool_trim_device(b->pool, 0, false), 4 * GiB);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

TEST(a_device_that_others_have_filled_gets_it_back_before_a_request_fails)
{
    struct bench *b = bench_new(16 * GiB);

    cycle(b, 4 * GiB);
    b->fake->held += 12 * GiB;
    CHECK_NE(bench_alloc_on(b, 512 * MiB, 2), 0);
    CHECK_NE(bench_alloc(b, 512 * MiB), 0);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    b->fake->held -= 12 * GiB;
    CHECK_LE(b->fake->held, 4 * GiB);
    BENCH_CHECK(b);
    bench_end(b);
}

TEST(r46_the_reserve_is_left_free_before_anything_is_spare)
{
    struct pool_opts opts;
    struct bench *b;

    pool_opts_init(&opts);
    opts.reserve = 4 * GiB;
    b = bench_new_with(16 * GiB, &opts);
    cycle(b, 4 * GiB);
    CHECK_EQ(b->fake->held, 4 * GiB);
    b->fake->held += 8 * GiB; /* of others */
    CHECK_NE(bench_alloc_on(b, 512 * MiB, 2), 0);
    CHECK_LE(b->fake->held, 12 * GiB);
    b->fake->held -= 8 * GiB;
    bench_end(b);
}

TEST(a_wait_keeps_nothing_on_a_device_that_is_nearly_full)
{
    for (uint64_t more = 0; more < 2; more++) {
        struct bench *b = bench_new(8 * GiB);

        cycle(b, 7 * GiB + more * SLOT); /* so an eighth is free, or less */
        CHECK_EQ(b->fake->held, more ? 0 : 7 * GiB);
        bench_end(b);
    }
}

TEST(idleness_and_the_end_of_a_heap_give_back_what_was_kept)
{
    struct bench *b = bench_new(64 * GiB);
    const uint64_t minute = UINT64_C(61) * 1000 * 1000 * 1000;
    uint64_t given = 0;

    cycle(b, 4 * GiB);
    (void)pool_idle(b->pool, 1);
    CHECK_EQ(pool_idle(b->pool, 1 + minute), 4 * GiB);
    CHECK_EQ(b->fake->held, 0);
    cycle(b, 4 * GiB);
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &given), 0);
    CHECK_EQ(b->fake->held, 0);
    cycle(b, 4 * GiB);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

/* SPDX-License-Identifier: MIT */
/* covers: pool_trim.c */
/* What goes back to the driver, and when: trims that the program asks for, its synchronises, its idleness. */
#include "tests/unit/alloc/pool_bench.h"

#define SECOND (UINT64_C(1000) * 1000 * 1000)

static struct bench *trimming(uint64_t memory, enum pool_trim trim)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.trim = trim;
    return bench_new_with(memory, &opts);
}

/* ── a heap ── */

TEST(r78_the_release_threshold_is_kept_at_a_synchronise)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_heap_attrs attrs;
    devptr_t a = bench_alloc_on(b, 30 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 10 * MiB, 1);

    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.release_threshold = 20 * MiB;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->held, 40 * MiB); /* all of it is live */
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->held, 20 * MiB);
    attrs.release_threshold = UINT64_MAX;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->held, 20 * MiB);
    bench_end(b);
}

TEST(r78_no_more_than_the_release_threshold_is_kept_whatever_the_pieces)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_heap_attrs attrs;
    devptr_t a = bench_alloc_on(b, 30 * MiB, 1);

    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.release_threshold = 5 * MiB;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->held, 4 * MiB);
    bench_end(b);
}

TEST(a_trim_that_may_wait_gives_back_what_streams_have_not_left)
{
    for (int may_wait = 0; may_wait < 2; may_wait++) {
        struct bench *b = bench_new(1 * GiB);
        devptr_t a = bench_alloc_on(b, 8 * MiB, 1);

        fake_submit(b->fake, 1, a, 8 * MiB);
        CHECK_EQ(bench_free_on(b, a, 1), 0);
        CHECK_EQ(pool_trim_device(b->pool, 0, may_wait), may_wait ? 8 * MiB : 0);
        CHECK_EQ(b->fake->waits, may_wait);
        CHECK_EQ(b->fake->held, may_wait ? 0 : 8 * MiB);
        bench_end(b);
    }
}

TEST(r78_trim_gives_back_all_that_is_free_and_never_below)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t live[8], dead[8];
    uint64_t bytes;

    for (int i = 0; i < 8; i++) {
        live[i] = bench_alloc_on(b, 2 * MiB, 1);
        dead[i] = bench_alloc_on(b, 2 * MiB, 1);
    }
    for (int i = 0; i < 8; i++)
        CHECK_EQ(bench_free_on(b, dead[i], 1), 0);
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 27 * MiB, &bytes), 0);
    CHECK_EQ(bytes, 4 * MiB); /* 26 would be below */
    CHECK_EQ(b->fake->held, 28 * MiB);
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(b->fake->held, 16 * MiB); /* holes in the middle go too */
    for (int i = 0; i < 8; i++)
        CHECK(fake_is_accessible(b->fake, live[i], 2 * MiB));
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, 12345, 0, &bytes), -ENOENT);
    for (int i = 0; i < 8; i++)
        dead[i] = bench_alloc_on(b, 2 * MiB, 1); /* the holes are used again */
    CHECK_EQ(b->fake->held, 32 * MiB);
    for (int i = 0; i < 8; i++)
        CHECK_LT(dead[i], live[0] + 34 * MiB);
    bench_end(b);
}

TEST(what_the_device_still_uses_is_not_trimmed)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 8 * MiB, 1);
    uint64_t bytes;

    fake_submit(b->fake, 1, a, 8 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    b->fake->hangs = true;
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bytes, 0);
    CHECK_EQ(pool_trim_device(b->pool, 0, true), 0);
    fake_drain(b->fake); /* no fault: it is still mapped */
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bytes, 8 * MiB);
    bench_end(b);
}

static struct {
    int late; /* questions that a fence leaves unanswered, as a device does for some microseconds */
    int (*real)(void *self, uint64_t fence);
} slow;

static int query_late(void *self, uint64_t fence)
{
    return slow.late-- > 0 ? -EAGAIN : slow.real(self, fence);
}

/* R78: the program has synchronised, so all that is free is free, although our own fence is only just recorded. */
TEST(a_trim_waits_for_its_own_fences_to_arrive)
{
    struct fake_driver *fake = fake_new(1 * GiB);
    uint64_t bytes = 0;
    devptr_t first, second;
    struct bench *b;

    slow.real = fake->driver.fence_query;
    fake->driver.fence_query = query_late;
    b = bench_over(fake, NULL);
    first = bench_alloc_on(b, 8 * MiB, 1);
    second = bench_alloc_on(b, 8 * MiB, 1);
    CHECK_EQ(bench_free_on(b, first, 1), 0);
    CHECK_EQ(bench_free(b, second), 0); /* without a stream */
    slow.late = 6;
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bytes, 16 * MiB);
    CHECK_EQ(b->fake->waits, 0);
    bench_end(b);
}

/* A device that is busy is not waited for. */
TEST(a_trim_does_not_wait_for_the_device)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t bytes = 7;
    devptr_t first = bench_alloc_on(b, 8 * MiB, 1);

    fake_submit(b->fake, 1, first, 8 * MiB);
    CHECK_EQ(bench_free_on(b, first, 1), 0);
    b->fake->hangs = true;
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bytes, 0);
    b->fake->hangs = false;
    bench_end(b);
}

/* ── all heaps ── */

TEST(eager_gives_back_what_is_free_when_the_program_has_waited)
{
    struct bench *b = trimming(1 * GiB, POOL_TRIM_EAGER);
    devptr_t a = bench_alloc(b, 8 * MiB);

    (void)bench_free(b, a);
    fake_drain(b->fake);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
    b = trimming(1 * GiB, POOL_TRIM_AUTO);
    (void)bench_free(b, bench_alloc(b, 8 * MiB));
    fake_drain(b->fake);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->held, 8 * MiB);
    bench_end(b);
}

/* Above the budget auto gives small segments back to take a large one; never grows beyond it. */
TEST(never_gives_back_on_a_full_device_only)
{
    for (int never = 0; never < 2; never++) {
        struct bench *b = trimming(256 * MiB, never ? POOL_TRIM_NEVER : POOL_TRIM_AUTO);
        devptr_t small[8];

        for (int i = 0; i < 8; i++)
            small[i] = bench_alloc(b, 4 * MiB);
        for (int i = 0; i < 8; i++)
            (void)bench_free(b, small[i]);
        bench_pass(b);
        (void)bench_alloc(b, 30 * MiB);
        CHECK_EQ(b->fake->held >= 62 * MiB, never);
        (void)bench_alloc(b, 200 * MiB); /* fits only if they go */
        CHECK_LE(b->fake->held, 240 * MiB);
        bench_end(b);
    }
}

/* ── idleness ── */

TEST(after_idleness_an_eighth_may_stay_free)
{
    struct bench *b = trimming(1 * GiB, POOL_TRIM_AUTO);
    devptr_t live = bench_alloc(b, 64 * MiB);
    devptr_t dead[16];

    for (int i = 0; i < 16; i++)
        dead[i] = bench_alloc(b, 4 * MiB);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(bench_free(b, dead[i]), 0);
    CHECK_EQ(pool_idle(b->pool, 5 * SECOND), 0); /* the first that is heard of it */
    CHECK_EQ(pool_idle(b->pool, 64 * SECOND), 0);
    CHECK_EQ(b->fake->held, 128 * MiB);
    CHECK_EQ(pool_idle(b->pool, 124 * SECOND), 48 * MiB);
    CHECK_EQ(b->fake->held, 80 * MiB); /* 16 of 128 */
    CHECK_EQ(bench_free(b, live), 0);
    bench_end(b);
}

TEST(a_program_that_makes_calls_is_not_idle)
{
    struct bench *b = trimming(1 * GiB, POOL_TRIM_AUTO);
    devptr_t a = bench_alloc(b, 64 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    for (uint64_t at = 1; at < 1000; at += 59)
        CHECK_EQ(pool_idle(b->pool, at * SECOND), 0);
    CHECK_EQ(pool_idle(b->pool, 3 * SECOND), 0); /* a clock that another thread read earlier */
    CHECK_EQ(b->fake->held, 64 * MiB);
    bench_end(b);
}

TEST(an_idle_program_whose_memory_is_in_use_keeps_it)
{
    struct bench *b = trimming(1 * GiB, POOL_TRIM_AUTO);
    devptr_t live = bench_alloc(b, 72 * MiB);
    devptr_t dead = bench_alloc(b, 8 * MiB);
    uint64_t calls;

    CHECK_EQ(bench_free(b, dead), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    calls = b->fake->calls;
    CHECK_EQ(pool_idle(b->pool, 2 * SECOND), 0);
    CHECK_EQ(b->fake->calls, calls); /* not idle: nobody is asked anything */
    CHECK_EQ(pool_idle(b->pool, 100 * SECOND), 0);
    CHECK_EQ(b->fake->held, 80 * MiB);
    CHECK_EQ(bench_free(b, live), 0);
    bench_end(b);
}

TEST(idle_memory_of_mapped_heaps_goes_too_but_not_what_the_device_still_uses)
{
    struct bench *b = trimming(1 * GiB, POOL_TRIM_AUTO);
    struct pool_heap_attrs attrs;
    devptr_t a = bench_alloc_on(b, 32 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 32 * MiB, 2);

    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.release_threshold = UINT64_MAX; /* as PyTorch sets it */
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    fake_submit(b->fake, 2, c, 32 * MiB);
    b->fake->hangs = true;
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(bench_free_on(b, c, 2), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    CHECK_GE(pool_idle(b->pool, 100 * SECOND), 32 * MiB);
    CHECK_EQ(b->fake->held, 32 * MiB);
    b->fake->hangs = false;
    fake_drain(b->fake);
    CHECK_EQ(pool_idle(b->pool, 200 * SECOND), 28 * MiB);
    CHECK_EQ(b->fake->held, 4 * MiB);
    bench_end(b);
}

TEST(trim_never_means_never_when_idle)
{
    struct bench *b = trimming(1 * GiB, POOL_TRIM_NEVER);
    devptr_t a = bench_alloc(b, 64 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    CHECK_EQ(pool_idle(b->pool, 1000 * SECOND), 0);
    CHECK_EQ(b->fake->held, 64 * MiB);
    bench_end(b);
}

TEST(r34_a_frozen_pool_gives_nothing_back_when_idle)
{
    struct bench *b = trimming(1 * GiB, POOL_TRIM_AUTO);
    devptr_t a = bench_alloc(b, 64 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    pool_freeze(b->pool);
    CHECK_EQ(pool_idle(b->pool, 1000 * SECOND), 0);
    CHECK_EQ(b->fake->held, 64 * MiB);
    b->fake->lost = 1;
    bench_end(b);
}

/* Each of them holds a free block of a stream that does not end, beside a live one. */
TEST(a_wait_asks_once_for_what_is_pending_however_many_pools_hold_it)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t calls[3];

    b->fake->hangs = true;
    for (uint64_t i = 0; i < 16; i++) {
        struct pool_request small = bench_request(64 * KiB, 2);
        struct pool_request large = bench_request(4 * MiB, 2);
        devptr_t a;

        small.owner = large.owner = 100 + i;
        CHECK_NE(bench_ask(b, &small), 0);
        a = bench_ask(b, &large);
        fake_submit(b->fake, 2, a, 4 * MiB);
        CHECK_EQ(bench_free_on(b, a, 2), 0);
    }
    for (int i = 0; i < 3; i++) {
        calls[i] = b->fake->calls;
        pool_synchronised(b->pool);
        calls[i] = b->fake->calls - calls[i];
    }
    CHECK_LT(calls[0], 200); /* its fence is new, and might pass soon */
    CHECK_LT(calls[1], 5);
    CHECK_LT(calls[2], 5);
    b->fake->hangs = false;
    fake_drain(b->fake);
    pool_synchronised(b->pool);
    CHECK_EQ(bench_stats(b).reserved, 32 * MiB);
    bench_end(b);
}

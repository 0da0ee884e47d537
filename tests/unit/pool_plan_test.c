/* SPDX-License-Identifier: MIT */
#include "alloc/meta.h"
#include "tests/unit/pool_bench.h"

/* Planned blocks in a mapped heap: where they stand, and all the reasons why one does not. */

#define S1 UINT64_C(1)
#define S2 UINT64_C(2)

/* Four blocks in 6 MiB: the third takes the place of the first, the fourth those of the second and the third. */
static const struct planned step[4] = {
        {2 * MiB, 0, 0, 2},
        {3 * MiB, 2 * MiB, 0, 3},
        {1 * MiB, 512 * KiB, 0, 3},
        {4 * MiB, 1 * MiB, 0, 4},
};

static struct bench *plan_bench(uint64_t memory, const struct pool_opts *opts,
        const struct planned *block, uint32_t count, uint64_t area)
{
    struct bench *b = bench_new_with(memory, opts);
    struct pool_plan plan = {.entrance = ENTRANCE_STREAM,
            .quantum = 512,
            .area = area,
            .block = block,
            .count = count};

    REQUIRE_EQ(pool_set_plan(b->pool, &plan), 0);
    return b;
}

static struct bench *start(void)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    return plan_bench(1 * GiB, &opts, step, 4, 6 * MiB);
}

static void give(struct bench *b, devptr_t ptr, uint64_t stream)
{
    CHECK_EQ(bench_free_on(b, ptr, stream), 0);
    BENCH_CHECK(b);
}

/* The whole step on one stream; the first block's address. */
static devptr_t run_step(struct bench *b, uint64_t stream)
{
    devptr_t at[4];

    at[0] = bench_alloc_on(b, 2 * MiB, stream);
    at[1] = bench_alloc_on(b, 3 * MiB - 100, stream);
    give(b, at[0], stream);
    at[2] = bench_alloc_on(b, 1 * MiB, stream);
    give(b, at[1], stream);
    give(b, at[2], stream);
    at[3] = bench_alloc_on(b, 4 * MiB, stream);
    give(b, at[3], stream);
    CHECK_EQ(at[1], at[0] + 2 * MiB);
    CHECK_EQ(at[2], at[0] + 512 * KiB);
    CHECK_EQ(at[3], at[0] + 1 * MiB);
    return at[0];
}

TEST(a_step_that_is_planned_stands_where_the_plan_says)
{
    struct bench *b = start();
    devptr_t first = run_step(b, S1);
    uint64_t calls = b->fake->calls;

    for (int i = 0; i < 10; i++)
        CHECK_EQ(run_step(b, S1), first);
    CHECK_EQ(b->fake->calls, calls); /* nothing is asked of the driver any more */
    CHECK_EQ(bench_stats(b).plan.placed, 44);
    CHECK_EQ(bench_stats(b).plan.matched, 44);
    CHECK_EQ(bench_stats(b).plan.steps, 11);
    CHECK_EQ(bench_stats(b).reserved, 6 * MiB);
    CHECK_EQ(bench_stats(b).reserved_high, 6 * MiB);
    bench_end(b);
}

TEST(storage_comes_as_planned_blocks_first_reach_it)
{
    struct bench *b = start();
    devptr_t at = bench_alloc_on(b, 2 * MiB, S1);

    CHECK_EQ(bench_stats(b).reserved, 2 * MiB);
    CHECK(b->last.how & OUTCOME_GROWN);
    CHECK_EQ(b->last.reserved_delta, 2 * (int64_t)MiB);
    give(b, at, S1);
    at = bench_alloc_on(b, 3 * MiB, S1);
    CHECK_EQ(bench_stats(b).reserved, 6 * MiB); /* 3 MiB reach into the third slot */
    give(b, at, S1);
    bench_end(b);
}

TEST(r70_the_place_of_a_block_of_another_stream_is_taken_when_its_point_has_passed)
{
    struct bench *b = start();
    devptr_t at[3];

    at[0] = bench_alloc_on(b, 2 * MiB, S1);
    at[1] = bench_alloc_on(b, 3 * MiB, S1);
    fake_submit(b->fake, S2, at[0], 2 * MiB);
    give(b, at[0], S2); /* the use on stream 2 is not over */
    at[2] = bench_alloc_on(b, 1 * MiB, S1);
    CHECK(at[2] < at[0] || at[2] >= at[0] + 6 * MiB);
    CHECK_EQ(bench_stats(b).plan.fell_back, 1);
    give(b, at[1], S1);
    give(b, at[2], S1);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 4 * MiB, S1), at[0] + 1 * MiB);
    CHECK_EQ(bench_stats(b).plan.fell_back, 1);
    CHECK_EQ(bench_stats(b).plan.placed, 3);
    bench_end(b);
}

/* The middle of a free block is taken: both rests keep the point that they wait for. */
TEST(r70_what_is_cut_off_keeps_its_point)
{
    struct bench *b = start();
    devptr_t at[2], other;

    at[0] = bench_alloc_on(b, 2 * MiB, S1);
    at[1] = bench_alloc_on(b, 3 * MiB, S1);
    fake_submit(b->fake, S1, at[0], 5 * MiB);
    give(b, at[0], S1);
    CHECK_EQ(bench_alloc_on(b, 1 * MiB, S1), at[0] + 512 * KiB);
    give(b, at[1], S1);
    /* nothing of it is stream 2's yet, though the plan has lost the program by now */
    for (int i = 0; i < 40; i++) {
        other = bench_alloc_on(b, 256 * KiB, S2);
        CHECK(other < at[0] || other >= at[0] + 6 * MiB);
        give(b, other, S2);
    }
    bench_end(b);
}

TEST(a_place_that_somebody_holds_is_not_taken)
{
    struct bench *b = start();
    devptr_t at[3];

    at[0] = bench_alloc_on(b, 2 * MiB, S1);
    at[1] = bench_alloc_on(b, 3 * MiB, S1);
    at[2] = bench_alloc_on(b, 1 * MiB, S1); /* the first was not freed */
    CHECK(at[2] >= at[0] + 6 * MiB || at[2] + 1 * MiB <= at[0]);
    CHECK_EQ(bench_stats(b).plan.fell_back, 1);
    for (int i = 0; i < 3; i++)
        give(b, at[i], S1);
    bench_end(b);
}

TEST(r80_a_place_that_is_pinned_is_not_taken_after_its_free)
{
    struct bench *b = start();
    struct pool_pinned pinned;
    struct pool_hit hit;
    devptr_t at[3];

    at[0] = bench_alloc_on(b, 2 * MiB, S1);
    CHECK_EQ(pool_pin(b->pool, at[0], 1, POOL_PIN_SHOWN, &pinned, &hit), 0);
    at[1] = bench_alloc_on(b, 3 * MiB, S1);
    give(b, at[0], S1);
    at[2] = bench_alloc_on(b, 1 * MiB, S1);
    CHECK(at[2] >= at[0] + 2 * MiB || at[2] + 1 * MiB <= at[0]);
    CHECK_EQ(bench_stats(b).plan.fell_back, 1);
    give(b, at[1], S1);
    give(b, at[2], S1);
    bench_end(b);
}

TEST(what_is_not_planned_stays_out_of_the_area)
{
    struct bench *b = start();
    devptr_t first = run_step(b, S1);
    devptr_t other;

    CHECK_EQ(bench_alloc_on(b, 2 * MiB, S1), first);
    other = bench_alloc_on(b, 7 * KiB, S1);
    CHECK(other < first || other >= first + 6 * MiB);
    other = bench_alloc_on(b, 900 * KiB, S1);
    CHECK(other < first || other >= first + 6 * MiB);
    CHECK_EQ(bench_alloc_on(b, 3 * MiB, S1), first + 2 * MiB);
    CHECK_EQ(bench_stats(b).plan.unmatched, 2);
    bench_end(b);
}

/* Small blocks that were just freed are found by their size alone, but not here. */
TEST(what_is_not_planned_takes_no_small_planned_block_either)
{
    static const struct planned small[2] = {{4096, 0, 5, 1}, {8192, 0, 6, 2}};
    struct pool_request request = bench_request(4096, S1);
    struct pool_opts opts;
    struct bench *b;
    devptr_t at;

    pool_opts_init(&opts);
    b = plan_bench(1 * GiB, &opts, small, 2, 64 * KiB);
    request.site = 5;
    at = bench_ask(b, &request);
    give(b, at, S1);
    request.site = 77;
    CHECK_NE(bench_ask(b, &request), at);
    CHECK_EQ(bench_stats(b).plan.placed, 1);
    CHECK_EQ(bench_stats(b).plan.unmatched, 1);
    bench_end(b);
}

/* Nobody can record on the stream any more: its blocks wait for a full fence, and then the places are anybody's. */
TEST(r69_places_of_a_stream_that_was_lost_are_free_when_everything_is_over)
{
    struct bench *b = start();
    struct outcome told[4];
    size_t count;
    devptr_t at[2];

    at[0] = bench_alloc_on(b, 2 * MiB, S1);
    at[1] = bench_alloc_on(b, 3 * MiB, S1);
    fake_submit(b->fake, S1, at[0], 5 * MiB);
    give(b, at[0], S1);
    give(b, at[1], S1);
    pool_stream_lost(b->pool, S1);
    BENCH_CHECK(b);
    CHECK_EQ(
            bench_stats(b).pending, 6 * MiB); /* all of the area was one free block of the stream */
    fake_drain(b->fake);
    (void)pool_trim_device(b->pool, 0, true);
    (void)pool_poll(b->pool, true, told, 4, &count);
    CHECK_EQ(bench_stats(b).pending, 0);
    CHECK_EQ(bench_stats(b).reserved, 0);
    bench_end(b);
}

TEST(what_is_not_planned_is_served_in_the_area_before_the_budget_is_passed)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t first, other;

    pool_opts_init(&opts);
    opts.budget = 6 * MiB;
    b = plan_bench(1 * GiB, &opts, step, 4, 6 * MiB);
    first = run_step(b, S1);
    other = bench_alloc_on(b, 7 * KiB, S1);
    CHECK(other >= first && other < first + 6 * MiB);
    CHECK_EQ(bench_stats(b).reserved, 6 * MiB);
    give(b, other, S1);
    bench_end(b);
}

TEST(what_is_free_outside_moves_into_the_area_before_the_budget_is_passed)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t at;

    pool_opts_init(&opts);
    opts.budget = 8 * MiB;
    b = plan_bench(1 * GiB, &opts, step, 4, 6 * MiB);
    at = bench_alloc_on(b, 8 * MiB, S1);
    CHECK_EQ(bench_stats(b).reserved, 8 * MiB);
    give(b, at, S1);
    /* Lost at first: four requests in a row say where the program is. */
    for (uint32_t i = 0; i < 4; i++) {
        at = bench_alloc_on(b, step[i].size, S1);
        give(b, at, S1);
    }
    (void)run_step(b, S1);
    CHECK_EQ(bench_stats(b).plan.placed, 5);
    CHECK_EQ(bench_stats(b).reserved_high, 8 * MiB);
    CHECK_EQ(b->fake->held_high, 8 * MiB);
    bench_end(b);
}

/* A program that has left the step does not miss what the plan keeps: it serves, and moves, as anything else. */
TEST(what_the_area_holds_moves_when_the_program_is_lost_to_the_plan)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t at[3];

    pool_opts_init(&opts);
    opts.budget = 10 * MiB;
    b = plan_bench(1 * GiB, &opts, step, 4, 6 * MiB);
    (void)run_step(b, S1);
    for (int i = 0; i < 40; i++)
        give(b, bench_alloc_on(b, 7 * KiB, S1), S1);
    fake_drain(b->fake);
    for (int i = 0; i < 3; i++)
        CHECK((at[i] = bench_alloc_on(b, 3 * MiB + 512 * KiB, S1)) != 0);
    CHECK_LE(bench_stats(b).reserved_high, 12 * MiB);
    CHECK_GE(bench_stats(b).granules_moved, 1);
    for (int i = 0; i < 3; i++)
        give(b, at[i], S1);
    bench_end(b);
}

TEST(on_a_full_device_the_area_serves_what_is_not_planned)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t other;

    pool_opts_init(&opts);
    b = plan_bench(6 * MiB, &opts, step, 4, 6 * MiB);
    (void)run_step(b, S1);
    (void)bench_alloc_on(b, 2 * MiB, S1);
    other = bench_alloc_on(b, 3 * MiB + 512, S1);
    CHECK(other != 0);
    CHECK_EQ(b->fake->held, 6 * MiB);
    bench_end(b);
}

TEST(r31_a_plan_that_does_not_fit_on_the_device_falls_back)
{
    struct bench *b;
    struct pool_opts opts;
    devptr_t at[2];

    pool_opts_init(&opts);
    opts.trim = POOL_TRIM_NEVER;
    b = plan_bench(4 * MiB, &opts, step, 4, 6 * MiB);
    at[0] = bench_alloc_on(b, 2 * MiB, S1);
    CHECK(at[0] != 0);
    at[1] = bench_alloc_on(b, 3 * MiB, S1); /* natively it would not fit either */
    CHECK_EQ(at[1], 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(bench_stats(b).plan.fell_back, 1);
    give(b, at[0], S1);
    CHECK(bench_alloc_on(b, 4 * MiB, S1) != 0);
    bench_end(b);
}

TEST(what_is_free_in_the_area_counts_as_room)
{
    struct bench *b = start();
    struct pool_room room;

    (void)run_step(b, S1);
    pool_room(b->pool, 0, &room);
    CHECK_EQ(room.largest_free, 6 * MiB);
    CHECK_EQ(bench_stats(b).free, 6 * MiB);
    bench_end(b);
}

TEST(the_cap_holds_for_the_area_too)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t at;

    pool_opts_init(&opts);
    opts.cap = 4 * MiB;
    b = plan_bench(1 * GiB, &opts, step, 4, 6 * MiB);
    at = bench_alloc_on(b, 2 * MiB, S1);
    CHECK_EQ(bench_alloc_on(b, 3 * MiB, S1), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_LE(bench_stats(b).reserved, 4 * MiB);
    give(b, at, S1);
    bench_end(b);
}

TEST(r78_a_trim_gives_back_what_the_area_does_not_use)
{
    struct bench *b = start();
    devptr_t first = run_step(b, S1);
    uint64_t bytes;

    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bytes, 6 * MiB);
    CHECK_EQ(bench_stats(b).reserved, 0);
    BENCH_CHECK(b);
    CHECK_EQ(run_step(b, S1), first);
    CHECK_EQ(bench_stats(b).plan.placed, 8);
    bench_end(b);
}

TEST(a_trim_takes_what_is_outside_before_what_the_plan_keeps)
{
    struct bench *b = start();
    struct pool_request request = bench_request(4 * MiB, S1);
    uint64_t calls, bytes;

    (void)run_step(b, S1);
    request.size = 5 * MiB;
    give(b, bench_ask(b, &request), S1);
    bytes = bench_stats(b).reserved;
    CHECK_GT(bytes, 6 * MiB);
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 6 * MiB, &bytes), 0);
    CHECK_EQ(bench_stats(b).reserved, 6 * MiB);
    calls = b->fake->calls;
    (void)run_step(b, S1);
    CHECK_EQ(b->fake->calls, calls);
    bench_end(b);
}

TEST(a_hint_that_acts_has_its_block_on_a_handle_of_its_own_whatever_the_plan_says)
{
    static const struct rule rule = {
            .action = ACTION_RELEASE,
            .mode = HINT_LIVE,
            .pick = {.size_lo = 2 * MiB, .size_hi = 2 * MiB, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "*", .kind = EDGE_EXIT},
    };
    struct bench *b = start();
    struct pool_request request = bench_request(2 * MiB, S1);
    struct tag tag = {.size = 2 * MiB, .anchor = 1, .path = "step"};
    struct plan plan;
    devptr_t at;

    bench_rules(b, &rule, 1);
    hint_plan(b->hints, &tag, &plan);
    request.plan = &plan;
    at = bench_ask(b, &request);
    CHECK(b->last.how & OUTCOME_HINTED);
    CHECK_EQ(b->last.mode, HINT_LIVE);
    CHECK_EQ(bench_stats(b).plan.fell_back, 1);
    give(b, at, S1);
    bench_end(b);
}

TEST(during_a_capture_a_place_is_taken_only_where_that_needs_no_driver_call)
{
    struct bench *b = start();
    struct pool_request request = bench_request(2 * MiB, S1);
    devptr_t first;
    uint64_t calls;

    request.may_call = request.may_fence = request.may_wait = false;
    calls = b->fake->calls;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(b->fake->calls, calls);
    for (uint32_t i = 1; i < 4; i++)
        give(b, bench_alloc_on(b, step[i].size, S1), S1);
    first = run_step(b, S1);
    calls = b->fake->calls;
    CHECK_EQ(bench_ask(b, &request), first);
    CHECK_EQ(b->fake->calls, calls);
    bench_end(b);
}

TEST(a_device_without_mapped_memory_ignores_the_plan)
{
    struct bench *b = start();
    devptr_t at;

    b->fake->no_vmm = true;
    for (uint32_t i = 0; i < 8; i++) {
        at = bench_alloc_on(b, step[i % 4].size, S1);
        CHECK(at != 0);
        give(b, at, S1);
    }
    CHECK_EQ(bench_stats(b).plan.placed, 0);
    bench_end(b);
}

TEST(a_plan_outlives_the_pool_that_it_was_followed_in)
{
    struct bench *b = start();
    struct pool_request request = bench_request(2 * MiB, S1);
    devptr_t at;

    (void)run_step(b, S1);
    request.owner = BENCH_POOL + 1;
    give(b, bench_ask(b, &request), S1);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    BENCH_CHECK(b);
    for (uint32_t i = 0; i < 8; i++) {
        request.size = step[i % 4].size;
        at = bench_ask(b, &request);
        CHECK(at != 0);
        give(b, at, S1);
    }
    CHECK_EQ(bench_stats(b).plan.placed, 12);
    bench_end(b);
}

TEST(other_pools_and_the_sync_entrance_are_not_what_the_plan_is_about)
{
    struct bench *b = start();
    struct pool_request request = bench_request(2 * MiB, S1);

    (void)run_step(b, S1);
    request.owner = BENCH_POOL + 1;
    CHECK(bench_ask(b, &request) != 0);
    CHECK(bench_alloc(b, 2 * MiB) != 0);
    CHECK_EQ(bench_stats(b).plan.matched, 4);
    CHECK_EQ(bench_stats(b).plan.unmatched, 0);
    (void)run_step(b, S1);
    CHECK_EQ(bench_stats(b).plan.placed, 8);
    bench_end(b);
}

TEST(a_stale_plan_costs_nothing_but_a_look)
{
    struct bench *b = start();
    struct bench *without = bench_new(1 * GiB);
    devptr_t at[50], other[50];

    for (int pass = 0; pass < 3; pass++) {
        for (uint32_t i = 0; i < 50; i++) {
            at[i] = bench_alloc_on(b, (i + 3) * 100 * KiB, S1);
            other[i] = bench_alloc_on(without, (i + 3) * 100 * KiB, S1);
        }
        for (uint32_t i = 0; i < 50; i++) {
            give(b, at[i], S1);
            give(without, other[i], S1);
        }
    }
    CHECK_EQ(bench_stats(b).plan.placed, 0);
    CHECK_EQ(bench_stats(b).plan.unmatched, 150);
    CHECK_EQ(bench_stats(b).reserved_high, bench_stats(without).reserved_high);
    CHECK_EQ(b->fake->calls, without->fake->calls);
    bench_end(b);
    bench_end(without);
}

TEST(a_plan_that_the_pool_cannot_use_is_refused)
{
    struct pool_plan plan = {
            .entrance = ENTRANCE_SYNC, .quantum = 512, .area = 6 * MiB, .block = step, .count = 4};
    struct bench *b = bench_new(1 * GiB);

    CHECK_EQ(pool_set_plan(b->pool, &plan), -EOPNOTSUPP);
    plan.entrance = ENTRANCE_STREAM;
    plan.quantum = 1024;
    CHECK_EQ(pool_set_plan(b->pool, &plan), -EINVAL);
    plan.quantum = 512;
    plan.area = 4 * MiB;
    CHECK_EQ(pool_set_plan(b->pool, &plan), -EINVAL);
    plan.area = 6 * MiB;
    plan.device = 64;
    CHECK_EQ(pool_set_plan(b->pool, &plan), -EINVAL);
    plan.device = 0;
    CHECK_EQ(pool_set_plan(b->pool, &plan), 0);
    CHECK_EQ(pool_set_plan(b->pool, &plan), -EEXIST);
    (void)run_step(b, S1);
    bench_end(b);
}

/* Each driver call of the first steps fails in turn: the program is served or told, the books are sound, no byte lost. */
static void fail_each(int code)
{
    for (int n = 1;; n++) {
        struct bench *b = start();
        devptr_t at[4] = {0};
        bool fired;

        b->fake->fail_at = n;
        b->fake->fail_code = code;
        for (int pass = 0; pass < 3; pass++) {
            for (uint32_t i = 0; i < 4; i++) {
                at[i] = bench_alloc_on(b, step[i].size, S1);
                if (at[i])
                    CHECK(fake_is_accessible(b->fake, at[i], step[i].size));
                BENCH_CHECK(b);
                if (i == 1 && at[0])
                    give(b, at[0], S1);
                if (i == 2 && at[1])
                    give(b, at[1], S1);
                if (i == 2 && at[2])
                    give(b, at[2], S1);
            }
            if (at[3])
                give(b, at[3], S1);
        }
        fired = b->fake->fired;
        b->fake->fail_at = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t i = 0; i < 4; i++) {
                at[i] = bench_alloc_on(b, step[i].size, S1);
                CHECK(at[i] != 0);
                give(b, at[i], S1);
            }
        }
        bench_end(b);
        if (!fired)
            return;
        REQUIRE(n < 1000);
    }
}

TEST(every_driver_call_of_a_plan_may_fail)
{
    fail_each(FAKE_FAILURE);
    fail_each(DRIVER_OUT_OF_MEMORY);
    fail_each(-EAGAIN);
}

/* SPDX-License-Identifier: MIT */
/* covers: pool.c pool_trim.c */
/* Huge requests stand on few handles, in a range of their own, whose storage moves as all other does. */
#define ORDERED_SLOT (32 * MiB)
#include "tests/unit/alloc/ordered.h"

#define WIDE        ORDERED_SLOT
#define SMALL       (2 * MiB)
#define WIDE_IN_GIB 32

/* ── how many ── */

TEST(a_huge_block_has_few_handles)
{
    struct bench *b = bench_new(64 * GiB);
    devptr_t ptr = bench_alloc_on(b, 20 * GiB, 1);

    CHECK_NE(ptr, 0);
    CHECK_EQ(b->fake->creates, 20 * WIDE_IN_GIB);
    CHECK_EQ(b->fake->maps, 20 * WIDE_IN_GIB);
    CHECK_EQ(b->fake->held, 20 * GiB);
    CHECK(fake_is_accessible(b->fake, ptr, 20 * GiB));
    BENCH_CHECK(b);
    CHECK_EQ(bench_free_on(b, ptr, 1), 0);
    fake_drain(b->fake);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->unmap_calls, 1);
    CHECK_EQ(b->fake->mappings, 0);
    bench_end(b);
}

TEST(what_is_not_huge_has_small_slots)
{
    struct bench *b = bench_new(64 * GiB);

    CHECK_NE(bench_alloc_on(b, 2 * GiB, 1), 0);
    CHECK_NE(bench_alloc_on(b, 3 * MiB, 1), 0);
    CHECK_EQ(b->fake->creates, 2 * WIDE_IN_GIB + 2);
    CHECK_EQ(b->fake->held, 2 * GiB + 4 * MiB);
    bench_end(b);
}

static void check_small_slots(const struct pool_opts *opts)
{
    struct bench *b = bench_new_with(64 * GiB, opts);

    CHECK_NE(bench_alloc_on(b, 1 * GiB + SMALL, 1), 0);
    CHECK_EQ(b->fake->creates, 513);
    CHECK_EQ(b->fake->held, 1 * GiB + SMALL);
    bench_end(b);
}

TEST(where_memory_is_worth_more_than_calls_all_slots_are_small)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.remap = POOL_REMAP_EAGER;
    check_small_slots(&opts);
    pool_opts_init(&opts);
    opts.cap = 4 * GiB;
    check_small_slots(&opts);
    pool_opts_init(&opts);
    opts.budget = 4 * GiB;
    check_small_slots(&opts);
}

TEST(without_addresses_for_it_a_huge_block_has_small_slots)
{
    struct bench *b = bench_new(64 * GiB);

    b->fake->fail_name = "address_reserve";
    b->fake->fail_at = 2;
    b->fake->fail_code = DRIVER_NOT_SUPPORTED;
    CHECK_NE(bench_alloc_on(b, 1 * GiB, 1), 0);
    CHECK(b->fake->fired);
    CHECK_EQ(b->fake->creates, 512);
    bench_end(b);
}

TEST(where_a_wide_slot_is_too_much_for_the_device_small_ones_do)
{
    struct bench *b = bench_new(1 * GiB + SMALL);

    CHECK_NE(bench_alloc_on(b, 1 * GiB + SMALL, 1), 0);
    CHECK_EQ(b->fake->creates, 513);
    bench_end(b);
}

/* ── what a wait gives back ── */

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

TEST(r78_wide_handles_count_as_given_back_and_are_used_again)
{
    struct bench *b = bench_new(64 * GiB);
    uint64_t first, calls;

    cycle(b, 20 * GiB);
    first = b->fake->calls;
    CHECK_EQ(bench_heap_stats(b).reserved, 0);
    CHECK_EQ(b->fake->held, 20 * GiB);
    cycle(b, 20 * GiB);
    calls = b->fake->calls - first;
    CHECK_EQ(b->fake->creates, 20 * WIDE_IN_GIB);
    CHECK_EQ(b->fake->unmap_calls, 2);
    printf("a cycle of 20 GiB: %llu driver calls, then %llu\n", (unsigned long long)first,
            (unsigned long long)calls);
    CHECK_EQ(calls,
            20 * WIDE_IN_GIB + 7); /* maps; memory twice, access, record, query, put, unmap */
    CHECK_EQ(bench_heap_stats(b).reserved_high, 20 * GiB);
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

        cycle(b, 7 * GiB + more * WIDE); /* so an eighth is free, or less */
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

/* ── moves ── */

/* Two of three blocks are free, not side by side. */
static void dig(struct ordered *o, struct ordered_block *stay)
{
    struct ordered_block gone[2];

    ordered_take(o, &gone[0], WIDE_IN_GIB, 1);
    ordered_take(o, stay, WIDE_IN_GIB, 1);
    ordered_take(o, &gone[1], WIDE_IN_GIB, 1);
    ordered_give(o, &gone[0]);
    ordered_give(o, &gone[1]);
}

/* A request that needs both: one has its place there, the storage of the other moves. */
static void check_moves(bool is_late, uint64_t aliased)
{
    struct bench *b = ordered_bench(64 * GiB, POOL_REMAP_LAZY, 0, true);
    struct ordered_block stay, big;
    struct ordered o;

    ordered_init(&o, b, 1);
    dig(&o, &stay);
    if (!is_late)
        fake_drain(b->fake);
    ordered_take(&o, &big, 2 * WIDE_IN_GIB, 1);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_moved, 32);
    CHECK_EQ(bench_stats(b).granules_aliased, aliased);
    CHECK_EQ(b->fake->held, 3 * GiB);
    CHECK_EQ(bench_stats(b).reserved, b->fake->held);
    BENCH_CHECK(b);
    ordered_give(&o, &stay);
    ordered_give(&o, &big);
    CHECK_EQ(ordered_finish(&o), 0);
    bench_end(b);
}

TEST(wide_slots_move_to_where_a_huge_request_needs_them)
{
    check_moves(false, 0);
}

TEST(r95_wide_slots_move_before_the_device_has_left_them)
{
    check_moves(true, 32);
}

/* What is free of wide slots does not fit where small ones are lacking: it goes back to the driver before more is held. */
TEST(wide_slots_go_back_where_small_ones_are_wanted)
{
    struct bench *b = ordered_bench(64 * GiB, POOL_REMAP_LAZY, 0, true);
    struct ordered_block stay, parts[2], big;
    struct ordered o;

    ordered_init(&o, b, 1);
    dig(&o, &stay);
    for (int i = 0; i < 2; i++)
        ordered_take(&o, &parts[i], 20, 1);
    CHECK_EQ(b->fake->held, 3 * GiB);
    fake_drain(b->fake);
    ordered_take(&o, &big, 20, 1); /* 12 slots are free in each of two places */
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->creates, 3 * WIDE_IN_GIB + 20 * WIDE / SMALL);
    CHECK_EQ(b->fake->held, 3 * GiB + 4 * WIDE); /* 1.05 x 3 GiB may be */
    BENCH_CHECK(b);
    for (int i = 0; i < 2; i++)
        ordered_give(&o, &parts[i]);
    ordered_give(&o, &big);
    ordered_give(&o, &stay);
    CHECK_EQ(ordered_finish(&o), 0);
    bench_end(b);
}

/* ── random programs ── */

static struct bench *lazy(void)
{
    return ordered_bench(64 * GiB, POOL_REMAP_LAZY, 0, true);
}

TEST(r95_random_programs_with_huge_blocks_keep_their_data)
{
    uint64_t moved = 0;
    uint64_t aliased = 0;

    for (uint64_t seed = 1; seed <= 12 && !atomic_load(&check_state.failures); seed++) {
        struct bench *b = lazy();
        struct ordered o;

        ordered_init(&o, b, seed);
        o.huge = WIDE_IN_GIB;
        for (int part = 0; part < 4; part++) {
            ordered_run(&o, 40, seed % 4);
            pool_synchronised(b->pool);
            BENCH_CHECK(b);
        }
        CHECK_EQ(o.refused, 0);
        CHECK_EQ(ordered_finish(&o), 0);
        moved += bench_stats(b).granules_moved;
        aliased += bench_stats(b).granules_aliased;
        bench_end(b);
    }
    printf("moved %llu aliased %llu\n", (unsigned long long)moved, (unsigned long long)aliased);
    CHECK_GT(moved, 100);
    CHECK_GT(aliased, 100);
}

/* The n-th call of a name fails, for every n, or every so many; NULL = of any name. */
static void fail_each(const char *name, int step)
{
    int calls = 0;

    FAIL_NTH(n, fired)
    {
        struct bench *b = lazy();
        struct ordered o;

        b->fake->fail_name = name;
        b->fake->fail_code = FAKE_FAILURE;
        b->fake->fail_at = 1 + (n - 1) * step;
        ordered_init(&o, b, 5);
        o.huge = WIDE_IN_GIB;
        ordered_run(&o, 100, 5);
        fake_drain(b->fake);
        pool_synchronised(b->pool);
        ordered_run(&o, 50, 5);
        fired = b->fake->fired;
        b->fake->fail_at = 0;
        BENCH_CHECK(b);
        CHECK_EQ(ordered_finish(&o), 0);
        bench_end(b);
        calls = n;
        if (atomic_load(&check_state.failures)) {
            printf("    call %d of %s\n", 1 + (n - 1) * step, name ? name : "any");
            return;
        }
    }
    printf("%s: %d calls\n", name ? name : "any", calls - 1);
    CHECK_GT(calls, 1);
}

TEST(r95_no_byte_of_huge_blocks_is_lost_when_a_call_fails)
{
    fail_each("unmap", 1);
    fail_each("set_access", 1);
    fail_each("address_reserve", 1);
    fail_each("map", 97);
    fail_each("handle_create", 97);
    fail_each(NULL, 151);
}

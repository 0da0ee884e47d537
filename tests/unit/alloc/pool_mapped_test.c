/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
/* The sync API on the mapped heap of a context (pool_opts.sync_mapped): storage moves as epochs pass. */
#include "tests/unit/alloc/pool_bench.h"

#define BLOCKS 64

static void mapped_opts(struct pool_opts *ret_opts)
{
    pool_opts_init(ret_opts);
    ret_opts->sync_mapped = true;
}

static struct bench *bench_mapped(uint64_t memory)
{
    struct pool_opts opts;

    mapped_opts(&opts);
    return bench_new_with(memory, &opts);
}

static struct block_info info_of(struct bench *b, devptr_t ptr)
{
    struct block_info info = {.base = 0};

    REQUIRE_EQ(pool_find(b->pool, ptr, &info), 0);
    return info;
}

TEST(r76_sync_requests_stand_in_the_mapped_heap_of_their_context)
{
    struct bench *b = bench_mapped(256 * MiB);
    devptr_t small = bench_alloc(b, 700);
    devptr_t large = bench_alloc(b, 5 * MiB + 512);
    devptr_t next = bench_alloc(b, 3 * MiB);

    for (int i = 0; i < 3; i++) {
        struct block_info info = info_of(b, (devptr_t[]){small, large, next}[i]);

        CHECK(info.mapped);
        CHECK_EQ(info.heap, HEAP_PRIVATE);
        CHECK_EQ(info.owner, BENCH_CONTEXT);
        CHECK_EQ(info.rule, -1);
    }
    CHECK_EQ(b->fake->segments, 0);
    CHECK_EQ(b->fake->held, 10 * MiB);              /* 8 MiB and 1,5 KiB, packed */
    CHECK_EQ(pool_export(b->pool, large), -EINVAL); /* no segment of the driver's */
    bench_end(b);
}

/* Natively each of the large ones would need another segment of its own. */
TEST(r74_free_storage_moves_to_where_a_larger_request_needs_it)
{
    struct bench *b = bench_mapped(512 * MiB);
    devptr_t block[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        block[i] = bench_alloc(b, 2 * MiB);
        fake_submit(b->fake, 1, block[i], 2 * MiB);
    }
    for (int i = 0; i < BLOCKS; i += 2)
        CHECK_EQ(bench_free(b, block[i]), 0);
    for (int i = 0; i < 6; i++) {
        devptr_t large = bench_alloc(b, 10 * MiB);

        CHECK_NE(large, 0);
        fake_submit(b->fake, 1, large, 10 * MiB);
    }
    CHECK_GE(bench_stats(b).granules_moved, 20);
    CHECK(b->fake->held_high <= 128 * MiB * 105 / 100 + 2 * MiB);
    BENCH_CHECK(b);
    bench_end(b);
}

/* What is not over on the device does not move: it is waited for above the budget, as on a plain heap. */
TEST(r74_what_moves_was_waited_for)
{
    struct bench *b = bench_mapped(512 * MiB);
    devptr_t block[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        block[i] = bench_alloc(b, 2 * MiB);
        fake_submit(b->fake, 1, block[i], 2 * MiB);
    }
    fake_drain(b->fake);
    for (int i = 0; i < BLOCKS; i += 2) {
        fake_submit(b->fake, 2, block[i], 2 * MiB);
        CHECK_EQ(bench_free(b, block[i]), 0);
    }
    CHECK_NE(bench_alloc(b, 40 * MiB), 0);
    CHECK_GE(b->fake->waits, 1);
    CHECK_GE(b->fake->unmaps, 1);
    bench_end(b); /* the device has met no memory that was taken away */
}

/* 16 MiB wait less than an epoch of 64 MiB, and would be missing: the next request would cut the larger hole. */
TEST(little_of_what_is_held_waits_in_the_open_epoch)
{
    struct bench *b = bench_mapped(2 * GiB);
    devptr_t large = bench_alloc(b, 24 * MiB);
    devptr_t block[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        block[i] = bench_alloc(b, 16 * MiB);
    CHECK_EQ(bench_free(b, large), 0);
    /* closes the epoch: from here on a 512th of what is held may wait */
    CHECK_EQ(bench_alloc(b, 512), large);
    CHECK_EQ(bench_free(b, block[5]), 0);
    CHECK_EQ(bench_alloc(b, 15 * MiB), block[5]);
    CHECK(b->last.how & OUTCOME_HIT);
    bench_end(b);
}

/* Natively each of these frees would wait for the device. */
TEST(r74_the_host_waits_rather_than_that_more_than_eight_slots_are_held_too_much)
{
    struct bench *b = bench_mapped(4 * GiB);
    devptr_t block[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        block[i] = bench_alloc(b, 16 * MiB);
    for (int i = 0; i < BLOCKS; i++) {
        fake_submit(b->fake, 1, block[i], 16 * MiB);
        CHECK_EQ(bench_free(b, block[i]), 0);
        block[i] = bench_alloc(b, 16 * MiB);
        CHECK_NE(block[i], 0);
    }
    CHECK(b->fake->held_high <= 1 * GiB + 18 * MiB);
    CHECK_GE(b->fake->waits, 1);
    bench_end(b);
}

/* 1 GiB of blocks of 16 MiB, of which one is free and its kernel still runs, and 8 MiB more than that are held. */
static struct bench *bench_behind_with(devptr_t block[BLOCKS], uint64_t budget)
{
    struct pool_opts opts;
    struct bench *b;

    mapped_opts(&opts);
    opts.budget = budget;
    b = bench_new_with(2 * GiB, &opts);
    for (int i = 0; i < BLOCKS; i++)
        block[i] = bench_alloc(b, 16 * MiB);
    fake_submit(b->fake, 1, block[9], 16 * MiB);
    CHECK_EQ(bench_free(b, block[9]), 0);
    /* closes the epoch, and grows: next to nothing is held too much */
    CHECK_NE(bench_alloc(b, 8 * MiB), 0);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(b->fake->held, 1 * GiB + 8 * MiB);
    return b;
}

static struct bench *bench_behind(devptr_t block[BLOCKS])
{
    return bench_behind_with(block, 0);
}

TEST(r74_a_request_waits_for_places_that_are_pending)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind(block);

    /* the short form does not wait */
    CHECK_EQ(pool_alloc_quickly(b->pool, BENCH_CONTEXT, 4 * MiB).ptr, 0);
    CHECK_EQ(bench_alloc(b, 4 * MiB), block[9]);
    CHECK_EQ(b->last.how, OUTCOME_WAITED);
    CHECK_EQ(b->fake->waits, 1);
    CHECK_EQ(bench_alloc(b, 4 * MiB), block[9] + 4 * MiB); /* nothing is pending */
    CHECK_EQ(b->fake->waits, 1);
    CHECK_EQ(b->fake->held, 1 * GiB + 8 * MiB);
    bench_end(b);
}

TEST(r104_a_request_does_not_wait_for_a_place_like_the_one_that_is_free)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind(block);

    fake_drain(b->fake);
    bench_pass(b); /* free from here on */
    fake_submit(b->fake, 1, block[20], 16 * MiB);
    CHECK_EQ(bench_free(b, block[20]), 0);
    CHECK_EQ(bench_alloc(b, 16 * MiB), block[9]);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(bench_alloc(b, 16 * MiB), block[20]);
    CHECK_EQ(b->fake->waits, 1);
    bench_end(b);
}

TEST(r104_a_small_request_waits_for_no_place)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind(block);

    CHECK_NE(bench_alloc(b, 63 * KiB), 0);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(bench_alloc(b, 64 * KiB), block[9]);
    CHECK_EQ(b->fake->waits, 1);
    bench_end(b);
}

TEST(r104_nobody_waits_for_places_of_another_context)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind(block);
    struct pool_request request = bench_request(4 * MiB, 0);

    request.owner = BENCH_CONTEXT + 1;
    CHECK_NE(bench_ask(b, &request), 0);
    CHECK_EQ(b->fake->waits, 0);
    bench_end(b);
}

TEST(r10_r104_where_no_call_may_wait_the_next_best_place_serves)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind(block);
    struct pool_request request = bench_request(4 * MiB, 0);

    request.may_wait = false;
    CHECK_NE(bench_ask(b, &request), 0);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(b->fake->held, 1 * GiB + 12 * MiB);
    bench_end(b);
}

/* Natively an allocation does not wait for the device, which may wait for the thread that asks. */
TEST(r104_nobody_waits_for_places_while_a_stream_may_wait_for_the_host)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind(block);

    pool_stall_begin(b->pool, 3, true);
    fake_submit(b->fake, 3, 0, 0);
    pool_stall_end(b->pool, 3, false);
    CHECK_NE(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(b->fake->held, 1 * GiB + 12 * MiB);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc(b, 4 * MiB), block[9]);
    bench_end(b);
}

TEST(r74_within_the_users_budget_no_request_waits_for_a_place)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind_with(block, 1 * GiB + 12 * MiB);

    CHECK_NE(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(b->fake->held, 1 * GiB + 12 * MiB);
    CHECK_EQ(bench_alloc(b, 4 * MiB), block[9]); /* above it, as plain segments */
    CHECK_EQ(b->fake->waits, 1);
    bench_end(b);
}

TEST(r6_places_that_have_outlasted_a_wait_are_not_waited_for_again)
{
    devptr_t block[BLOCKS];
    struct bench *b = bench_behind(block);

    b->fake->hangs = true;
    for (int i = 0; i < 3; i++)
        CHECK_NE(bench_alloc(b, 2 * MiB), 0);
    CHECK_EQ(b->fake->waits, 1);
    CHECK_EQ(bench_stats(b).timeouts, 1);
    CHECK_EQ(b->fake->held, 1 * GiB + 14 * MiB);
    fake_drain(b->fake);
    bench_end(b);
}

TEST(r16_with_export_safe_placement_large_blocks_have_slots_of_their_own)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t ptr;

    mapped_opts(&opts);
    opts.export_safe = true;
    b = bench_new_with(256 * MiB, &opts);
    for (int i = 0; i < 8; i++) {
        ptr = bench_alloc(b, 2 * MiB + 4096 * (uint64_t)i);
        CHECK_EQ(ptr % (2 * MiB), 0);
        CHECK_EQ(info_of(b, ptr).rounded % (2 * MiB), 0);
        (void)bench_alloc(b, 4096);
    }
    bench_end(b);
}

TEST(without_virtual_memory_the_plain_heap_serves)
{
    struct fake_driver *fake = fake_new(256 * MiB);
    struct pool_opts opts;
    struct bench *b;
    devptr_t ptr;

    mapped_opts(&opts);
    fake->no_vmm = true;
    b = bench_over(fake, &opts);
    for (int i = 0; i < 4; i++) {
        ptr = bench_alloc(b, 3 * MiB);
        CHECK_EQ(info_of(b, ptr).heap, HEAP_PLAIN);
        CHECK_EQ(bench_free(b, ptr), 0);
        bench_pass(b);
    }
    CHECK_EQ(b->fake->segments, 1); /* used again */
    bench_end(b);
}

TEST(without_addresses_for_a_while_the_plain_heap_serves_for_that_while)
{
    struct bench *b = bench_mapped(256 * MiB);
    devptr_t ptr = 0;
    int tries = 0;

    b->fake->range_max = 1;
    ptr = bench_alloc(b, 3 * MiB);
    CHECK_EQ(info_of(b, ptr).heap, HEAP_PLAIN);
    b->fake->range_max = 0;
    do {
        ptr = bench_alloc(b, 64 * KiB);
        REQUIRE(ptr);
    } while (info_of(b, ptr).heap == HEAP_PLAIN && ++tries < 100);
    CHECK_EQ(info_of(b, ptr).heap, HEAP_PRIVATE);
    CHECK_GE(tries, 1);
    bench_end(b);
}

TEST(r76_the_end_of_its_context_ends_the_heap)
{
    struct bench *b = bench_mapped(256 * MiB);
    struct block_info info;
    devptr_t ptr = bench_alloc(b, 30 * MiB);

    CHECK_EQ(bench_free(b, bench_alloc(b, 7 * MiB)), 0); /* pending */
    pool_context_going(b->pool, BENCH_CONTEXT);
    CHECK_GE(b->fake->held, 30 * MiB); /* work of it may use it still */
    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK_EQ(b->fake->held, 0);
    CHECK_EQ(pool_find(b->pool, ptr, &info), -ENOENT);
    CHECK_NE(bench_alloc(b, 30 * MiB), 0); /* of a new one, that has the number for once */
    bench_end(b);
}

TEST(the_short_forms_serve_the_mapped_heap)
{
    struct bench *b = bench_mapped(256 * MiB);
    struct pool_given given;
    devptr_t ptr;

    ptr = bench_alloc(b, 64 * KiB);
    CHECK(pool_free_quickly(b->pool, ptr));
    given = pool_alloc_quickly(b->pool, BENCH_CONTEXT, 64 * KiB);
    CHECK_NE(given.ptr, 0);
    CHECK_NE(given.ptr, ptr); /* its epoch has not passed */
    given = pool_alloc_quickly(
            b->pool, BENCH_CONTEXT, 128 * KiB); /* cut from what is left of its slot */
    CHECK_NE(given.ptr, 0);
    CHECK_EQ(info_of(b, given.ptr).heap, HEAP_PRIVATE);
    CHECK_EQ(bench_free(b, given.ptr), 0);
    CHECK_EQ(bench_free(b, given.ptr), -EINVAL);
    bench_end(b);
}

/* Each call of the driver fails in turn: the request is served all the same, or refused, and nothing is lost. */
TEST(r32_any_call_of_a_move_may_fail)
{
    for (int n = 1; n < 60; n++) {
        struct bench *b = bench_mapped(256 * MiB);
        devptr_t block[8], large;

        for (int i = 0; i < 8; i++)
            block[i] = bench_alloc(b, 2 * MiB);
        for (int i = 0; i < 8; i += 2)
            CHECK_EQ(bench_free(b, block[i]), 0);
        bench_pass(b);
        b->fake->fail_at = n;
        b->fake->fail_code = FAKE_FAILURE;
        large = bench_alloc(b, 8 * MiB);
        CHECK(large != 0 || b->r != 0);
        b->fake->fail_at = 0;
        for (int i = 1; i < 8; i += 2)
            fake_submit(b->fake, 1, block[i], 2 * MiB);
        if (large)
            fake_submit(b->fake, 1, large, 8 * MiB);
        bench_end(b);
    }
}

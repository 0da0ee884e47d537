/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
#include "tests/unit/alloc/pool_bench.h"

/* What pool.h promises of options, requests, look-ups and figures. */

TEST(odd_requests_are_refused)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_request request = bench_request(512, 0);

    request.size = 0;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EINVAL);
    request.size = UINT64_MAX;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EOVERFLOW);
    request.size = 512;
    request.owner = 0;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EINVAL);
    request.owner = BENCH_CONTEXT;
    request.device = -1;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EINVAL);
    request.device = 64;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EINVAL);
    CHECK_EQ(b->fake->calls, 0);
    bench_end(b);
}

TEST(odd_options_are_refused)
{
    struct fake_driver *fake = fake_new(GiB);
    struct pool_opts opts;
    struct pool *pool = NULL;

    pool_opts_init(&opts);
    opts.quantum = 1000;
    CHECK_EQ(pool_new(&fake->driver, &opts, &pool), -EINVAL);
    pool_opts_init(&opts);
    opts.quantum = 256;
    CHECK_EQ(pool_new(&fake->driver, &opts, &pool), -EINVAL);
    CHECK(pool == NULL);
    fake_free(fake);
}

TEST(a_block_is_found_by_any_address_in_it)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 3 * MiB);
    uint64_t seq = b->last.seq;
    struct block_info info;

    REQUIRE_EQ(pool_find(b->pool, a + 3 * MiB - 1, &info), 0);
    CHECK_EQ(info.base, a);
    CHECK_EQ(info.size, 3 * MiB);
    CHECK_EQ(info.rounded, 3 * MiB);
    CHECK_EQ(info.segment_base, a);
    CHECK_EQ(info.segment_size, 4 * MiB);
    CHECK_EQ(info.segment_tenants, 1);
    CHECK_EQ(info.owner, BENCH_CONTEXT);
    CHECK_EQ(info.context, BENCH_CONTEXT);
    CHECK_EQ(info.heap, HEAP_PLAIN);
    CHECK_EQ(info.alloc_seq, seq);
    CHECK_EQ(info.state, HOLDER_LIVE);
    CHECK_EQ(info.mode, HINT_OFF);
    CHECK_EQ(info.rule, -1);
    CHECK(!info.mapped);
    REQUIRE_EQ(pool_find(b->pool, a + 3 * MiB, &info), 0); /* the free rest of the segment */
    CHECK_EQ(info.state, HOLDER_GONE);
    CHECK_EQ(info.size, 0);
    CHECK_EQ(pool_find(b->pool, a + 4 * MiB, &info), -ENOENT);
    CHECK_EQ(pool_find(b->pool, a - 1, &info), -ENOENT);
    CHECK_EQ(bench_free(b, a), 0);
    REQUIRE_EQ(pool_find(b->pool, a, &info), 0);
    CHECK_EQ(info.state, HOLDER_GONE);
    bench_end(b);
}

TEST(free_neighbours_become_one)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);

    for (uint64_t stream = 0; stream < 2; stream++) {
        devptr_t whole = bench_alloc_on(b, 32 * MiB, stream);
        devptr_t parts[2];
        uint64_t grows;

        CHECK_EQ(bench_free_on(b, whole, stream), 0);
        for (int i = 0; i < 2; i++)
            parts[i] = bench_alloc_on(b, 16 * MiB, stream);
        CHECK_EQ(parts[0], whole);
        CHECK_EQ(parts[1], whole + 16 * MiB);
        grows = bench_stats(b).grows;
        for (int i = 0; i < 2; i++)
            CHECK_EQ(bench_free_on(b, parts[i], stream), 0);
        CHECK_EQ(bench_alloc_on(b, 32 * MiB, stream), whole);
        CHECK_EQ(bench_stats(b).grows, grows);
    }
    bench_end(b);
}

TEST(what_was_taken_is_given_back)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t ptrs[60];
    struct pool_stats stats;

    for (int i = 0; i < 60; i++)
        ptrs[i] = bench_alloc_on(b, (uint64_t)(i + 1) * 50 * KiB, (uint64_t)(i % 4));
    stats = bench_stats(b);
    CHECK_EQ(stats.live_count, 60);
    CHECK_EQ(stats.live_requested, 60 * 61 / 2 * 50 * KiB);
    CHECK_EQ(stats.reserved, b->fake->held);
    for (int i = 0; i < 60; i++)
        CHECK_EQ(bench_free_on(b, ptrs[i], (uint64_t)(i % 4)), 0);
    stats = bench_stats(b);
    CHECK_EQ(stats.live_count, 0);
    CHECK_EQ(stats.live_requested, 0);
    CHECK_EQ(stats.live_requested_high, 60 * 61 / 2 * 50 * KiB);
    CHECK_EQ(pool_trim_device(b->pool, 0, true), stats.reserved);
    stats = bench_stats(b);
    CHECK_EQ(stats.reserved, 0);
    CHECK_EQ(stats.free, 0);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

TEST(devices_are_counted_apart)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_request request = bench_request(4 * MiB, 0);
    struct pool_stats stats;

    CHECK_NE(bench_ask(b, &request), 0);
    request.device = 3;
    CHECK_EQ(bench_ask(b, &request), 0); /* the same heap cannot be on two devices */
    CHECK_EQ(b->r, -EINVAL);
    request.owner = 99;
    CHECK_NE(bench_ask(b, &request), 0);
    CHECK_EQ(b->last.device, 3);
    pool_stats(b->pool, 3, &stats);
    CHECK_EQ(stats.live_requested, 4 * MiB);
    CHECK_EQ(stats.reserved, 4 * MiB);
    CHECK_EQ(bench_stats(b).reserved, 8 * MiB);
    CHECK_EQ(pool_trim_device(b->pool, 64, true), 0);
    CHECK_EQ(pool_trim_device(b->pool, -1, true), 0);
    bench_end(b);
}

TEST(r78_used_and_reserved_are_what_a_pool_would_say)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 1000, 1);
    devptr_t c = bench_alloc_on(b, 9 * MiB, 1);
    struct pool_stats stats = bench_heap_stats(b);

    CHECK_EQ(stats.used, 1024 + 9 * MiB);
    CHECK_EQ(stats.used_high, stats.used);
    CHECK_EQ(stats.reserved, b->fake->held);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    stats = bench_heap_stats(b);
    CHECK_EQ(stats.used, 1024);
    CHECK_EQ(stats.used_high, 1024 + 9 * MiB);
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, BENCH_POOL, true, false), 0);
    CHECK_EQ(bench_heap_stats(b).used_high, 1024);
    CHECK_EQ(bench_heap_stats(b).reserved_high, b->fake->held);
    fake_drain(b->fake);
    pool_synchronised(b->pool); /* the threshold is 0 */
    CHECK_EQ(b->fake->held, 2 * MiB);
    CHECK_EQ(bench_heap_stats(b).reserved, 2 * MiB);
    CHECK_GT(bench_heap_stats(b).reserved_high, 2 * MiB);
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, BENCH_POOL, true, true), 0);
    CHECK_EQ(bench_heap_stats(b).reserved_high, 2 * MiB);
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, 12345, true, true), -ENOENT);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    bench_end(b);
}

TEST(r78_marks_cover_what_the_drivers_own_pool_served)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 10 * MiB, 1);

    pool_note_native(b->pool, BENCH_POOL, 0, 3 * MiB, 32 * MiB);
    CHECK_EQ(bench_heap_stats(b).used, 10 * MiB);
    CHECK_EQ(bench_heap_stats(b).used_high, 13 * MiB);
    CHECK_EQ(bench_heap_stats(b).reserved_high, 42 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    a = bench_alloc_on(b, 12 * MiB, 1);
    CHECK_EQ(bench_heap_stats(b).used_high, 15 * MiB);
    pool_note_native(b->pool, BENCH_POOL, 0, 0, 0);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    a = bench_alloc_on(b, 13 * MiB, 1);
    CHECK_EQ(bench_heap_stats(b).used_high, 15 * MiB); /* they were not high at one time */
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, BENCH_POOL, true, true), 0);
    CHECK_EQ(bench_heap_stats(b).used_high, 13 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    bench_end(b);
}

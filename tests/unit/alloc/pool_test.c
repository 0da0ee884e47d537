/* SPDX-License-Identifier: MIT */
#include "tests/unit/alloc/pool_bench.h"

/* The sync API and what is common to both, on a fake driver: one test per promise of pool.h. */

TEST(r1_freed_block_waits_for_every_stream)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t first = bench_alloc(b, 3 * MiB);
    devptr_t second;

    fake_submit(b->fake, 3, first, 3 * MiB);
    fake_submit(b->fake, 5, first, 3 * MiB);
    CHECK_EQ(bench_free(b, first), 0);
    b->fake->hangs = true;
    second = bench_alloc(b, 3 * MiB);
    CHECK_NE(second, first); /* both streams are behind */
    CHECK_EQ(bench_free(b, second), 0);
    fake_step(b->fake, 3);
    second = bench_alloc(b, 3 * MiB);
    CHECK_NE(second, first); /* stream 5 is behind */
    fake_drain(b->fake);
    second = bench_alloc(b, 3 * MiB);
    CHECK_EQ(second, first);
    bench_end(b);
}

TEST(r2_a_sync_free_makes_no_driver_call)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t ptrs[400];
    uint64_t calls;

    for (int i = 0; i < 400; i++)
        ptrs[i] = bench_alloc(b, 100 * KiB);
    calls = b->fake->calls;
    for (int i = 0; i < 400; i++)
        CHECK_EQ(bench_free(b, ptrs[i]), 0); /* more than an epoch's worth */
    CHECK_EQ(b->fake->calls, calls);
    bench_end(b);
}

TEST(a_hit_makes_no_driver_call)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 8 * MiB);
    uint64_t calls;

    CHECK(b->last.how & OUTCOME_GROWN);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_alloc(b, 8 * MiB), a); /* closes the epoch */
    CHECK_EQ(bench_free(b, bench_alloc(b, 8 * MiB)), 0);
    a = bench_alloc(b, 512);
    calls = b->fake->calls;
    CHECK_EQ(bench_alloc(b, 512), a + 512); /* one small segment */
    CHECK(b->last.how & OUTCOME_HIT);
    CHECK_EQ(b->fake->calls, calls);
    bench_end(b);
}

TEST(r15_pointers_are_aligned_and_large_ones_to_2_mib)
{
    static const uint64_t sizes[] = {1, 511, 512, 513, 1000000, 1 * MiB, 2 * MiB - 1, 2 * MiB,
            2 * MiB + 1, 3538944, 64 * MiB};
    struct bench *b = bench_new(4 * GiB);

    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            for (uint64_t stream = 0; stream < 2; stream++) {
                devptr_t ptr = bench_alloc_on(b, sizes[i], stream);

                CHECK_NE(ptr, 0);
                CHECK_EQ(ptr % 512, 0);
                if (sizes[i] >= 2 * MiB && !stream)
                    CHECK_EQ(ptr % (2 * MiB), 0);
                CHECK(fake_is_accessible(b->fake, ptr, sizes[i]));
                if (round % 3)
                    CHECK_EQ(bench_free_on(b, ptr, stream), 0);
            }
        }
    }
    bench_end(b);
}

TEST(a_larger_quantum_is_kept)
{
    struct pool_opts opts;
    struct bench *b;

    pool_opts_init(&opts);
    opts.quantum = 4096;
    b = bench_new_with(1 * GiB, &opts);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(bench_alloc(b, 100) % 4096, 0);
    bench_end(b);
}

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
    pool_opts_init(&opts);
    opts.align_large = 4 * MiB;
    CHECK_EQ(pool_new(&fake->driver, &opts, &pool), -EINVAL);
    CHECK(pool == NULL);
    fake_free(fake);
}

TEST(r35_bad_frees_are_told_apart_and_release_nothing)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    uint64_t segments = b->fake->segments;

    CHECK_EQ(bench_free(b, a + 512), -EINVAL);
    CHECK_EQ(bench_free(b, a + 1), -EINVAL);
    CHECK_EQ(bench_free(b, a + 4 * MiB - 1), -EINVAL);
    CHECK_EQ(bench_free(b, a + 4 * MiB), -ENOENT);
    CHECK_EQ(bench_free(b, 0), -ENOENT);
    CHECK_EQ(bench_free(b, 4096), -ENOENT);
    CHECK_EQ(bench_free(b, UINT64_MAX), -ENOENT);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, a), -EINVAL); /* pending */
    CHECK_EQ(bench_alloc(b, 4 * MiB), a);
    CHECK_EQ(bench_free(b, a), 0);
    (void)pool_trim_device(b->pool, 0, true);
    CHECK_EQ(bench_free(b, a), -ENOENT); /* the segment is the driver's again */
    CHECK_EQ(segments, 1);
    CHECK_EQ(bench_stats(b).bad_frees, 4);
    bench_end(b);
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

TEST(free_neighbours_become_one)
{
    struct bench *b = bench_new(1 * GiB);

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

TEST(a_large_segment_is_not_cut_for_a_much_smaller_request)
{
    struct bench *b = bench_new(100 * MiB);
    devptr_t big = bench_alloc(b, 64 * MiB);
    devptr_t small;

    CHECK_EQ(bench_free(b, big), 0);
    small = bench_alloc(b, 10 * MiB);
    CHECK_NE(small, big);
    CHECK_EQ(b->fake->held, 10 * MiB); /* the idle one went to stay in the budget */
    big = bench_alloc(b, 64 * MiB);
    CHECK_EQ(bench_free(b, big), 0);
    b->fake->fail_name = "mem_alloc";
    b->fake->fail_at = 1;
    b->fake->fail_code = DRIVER_OUT_OF_MEMORY;
    CHECK_NE(bench_alloc(b, 30 * MiB), 0);
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

TEST(events_are_numbered_in_the_order_they_happened)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t seq = 0;

    for (int i = 0; i < 50; i++) {
        devptr_t ptr = bench_alloc(b, 1000);

        CHECK_GT(b->last.seq, seq);
        seq = b->last.seq;
        CHECK_EQ(b->last.alloc_seq, seq);
        CHECK_GT(pool_seq_next(b->pool), seq);
        CHECK_EQ(bench_free(b, ptr), 0);
        CHECK_EQ(b->last.alloc_seq, seq);
        CHECK_GT(b->last.seq, seq + 1);
        seq = b->last.seq;
    }
    bench_end(b);
}

TEST(an_outcome_tells_what_happened)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t ptr = bench_alloc(b, 3 * MiB + 1);

    CHECK_EQ(b->last.kind, OUTCOME_ALLOC);
    CHECK_EQ(b->last.heap, HEAP_PLAIN);
    CHECK_EQ(b->last.ptr, ptr);
    CHECK_EQ(b->last.size, 3 * MiB + 1);
    CHECK_EQ(b->last.rounded, 3 * MiB + 512);
    CHECK_EQ(b->last.reserved, 4 * MiB);
    CHECK_EQ(b->last.reserved_delta, (int64_t)(4 * MiB));
    CHECK_EQ(b->last.how, OUTCOME_GROWN);
    CHECK_EQ(b->last.rule, -1);
    CHECK_EQ(b->last.device, 0);
    CHECK_EQ(bench_free(b, ptr), 0);
    CHECK_EQ(b->last.kind, OUTCOME_FREE);
    CHECK_EQ(b->last.size, 3 * MiB + 1);
    CHECK_EQ(b->last.reserved, 4 * MiB);
    bench_end(b);
}

/* ── a full device (R31) ── */

TEST(r31_a_full_device_waits_for_what_is_pending)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc(b, 40 * MiB);

    fake_submit(b->fake, 2, a, 40 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_alloc(b, 30 * MiB), a); /* neither fits beside it */
    CHECK(b->last.how & OUTCOME_WAITED);
    CHECK_EQ(bench_stats(b).host_waits, 1);
    bench_end(b);
}

TEST(r31_r81_a_full_device_takes_idle_memory_of_other_heaps)
{
    struct bench *b = bench_new(64 * MiB);
    struct pool_request request = bench_request(60 * MiB, 0);
    devptr_t plain = bench_alloc(b, 20 * MiB);
    devptr_t mapped = bench_alloc_on(b, 20 * MiB, 1);

    CHECK_EQ(bench_free(b, plain), 0);
    CHECK_EQ(bench_free_on(b, mapped, 1), 0);
    request.owner = BENCH_CONTEXT + 1; /* a third heap */
    CHECK_NE(bench_ask(b, &request), 0);
    CHECK(b->last.how & OUTCOME_TRIMMED);
    CHECK_EQ(b->fake->held, 60 * MiB);
    bench_end(b);
}

/* The driver would give each of them 4 MiB; with that as the measure, a fifth more would be held where sizes are odd. */
TEST(r74_the_budget_counts_what_blocks_need_and_not_their_granules)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a[16];

    for (int i = 0; i < 16; i++)
        a[i] = bench_alloc(b, 2 * MiB + 256 * KiB);
    CHECK_EQ(bench_stats(b).stored, 36 * MiB);
    CHECK_EQ(bench_stats(b).stored_high, 36 * MiB);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(bench_free(b, a[i]), 0);
    CHECK_EQ(bench_stats(b).stored, 0);
    bench_end(b);
}

TEST(r31_the_last_refusal_is_the_drivers_own)
{
    struct bench *b = bench_new(64 * MiB);
    struct pool_stats stats;
    devptr_t a = bench_alloc(b, 40 * MiB);

    CHECK_EQ(bench_alloc(b, 30 * MiB), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(bench_stats(b).ooms, 1);
    b->fake->fail_name = "mem_alloc";
    b->fake->fail_at = 1;
    b->fake->fail_code = 999;
    CHECK_EQ(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->r, 999);
    CHECK_NE(bench_alloc(b, 4 * MiB), 0); /* nothing sticks */
    stats = bench_stats(b);
    CHECK_EQ(stats.live_requested, 44 * MiB);
    CHECK_EQ(stats.reserved, 44 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

TEST(a_failed_guess_leaves_no_growth_behind)
{
    struct bench *b = bench_new(100 * MiB);
    devptr_t a = bench_alloc_on(b, 30 * MiB, 1);

    /* as cuDNN does it: ever smaller ones, from all that there is */
    for (uint64_t size = 100 * MiB; size > 70 * MiB; size -= 10 * MiB) {
        CHECK_EQ(bench_alloc_on(b, size, 1), 0);
        CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
        CHECK_EQ(bench_stats(b).live_requested, 30 * MiB);
        BENCH_CHECK(b);
    }
    CHECK_NE(bench_alloc_on(b, 70 * MiB, 1), 0);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    bench_end(b);
}

TEST(less_than_a_granule_may_still_be_the_drivers_to_find)
{
    struct bench *b = bench_new(4 * MiB);

    CHECK_NE(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(bench_alloc(b, 100), 0);
    CHECK_EQ(b->r, -ENOSPC);
    CHECK_EQ(bench_alloc(b, 2 * MiB), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    bench_end(b);
}

TEST(a_full_device_serves_small_ones_from_large_holes)
{
    struct bench *b = bench_new(8 * MiB);
    devptr_t big = bench_alloc(b, 8 * MiB);

    CHECK_EQ(bench_free(b, big), 0);
    big = bench_alloc(b, 7 * MiB);
    CHECK_EQ(bench_alloc(b, 100), big + 7 * MiB); /* no small segment can be had */
    bench_end(b);
}

TEST(without_leave_to_wait_nobody_waits)
{
    struct bench *b = bench_new(64 * MiB);
    struct pool_request request = bench_request(30 * MiB, 0);
    devptr_t a = bench_alloc(b, 40 * MiB);

    fake_submit(b->fake, 2, a, 40 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    request.may_wait = false;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(b->fake->waits, 0);
    bench_end(b);
}

/* A kernel that never ends: above the budget it is waited for once, and then not before something has passed. */
TEST(r6_what_has_outlasted_a_wait_is_not_waited_for_while_growth_serves)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t a;

    pool_opts_init(&opts);
    opts.budget = 32 * MiB;
    b = bench_new_with(1 * GiB, &opts);
    a = bench_alloc(b, 16 * MiB);
    fake_submit(b->fake, 2, a, 16 * MiB);
    b->fake->hangs = true;
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(bench_free(b, a), 0);
        a = bench_alloc(b, 16 * MiB); /* what was freed is behind the kernel */
        CHECK_NE(a, 0);
    }
    CHECK_EQ(bench_stats(b).timeouts, 1);
    b->fake->hangs = false;
    fake_drain(b->fake);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_NE(bench_alloc(b, 16 * MiB), 0); /* something has passed */
    b->fake->hangs = true;
    for (int i = 0; i < 20 && bench_stats(b).timeouts == 1; i++) {
        a = bench_alloc(b, 16 * MiB);
        CHECK_NE(a, 0);
        fake_submit(b->fake, 2, a, 16 * MiB);
        CHECK_EQ(bench_free(b, a), 0);
    }
    CHECK_EQ(bench_stats(b).timeouts, 2); /* and may be waited for again */
    b->fake->hangs = false;
    fake_drain(b->fake);
    bench_end(b);
}

TEST(r6_r73_a_fence_that_does_not_pass_in_time_ends_in_the_drivers_refusal)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc(b, 40 * MiB);

    fake_submit(b->fake, 2, a, 40 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    b->fake->hangs = true;
    CHECK_EQ(bench_alloc(b, 40 * MiB), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_GE(bench_stats(b).timeouts, 1);
    b->fake->hangs = false;
    CHECK_EQ(bench_alloc(b, 40 * MiB), a);
    bench_end(b);
}

/* One wait, and then the memory that is there: whoever has room does not wait for a device that hangs. */
TEST(r06_growth_serves_when_a_fence_does_not_pass_in_time)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t a, c;

    pool_opts_init(&opts);
    opts.budget = 48 * MiB;
    b = bench_new_with(1 * GiB, &opts);
    a = bench_alloc(b, 40 * MiB);
    fake_submit(b->fake, 2, a, 40 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    b->fake->hangs = true;
    c = bench_alloc(b, 40 * MiB);
    CHECK_NE(c, 0);
    CHECK_NE(c, a);
    CHECK_EQ(bench_stats(b).timeouts, 1);
    CHECK_EQ(b->fake->waits, 1);
    b->fake->hangs = false;
    bench_end(b);
}

TEST(an_error_of_the_device_reaches_the_application)
{
    struct bench *b = bench_new(1 * GiB);

    CHECK_EQ(bench_free(b, bench_alloc(b, 4 * MiB)), 0);
    b->fake->query_result = 700;
    CHECK_EQ(bench_alloc(b, 8 * MiB), 0);
    CHECK_EQ(b->r, 700);
    b->fake->query_result = 0;
    CHECK_NE(bench_alloc(b, 8 * MiB), 0);
    bench_end(b);
}

TEST(a_fence_that_cannot_be_recorded_only_costs_memory)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    devptr_t other;

    CHECK_EQ(bench_free(b, a), 0);
    b->fake->capturing =
            true; /* a capture that the caller does not know of: every fence is refused */
    other = bench_alloc(b, 4 * MiB);
    CHECK_NE(other, 0);
    CHECK_NE(other, a);
    b->fake->capturing = false;
    CHECK_EQ(bench_alloc(b, 4 * MiB), a); /* the next fence covers it */
    CHECK_GE(bench_stats(b).fence_errors, 1);
    bench_end(b);
}

TEST(the_cap_is_a_full_device)
{
    struct pool_opts opts;
    struct bench *b;

    pool_opts_init(&opts);
    opts.cap = 32 * MiB;
    b = bench_new_with(1 * GiB, &opts);
    CHECK_NE(bench_alloc(b, 20 * MiB), 0);
    CHECK_EQ(bench_alloc(b, 20 * MiB), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_NE(bench_alloc_on(b, 12 * MiB, 1), 0);
    CHECK_EQ(bench_alloc_on(b, 2 * MiB, 1), 0);
    CHECK_LE(b->fake->held_high, 32 * MiB);
    bench_end(b);
}

TEST(r46_the_reserve_is_spared_as_long_as_trimming_helps)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t a;

    pool_opts_init(&opts);
    opts.reserve = 16 * MiB;
    b = bench_new_with(64 * MiB, &opts);
    a = bench_alloc(b, 30 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_NE(bench_alloc(b, 40 * MiB), 0); /* the idle 30 go first */
    CHECK_EQ(b->fake->held, 40 * MiB);
    CHECK_NE(bench_alloc(b, 20 * MiB), 0); /* the alternative is a refusal */
    bench_end(b);
}

/* ── peak against run-ahead (R74) ── */

/* A training loop on three streams, half of whose blocks live to the end of their step. With `behind`, the device is one
 * whole step behind the program: what is freed in a step is used by work that runs in the next. */
static uint64_t peak_of_steps(struct bench *b, bool behind, uint64_t *ret_live)
{
    enum {
        STEPS = 12,
        BLOCKS = 40
    };
    devptr_t ptrs[BLOCKS];
    uint64_t live = 0;
    uint64_t high = 0;
    struct fake_clock before = fake_clock(b->fake);

    for (int step = 0; step < STEPS; step++) {
        struct fake_clock now;

        for (int i = 0; i < BLOCKS; i++) {
            uint64_t size = (uint64_t)(1 + i * 7 % 9) * 2 * MiB;

            ptrs[i] = bench_alloc(b, size);
            CHECK_NE(ptrs[i], 0);
            live += size;
            high = live > high ? live : high;
            fake_submit(b->fake, 1 + (uint64_t)(i % 3), ptrs[i], size);
            if (!behind)
                fake_drain(b->fake);
            if (i >= 20) {
                CHECK_EQ(bench_free(b, ptrs[i - 20]), 0);
                live -= b->last.size;
            }
        }
        for (int i = BLOCKS - 20; i < BLOCKS; i++) {
            CHECK_EQ(bench_free(b, ptrs[i]), 0);
            live -= b->last.size;
        }
        now = fake_clock(b->fake);
        for (uint64_t s = 0; s < FAKE_STREAMS; s++) {
            while (!fake_is_ordered(b->fake, s, before.at[s], UINT64_MAX))
                fake_step(b->fake, s);
        }
        before = now;
    }
    *ret_live = high;
    return b->fake->held_high;
}

/* Natively cuMemFree waits for the device, so that the peak is what is live, however far the program runs ahead. On real
 * traces pool_replay.sh compares with that; here the sizes are chosen to be hard to fit. */
TEST(r74_streams_that_are_a_step_behind_do_not_raise_the_peak)
{
    struct bench *prompt = bench_new(8 * GiB);
    struct bench *late = bench_new(8 * GiB);
    uint64_t live;
    uint64_t without = peak_of_steps(prompt, false, &live);
    uint64_t with = peak_of_steps(late, true, &live);

    printf("live %llu MiB, held %llu MiB, a step behind %llu MiB, waits %llu\n",
            (unsigned long long)(live / MiB), (unsigned long long)(without / MiB),
            (unsigned long long)(with / MiB), (unsigned long long)bench_stats(late).host_waits);
    CHECK_LE(with, without + without / 20);
    CHECK_LE(with, live + live / 10);
    CHECK_EQ(bench_stats(prompt).timeouts, 0);
    CHECK_GT(bench_stats(late).host_waits, 0);
    bench_end(prompt);
    bench_end(late);
}

TEST(r74_a_budget_that_is_stated_is_kept_to)
{
    struct pool_opts opts;
    struct bench *b;
    uint64_t live = 0;

    pool_opts_init(&opts);
    opts.budget = 4 * GiB;
    b = bench_new_with(8 * GiB, &opts);
    CHECK_LE(peak_of_steps(b, true, &live), 4 * GiB);
    CHECK_EQ(bench_stats(b).host_waits, 0); /* there is room for all the run-ahead */
    bench_end(b);
}

/* ── captures ── */

TEST(r82_in_a_capture_only_hits_are_served)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_request request = bench_request(4 * MiB, 0);
    devptr_t a = bench_alloc(b, 64 * MiB);
    devptr_t c = bench_alloc(b, 64 * MiB);
    devptr_t pending = bench_alloc(b, 100 * MiB);
    uint64_t calls;

    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_alloc(b, 64 * MiB), a); /* closes the epoch */
    CHECK_EQ(bench_free(b, c), 0);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_EQ(bench_alloc(b, 33 * MiB), c); /* leaves 31 clean */
    CHECK_EQ(bench_free(b, pending), 0);
    b->fake->capturing = true;
    request.may_call = request.may_fence = false;
    calls = b->fake->calls;
    CHECK_EQ(bench_ask(b, &request), c + 34 * MiB); /* any hole will do */
    request.size = 50 * MiB;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(b->fake->calls, calls);
    b->fake->capturing = false;
    bench_end(b);
}

TEST(without_leave_to_fence_no_fence_is_touched)
{
    struct bench *b = bench_new(64 * MiB);
    struct pool_request request = bench_request(4 * MiB, 0);

    CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 8 * MiB, 1), 1), 0);
    CHECK_EQ(bench_free(b, bench_alloc(b, 40 * MiB)), 0);
    b->fake->capturing = true;
    request.may_fence = false;
    CHECK_NE(bench_ask(b, &request), 0); /* grown */
    request.size = 50 * MiB;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    request = bench_request(24 * MiB, 2);
    request.may_fence = false;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(b->fake->forbidden, 0);
    b->fake->capturing = false;
    bench_end(b);
}

TEST(r12_what_is_freed_in_a_capture_is_kept)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_free_request request = {.quarantine = true};
    struct outcome told;
    devptr_t a = bench_alloc(b, 4 * MiB);

    CHECK_EQ(pool_free(b->pool, a, &request, &told), 0);
    CHECK_EQ(pool_free(b->pool, a, &request, &told), -EINVAL);
    (void)pool_trim_device(b->pool, 0, true);
    for (int i = 0; i < 10; i++)
        CHECK_NE(bench_alloc(b, 4 * MiB), a);
    CHECK_EQ(bench_stats(b).quarantined, 4 * MiB);
    bench_end(b);
}

/* ── ends ── */

TEST(r26_r76_a_dead_context_takes_its_heap_along_and_nothing_else)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_request other = bench_request(4 * MiB, 0);
    devptr_t dying = bench_alloc(b, 4 * MiB);
    devptr_t pending = bench_alloc(b, 6 * MiB);
    devptr_t living;
    struct block_info info;
    uint64_t calls;

    other.owner = BENCH_CONTEXT + 1;
    living = bench_ask(b, &other);
    CHECK_EQ(bench_free(b, pending), 0);
    fake_context_gone(b->fake, BENCH_CONTEXT);
    calls = b->fake->calls;
    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK_EQ(b->fake->calls, calls); /* nothing of a dead context is touched */
    CHECK_EQ(bench_free(b, dying), -ENOENT);
    CHECK_EQ(pool_find(b->pool, pending, &info), -ENOENT);
    CHECK_EQ(bench_stats(b).live_requested, 4 * MiB);
    CHECK_EQ(bench_stats(b).reserved, 4 * MiB);
    BENCH_CHECK(b);
    CHECK_NE(bench_alloc(b, 4 * MiB), 0); /* an empty heap under the same key */
    CHECK_EQ(bench_free(b, living), 0);
    bench_end(b);
}

/* Between the driver's end of a context and our hearing of it, others are given its addresses. */
TEST(r26_addresses_of_a_dead_context_belong_to_whom_the_driver_gave_them)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_request other = bench_request(4 * MiB, 0);
    devptr_t dying = bench_alloc(b, 4 * MiB);
    devptr_t native = bench_alloc(b, 6 * MiB);
    struct block_info info;

    other.owner = BENCH_CONTEXT + 1;
    fake_context_gone(b->fake, BENCH_CONTEXT);
    b->fake->next_address = dying;
    CHECK_EQ(bench_ask(b, &other), dying);  /* another heap grows there */
    pool_foreign(b->pool, native, 6 * MiB); /* and here the program has it from the driver */
    CHECK_EQ(pool_find(b->pool, native, &info), -ENOENT);
    CHECK_EQ(bench_free(b, native), -ENOENT);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK_EQ(pool_find(b->pool, dying, &info), 0);
    CHECK_EQ(bench_free(b, dying), 0);
    CHECK_EQ(bench_stats(b).live_requested, 0);
    CHECK_EQ(bench_stats(b).reserved, 4 * MiB);
    bench_end(b);
}

TEST(a_context_that_dies_during_growth_is_noticed)
{
    struct bench *b = bench_new(1 * GiB);
    struct fake_driver *fake = b->fake;

    fake->on_call = "mem_alloc";
    fake->on_call_pool = b->pool;
    fake->on_call_context = BENCH_CONTEXT;
    CHECK_EQ(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(bench_stats(b).reserved, 0);
    CHECK_EQ(fake->held, 0);
    CHECK_NE(bench_alloc(b, 4 * MiB), 0);
    bench_end(b);
}

TEST(r39_a_forked_child_calls_nothing_and_frees_succeed)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    struct outcome told[2];
    struct block_info info;
    size_t count;
    uint64_t calls = b->fake->calls;

    pool_forget(b->pool);
    CHECK(pool_is_frozen(b->pool));
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, a), 0); /* nobody keeps books here */
    CHECK_EQ(bench_free(b, 4096), -ENOENT);
    CHECK_EQ(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(pool_find(b->pool, a, &info), -EAGAIN);
    CHECK_EQ(pool_poll(b->pool, true, told, 2, &count), 0);
    CHECK_EQ(pool_trim_device(b->pool, 0, true), 0);
    pool_synchronised(b->pool);
    pool_free_all(b->pool);
    CHECK_EQ(b->fake->calls, calls);
    fake_free(b->fake);
    free(b);
}

TEST(r34_a_frozen_pool_recycles_nothing)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    struct block_info info;
    uint64_t calls = b->fake->calls;

    pool_freeze(b->pool);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, 4096), -ENOENT);
    CHECK_EQ(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(pool_find(b->pool, a, &info), 0);
    CHECK_EQ(b->fake->calls, calls);
    BENCH_CHECK(b);
    pool_free_all(b->pool);
    fake_free(b->fake);
    free(b);
}

TEST(a_driver_with_odd_addresses_is_survived)
{
    struct bench *b = bench_new(1 * GiB);

    b->fake->skew = 512;
    for (int i = 0; i < 10; i++) {
        devptr_t ptr = bench_alloc(b, 3 * MiB);

        CHECK_NE(ptr, 0);
        CHECK_EQ(ptr % (2 * MiB), 0);
        CHECK(fake_is_accessible(b->fake, ptr, 3 * MiB));
        BENCH_CHECK(b);
    }
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

/* SPDX-License-Identifier: MIT */
#include "alloc/meta.h"
#include "tests/unit/alloc/pool_bench.h"

/* The stream-ordered API: reuse by stream, points, inserted waits, attributes, trim, the ends of streams and pools. */

static devptr_t ask_on(struct bench *b, uint64_t size, uint64_t stream, bool may_wait)
{
    struct pool_request request = bench_request(size, stream);

    request.may_wait = may_wait;
    return bench_ask(b, &request);
}

static struct pool_stats heap_stats(struct bench *b)
{
    struct pool_stats stats = {0};

    (void)pool_heap_stats(b->pool, HEAP_MAPPED, BENCH_POOL, &stats);
    return stats;
}

/* A budget that leaves no room to grow. */
static struct bench *tight_bench(uint64_t memory, uint64_t budget)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.budget = budget;
    return bench_new_with(memory, &opts);
}

/* A budget that never matters. */
static struct bench *roomy_bench(void)
{
    return tight_bench(1 * GiB, 1 * GiB);
}

TEST(r7_r72_the_same_stream_has_its_memory_back_at_once)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    uint64_t calls = b->fake->calls;

    for (int i = 0; i < 100; i++) {
        fake_submit(b->fake, 1, a, 6 * MiB);
        CHECK_EQ(bench_free_on(b, a, 1), 0);
        CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), a);
        CHECK(b->last.how & OUTCOME_HIT);
    }
    CHECK_EQ(b->fake->calls, calls);
    bench_end(b);
}

TEST(r63_r72_another_stream_has_it_when_its_point_has_passed)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    devptr_t other;

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(b->fake->stream_records, 0); /* lazily: nobody wanted it */
    other = bench_alloc_on(b, 6 * MiB, 2);
    CHECK_NE(other, a);
    CHECK_EQ(b->fake->stream_records, 1);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    CHECK_EQ(b->fake->stream_records, 1); /* one point covers all that was freed before it */
    CHECK_EQ(bench_stats(b).cross_reuses, 1);
    bench_end(b);
}

TEST(r71_a_free_on_another_stream_records_at_once)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    CHECK_EQ(bench_free_on(b, a, 3), 0); /* the unifying stream of PyTorch */
    CHECK_EQ(b->fake->stream_records, 1);
    /* later work on that stream does not matter to the block */
    fake_submit(b->fake, 3, 0, 0);
    b->fake->hangs = true;
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), a);
    CHECK_EQ(b->fake->stream_records, 1);
    bench_end(b);
}

TEST(r69_r71_a_per_thread_stream_records_in_the_free)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_free_request request = {
            .api = API_STREAM,
            .stream = 1,
            .record_now = true,
            .may_fence = true,
    };
    struct outcome told;

    CHECK_EQ(pool_free(b->pool, bench_alloc_on(b, 6 * MiB, 1), &request, &told), 0);
    CHECK_EQ(b->fake->stream_records, 1);
    request.may_fence = false;
    CHECK_EQ(pool_free(b->pool, bench_alloc_on(b, 6 * MiB, 1), &request, &told), 0);
    CHECK_EQ(b->fake->stream_records, 1);
    bench_end(b);
}

TEST(a_record_that_fails_in_the_free_is_made_up_for)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 3, a, 6 * MiB);
    b->fake->fail_name = "stream_record";
    b->fake->fail_at = 1;
    b->fake->fail_code = -EBUSY; /* a capture is about to begin */
    CHECK_EQ(bench_free_on(b, a, 3), 0);
    CHECK(b->fake->fired);
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a);
    CHECK_EQ(b->fake->stream_records, 1);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), a);

    /* and where the stream cannot be recorded at all, a full fence does it */
    fake_submit(b->fake, 3, a, 6 * MiB);
    b->fake->fail_at = 1;
    b->fake->fail_code = FAKE_FAILURE;
    b->fake->hangs = true;
    CHECK_EQ(bench_free_on(b, a, 3), 0);
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), a);
    bench_end(b);
}

TEST(r72_a_wait_is_inserted_only_instead_of_passing_the_budget)
{
    struct bench *b = tight_bench(1 * GiB, 8 * MiB);
    devptr_t a = bench_alloc_on(b, 8 * MiB, 1);

    fake_submit(b->fake, 1, a, 8 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    b->fake->hangs = true;
    CHECK_EQ(bench_alloc_on(b, 8 * MiB, 2), a);
    CHECK(b->last.how & OUTCOME_ORDERED);
    CHECK_EQ(b->fake->stream_waits, 1);
    CHECK_EQ(b->fake->waits, 0); /* the host did not wait */
    /* the device does: the second stream's work comes after the first's */
    fake_submit(b->fake, 2, a, 8 * MiB);
    CHECK(fake_is_ordered(b->fake, 1, 1, 2));
    bench_end(b);

    b = bench_new(1 * GiB); /* with room, the budget lets it grow */
    a = bench_alloc_on(b, 100 * MiB, 1);
    CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 2 * MiB, 1), 1), 0);
    fake_submit(b->fake, 1, 0, 0);
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 2 * MiB, 2), 0);
    CHECK(b->last.how & OUTCOME_GROWN);
    CHECK_EQ(b->fake->stream_waits, 0);
    bench_end(b);
}

TEST(r72_the_reuse_attributes_are_obeyed)
{
    struct pool_heap_attrs attrs;
    struct bench *b = tight_bench(1 * GiB, 8 * MiB);
    devptr_t a = bench_alloc_on(b, 8 * MiB, 1);
    devptr_t c;

    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    CHECK_EQ(attrs.release_threshold, 0);
    CHECK(attrs.reuse_opportunistic && attrs.reuse_internal_dependencies);
    attrs.reuse_internal_dependencies = false;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    fake_submit(b->fake, 1, a, 8 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    b->fake->hangs = true;
    c = bench_alloc_on(b, 8 * MiB, 2);
    CHECK_NE(c, a); /* no wait: grown past the budget */
    CHECK_EQ(b->fake->stream_waits, 0);
    fake_drain(b->fake);
    b->fake->hangs = false;
    CHECK_EQ(bench_free_on(b, c, 2), 0);
    bench_end(b);

    b = bench_new(1 * GiB);
    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.reuse_opportunistic = false;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    (void)bench_alloc_on(b, 200 * MiB, 1); /* room in the budget */
    a = bench_alloc_on(b, 8 * MiB, 1);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_NE(bench_alloc_on(b, 8 * MiB, 2), a); /* though all is done */
    CHECK_EQ(b->fake->stream_records, 0);
    bench_end(b);
}

TEST(r70_a_run_of_several_streams_waits_for_each_of_them)
{
    struct bench *b = tight_bench(1 * GiB, 8 * MiB);
    devptr_t parts[4];

    for (uint64_t i = 0; i < 4; i++)
        parts[i] = bench_alloc_on(b, 2 * MiB, 1 + i);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(parts[i], parts[0] + i * 2 * MiB);
        fake_submit(b->fake, 1 + i, parts[i], 2 * MiB);
        CHECK_EQ(bench_free_on(b, parts[i], 1 + i), 0);
    }
    b->fake->hangs = true;
    CHECK_EQ(bench_alloc_on(b, 8 * MiB, 5), parts[0]);
    CHECK_EQ(b->fake->stream_waits, 4);
    CHECK_EQ(bench_stats(b).point_merges, 3);
    for (uint64_t i = 0; i < 4; i++)
        CHECK(fake_is_ordered(b->fake, 1 + i, 1, 5));
    fake_submit(b->fake, 5, parts[0], 8 * MiB);
    bench_end(b);
}

TEST(r70_more_streams_than_a_set_holds_are_one_full_fence)
{
    struct bench *b = tight_bench(1 * GiB, 12 * MiB);
    devptr_t parts[6];

    for (uint64_t i = 0; i < 6; i++)
        parts[i] = bench_alloc_on(b, 2 * MiB, 1 + i);
    for (uint64_t i = 0; i < 6; i++) {
        fake_submit(b->fake, 1 + i, parts[i], 2 * MiB);
        CHECK_EQ(bench_free_on(b, parts[i], 1 + i), 0);
    }
    b->fake->hangs = true;
    CHECK_EQ(bench_alloc_on(b, 12 * MiB, 8), parts[0]);
    CHECK_EQ(b->fake->stream_waits, 1);
    for (uint64_t i = 0; i < 6; i++)
        CHECK(fake_is_ordered(b->fake, 1 + i, 1, 8));
    bench_end(b);
}

TEST(r70_what_is_left_of_a_run_keeps_its_own_point)
{
    struct bench *b = tight_bench(1 * GiB, 12 * MiB);
    devptr_t a = bench_alloc_on(b, 4 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 8 * MiB, 2);

    fake_submit(b->fake, 1, a, 4 * MiB);
    fake_submit(b->fake, 2, c, 8 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(bench_free_on(b, c, 2), 0);
    b->fake->hangs = true;
    CHECK_EQ(bench_alloc_on(b, 10 * MiB, 3), a);          /* all of the first, most of the second */
    CHECK_EQ(bench_alloc_on(b, 2 * MiB, 2), c + 6 * MiB); /* the rest is the second stream's own */
    CHECK(b->last.how & OUTCOME_HIT);
    bench_end(b);
}

TEST(a_wait_that_cannot_be_inserted_gives_everything_back)
{
    struct bench *b = tight_bench(1 * GiB, 8 * MiB);
    devptr_t a = bench_alloc_on(b, 8 * MiB, 1);
    devptr_t c;

    fake_submit(b->fake, 1, a, 8 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    b->fake->hangs = true;
    b->fake->fail_name = "stream_wait_fence";
    b->fake->fail_at = 1;
    c = bench_alloc_on(b, 8 * MiB, 2);
    CHECK(b->fake->fired);
    CHECK_NE(c, a);
    CHECK_NE(c, 0);
    CHECK_EQ(bench_alloc_on(b, 8 * MiB, 1), a);
    bench_end(b);
}

TEST(r73_the_host_waits_only_where_the_alternative_is_a_refusal)
{
    struct bench *b = bench_new(16 * MiB);
    struct pool_heap_attrs attrs;
    devptr_t a;

    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.reuse_internal_dependencies = false;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    a = bench_alloc_on(b, 12 * MiB, 1);
    fake_submit(b->fake, 1, a, 12 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(ask_on(b, 8 * MiB, 2, false), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(ask_on(b, 8 * MiB, 2, true), a);
    CHECK_EQ(b->fake->waits, 1);
    CHECK_EQ(bench_stats(b).host_waits, 1);
    bench_end(b);
}

TEST(r64_a_stream_block_freed_as_a_sync_one_waits_for_every_stream)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 4, a, 6 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a); /* not even its own stream */
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), a);
    bench_end(b);
}

TEST(r9_a_sync_block_freed_on_a_stream_waits_for_every_stream)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc(b, 6 * MiB);
    uint64_t calls = b->fake->calls;

    fake_submit(b->fake, 4, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(b->fake->calls, calls);
    b->fake->hangs = true;
    CHECK_NE(bench_alloc(b, 6 * MiB), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc(b, 6 * MiB), a);
    bench_end(b);
}

TEST(an_unknown_stream_gets_only_what_is_over)
{
    struct bench *b = roomy_bench();
    struct pool_request request = bench_request(6 * MiB, 1);
    devptr_t a = bench_ask(b, &request);

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    request.stream = 0;
    b->fake->hangs = true;
    CHECK_NE(bench_ask(b, &request), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_ask(b, &request), a);
    bench_end(b);
}

/* ── attributes, trim ── */

TEST(r78_used_and_reserved_are_what_a_pool_would_say)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 1000, 1);
    devptr_t c = bench_alloc_on(b, 9 * MiB, 1);
    struct pool_stats stats = heap_stats(b);

    CHECK_EQ(stats.used, 1024 + 9 * MiB);
    CHECK_EQ(stats.used_high, stats.used);
    CHECK_EQ(stats.reserved, b->fake->held);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    stats = heap_stats(b);
    CHECK_EQ(stats.used, 1024);
    CHECK_EQ(stats.used_high, 1024 + 9 * MiB);
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, BENCH_POOL, true, false), 0);
    CHECK_EQ(heap_stats(b).used_high, 1024);
    CHECK_EQ(heap_stats(b).reserved_high, b->fake->held);
    fake_drain(b->fake);
    pool_synchronised(b->pool); /* the threshold is 0 */
    CHECK_EQ(b->fake->held, 2 * MiB);
    CHECK_EQ(heap_stats(b).reserved, 2 * MiB);
    CHECK_GT(heap_stats(b).reserved_high, 2 * MiB);
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, BENCH_POOL, true, true), 0);
    CHECK_EQ(heap_stats(b).reserved_high, 2 * MiB);
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, 12345, true, true), -ENOENT);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    bench_end(b);
}

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

TEST(r78_marks_cover_what_the_drivers_own_pool_served)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 10 * MiB, 1);

    pool_note_native(b->pool, BENCH_POOL, 0, 3 * MiB, 32 * MiB);
    CHECK_EQ(heap_stats(b).used, 10 * MiB);
    CHECK_EQ(heap_stats(b).used_high, 13 * MiB);
    CHECK_EQ(heap_stats(b).reserved_high, 42 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    a = bench_alloc_on(b, 12 * MiB, 1);
    CHECK_EQ(heap_stats(b).used_high, 15 * MiB);
    pool_note_native(b->pool, BENCH_POOL, 0, 0, 0);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    a = bench_alloc_on(b, 13 * MiB, 1);
    CHECK_EQ(heap_stats(b).used_high, 15 * MiB); /* they were not high at one time */
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, BENCH_POOL, true, true), 0);
    CHECK_EQ(heap_stats(b).used_high, 13 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    bench_end(b);
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

TEST(free_slots_move_to_where_they_are_needed)
{
    struct bench *b = tight_bench(1 * GiB, 32 * MiB);
    devptr_t live[8], dead[8];
    uint64_t creates;

    for (int i = 0; i < 8; i++) {
        dead[i] = bench_alloc_on(b, 2 * MiB, 1);
        live[i] = bench_alloc_on(b, 2 * MiB, 1);
    }
    for (int i = 0; i < 8; i++)
        CHECK_EQ(bench_free_on(b, dead[i], 1), 0);
    creates = b->fake->creates;
    CHECK_NE(bench_alloc_on(b, 16 * MiB, 1), 0); /* no hole is that large */
    CHECK_EQ(b->fake->held_high, 32 * MiB);
    CHECK_EQ(b->fake->creates, creates);
    CHECK_EQ(bench_stats(b).remaps, 8);
    for (int i = 0; i < 8; i++)
        CHECK(fake_is_accessible(b->fake, live[i], 2 * MiB));
    bench_end(b);
}

/* ── ends ── */

TEST(r5_a_stream_is_recorded_before_it_goes)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    pool_stream_gone(b->pool, 1);
    CHECK_EQ(b->fake->stream_records, 1);
    b->fake->streams[1].gone = true;
    pool_stream_gone(b->pool, 1); /* twice is fine */
    pool_stream_gone(b->pool, 9); /* and so is one that was never seen */
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    bench_end(b);
}

TEST(r5_a_stream_that_went_unseen_is_covered_by_a_full_fence)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    b->fake->streams[1].gone = true; /* its context was reset */
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    bench_end(b);
}

/* A thread's own stream ends with the thread: nobody can record on it, and no driver call is made for it. */
TEST(r5_r69_a_stream_that_is_lost_is_covered_by_a_full_fence)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    uint64_t calls;

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    calls = b->fake->stream_records;
    b->fake->streams[1].gone = true;
    pool_stream_lost(b->pool, 1);
    pool_stream_lost(b->pool, 1); /* twice is fine */
    pool_stream_lost(b->pool, 9); /* and so is one that was never seen */
    CHECK_EQ(b->fake->stream_records, calls);
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a); /* its number is another stream's now */
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    bench_end(b);
}

TEST(r69_a_number_that_comes_back_is_another_stream)
{
    struct bench *b = roomy_bench();
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    pool_stream_gone(b->pool, 1);
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a); /* not "the same stream" */
    bench_end(b);
}

TEST(many_short_lived_streams_leave_nothing_behind)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t before = 0;

    for (int i = 0; i < 3000; i++) {
        devptr_t a = bench_alloc_on(b, 6 * MiB, 2);

        CHECK_EQ(bench_free_on(b, a, 2), 0);
        pool_stream_gone(b->pool, 2);
        if (i == 100)
            before = meta_bytes();
    }
    CHECK_EQ(meta_bytes(), before);
    bench_end(b);
}

TEST(r77_a_pool_with_live_blocks_stays_until_the_last_is_freed)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 6 * MiB, 1);
    struct outcome told[1];
    size_t count;

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), -ENOENT);
    CHECK(fake_is_accessible(b->fake, c, 6 * MiB));
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), 0); /* another heap under the key */
    CHECK_EQ(bench_free_on(b, b->last.ptr, 1), 0);
    fake_submit(b->fake, 1, c, 6 * MiB);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    CHECK_EQ(bench_free_on(b, c, 1), -EINVAL);
    b->fake->hangs = true;
    CHECK_EQ(pool_poll(b->pool, true, told, 1, &count), 0);
    fake_drain(b->fake); /* no fault: the device was not done */
    CHECK_EQ(pool_poll(b->pool, true, told, 1, &count), 0);
    CHECK_EQ(bench_free_on(b, c, 1), -ENOENT);
    CHECK_EQ(b->fake->ranges, 1); /* the other heap's */
    bench_end(b);
}

/* ---- what another thread does while a fence is asked ---- */

static struct bench *meddled;
static devptr_t of_the_new_stream;

static int query_and_meddle(void *self, uint64_t fence)
{
    struct fake_driver *fake = self;
    struct bench *b = meddled;
    int r = fake->driver.fence_query(self, fence);

    if (r != 0 || !b)
        return r;
    meddled = NULL;
    (void)bench_alloc_on(b, 6 * MiB, 1); /* asks the same fence, and takes what is behind it */
    pool_stream_gone(b->pool, 2);
    of_the_new_stream = bench_alloc_on(b, 6 * MiB, 3); /* its record could be where that of 2 was */
    b->fake->hangs = true;
    fake_submit(b->fake, 3, of_the_new_stream, 6 * MiB);
    CHECK_EQ(bench_free_on(b, of_the_new_stream, 3), 0);
    return r;
}

TEST(r69_r70_an_answer_about_a_stream_that_has_ended_is_not_taken_for_anothers)
{
    struct bench *b = calloc(1, sizeof(*b));
    struct pool_opts opts;
    struct driver driver;
    devptr_t got;

    REQUIRE(b);
    pool_opts_init(&opts);
    opts.budget = 1 * GiB;
    b->fake = fake_new(1 * GiB);
    driver = b->fake->driver;
    driver.fence_query = query_and_meddle;
    REQUIRE_EQ(pool_new(&driver, &opts, &b->pool), 0);
    CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 6 * MiB, 2), 2), 0);
    meddled = b;
    got = bench_alloc_on(b, 6 * MiB, 1);
    CHECK_NE(got, of_the_new_stream);
    CHECK(!meddled);
    b->fake->hangs = false;
    bench_end(b);
}

TEST(r76_memory_of_a_pool_survives_the_context)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK(fake_is_accessible(b->fake, a, 6 * MiB));
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    bench_end(b);
}

/* Requests until one is served, each refused as none of ours; 0 = none of 100. */
static int requests_until_served(struct bench *b)
{
    for (int i = 1; i <= 100; i++) {
        devptr_t ptr = bench_alloc_on(b, 6 * MiB, 1);

        if (ptr) {
            CHECK_EQ(bench_free_on(b, ptr, 1), 0);
            return i;
        }
        CHECK_EQ(b->r, -ENOTSUP);
    }
    return 0;
}

TEST(a_heap_that_got_no_range_asks_again_later)
{
    struct bench *b = bench_new(1 * GiB);

    b->fake->range_max = 1; /* smaller ones are not to be had either */
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), 0);
    CHECK_EQ(bench_stats(b).range_errors, 1);
    b->fake->range_max = 0;
    CHECK_EQ(requests_until_served(b), 16);
    CHECK_EQ(bench_stats(b).range_errors, 1);
    bench_end(b);
}

TEST(a_heap_that_gets_no_range_asks_ever_less_often)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t calls;

    b->fake->range_max = 1;
    for (int i = 0; i < 1 + 16 + 32 + 64; i++)
        CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), 0);
    CHECK_EQ(bench_stats(b).range_errors, 4);
    calls = b->fake->calls;
    CHECK_EQ(requests_until_served(b), 0);
    CHECK_EQ(b->fake->calls, calls); /* the next try is 128 requests away */
    bench_end(b);
}

TEST(a_device_without_vmm_is_not_asked_again)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t calls;

    b->fake->no_vmm = true;
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), 0);
    calls = b->fake->calls;
    CHECK_EQ(requests_until_served(b), 0);
    CHECK_EQ(b->fake->calls, calls);
    CHECK_EQ(bench_stats(b).range_errors, 1);
    bench_end(b);
}

TEST(a_range_that_is_refused_is_asked_for_smaller)
{
    struct bench *b = bench_new(1 * GiB);

    b->fake->fail_name = "address_reserve";
    b->fake->fail_at = 1;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), 0);
    CHECK_EQ(b->fake->segments, 0);
    CHECK_EQ(b->fake->ranges, 1);
    bench_end(b);
}

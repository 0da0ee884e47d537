/* SPDX-License-Identifier: MIT */
/* covers: pool_free.c */
/* What becomes of a block that the program frees, by the API and the stream of the free. */
#include "tests/unit/alloc/pool_bench.h"

/* ── the sync API ── */

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

TEST(r12_what_is_freed_in_a_capture_is_kept)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_pinned pinned;
    struct pool_hit hit;
    devptr_t a = bench_alloc(b, 4 * MiB);

    CHECK_EQ(pool_pin(b->pool, a, 1, POOL_PIN_SHOWN, &pinned, &hit), 0);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, a), -EINVAL);
    (void)pool_trim_device(b->pool, 0, true);
    for (int i = 0; i < 10; i++)
        CHECK_NE(bench_alloc(b, 4 * MiB), a);
    CHECK_EQ(bench_stats(b).quarantined, 4 * MiB);
    pool_unpin(b->pool, a, pinned.alloc_seq, POOL_PIN_SHOWN);
    CHECK_EQ(bench_stats(b).quarantined, 0);
    bench_end(b);
}

/* The driver would take the beginning of a segment for the segment. */
TEST(r34_r35_a_frozen_pool_tells_what_was_freed_from_what_was_not)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t first = bench_alloc(b, 64 * KiB);
    devptr_t second = bench_alloc(b, 64 * KiB);
    devptr_t live = bench_alloc(b, 64 * KiB);

    CHECK_EQ(second, first + 64 * KiB);
    CHECK_EQ(bench_free(b, first), 0);
    CHECK_EQ(bench_free(b, second), 0);
    pool_freeze(b->pool);
    CHECK_EQ(bench_free(b, first), -EINVAL);
    CHECK_EQ(bench_free(b, second), -ENOENT);
    CHECK_EQ(bench_free(b, live + 512), -ENOENT);
    CHECK_EQ(bench_free(b, live), 0);
    b->fake->lost = 1;
    bench_end(b);
}

/* ── on a stream ── */

TEST(r71_a_free_on_another_stream_records_at_once)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
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
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
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

TEST(r69_r71_where_only_the_free_can_be_recorded_a_full_fence_makes_up_for_it)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    struct pool_free_request request = {
            .api = API_STREAM,
            .stream = 1,
            .record_now = true,
            .may_fence = true,
    };
    struct outcome told;

    fake_submit(b->fake, 1, a, 6 * MiB);
    b->fake->fail_name = "stream_record";
    b->fake->fail_at = 1;
    b->fake->fail_code = -EBUSY; /* a capture is about to begin */
    b->fake->hangs = true;
    CHECK_EQ(pool_free(b->pool, a, &request, &told), 0);
    CHECK(b->fake->fired);
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a); /* not even its own stream has it at once */
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 1), a);
    bench_end(b);
}

TEST(r64_a_stream_block_freed_as_a_sync_one_waits_for_every_stream)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
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
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
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

static struct {
    struct bench *bench;
    devptr_t ptr; /* freed on stream 2 in the middle of the next record, 0 = nothing */
    int (*real)(void *self, uint64_t stream, uint64_t *ret_fence);
} between;

static int record_and_pass(void *self, uint64_t stream, uint64_t *ret_fence)
{
    devptr_t ptr = between.ptr;
    int r = between.real(self, stream, ret_fence);

    between.ptr = 0;
    if (ptr) {
        uint64_t bytes;

        CHECK_EQ(bench_free_on(between.bench, ptr, 2), 0);
        fake_drain(between.bench->fake);
        CHECK_EQ(pool_trim(between.bench->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    }
    return r;
}

/* Another thread's later point has passed before this one's block is put where it waits: nothing comes to fetch it. */
TEST(a_block_whose_point_has_passed_does_not_wait)
{
    struct fake_driver *fake = fake_new(1 * GiB);
    uint64_t bytes;
    devptr_t first, second;
    struct bench *b;

    between.real = fake->driver.stream_record;
    fake->driver.stream_record = record_and_pass;
    b = bench_over(fake, NULL);
    between.bench = b;
    first = bench_alloc_on(b, 8 * MiB, 1);
    second = bench_alloc_on(b, 8 * MiB, 1);
    between.ptr = second;
    CHECK_EQ(bench_free_on(b, first, 2), 0);
    CHECK_EQ(between.ptr, 0);
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bench_stats(b).reserved, 0);
    bench_end(b);
}

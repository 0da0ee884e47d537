/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
/* Segments that another process was shown (R23, R24), and segments of their own (R16). */
#include "alloc/heap/freecache.h"
#include "alloc/heap/heap.h"
#include "tests/unit/alloc/pool_bench.h"

static uint64_t segment_of(struct bench *b, devptr_t ptr)
{
    struct block_info info = {.segment_base = 0};

    (void)pool_find(b->pool, ptr, &info);
    return info.segment_base;
}

TEST(r23_only_a_sole_tenant_at_the_start_of_its_segment_is_shown)
{
    struct bench *b = bench_new(256 * MiB);
    devptr_t a = bench_alloc(b, 65536);
    devptr_t c = bench_alloc(b, 65536);

    CHECK_EQ(segment_of(b, a), segment_of(b, c));
    CHECK_EQ(pool_export(b->pool, a), -EBUSY);
    CHECK_EQ(pool_export(b->pool, c), -EBUSY);
    CHECK_EQ(pool_export(b->pool, a + 512), -EINVAL);
    CHECK_EQ(pool_export(b->pool, 4096), -ENOENT);
    (void)bench_free(b, a);
    CHECK_EQ(pool_export(b->pool, a), -EINVAL); /* freed */
    CHECK_EQ(pool_export(b->pool, c), -EBUSY);  /* alone, but what is exported begins elsewhere */
    a = bench_alloc(b, 4 * MiB);
    CHECK_EQ(pool_export(b->pool, a), 0);
    CHECK_EQ(pool_export(b->pool, a), 0); /* as often as one likes */
    bench_end(b);
}

TEST(r24_what_was_shown_gets_no_neighbours)
{
    struct bench *b = bench_new(256 * MiB);
    devptr_t a = bench_alloc(b, 65536);
    devptr_t c = bench_alloc(b, 65536);

    (void)bench_free(
            b, c); /* free when the segment is sealed, or only afterwards: both stay out of reach */
    CHECK_EQ(pool_export(b->pool, a), 0);
    for (int i = 0; i < 40; i++) {
        devptr_t later = bench_alloc(b, 65536);

        CHECK_NE(segment_of(b, later), segment_of(b, a));
        if (i == 20)
            bench_pass(b);
    }
    bench_end(b);
}

TEST(r24_after_its_free_and_a_fence_the_driver_has_the_segment)
{
    struct bench *b = bench_new(256 * MiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    devptr_t c;

    CHECK_EQ(pool_export(b->pool, a), 0);
    fake_submit(b->fake, 1, a, 4 * MiB);
    (void)bench_free(b, a);
    CHECK_EQ(b->fake->segments, 1); /* the device may still be at it, and a free makes no call */
    c = bench_alloc(b, 4 * MiB);
    CHECK(b->last.how & OUTCOME_GROWN);
    CHECK_EQ(b->fake->segments, 1); /* it went before the new one came */
    CHECK_EQ(segment_of(b, a), a == c ? c : 0);
    (void)bench_free(b, c);
    c = bench_alloc(b, 4 * MiB);
    CHECK(!(b->last.how & OUTCOME_GROWN)); /* that one was shown to nobody */
    CHECK_EQ(b->fake->segments, 1);
    bench_end(b);
}

/* Within the budget nothing else is trimmed. */
TEST(r24_what_growth_gives_back_of_what_was_shown_is_counted)
{
    struct bench *b = bench_with_budget(256 * MiB, 256 * MiB);
    devptr_t shown[2];

    for (int i = 0; i < 2; i++) {
        shown[i] = bench_alloc(b, 4 * MiB);
        CHECK_EQ(pool_export(b->pool, shown[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        (void)bench_free(b, shown[i]);
    bench_pass(b);
    CHECK_EQ(bench_stats(b).trims, 0);
    (void)bench_alloc(b, 6 * MiB);
    CHECK_EQ(b->fake->held, 6 * MiB);
    CHECK_EQ(bench_stats(b).trims, 1);
    CHECK_EQ(bench_stats(b).trimmed_bytes, 8 * MiB);
    bench_end(b);
}

TEST(r24_a_trim_gives_back_what_was_shown)
{
    struct bench *b = bench_new(256 * MiB);
    devptr_t a = bench_alloc(b, 65536);

    CHECK_EQ(pool_export(b->pool, a), 0);
    (void)bench_free(b, a);
    bench_pass(b);
    CHECK_GE(pool_trim_device(b->pool, 0, true), 2 * MiB);
    CHECK_EQ(b->fake->segments, 0);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

TEST(r16_with_export_safe_placement_large_blocks_have_segments_of_their_own)
{
    struct block_info info;
    struct pool_opts opts;
    struct bench *b;
    devptr_t a, c, d;

    pool_opts_init(&opts);
    opts.export_safe = true;
    opts.budget = 256 * MiB; /* what is free may be cut */
    b = bench_new_with(256 * MiB, &opts);
    a = bench_alloc(b, 8 * MiB);
    (void)bench_free(b, a);
    bench_pass(b);
    a = bench_alloc(b, 4 * MiB);
    c = bench_alloc(b, 3 * MiB + 1);
    d = bench_alloc(b, 2 * MiB - 512); /* not large: it may be packed */
    CHECK_EQ(segment_of(b, a), a);
    CHECK_EQ(segment_of(b, c), c);
    CHECK_NE(segment_of(b, d), a);
    CHECK_NE(segment_of(b, d), c);
    CHECK_EQ(pool_export(b->pool, a), 0);
    CHECK_EQ(pool_export(b->pool, c), 0);
    (void)bench_free(b, c);
    bench_pass(b);
    c = bench_alloc(b, 3 * MiB + 1);
    CHECK_EQ(segment_of(b, c), c);
    a = bench_alloc(b, 2 * opts.large); /* not too large to be cut for half of it */
    (void)bench_free(b, a);
    bench_pass(b);
    d = bench_alloc(b, opts.large); /* the smallest that is large, and no part of what is larger */
    REQUIRE_EQ(pool_find(b->pool, d, &info), 0);
    CHECK_EQ(info.segment_base, d);
    CHECK_EQ(info.segment_size, opts.large);
    bench_end(b);
}

/* A whole segment of the very size is used again. */
TEST(r16_export_safe_segments_are_reused_whole)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t a;

    pool_opts_init(&opts);
    opts.export_safe = true;
    b = bench_new_with(256 * MiB, &opts);
    for (int i = 0; i < 20; i++) {
        a = bench_alloc(b, 5 * MiB + 100);
        CHECK_EQ((b->last.how & OUTCOME_GROWN) != 0, i == 0);
        (void)bench_free(b, a);
        bench_pass(b);
    }
    CHECK_EQ(b->fake->segments, 1);
    bench_end(b);
}

/* Nothing is free that is found by its size alone. */
static void settle(struct bench *b)
{
    struct pool *pool = b->pool;

    lock_take(&pool->lock);
    freecache_settle(pool, heap_get(pool, HEAP_PLAIN, BENCH_CONTEXT, -1));
    lock_drop(&pool->lock);
}

TEST(r16_a_whole_segment_is_found_among_pieces_of_its_size)
{
    struct pool_opts opts;
    devptr_t parts[5], whole;
    struct bench *b;

    pool_opts_init(&opts);
    opts.export_safe = true;
    opts.large = 4 * MiB;
    opts.chunk = 10 * MiB;
    opts.cut = 5;
    opts.budget = 1 * GiB;
    b = bench_new_with(1 * GiB, &opts);
    (void)bench_alloc(b, 256 * MiB); /* beside which a chunk is small */
    for (int i = 0; i < 5; i++)
        parts[i] = bench_alloc(b, 2 * MiB);
    REQUIRE_EQ(segment_of(b, parts[4]), parts[0]);
    whole = bench_alloc(b, 4 * MiB);
    REQUIRE(whole > parts[4]);
    for (int i = 0; i < 5; i++)
        if (i != 2)
            (void)bench_free(b, parts[i]); /* two pieces, and one of them begins the segment */
    (void)bench_free(b, whole);
    bench_pass(b);
    settle(b);
    CHECK_EQ(bench_alloc(b, 4 * MiB), whole);
    CHECK(!(b->last.how & OUTCOME_GROWN));
    CHECK_NE(segment_of(b, bench_alloc(b, 4 * MiB)), parts[0]);
    CHECK(b->last.how & OUTCOME_GROWN);
    bench_end(b);
}

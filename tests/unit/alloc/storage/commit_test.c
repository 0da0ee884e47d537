/* SPDX-License-Identifier: MIT */
/* covers: commit.c */
/* A block becomes the program's: what is told of it, and what growth may hold for it. */
#include "tests/unit/alloc/pool_bench.h"

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

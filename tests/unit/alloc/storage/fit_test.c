/* SPDX-License-Identifier: MIT */
/* covers: fit.c */
#include "alloc/heap/streams.h"
#include "alloc/storage/fit.h"
#include "tests/unit/alloc/layout.h"

/* Which free block of an arena a request is cut from, and from which end. Slots are of 2 MiB; sizes above 1 MiB are fitted each
 * time. */

#define STREAM 1

static devptr_t take(struct bench *b, uint64_t size)
{
    devptr_t ptr = bench_alloc_on(b, size, STREAM);

    REQUIRE(ptr != 0);
    CHECK(fake_is_accessible(b->fake, ptr, size));
    BENCH_CHECK(b);
    return ptr;
}

static void give(struct bench *b, devptr_t ptr)
{
    REQUIRE_EQ(bench_free_on(b, ptr, STREAM), 0);
    BENCH_CHECK(b);
}

TEST(the_top_of_the_arena_is_cut_only_where_nothing_else_fits)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t hole = take(b, 8 * MiB);
    devptr_t top;

    (void)take(b, 2 * MiB);
    top = take(b, 4 * MiB);
    give(b, hole);
    give(b, top);
    CHECK_EQ(take(b, 3 * MiB), hole); /* 4 MiB would be the best fit */
    CHECK_EQ(take(b, 5 * MiB), hole + 3 * MiB);
    CHECK_EQ(take(b, 3 * MiB), top);
    CHECK(b->last.how & OUTCOME_HIT); /* rather than to look for room to grow in */
    CHECK_EQ(b->fake->held, 14 * MiB);
    bench_end(b);
}

/* One of the two is clean, and the other its stream's, whose work is not over. */
TEST(the_top_is_cut_last_whichever_class_it_is_of)
{
    for (int clean_top = 0; clean_top < 2; clean_top++) {
        struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
        struct pool *pool = b->pool;
        devptr_t hole = take(b, 8 * MiB);
        struct heap *heap;
        devptr_t top;

        (void)take(b, 2 * MiB);
        top = take(b, 4 * MiB);
        give(b, clean_top ? top : hole);
        lock_take(&pool->lock);
        heap = layout_heap(pool);
        lock_drop(&pool->lock);
        REQUIRE_EQ(reclaim_points(pool, heap, 0), 0);
        fake_submit(b->fake, STREAM, 0, 0);
        b->fake->hangs = true;
        give(b, clean_top ? hole : top);
        CHECK_EQ(take(b, 3 * MiB), hole);
        b->fake->hangs = false;
        bench_end(b);
    }
}

TEST(the_top_is_cut_last_even_where_it_is_part_of_a_slot)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t hole = take(b, 8 * MiB);
    devptr_t end = take(b, 3 * MiB) + 3 * MiB; /* and 1 MiB above it is free */

    give(b, hole);
    CHECK_EQ(take(b, 600 * KiB), hole);
    (void)take(b, 8 * MiB - 600 * KiB);
    CHECK_EQ(take(b, 600 * KiB), end);
    CHECK(b->last.how & OUTCOME_HIT);
    CHECK_EQ(b->fake->held, 12 * MiB);
    bench_end(b);
}

/* The request begins in a hole of 8 MiB, or so, between two blocks. */
static void check_start(
        uint64_t before, uint64_t hole, uint64_t after, uint64_t size, uint64_t start)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t ptr;

    (void)take(b, before);
    ptr = take(b, hole);
    (void)take(b, after);
    (void)take(b, 10 * MiB); /* no top beside it */
    give(b, ptr);
    CHECK_EQ(take(b, size) - ptr, start);
    bench_end(b);
}

TEST(a_request_is_cut_beside_a_block_of_its_own_size)
{
    check_start(4 * MiB, 12 * MiB, 6 * MiB, 6 * MiB, 6 * MiB);
    check_start(4 * MiB, 12 * MiB, 6 * MiB, 4 * MiB, 0);
    check_start(4 * MiB, 12 * MiB, 4 * MiB, 4 * MiB, 0); /* both are: the older one */
    /* though the low end costs a slot less */
    check_start(2560 * KiB, 5632 * KiB, 1536 * KiB, 1536 * KiB, 4096 * KiB);
}

TEST(a_request_is_cut_where_it_costs_fewer_slots)
{
    check_start(3584 * KiB, 5632 * KiB, 3 * MiB, 1 * MiB,
            4608 * KiB); /* 3.5 to 9 MiB: the last one is no slot */
    check_start(3 * MiB, 5632 * KiB, 3584 * KiB, 1 * MiB, 0);
}

/* The hole lies beside a younger block, then beside one that is older than what is behind it. */
static void check_age(uint64_t live, uint64_t start)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t before, hole;

    REQUIRE(bench_alloc(b, live) != 0); /* not in the arena */
    before = take(b, 2 * MiB);
    hole = take(b, 8 * MiB);
    (void)take(b, 2 * MiB);
    give(b, hole);
    CHECK_EQ(take(b, 4 * MiB), hole);
    give(b, hole);

    hole = take(b, 8 * MiB);
    give(b, before);
    CHECK_EQ(take(b, 2 * MiB), before); /* younger now than what is behind the hole */
    give(b, hole);
    CHECK_EQ(take(b, 4 * MiB), hole + start);
    bench_end(b);
}

TEST(a_request_is_cut_beside_the_older_block)
{
    check_age(HEAP_TINY, 4 * MiB);
}

TEST(a_request_of_a_tiny_program_is_cut_at_the_low_end)
{
    check_age(2 * MiB, 0);
}

TEST(small_requests_leave_whole_slots_whole)
{
    struct pool_opts opts;
    devptr_t hole, wall, slot;
    struct bench *b;

    pool_opts_init(&opts);
    opts.remap = POOL_REMAP_EAGER;
    b = bench_new_with(1 * GiB, &opts);
    (void)take(b, 1280 * KiB);
    hole = take(b,
            2304 * KiB); /* begins and ends inside slots: no whole one, though it is larger than one */
    wall = take(b, 512 * KiB);
    slot = take(b, 2 * MiB);
    (void)take(b, 2 * MiB);
    give(b, hole);
    give(b, slot);
    CHECK_LT(take(b, 1536 * KiB), wall); /* best fit alone would take the slot, which is smaller */
    (void)take(b, 2 * MiB);
    CHECK_EQ(b->fake->held, 8 * MiB);
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

/* ── against a walk over all blocks ── */

#define TOP      (UINT64_C(1) << 62) /* comes after all others */
#define NO_PIECE (UINT64_C(1) << 61) /* whole slots come after fragments */

/* The order in which blocks are cut for a request, which is that of their sizes but for these two; 0 = not at all. */
static uint64_t rank_of(
        struct pool *pool, const struct block *block, const struct want *want) POOL_LOCKED
{
    uint64_t slot = block_segment(pool, block)->slot;
    devptr_t end = block->node.base + block->node.size;
    bool is_fragment = round_up(block->node.base, slot) + slot > end;

    if (block->state != BLOCK_FREE || (block->stream && block->stream != want->stream)
            || round_up(block->node.base, want->align) + want->size > end)
        return 0;
    return block->node.size + (block->next ? 0 : TOP) + (is_fragment ? 0 : NO_PIECE);
}

TEST(no_other_block_comes_before_the_one_that_is_found)
{
    uint64_t found = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct layout layout = layout_new(seed, 1 * GiB, NULL, false);
        struct pool *pool = layout.pool;
        struct heap *heap;

        if (seed % 2)
            layout_ask(&layout); /* clean blocks beside those of stream 2 */
        lock_take(&pool->lock);
        heap = layout_heap(pool);
        for (uint64_t stream = 0; stream < 3; stream++) {
            for (uint64_t size = 1024; size <= 12 * MiB; size += size / 2 & ~UINT64_C(511)) {
                struct want want = {.size = size, .align = 512};
                uint64_t least = UINT64_MAX;
                uint32_t index;

                want.stream = stream ? streams_find(pool, stream) : 0;
                for (uint32_t at = segment_at(pool, heap->arena)->first; at;
                        at = block_at(pool, at)->next)
                    least = min_of(least, rank_of(pool, block_at(pool, at), &want) - 1);
                index = fit_find(pool, heap, &want);
                REQUIRE_EQ(index != 0, least != UINT64_MAX);
                if (!index)
                    continue;
                CHECK_EQ(rank_of(pool, block_at(pool, index), &want) - 1, least);
                CHECK_LE(fit_skip(pool, block_at(pool, index), &want) + size,
                        block_at(pool, index)->node.size);
                found++;
            }
        }
        lock_drop(&pool->lock);
        layout_end(&layout);
    }
    CHECK_GT(found, 1000);
}

/* Many small blocks, freed a moment ago, below one that stays; what is behind that is free as well. */
static devptr_t free_many_small(struct bench *b, uint64_t edge_size)
{
    devptr_t small[16], edge;
    devptr_t last = 0;

    for (int i = 0; i < 16; i++)
        small[i] = take(b, 4 * KiB);
    (void)take(b, 8 * KiB);
    edge = take(b, edge_size);
    give(b, take(b, 8 * MiB));
    give(b, edge);
    for (int i = 0; i < 16; i++) {
        give(b, small[i]);
        last = small[i];
    }
    return last;
}

TEST(small_blocks_stay_as_they_are_where_one_block_alone_is_large_enough)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t small = free_many_small(b, 2 * MiB);

    (void)take(b, 6 * MiB);
    CHECK(b->last.how & OUTCOME_HIT);
    CHECK_EQ(take(b, 4 * KiB),
            small); /* freed last; if they were joined, the lowest would be next */
    bench_end(b);
}

TEST(what_is_below_the_top_is_joined_with_it_and_nothing_else_if_that_is_enough)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t small = free_many_small(b, 1 * MiB); /* 1 MiB at most is kept as it is */

    (void)take(b, 9 * MiB);
    CHECK(b->last.how & OUTCOME_HIT);
    CHECK_EQ(take(b, 4 * KiB), small);
    bench_end(b);
}

TEST(small_blocks_are_joined_where_a_large_request_may_find_a_place_among_them)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t low = 0;

    for (int i = 0; i < 80; i++) {
        devptr_t ptr = take(b, 16 * KiB);

        low = low ? low : ptr;
    }
    (void)take(b, 16 * KiB);
    give(b, take(b, 8 * MiB));
    for (int i = 0; i < 80; i++)
        give(b, low + (uint64_t)i * 16 * KiB);
    CHECK_EQ(take(b, 768 * KiB), low);
    bench_end(b);
}

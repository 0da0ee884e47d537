/* SPDX-License-Identifier: MIT */
/* covers: pool_quick.c */
/* The short forms of allocation and free: they do what the long ones do, or nothing. */
#include "tests/unit/alloc/pool_bench.h"

#define STREAM 5
#define OTHER  6

enum {
    BLOCKS = 200,
    STEPS = 6000,
};

/* One of two pools under the same requests, by the short forms where they answer. */
struct side {
    struct bench *bench;
    bool quick;
    devptr_t held[BLOCKS];
    bool streamed[BLOCKS];
    unsigned shorts; /* how often a short form did it */
};

static void take(struct side *side, unsigned at, uint64_t size, bool streamed)
{
    devptr_t ptr = 0;

    if (side->quick)
        ptr = streamed ? pool_alloc_on_quickly(side->bench->pool, BENCH_POOL, STREAM, size).ptr
                       : pool_alloc_quickly(side->bench->pool, BENCH_CONTEXT, size).ptr;
    side->shorts += ptr != 0;
    if (!ptr)
        ptr = streamed ? bench_alloc_on(side->bench, size, STREAM) : bench_alloc(side->bench, size);
    REQUIRE(ptr);
    side->held[at] = ptr;
    side->streamed[at] = streamed;
}

static void give(struct side *side, unsigned at)
{
    bool streamed = side->streamed[at];
    devptr_t ptr = side->held[at];
    bool done = false;

    if (side->quick)
        done = streamed ? pool_free_on_quickly(side->bench->pool, ptr, STREAM)
                        : pool_free_quickly(side->bench->pool, ptr);
    side->shorts += done;
    if (!done)
        REQUIRE(bench_free_on(side->bench, ptr, streamed ? STREAM : 0) == 0);
    side->held[at] = 0;
}

static void step(struct side *side, unsigned at, uint64_t size, bool streamed)
{
    if (side->held[at])
        give(side, at);
    else
        take(side, at, size, streamed);
}

/* A pool that knows the stream: the first free there goes the long way. */
static struct bench *primed(void)
{
    struct bench *b = bench_new(1 * GiB);

    REQUIRE(bench_free_on(b, bench_alloc_on(b, 512, STREAM), STREAM) == 0);
    return b;
}

TEST(the_short_forms_keep_the_same_books)
{
    static const uint64_t sizes[] = {
            1, 512, 700, 5000, 60 * KiB, 100 * KiB, 1 * MiB, 1 * MiB + 1, 3 * MiB, 9 * MiB};
    struct side sides[2] = {
            {.bench = bench_new(8 * GiB)}, {.bench = bench_new(8 * GiB), .quick = true}};
    struct pool_stats one, two;
    unsigned state = 3;

    for (int i = 0; i < STEPS; i++) {
        unsigned at = (unsigned)rand_r(&state) % BLOCKS;
        uint64_t size = sizes[(unsigned)rand_r(&state) % 10];
        bool streamed = rand_r(&state) & 1;

        step(&sides[0], at, size, streamed);
        step(&sides[1], at, size, streamed);
        if (i % 500 == 0) {
            BENCH_CHECK(sides[1].bench);
            one = bench_stats(sides[0].bench);
            two = bench_stats(sides[1].bench);
            CHECK_EQ(one.live_count, two.live_count);
            CHECK_EQ(one.live_requested, two.live_requested);
            CHECK_EQ(one.live_rounded, two.live_rounded);
            CHECK_EQ(one.used, two.used);
            CHECK_EQ(one.stored, two.stored);
            CHECK_EQ(one.used_high, two.used_high);
            CHECK_EQ(one.stored_high, two.stored_high);
            CHECK_EQ(one.live_requested_high, two.live_requested_high);
            CHECK_EQ(one.allocs, two.allocs);
            CHECK_EQ(one.frees, two.frees);
        }
    }
    CHECK(sides[1].shorts > STEPS / 2);
    for (unsigned at = 0; at < BLOCKS; at++)
        for (int i = 0; i < 2; i++)
            if (sides[i].held[at])
                give(&sides[i], at);
    CHECK_EQ(bench_stats(sides[1].bench).used, 0);
    bench_end(sides[0].bench);
    bench_end(sides[1].bench);
}

/* Numbers of both forms are of one order, and a free that nobody asks about takes none. */
TEST(who_asks_is_told)
{
    struct bench *b = primed();
    struct pool_taken taken = {0, 0, -1};
    struct pool_given first = pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 700);
    struct pool_given plain, second;
    devptr_t old = bench_alloc(b, 5000); /* makes the heap */
    uint64_t before;

    REQUIRE(first.ptr);
    plain = pool_alloc_quickly(b->pool, BENCH_CONTEXT, 300);
    REQUIRE(plain.ptr);
    CHECK_LT(first.seq, plain.seq);
    before = pool_seq_next(b->pool);
    CHECK_EQ(before, plain.seq + 1);

    REQUIRE(pool_free_on_told(b->pool, first.ptr, STREAM, &taken));
    CHECK_EQ(taken.seq, before + 1);
    CHECK_EQ(taken.size, 700);
    CHECK_EQ(taken.device, 0);
    CHECK(!pool_free_on_told(b->pool, first.ptr, STREAM, &taken)); /* twice */
    REQUIRE(pool_free_told(b->pool, plain.ptr, &taken));
    CHECK_EQ(taken.seq, before + 2);
    CHECK_EQ(taken.size, 300);
    CHECK_EQ(taken.device, 0);
    REQUIRE(pool_free_quickly(b->pool, old));
    second = pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 700);
    CHECK_EQ(second.ptr, first.ptr);
    CHECK_EQ(second.seq, before + 3);
    BENCH_CHECK(b);
    bench_end(b);
}

TEST(what_is_special_goes_the_long_way)
{
    struct bench *b = primed();
    devptr_t sync = bench_alloc(b, 4096);
    devptr_t async = bench_alloc_on(b, 4096, STREAM);
    struct pool_pinned pinned;
    struct pool_hit hit;

    CHECK(!pool_free_quickly(b->pool, async)); /* the sync API waits for all streams (R64) */
    CHECK(!pool_free_on_quickly(b->pool, async, OTHER)); /* an event is to be recorded (R71) */
    CHECK(!pool_free_on_quickly(b->pool, async + 512, STREAM)); /* inside (R35) */
    CHECK(!pool_free_quickly(b->pool, sync + 1));
    CHECK(!pool_free_on_quickly(
            b->pool, sync, STREAM)); /* a plain block: there is no order to keep */
    CHECK(!pool_free_quickly(b->pool, UINT64_C(0x1234567000)));
    CHECK(!pool_free_quickly(b->pool, 0));
    CHECK(!pool_free_quickly(b->pool, UINT64_MAX));
    REQUIRE(pool_pin(b->pool, sync, 4096, POOL_PIN_SHOWN, &pinned, &hit) == 0);
    CHECK(!pool_free_quickly(b->pool, sync)); /* R80 */
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL + 1, STREAM, 4096).ptr, 0);
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, OTHER, 4096).ptr, 0);
    CHECK_EQ(pool_alloc_quickly(b->pool, BENCH_CONTEXT + 1, 4096).ptr, 0);
    CHECK_EQ(pool_alloc_quickly(b->pool, BENCH_CONTEXT, 0).ptr, 0);
    CHECK_EQ(pool_alloc_quickly(b->pool, BENCH_CONTEXT, UINT64_MAX).ptr, 0);
    CHECK(pool_free_on_quickly(b->pool, async, STREAM));
    CHECK(!pool_free_on_quickly(b->pool, async, STREAM)); /* twice */
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 4096).ptr, async);
    CHECK_EQ(bench_free_on(b, async, STREAM), 0);
    pool_unpin(b->pool, pinned.base, pinned.alloc_seq, POOL_PIN_SHOWN);
    CHECK_EQ(bench_free(b, sync), 0);
    bench_end(b);
}

/* The large block that was freed last is kept for its size, and joined with its neighbours before anything larger is fitted. */
TEST(a_large_block_that_is_held_is_found_by_whoever_needs_it)
{
    struct bench *b = primed();
    devptr_t first = bench_alloc_on(b, 4 * MiB, STREAM);
    devptr_t second = bench_alloc_on(b, 4 * MiB, STREAM);
    uint64_t grows = bench_stats(b).grows;

    CHECK_EQ(second, first + 4 * MiB);
    CHECK(pool_free_on_quickly(b->pool, second, STREAM));
    BENCH_CHECK(b);
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 4 * MiB).ptr, second);
    CHECK(pool_free_on_quickly(b->pool, second, STREAM));
    CHECK(pool_free_on_quickly(b->pool, first, STREAM));
    BENCH_CHECK(b);
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 8 * MiB).ptr, first);
    CHECK_EQ(bench_stats(b).grows, grows);
    CHECK(pool_free_on_quickly(b->pool, first, STREAM));
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, STREAM), first);
    CHECK_EQ(bench_free_on(b, first, STREAM), 0);
    bench_end(b);
}

/* Blocks of these sizes in MiB, side by side, and one more above them. */
static void take_row(struct bench *b, const unsigned sizes[], devptr_t row[], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        row[i] = bench_alloc_on(b, sizes[i] * MiB, STREAM);
        REQUIRE(row[i] && (i == 0 || row[i] == row[i - 1] + sizes[i - 1] * MiB));
    }
    REQUIRE(bench_alloc_on(b, 2 * MiB, STREAM));
}

TEST(a_small_request_that_fits_elsewhere_leaves_the_large_block_held)
{
    struct bench *b = primed();
    devptr_t row[5];

    take_row(b, (const unsigned[]){4, 2, 4, 2, 2}, row, 5);
    CHECK(pool_free_on_quickly(b->pool, row[4], STREAM));
    CHECK(pool_free_on_quickly(b->pool, row[0], STREAM));
    CHECK(pool_free_on_quickly(b->pool, row[2], STREAM));
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 4096).ptr, row[4]);
    BENCH_CHECK(b);
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 4 * MiB).ptr, row[2]);
    bench_end(b);
}

/* The fit is the one that it would be if the block were joined: no smaller hole beside it, no larger one elsewhere. */
TEST(a_large_block_that_is_held_changes_no_fit)
{
    struct bench *b = primed();
    devptr_t row[6];
    devptr_t small;

    take_row(b, (const unsigned[]){4, 2, 6, 2, 2, 2}, row, 6);
    CHECK(pool_free_on_quickly(b->pool, row[0], STREAM));
    CHECK(pool_free_on_quickly(b->pool, row[3], STREAM));
    CHECK(pool_free_on_quickly(b->pool, row[2], STREAM));
    small = pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 8192).ptr;
    CHECK(small >= row[0] && small < row[1]); /* row[3] is the smaller hole, but not with row[2] */
    BENCH_CHECK(b);
    CHECK(pool_free_on_quickly(b->pool, row[5], STREAM));
    small = pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 16384).ptr;
    CHECK(small >= row[5] && small < row[5] + 2 * MiB);
    BENCH_CHECK(b);
    bench_end(b);
}

/* A pool that is destroyed serves nobody, whatever was remembered of it. */
TEST(r77_a_pool_that_goes_is_not_served_from_memory)
{
    struct bench *b = primed();
    devptr_t ptr = bench_alloc_on(b, 4096, STREAM);
    devptr_t other = bench_alloc_on(b, 4096, STREAM);

    CHECK(pool_free_on_quickly(b->pool, ptr, STREAM));
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 4096).ptr, ptr);
    CHECK(pool_free_on_quickly(b->pool, ptr, STREAM));
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(pool_alloc_on_quickly(b->pool, BENCH_POOL, STREAM, 4096).ptr, 0);
    CHECK_EQ(bench_free_on(b, other, STREAM), 0);
    bench_end(b);
}

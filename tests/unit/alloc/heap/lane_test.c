/* SPDX-License-Identifier: MIT */
/* covers: lane.c */
/* Lanes are opened here without a crowd; race.lane has one. */
#include "alloc/heap/heap.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/streams.h"
#include "tests/unit/alloc/pool_bench.h"

#include <sched.h>

enum {
    STREAMS = 5,
    BLOCKS = 120,
    STEPS = 20000,
    PAIRS = 1000,
};

static struct heap_stream *class_on(struct pool *pool, uint64_t stream) POOL_LOCKED
{
    struct heap *heap = heap_get(pool, HEAP_MAPPED, BENCH_POOL, -1);

    return heap ? heap_class(heap, streams_find(pool, stream)) : NULL;
}

/* As a request that had to wait would. */
static void open_lane(struct bench *b, uint64_t stream)
{
    struct heap_stream *class;

    (void)lock_take_lent(&b->pool->lock);
    class = class_on(b->pool, stream);
    if (class) {
        lane_of(b->pool, stream)->wait = 0;
        lane_open(b->pool, class);
    }
    lock_drop_lent(&b->pool->lock, lanes_are_open(b->pool));
}

static bool is_open(struct bench *b, uint64_t stream)
{
    return atomic_load(&lane_of(b->pool, stream)->key) == stream;
}

static devptr_t take(struct bench *b, uint64_t stream, uint64_t size)
{
    return pool_alloc_on_quickly(b->pool, BENCH_POOL, stream, size).ptr;
}

/* A pool that knows the streams, with one block of `size` bytes recent on each. */
static struct bench *primed(uint64_t size)
{
    struct bench *b = bench_new(8 * GiB);

    for (uint64_t stream = 1; stream <= STREAMS; stream++)
        REQUIRE(bench_free_on(b, bench_alloc_on(b, size, stream), stream) == 0);
    return b;
}

/* ---- who needs the pool's lock ---- */

struct runner {
    struct bench *b;
    uint64_t stream;
    unsigned served;
};

static void *run_pairs(void *arg)
{
    struct runner *runner = arg;

    for (int i = 0; i < PAIRS; i++) {
        struct pool *pool = runner->b->pool;
        devptr_t ptr = lane_alloc(pool, BENCH_POOL, runner->stream, 4096).ptr;

        if (ptr && lane_free(pool, ptr, runner->stream, NULL))
            runner->served++;
    }
    return NULL;
}

TEST(pairs_in_lanes_need_no_lock_of_the_pool) TSA(no_thread_safety_analysis)
{
    struct bench *b = primed(4096);
    struct runner runners[STREAMS];
    pthread_t threads[STREAMS];
    devptr_t held[STREAMS];

    for (unsigned i = 0; i < STREAMS; i++)
        held[i] = take(b, i + 1, 4096);
    for (unsigned i = 0; i < STREAMS; i++) {
        open_lane(b, i + 1);
        CHECK(pool_free_on_quickly(b->pool, held[i], i + 1));
    }
    (void)lock_take_lent(&b->pool->lock);
    for (unsigned i = 0; i < STREAMS; i++) {
        runners[i] = (struct runner){b, i + 1, 0};
        REQUIRE_EQ(pthread_create(&threads[i], NULL, run_pairs, &runners[i]), 0);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(runners[i].served, PAIRS);
    }
    lock_drop_lent(&b->pool->lock, true);
    BENCH_CHECK(b);
    for (unsigned i = 0; i < STREAMS; i++)
        CHECK(!is_open(b, i + 1)); /* whoever takes the lock has it all */
    CHECK_EQ(bench_stats(b).used, 0);
    CHECK_EQ(bench_stats(b).allocs, STREAMS * (PAIRS + 2));
    bench_end(b);
}

/* ---- the books ---- */

/* One of two pools under the same requests; in one of them lanes are open now and then. */
struct side {
    struct bench *b;
    devptr_t held[BLOCKS];
    uint64_t stream[BLOCKS];
    unsigned in_lanes;
};

static void step(struct side *side, unsigned at, uint64_t size, uint64_t stream)
{
    struct bench *b = side->b;

    side->in_lanes += is_open(b, side->held[at] ? side->stream[at] : stream);
    if (side->held[at]) {
        if (!pool_free_on_quickly(b->pool, side->held[at], side->stream[at]))
            REQUIRE(bench_free_on(b, side->held[at], side->stream[at]) == 0);
        side->held[at] = 0;
        return;
    }
    side->held[at] = take(b, stream, size);
    if (!side->held[at])
        side->held[at] = bench_alloc_on(b, size, stream);
    side->stream[at] = stream;
    REQUIRE(side->held[at]);
}

static void compare(struct side *sides)
{
    struct pool_stats one = bench_stats(sides[0].b);
    struct pool_stats two = bench_stats(sides[1].b);

    BENCH_CHECK(sides[1].b);
    CHECK(memcmp(&one, &two, sizeof(one)) == 0);
    CHECK_EQ(one.used, two.used);
    CHECK_EQ(one.used_high, two.used_high);
    CHECK_EQ(one.stored_high, two.stored_high);
    CHECK_EQ(one.live_requested_high, two.live_requested_high);
    CHECK_EQ(one.allocs, two.allocs);
    CHECK_EQ(one.frees, two.frees);
    CHECK_EQ(pool_seq_next(sides[0].b->pool), pool_seq_next(sides[1].b->pool));
}

TEST(with_lanes_the_addresses_the_numbers_and_all_figures_are_the_same)
{
    static const uint64_t sizes[] = {
            1, 512, 700, 5000, 5100, 60 * KiB, 100 * KiB, 1 * MiB, 1 * MiB + 1, 3 * MiB};
    struct side sides[2] = {{.b = primed(512)}, {.b = primed(512)}};
    unsigned state = 5;

    for (int i = 0; i < STEPS; i++) {
        unsigned at = (unsigned)rand_r(&state) % BLOCKS;
        /* mostly few sizes, so that lanes stay open for a while */
        uint64_t size = sizes[(unsigned)rand_r(&state) % (i / 1000 % 2 ? 10 : 4)];
        uint64_t stream = 1 + (unsigned)rand_r(&state) % STREAMS;

        step(&sides[0], at, size, stream);
        if (rand_r(&state) % 4 == 0)
            open_lane(sides[1].b, stream);
        step(&sides[1], at, size, stream);
        CHECK_EQ(sides[0].held[at], sides[1].held[at]);
        if (rand_r(&state) % 500 == 0)
            compare(sides);
    }
    CHECK_GT(sides[1].in_lanes, STEPS / 10);
    compare(sides);
    bench_end(sides[0].b);
    bench_end(sides[1].b);
}

/* What a lane has freed is not in the books yet, and must not count when another stream asks for as much. */
TEST(what_lanes_have_freed_raises_no_mark)
{
    struct bench *b = primed(4096);
    devptr_t held[BLOCKS];
    struct pool_stats stats;

    for (unsigned i = 0; i < BLOCKS; i++)
        held[i] = bench_alloc_on(b, 4096, 2);
    for (unsigned i = 0; i < BLOCKS; i++)
        REQUIRE(bench_free_on(b, held[i], 2) == 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        held[i] = bench_alloc_on(b, 4096, 1);
    open_lane(b, 1);
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK(pool_free_on_quickly(b->pool, held[i], 1));
    CHECK(is_open(b, 1));
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((held[i] = take(b, 2, 4096)) != 0);
    stats = bench_stats(b);
    CHECK_EQ(stats.used, BLOCKS * 4096);
    CHECK_EQ(stats.used_high, BLOCKS * 4096);
    CHECK_EQ(stats.stored_high, BLOCKS * 4096);
    CHECK_EQ(stats.live_requested_high, BLOCKS * 4096);
    bench_end(b);
}

/* A lane gives out no more than was booked for it: one block more goes by the pool's lock, and raises the marks. */
TEST(what_a_lane_gives_out_beyond_what_was_booked_raises_the_marks)
{
    struct bench *b = primed(4096);
    devptr_t first = bench_alloc_on(b, 4096, 1);
    devptr_t second = bench_alloc_on(b, 4096, 1);

    REQUIRE(bench_free_on(b, first, 1) == 0);
    REQUIRE(bench_free_on(b, second, 1) == 0);
    CHECK_EQ(pool_reset_high(b->pool, HEAP_MAPPED, BENCH_POOL, true, false), 0);
    open_lane(b, 1);
    CHECK(take(b, 1, 4096) != 0);
    CHECK(take(b, 1, 4096) != 0);
    CHECK_EQ(bench_stats(b).used_high, 2 * 4096);
    bench_end(b);
}

/* ---- what a lane does not do ---- */

TEST(r35_a_lane_frees_nothing_but_the_beginning_of_a_live_block_of_its_stream)
{
    struct bench *b = primed(4096);
    devptr_t mine = take(b, 1, 4096);
    devptr_t other = take(b, 2, 4096);

    REQUIRE(mine && other);
    open_lane(b, 1);
    CHECK(!lane_free(b->pool, mine + 512, 1, NULL));
    CHECK(!lane_free(b->pool, other, 1, NULL));
    CHECK(!lane_free(b->pool, 4096, 1, NULL));
    CHECK(!lane_free(b->pool, mine, 2, NULL)); /* not open */
    CHECK(lane_free(b->pool, mine, 1, NULL));
    CHECK(!lane_free(b->pool, mine, 1, NULL));
    CHECK(is_open(b, 1));
    CHECK(!pool_free_on_quickly(b->pool, mine, 1));
    CHECK_EQ(bench_free_on(b, mine, 1), -EINVAL);
    CHECK_EQ(bench_free_on(b, other, 2), 0);
    bench_end(b);
}

TEST(a_block_that_goes_elsewhere_leaves_the_lane_first)
{
    struct bench *b = primed(4096);
    devptr_t ptr = take(b, 1, 4096);
    struct block_info info;

    open_lane(b, 1);
    CHECK(pool_free_on_quickly(b->pool, ptr, 1));
    CHECK_EQ(pool_find(b->pool, ptr, &info), 0);
    CHECK_EQ(info.state, HOLDER_GONE);
    open_lane(b, 1);
    CHECK_EQ(take(b, 1, 4096), ptr);
    CHECK_EQ(pool_find(b->pool, ptr, &info), 0);
    CHECK_EQ(info.size, 4096);
    open_lane(b, 1);
    CHECK_EQ(bench_free_on(b, ptr, 2), 0); /* records an event */
    CHECK(!is_open(b, 1));
    CHECK_EQ(take(b, 2, 4096) != 0, true);
    bench_end(b);
}

/* The stream, the pool behind the lane, and the process may go. */
TEST(r77_a_lane_is_closed_when_its_pool_goes)
{
    struct bench *b = primed(4096);
    devptr_t ptr = take(b, 1, 4096);

    open_lane(b, 1);
    CHECK(pool_free_on_quickly(b->pool, ptr, 1));
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK(!is_open(b, 1));
    CHECK_EQ(take(b, 1, 4096), 0);
    CHECK_EQ(bench_stats(b).used, 0);
    bench_end(b);
}

TEST(r5_a_lane_is_closed_when_its_stream_goes)
{
    struct bench *b = primed(4096);
    devptr_t ptr = take(b, 1, 4096);
    uint64_t points = bench_stats(b).points;

    open_lane(b, 1);
    CHECK(pool_free_on_quickly(b->pool, ptr, 1));
    pool_stream_gone(b->pool, 1);
    CHECK(!is_open(b, 1));
    CHECK_EQ(bench_stats(b).points, points + 1); /* what the lane freed needs it */
    bench_end(b);
}

TEST(r39_a_forked_child_does_not_wait_for_a_lane) TSA(no_thread_safety_analysis)
{
    struct bench *b = primed(4096);
    struct pool_stats stats;

    REQUIRE(take(b, 1, 4096));
    open_lane(b, 1);
    lock_take_leaf(&lane_of(b->pool, 1)->lock); /* another thread's, at the fork */
    pool_forget(b->pool);
    pool_stats(b->pool, -1, &stats);
    CHECK(!lanes_are_open(b->pool));
    pool_free_all(b->pool);
    fake_free(b->fake);
    free(b);
}

/* ---- when there is one ---- */

TEST(a_lane_that_was_not_worth_it_is_not_opened_again_soon)
{
    struct bench *b = primed(4096);
    unsigned refused = 0;

    for (int round = 0; round < 4; round++) {
        lock_take(&b->pool->lock); /* closes it */
        lock_drop(&b->pool->lock);
        (void)lock_take_lent(&b->pool->lock);
        lane_open(b->pool, class_on(b->pool, 1));
        lock_drop_lent(&b->pool->lock, lanes_are_open(b->pool));
        refused += !is_open(b, 1);
    }
    CHECK_EQ(refused, 2); /* once after the first time, three times after the second */
    bench_end(b);
}

TEST(numbers_of_a_stream_rise_where_nothing_is_recorded)
{
    struct bench *b = primed(4096);
    uint64_t last[STREAMS + 1] = {0};
    unsigned state = 9;

    pool_is_not_recorded(b->pool);
    for (int i = 0; i < STEPS / 10; i++) {
        uint64_t stream = 1 + (unsigned)rand_r(&state) % STREAMS;
        struct pool_given given = pool_alloc_on_quickly(b->pool, BENCH_POOL, stream, 4096);
        struct pool_taken taken;

        REQUIRE(given.ptr);
        CHECK_GT(given.seq, last[stream]);
        if (rand_r(&state) % 64 == 0)
            open_lane(b, stream);
        REQUIRE(pool_free_on_told(b->pool, given.ptr, stream, &taken));
        CHECK_GT(taken.seq, given.seq);
        CHECK_EQ(taken.size, 4096);
        last[stream] = taken.seq;
        if (rand_r(&state) % 200 == 0)
            BENCH_CHECK(b);
    }
    bench_end(b);
}

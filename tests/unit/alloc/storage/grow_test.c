/* SPDX-License-Identifier: MIT */
/* covers: grow.c */
/* What is asked of the driver for a request that nothing free fits: ranges, segments, slots, handles. */
#include "alloc/heap/streams.h"
#include "alloc/storage/grow.h"
#include "tests/unit/alloc/followed.h"
#include "tests/unit/alloc/layout.h"

/* ── ranges ── */

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

TEST(another_range_is_reserved_when_no_stretch_of_addresses_is_long_enough)
{
    struct pool_opts opts;
    struct owned_block blocks[6], big;
    struct bench *b;

    pool_opts_init(&opts);
    b = bench_new_with(64 * MiB, &opts);
    b->fake->range_max = 32 * MiB;
    for (int i = 0; i < 6; i++)
        take(b, &blocks[i], 5 * MiB, STREAM); /* 30 of the 32 MiB of addresses */
    CHECK_EQ(b->fake->ranges, 1);
    take(b, &big, 12 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(b->fake->ranges, 2);
    give(b, &blocks[1]);
    give(b, &blocks[2]);
    take(b, &blocks[1], 10 * MiB, STREAM); /* the first is used as before */
    CHECK_LT(blocks[1].ptr - blocks[0].ptr, 32 * MiB);
    check_all(b, blocks, 2);
    check_data(b, &big);
    take(b, &blocks[2], 40 * MiB, STREAM); /* longer than any range: none is reserved for it */
    CHECK_EQ(blocks[2].ptr, 0);
    CHECK_EQ(b->fake->ranges, 2);
    for (int i = 0; i < 6; i++)
        give(b, &blocks[i]);
    give(b, &big);
    fake_drain(b->fake);
    CHECK_GT(pool_trim_device(b->pool, 0, true), 0);
    CHECK_EQ(b->fake->held, 0); /* the storage of both ranges */
    bench_end(b);
}

/* ── plain segments ── */

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

TEST(r22_the_last_bytes_are_had_where_no_chunk_fits)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t most, rest;

    pool_opts_init(&opts);
    opts.chunk = 16 * MiB;
    b = bench_new_with(480 * MiB, &opts);
    most = bench_alloc(b, 466 * MiB);
    CHECK_NE(most, 0);
    rest = bench_alloc(b, 14 * MiB);
    CHECK_NE(rest, 0);
    CHECK_EQ(b->fake->held, 480 * MiB);
    CHECK_EQ(bench_free(b, rest), 0);
    CHECK_EQ(bench_free(b, most), 0);
    BENCH_CHECK(b);
    bench_end(b);
}

/* What is refused is the chunk. Nobody waits and nothing goes back for a request that the device has room for. */
TEST(r31_where_no_chunk_fits_the_very_size_is_asked_for_first)
{
    struct pool_request request = bench_request(6 * MiB, 0);
    struct pool_ladder ladder = {.waits = 0};
    struct pool_opts opts;
    devptr_t idle, awaited;
    struct bench *b;

    pool_opts_init(&opts);
    opts.chunk = 16 * MiB;
    b = bench_new_with(480 * MiB, &opts);
    CHECK_NE(bench_alloc(b, 400 * MiB), 0);
    idle = bench_alloc_on(b, 30 * MiB, 1);
    awaited = bench_alloc(b, 40 * MiB);
    CHECK_EQ(bench_free_on(b, idle, 1), 0);
    fake_submit(b->fake, 2, awaited, 40 * MiB);
    b->fake->hangs = true;
    CHECK_EQ(bench_free(b, awaited), 0);
    request.ladder = &ladder;
    CHECK_NE(bench_ask(b, &request), 0);
    CHECK_EQ(ladder.attempts, 2);
    CHECK_EQ(ladder.waits, 0);
    CHECK_EQ(b->fake->waits, 0);
    CHECK_EQ(bench_stats(b).trims, 0);
    CHECK_EQ(b->fake->held, 476 * MiB);
    b->fake->hangs = false;
    bench_end(b);
}

TEST(r46_the_reserve_is_spared_by_a_growth_that_leaves_the_chunk_out)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t idle;

    pool_opts_init(&opts);
    opts.chunk = 16 * MiB;
    opts.reserve = 16 * MiB;
    b = bench_new_with(480 * MiB, &opts);
    CHECK_NE(bench_alloc(b, 420 * MiB), 0);
    idle = bench_alloc_on(b, 30 * MiB, 1);
    CHECK_EQ(bench_free_on(b, idle, 1), 0);
    CHECK_NE(bench_alloc(b, 6 * MiB), 0);
    CHECK_EQ(b->fake->held, 456 * MiB); /* 24 are left, and nothing had to go */
    bench_end(b);
}

/* ── what growth may not take ── */

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

/* There a granule more is asked for, which a cap may have no room for. */
TEST(the_cap_is_kept_where_the_driver_has_odd_addresses)
{
    for (uint64_t more = 0; more < 2; more++) {
        struct pool_opts opts;
        struct bench *b;

        pool_opts_init(&opts);
        opts.cap = (8 + 2 * more) * MiB;
        b = bench_new_with(1 * GiB, &opts);
        b->fake->skew = 512;
        CHECK_EQ(bench_alloc(b, 8 * MiB) != 0, more);
        CHECK_EQ(b->r, more ? 0 : DRIVER_OUT_OF_MEMORY);
        CHECK_EQ(b->fake->held_high, opts.cap);
        if (more) { /* what was asked for is no longer counted twice */
            CHECK_EQ(bench_free(b, b->last.ptr), 0);
            (void)pool_trim_device(b->pool, 0, true);
            CHECK_NE(bench_alloc(b, 8 * MiB), 0);
        }
        BENCH_CHECK(b);
        bench_end(b);
    }
}

/* What is free under the request itself moves nowhere: the rest of it would be held more. */
TEST(the_cap_is_kept_where_a_request_widens_what_is_free)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t wide;

    pool_opts_init(&opts);
    opts.cap = 10 * MiB;
    b = bench_new_with(1 * GiB, &opts);
    CHECK_NE(bench_alloc_on(b, 2 * MiB, 1), 0);
    wide = bench_alloc_on(b, 8 * MiB, 1);
    CHECK_EQ(bench_free_on(b, wide, 1), 0);
    CHECK_EQ(bench_alloc_on(b, 12 * MiB, 1), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(b->fake->held_high, 10 * MiB);
    CHECK_EQ(bench_alloc_on(b, 8 * MiB, 1), wide);
    bench_end(b);
}

/* What was to move stays where it is, so that the driver is asked for each handle of a request that nobody had refused. */
TEST(the_cap_is_kept_where_storage_does_not_move_after_all)
{
    struct pool_opts opts;
    struct bench *b;
    devptr_t low;

    pool_opts_init(&opts);
    opts.cap = 10 * MiB;
    b = bench_new_with(1 * GiB, &opts);
    low = bench_alloc_on(b, 6 * MiB, 1);
    CHECK_NE(bench_alloc_on(b, 2 * MiB, 1), 0);
    CHECK_EQ(bench_free_on(b, low, 1), 0);
    b->fake->fail_name = "unmap";
    b->fake->fail_at = 1;
    b->fake->fail_code = FAKE_FAILURE;
    (void)bench_alloc_on(b, 8 * MiB, 1);
    CHECK(b->fake->fired);
    CHECK_LE(b->fake->held_high, 10 * MiB);
    bench_end(b);
}

/* Another thread asks while the driver is busy with the first one: both were let through when nothing was held. */
static struct bench *beside;
static uint64_t beside_stream;

static void ask_beside(void)
{
    struct bench *b = beside;

    beside = NULL;
    if (b && beside_stream)
        (void)bench_alloc_on(b, 8 * MiB, beside_stream);
    else if (b)
        (void)bench_alloc(b, 8 * MiB);
}

static int (*create)(void *self, int device, uint64_t size, uint64_t *ret_handle);
static int create_beside(void *self, int device, uint64_t size, uint64_t *ret_handle)
{
    ask_beside();
    return create(self, device, size, ret_handle);
}

static int (*take_plain)(
        void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr);
static int take_beside(void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    ask_beside();
    return take_plain(self, context, device, size, ret_ptr);
}

static void cap_beside(uint64_t stream, uint64_t other)
{
    struct fake_driver *fake = fake_new(1 * GiB);
    struct pool_opts opts;
    struct bench *b;

    create = fake->driver.handle_create;
    take_plain = fake->driver.mem_alloc;
    fake->driver.handle_create = create_beside;
    fake->driver.mem_alloc = take_beside;
    pool_opts_init(&opts);
    opts.cap = 9 * MiB;
    b = bench_over(fake, &opts);
    beside = b;
    beside_stream = other;
    if (stream)
        (void)bench_alloc_on(b, 8 * MiB, stream);
    else
        (void)bench_alloc(b, 8 * MiB);
    CHECK(!beside);
    CHECK_LE(fake->held_high, 9 * MiB);
    CHECK_GE(fake->held_high, 8 * MiB);
    bench_end(b);
}

TEST(the_cap_is_kept_where_two_ask_at_once_for_handles)
{
    cap_beside(1, 2);
}

TEST(the_cap_is_kept_where_two_ask_at_once_for_segments)
{
    cap_beside(0, 0);
}

TEST(the_cap_is_kept_where_two_ask_at_once_for_both)
{
    cap_beside(0, 1);
    cap_beside(1, 0);
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

/* ── what it says of itself ── */

/* Grows for a request that nothing may have been looked for, and gets what it said that it needs. */
static uint64_t grow_by(struct layout *layout, uint64_t size)
{
    struct pool *pool = layout->pool;
    struct bench *b = layout->b;
    const struct pool_request request = bench_request(size, 1);
    struct serve serve = {.request = &request, .ret = &b->last};
    uint64_t held = b->fake->held;
    uint64_t need, moves;

    lock_take(&pool->lock);
    serve.heap = layout_heap(pool);
    serve.stream = streams_find(pool, 1);
    serve.want = (struct want){.size = size, .align = 512, .stream = serve.stream};
    serve.reserved_before = serve.heap->device->reserved;
    serve.contexts_gone = pool->contexts_gone;
    need = grow_need(pool, &serve);
    moves = grow_moves(pool, &serve, need);
    lock_drop(&pool->lock);
    CHECK_LE(moves, need);
    REQUIRE_EQ(grow_serve(pool, &serve), 0);
    CHECK_EQ(b->fake->held - held, need - moves);
    CHECK_EQ(b->last.reserved_delta, (int64_t)(need - moves));
    CHECK(fake_is_accessible(b->fake, b->last.ptr, size));
    BENCH_CHECK(b);
    return moves;
}

TEST(growth_takes_what_it_said_from_the_driver_and_from_free_blocks)
{
    for (int remap = 0; remap < POOL_REMAP_COUNT; remap++) {
        uint64_t moved = 0;

        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct pool_opts opts;
            struct layout layout;

            pool_opts_init(&opts);
            opts.remap = (enum pool_remap)remap;
            opts.budget = 180 * MiB;
            layout = layout_new(seed, 1 * GiB, &opts, false);
            layout_ask(&layout);
            for (int i = 0; i < 6; i++)
                moved += grow_by(&layout, (1 + bench_random(&layout.random, 40)) * 512 * KiB);
            layout_end(&layout);
        }
        CHECK_EQ(moved > 0, remap != POOL_REMAP_NEVER);
    }
}

/* ── what another thread frees meanwhile ── */

static struct {
    struct bench *bench;
    devptr_t ptr; /* to be freed at the next question about the device's memory, 0 = nothing */
    uint64_t stream;
    int (*real)(void *self, int device, uint64_t *ret_total, uint64_t *ret_free);
} meddle;

static int memory_and_free(void *self, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    devptr_t ptr = meddle.ptr;

    meddle.ptr = 0;
    if (ptr) {
        struct pool_free_request request = {
                .api = API_STREAM, .stream = meddle.stream, .may_fence = true};
        struct outcome outcome;

        CHECK_EQ(pool_free(meddle.bench->pool, ptr, &request, &outcome), 0);
    }
    return meddle.real(self, device, ret_total, ret_free);
}

/* With a reserve, so that growth asks how much memory there is. */
static struct bench *meddle_bench(uint64_t memory)
{
    struct fake_driver *fake = fake_new(memory);
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.reserve = 1;
    meddle.real = fake->driver.memory;
    fake->driver.memory = memory_and_free;
    meddle.bench = bench_over(fake, &opts);
    return meddle.bench;
}

/* The last block of the arena is freed between the look for a free one and the growth: it is just large enough. */
TEST(a_fitting_tail_needs_no_growth)
{
    struct bench *b = meddle_bench(1 * GiB);
    devptr_t first = bench_alloc_on(b, 8 * MiB, 1);
    uint64_t creates = b->fake->creates;

    meddle.ptr = first;
    meddle.stream = 1;
    CHECK_EQ(bench_alloc_on(b, 8 * MiB, 1), first);
    CHECK_EQ(meddle.ptr, 0);
    CHECK_EQ(b->fake->creates, creates);
    bench_end(b);
}

/* The same, and it is larger than what is wanted. */
TEST(a_larger_tail_needs_no_growth)
{
    struct bench *b = meddle_bench(1 * GiB);
    devptr_t first = bench_alloc_on(b, 8 * MiB, 1);
    uint64_t creates = b->fake->creates;

    meddle.ptr = first;
    meddle.stream = 1;
    CHECK_EQ(bench_alloc_on(b, 4 * MiB, 1), first);
    CHECK_EQ(b->r, 0);
    CHECK_EQ(b->fake->creates, creates);
    CHECK_EQ(b->fake->unmaps, 0);
    CHECK_EQ(b->last.how & (OUTCOME_TRIMMED | OUTCOME_WAITED), 0);
    bench_end(b);
}

/* ── devices whose handles are larger ── */

static unsigned granularity_asked;

static int granularity_of_4_mib(void *self, int device, uint64_t *ret_size)
{
    (void)self;
    (void)device;
    granularity_asked++;
    *ret_size = 4 * MiB;
    return 0;
}

TEST(handles_are_as_large_as_the_device_wants_them)
{
    struct fake_driver *fake = fake_new(256 * MiB);
    struct bench *b;

    fake->driver.granularity = granularity_of_4_mib;
    b = bench_over(fake, NULL);
    for (uint64_t stream = 1; stream < 4; stream++)
        CHECK_NE(bench_alloc_on(b, 5 * MiB, stream), 0);
    CHECK_EQ(b->fake->creates, 4);
    CHECK_EQ(b->fake->held, 16 * MiB);
    CHECK_EQ(granularity_asked, 1);
    bench_end(b);
}

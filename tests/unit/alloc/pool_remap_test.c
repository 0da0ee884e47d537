/* SPDX-License-Identifier: MIT */
#include "alloc/meta.h"
#include "tests/unit/alloc/pool_bench.h"

/*
 * Storage that moves, on a fake driver. What the program wrote is kept per handle, as the device's memory would keep it, so
 * that a handle that goes to a second tenant while the first is alive is seen by its data.
 */

#define UNIT     (256 * KiB)
#define SLOT     (2 * MiB)
#define UNITS    (SLOT / UNIT)
#define HANDLES  4096
#define STREAM   1
#define STREAM_2 2

/* ── data ── */

static uint32_t memory_of[HANDLES][UNITS];
static uint32_t last_value;

/* The word at an address, NULL if nothing is mapped there. */
static uint32_t *word_at(const struct bench *b, devptr_t ptr)
{
    for (int i = 0; i < b->fake->piece_top; i++) {
        const struct fake_piece *piece = &b->fake->pieces[i];

        if (piece->kind == FAKE_MAPPING && ptr - piece->base < piece->size && piece->flag)
            return &memory_of[piece->owner % HANDLES][(ptr - piece->base) % SLOT / UNIT];
    }
    return NULL;
}

/* A block of the program, a multiple of UNIT. */
struct mine {
    devptr_t ptr;
    uint64_t size;
    uint64_t stream;
    uint32_t value;
};

static void write_block(struct bench *b, struct mine *mine)
{
    mine->value = ++last_value;
    for (uint64_t at = 0; at < mine->size; at += UNIT) {
        uint32_t *word = word_at(b, mine->ptr + at);

        REQUIRE(word != NULL);
        *word = mine->value + (uint32_t)(at / UNIT);
    }
}

static void check_data(struct bench *b, const struct mine *mine)
{
    for (uint64_t at = 0; mine->ptr && at < mine->size; at += UNIT) {
        const uint32_t *word = word_at(b, mine->ptr + at);

        REQUIRE(word != NULL);
        REQUIRE_EQ(*word, mine->value + (uint32_t)(at / UNIT));
    }
}

static void take(struct bench *b, struct mine *mine, uint64_t size, uint64_t stream)
{
    *mine = (struct mine){.ptr = bench_alloc_on(b, size, stream), .size = size, .stream = stream};
    if (mine->ptr)
        write_block(b, mine);
    BENCH_CHECK(b);
}

static void give_on(struct bench *b, struct mine *mine, uint64_t stream)
{
    if (!mine->ptr)
        return;
    check_data(b, mine);
    CHECK_EQ(bench_free_on(b, mine->ptr, stream), 0);
    mine->ptr = 0;
    BENCH_CHECK(b);
}

static void give(struct bench *b, struct mine *mine)
{
    give_on(b, mine, mine->stream);
}

/* ── benches ── */

static struct bench *bench_with(uint64_t memory, enum pool_remap remap, uint64_t budget)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.remap = remap;
    opts.budget = budget;
    last_value += 1000;
    return bench_new_with(memory, &opts);
}

/* `count` pairs of a slot: the first of each is freed, the second stays. */
static void perforate(struct bench *b, struct mine *stay, int count)
{
    struct mine *gone = calloc((size_t)count, sizeof(*gone));

    REQUIRE(gone != NULL);
    for (int i = 0; i < count; i++) {
        take(b, &gone[i], SLOT, STREAM);
        take(b, &stay[i], SLOT, STREAM);
    }
    for (int i = 0; i < count; i++)
        give(b, &gone[i]);
    free(gone);
}

static void check_all(struct bench *b, const struct mine *blocks, int count)
{
    for (int i = 0; i < count; i++)
        check_data(b, &blocks[i]);
}

/* ── when ── */

TEST(lazy_storage_moves_only_for_what_would_pass_the_budget)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_LAZY, 40 * MiB);
    struct mine stay[8], big;

    perforate(b, stay, 8); /* 32 MiB held, 16 of them free */
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 4); /* 8 MiB of room in the budget, 8 MiB moved */
    CHECK_EQ(b->fake->held, 40 * MiB);
    CHECK_EQ(bench_stats(b).steps[POOL_STEP_REMAP], 1);
    check_all(b, stay, 8);
    check_data(b, &big);
    bench_end(b);
}

TEST(lazy_storage_stays_within_the_budget)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_LAZY, 1 * GiB);
    struct mine stay[8], big;

    perforate(b, stay, 8);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->unmaps, 0);
    CHECK_EQ(b->fake->held, 48 * MiB);
    CHECK_EQ(bench_stats(b).steps[POOL_STEP_REMAP], 0);
    bench_end(b);
}

TEST(eager_storage_moves_before_the_driver_is_asked)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 1 * GiB);
    struct mine stay[8], big;
    uint64_t creates;

    perforate(b, stay, 8);
    creates = b->fake->creates;
    take(b, &big, 12 * MiB, STREAM);
    CHECK_EQ(b->fake->creates, creates);
    CHECK_EQ(bench_stats(b).granules_moved, 6); /* not one more than the request lacks */
    CHECK_EQ(b->fake->unmaps, 6);
    CHECK_EQ(b->fake->held, 32 * MiB);
    check_all(b, stay, 8);
    bench_end(b);
}

TEST(never_means_that_nothing_moves)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_NEVER, 20 * MiB);
    struct mine stay[8], big;

    perforate(b, stay, 8);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->held, 48 * MiB);
    bench_end(b);
}

TEST(what_the_driver_refuses_comes_from_under_free_blocks)
{
    struct bench *b = bench_with(36 * MiB, POOL_REMAP_LAZY, 1 * GiB);
    struct mine stay[8], big;

    perforate(b, stay, 8);
    take(b, &big, 16 * MiB, STREAM_2); /* 4 MiB are left on the device */
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(b->fake->held, 36 * MiB);
    CHECK_EQ(bench_stats(b).granules_moved, 6);
    CHECK_EQ(bench_stats(b).grows, 17); /* at once, without another try */
    check_all(b, stay, 8);
    bench_end(b);
}

TEST(a_cap_is_kept_by_moving)
{
    struct pool_opts opts;
    struct bench *b;
    struct mine stay[8], big;

    pool_opts_init(&opts);
    opts.cap = 34 * MiB;
    b = bench_new_with(1 * GiB, &opts);
    perforate(b, stay, 8);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(b->fake->held_high, 34 * MiB);
    take(b, &big, 4 * MiB, STREAM); /* 2 MiB are free */
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(bench_stats(b).steps[POOL_STEP_OOM], 1);
    bench_end(b);
}

TEST(what_hinted_blocks_have_left_goes_before_the_budget_is_passed)
{
    static const struct rule rule = {
            .action = ACTION_RELEASE,
            .mode = HINT_TRAP,
            .pick = {.size_lo = 6 * MiB, .size_hi = 6 * MiB, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "*", .kind = EDGE_EXIT},
    };
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_LAZY, 12 * MiB);
    struct tag tag = {.size = 6 * MiB, .anchor = 1, .path = "step"};
    struct pool_request request = bench_request(6 * MiB, STREAM);
    struct mine big;
    struct plan plan;
    devptr_t hinted;

    bench_rules(b, &rule, 1);
    hint_plan(b->hints, &tag, &plan);
    request.plan = &plan;
    hinted = bench_ask(b, &request);
    CHECK_EQ(b->last.how & OUTCOME_HINTED, OUTCOME_HINTED);
    CHECK_EQ(bench_free_on(b, hinted, STREAM), 0);
    take(b, &big, 12 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(b->fake->held_high, 12 * MiB);
    bench_end(b);
}

/* ── where ── */

TEST(a_gap_beside_a_free_block_is_filled_and_no_more)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct mine a, wall, c, wall_2, d;

    take(b, &a, 10 * MiB, STREAM);
    take(b, &wall, SLOT, STREAM);
    take(b, &c, 4 * MiB, STREAM);
    take(b, &wall_2, SLOT, STREAM);
    give(b, &a);
    give(b, &c);
    take(b, &d, 12 * MiB,
            STREAM); /* 10 and 4 are free: the first is widened by nothing, so it goes to the top */
    CHECK_EQ(bench_stats(b).granules_moved, 6);
    CHECK_EQ(b->fake->held, 18 * MiB);
    give(b, &d);
    take(b, &a, 4 * MiB, STREAM);
    take(b, &c, 8 * MiB, STREAM);
    CHECK_EQ(b->fake->held, 18 * MiB);
    check_data(b, &wall);
    check_data(b, &wall_2);
    bench_end(b);
}

TEST(a_request_widens_the_free_block_that_lacks_least)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct mine blocks[3], walls[3], big;
    uint64_t moved;

    for (int i = 0; i < 3; i++) {
        take(b, &blocks[i], (uint64_t)(i + 1) * 4 * MiB, STREAM);
        take(b, &walls[i], SLOT, STREAM);
    }
    for (int i = 0; i < 3; i++)
        give(b, &blocks[i]);
    take(b, &big, 20 * MiB, STREAM); /* takes 20 of the 24 MiB: what stays has gaps beside it */
    give(b, &walls[2]);
    give(b, &big);
    take(b, &blocks[0], 20 * MiB, STREAM);
    moved = bench_stats(b).granules_moved;
    give(b, &walls[0]);
    take(b, &blocks[1], 4 * MiB, STREAM);
    CHECK_LE(bench_stats(b).granules_moved - moved, 1);
    CHECK_EQ(b->fake->held, 30 * MiB);
    check_data(b, &walls[1]);
    bench_end(b);
}

TEST(small_requests_leave_whole_slots_whole)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct mine head, hole, wall, slot, wall_2, small, big;

    take(b, &head, 5 * UNIT, STREAM);
    take(b, &hole, 9 * UNIT,
            STREAM); /* begins and ends inside slots: no whole one, though it is larger than one */
    take(b, &wall, 2 * UNIT, STREAM);
    take(b, &slot, SLOT, STREAM);
    take(b, &wall_2, SLOT, STREAM);
    give(b, &hole);
    give(b, &slot);
    take(b, &small, 6 * UNIT, STREAM);
    CHECK_LT(small.ptr, wall.ptr); /* best fit alone would take the slot, which is smaller */
    take(b, &big, SLOT, STREAM);
    CHECK_EQ(b->fake->held, 8 * MiB);
    bench_end(b);
}

TEST(gaps_are_used_again_for_days)
{
    struct bench *b = bench_with(64 * MiB, POOL_REMAP_EAGER, 0);
    struct mine blocks[12] = {{0}};
    uint64_t state = 7;
    devptr_t lo = UINT64_MAX;
    devptr_t hi = 0;

    for (int i = 0; i < 20000; i++) {
        struct mine *mine;
        uint64_t size;

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        mine = &blocks[(state >> 33) % 12];
        size = (1 + (state >> 40) % 34) * UNIT;
        if (mine->ptr) {
            CHECK_EQ(bench_free_on(b, mine->ptr, STREAM), 0);
            mine->ptr = 0;
            continue;
        }
        mine->ptr = bench_alloc_on(b, size, STREAM);
        if (!mine->ptr)
            continue;
        lo = mine->ptr < lo ? mine->ptr : lo;
        hi = mine->ptr + size > hi ? mine->ptr + size : hi;
    }
    BENCH_CHECK(b);
    CHECK_GT(bench_stats(b).granules_moved, 50);
    CHECK_EQ(b->fake->ranges, 1);
    CHECK_LE(hi - lo, 128 * MiB);
    bench_end(b);
}

TEST(another_range_is_reserved_when_no_stretch_of_addresses_is_long_enough)
{
    struct pool_opts opts;
    struct mine blocks[6], big;
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

/* ── what may not move ── */

static void check_late_device(enum pool_remap remap, uint64_t budget)
{
    struct bench *b = bench_with(1 * GiB, remap, budget);
    struct mine stay[4], late, big;

    take(b, &late, 8 * MiB, STREAM);
    perforate(b, stay, 4);
    fake_submit(b->fake, STREAM, late.ptr, late.size);
    b->fake->hangs = true;
    give(b, &late);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(bench_stats(b).host_waits, 0); /* R73 */
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    fake_drain(b->fake); /* no fault: what was freed is still mapped for the work before the free */
    CHECK_EQ(b->fake->faults, 0);
    b->fake->hangs = false;
    give(b, &big);
    take(b, &big, 24 * MiB, STREAM);
    CHECK_GT(bench_stats(b).granules_moved, 0);
    check_all(b, stay, 4);
    bench_end(b);
}

TEST(r73_storage_that_the_device_may_still_use_does_not_move_lazily)
{
    check_late_device(POOL_REMAP_LAZY, 16 * MiB);
}

TEST(r73_storage_that_the_device_may_still_use_does_not_move_eagerly)
{
    check_late_device(POOL_REMAP_EAGER, 0);
}

TEST(r66_storage_does_not_move_under_a_submission)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct mine stay[4], big;

    perforate(b, stay, 4);
    fake_reader_enter(b->fake, 3);
    take(b, &big, 8 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    fake_reader_leave(b->fake, 3);
    take(b, &big, 8 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 4);
    bench_end(b);
}

static void check_pinned(enum pool_pin kind)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct mine stay[4], shown, big;
    struct pool_pinned pinned;
    struct pool_hit touched;
    const uint32_t *before;

    take(b, &shown, 8 * MiB, STREAM);
    perforate(b, stay, 4);
    REQUIRE_EQ(pool_pin(b->pool, shown.ptr, shown.size, kind, &pinned, &touched), 0);
    before = word_at(b, shown.ptr + SLOT);
    CHECK_EQ(bench_free_on(b, shown.ptr, STREAM), 0);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 4); /* what is free beside it */
    CHECK_EQ(word_at(b, shown.ptr + SLOT) == before, 1);
    check_data(b, &shown);
    pool_unpin(b->pool, shown.ptr, pinned.alloc_seq, kind);
    shown.ptr = 0;
    take(b, &big, 8 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    bench_end(b);
}

TEST(r80_storage_of_what_was_shown_never_moves)
{
    check_pinned(POOL_PIN_SHOWN);
}

TEST(r80_storage_of_what_a_graph_names_never_moves)
{
    check_pinned(POOL_PIN_GRAPH);
}

TEST(r82_nothing_moves_where_no_driver_call_may_be_made)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct pool_request request = bench_request(8 * MiB, STREAM);
    struct mine stay[4];
    uint64_t calls;

    perforate(b, stay, 4);
    calls = b->fake->calls;
    request.may_call = request.may_fence = request.may_wait = false;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(b->fake->calls, calls);
    bench_end(b);
}

TEST(r78_what_moves_is_held_all_the_time)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct mine stay[8], big;
    struct pool_stats before, after;

    perforate(b, stay, 8);
    REQUIRE_EQ(pool_heap_stats(b->pool, HEAP_MAPPED, BENCH_POOL, &before), 0);
    take(b, &big, 16 * MiB, STREAM);
    REQUIRE_EQ(pool_heap_stats(b->pool, HEAP_MAPPED, BENCH_POOL, &after), 0);
    CHECK_EQ(after.reserved, before.reserved);
    CHECK_EQ(after.reserved_high, before.reserved_high);
    CHECK_EQ(after.reserved, b->fake->held);
    CHECK_EQ(after.cached, 0);
    bench_end(b);
}

/* ── the ladder, step by step ── */

static uint64_t step(struct bench *b, enum pool_step which)
{
    return bench_stats(b).steps[which];
}

TEST(every_step_of_the_ladder_is_counted)
{
    struct bench *b = bench_with(64 * MiB, POOL_REMAP_LAZY, 24 * MiB);
    struct mine a, c, d;

    take(b, &a, 8 * MiB, STREAM);
    CHECK_EQ(step(b, POOL_STEP_GROW), 1);
    take(b, &c, 8 * MiB, STREAM_2);
    take(b, &d, SLOT, STREAM_2);
    CHECK_EQ(step(b, POOL_STEP_GROW), 3);
    give(b, &c);
    take(b, &c, 8 * MiB, STREAM); /* its point has passed when it is asked */
    CHECK_EQ(step(b, POOL_STEP_POLL), 1);
    fake_submit(b->fake, STREAM, a.ptr, a.size);
    b->fake->hangs = true;
    give(b, &a);
    take(b, &a, 8 * MiB,
            STREAM_2); /* behind an inserted wait, since growth would pass the budget */
    CHECK_EQ(step(b, POOL_STEP_OTHER), 1);
    b->fake->hangs = false;
    fake_drain(b->fake);
    give(b, &c);
    give(b, &a);
    give(b, &d);
    take(b, &a, SLOT, STREAM);
    take(b, &c, 2 * SLOT, STREAM);
    take(b, &d, 20 * MiB, STREAM);
    CHECK_GT(step(b, POOL_STEP_REMAP) + step(b, POOL_STEP_OWN) + step(b, POOL_STEP_BEYOND), 0);
    give(b, &d);
    take(b, &d, 80 * MiB, STREAM);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(step(b, POOL_STEP_OOM), 1);
    bench_end(b);
}

TEST(growth_above_the_budget_is_told_from_growth_within_it)
{
    struct bench *b = bench_with(64 * MiB, POOL_REMAP_LAZY, 8 * MiB);
    struct mine a, c;

    take(b, &a, 8 * MiB, STREAM);
    take(b, &c, 8 * MiB, STREAM);
    CHECK_EQ(step(b, POOL_STEP_GROW), 1);
    CHECK_EQ(step(b, POOL_STEP_BEYOND), 1);
    bench_end(b);
}

/* ── failures ── */

/* Blocks of odd sizes on two streams come and go, so that requests widen free blocks, cross ranges and move storage. */
static void scenario(struct bench *b)
{
    enum {
        COUNT = 10
    };
    struct mine blocks[COUNT] = {{0}};

    for (int i = 0; i < COUNT; i++)
        take(b, &blocks[i], (uint64_t)(5 + 3 * i) * UNIT, i % 3 ? STREAM : STREAM_2);
    for (int round = 0; round < 3; round++) {
        for (int i = round % 2; i < COUNT; i += 2)
            give_on(b, &blocks[i], i % 5 ? STREAM : STREAM_2);
        fake_drain(b->fake);
        for (int i = round % 2; i < COUNT; i += 4)
            take(b, &blocks[i], (uint64_t)(30 + 7 * i) * UNIT, STREAM);
        check_all(b, blocks, COUNT);
        for (int i = 2 + round % 2; i < COUNT; i += 4)
            take(b, &blocks[i], (uint64_t)(3 + i) * UNIT, STREAM_2);
        check_all(b, blocks, COUNT);
    }
    for (int i = 0; i < COUNT; i++)
        give(b, &blocks[i]);
    CHECK_EQ(bench_stats(b).live_count, 0);
}

/* Whatever was no hit was served by one step. */
static void check_steps(struct bench *b)
{
    struct pool_stats stats = bench_stats(b);
    uint64_t served = 0;

    for (int i = 0; i < POOL_STEP_OOM; i++)
        served += stats.steps[i];
    CHECK_EQ(served, stats.misses);
}

/* The n-th call of a name fails, for every n; NULL = of any name. */
static void fail_each(enum pool_remap remap, const char *name, int code)
{
    uint64_t moved = 0;
    int calls = 0;

    FAIL_NTH(n, fired)
    {
        struct bench *b = bench_with(96 * MiB, remap, 24 * MiB);

        b->fake->range_max = 96 * MiB;
        b->fake->fail_name = name;
        b->fake->fail_code = code;
        b->fake->fail_at = n;
        scenario(b);
        fired = b->fake->fired;
        moved += bench_stats(b).granules_moved;
        check_steps(b);
        b->fake->fail_at = 0;
        bench_end(b);
        calls = n;
        if (atomic_load(&check_state.failures)) {
            printf("    call %d of %s with %d\n", n, name ? name : "any", code);
            return;
        }
    }
    printf("%s: %d calls, %llu granules\n", name ? name : "any", calls - 1,
            (unsigned long long)moved);
    CHECK_GT(calls, 1);
    CHECK_GT(moved, 0);
}

static void fail_each_way(const char *name)
{
    fail_each(POOL_REMAP_LAZY, name, FAKE_FAILURE);
    fail_each(POOL_REMAP_EAGER, name, FAKE_FAILURE);
    fail_each(POOL_REMAP_EAGER, name, DRIVER_OUT_OF_MEMORY);
}

TEST(no_byte_is_lost_when_an_unmap_fails)
{
    fail_each_way("unmap");
}

TEST(no_byte_is_lost_when_a_map_fails)
{
    fail_each_way("map");
}

TEST(no_byte_is_lost_when_a_set_access_fails)
{
    fail_each_way("set_access");
}

TEST(no_byte_is_lost_when_a_create_fails)
{
    fail_each_way("handle_create");
}

TEST(no_byte_is_lost_when_a_stream_record_fails)
{
    fail_each_way("stream_record");
}

TEST(no_byte_is_lost_when_a_query_fails)
{
    fail_each_way("fence_query");
}

TEST(no_byte_is_lost_when_any_call_fails)
{
    fail_each(POOL_REMAP_LAZY, NULL, FAKE_FAILURE);
    fail_each(POOL_REMAP_EAGER, NULL, FAKE_FAILURE);
}

TEST(no_byte_is_lost_when_any_call_cannot_be_made)
{
    fail_each(POOL_REMAP_LAZY, NULL, -EBUSY);
    fail_each(POOL_REMAP_EAGER, NULL, -EBUSY);
}

TEST(a_slot_that_cannot_be_unmapped_is_kept_and_the_rest_goes_on)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct mine wide, wall, big;

    take(b, &wide, 8 * MiB, STREAM);
    take(b, &wall, SLOT, STREAM);
    give(b, &wide);
    b->fake->fail_name = "unmap";
    b->fake->fail_at = 2;
    b->fake->fail_code = FAKE_FAILURE;
    take(b, &big, 10 * MiB, STREAM);
    CHECK_NE(big.ptr, 0); /* the request goes to the next step: growth */
    CHECK_EQ(bench_stats(b).granules_moved, 1);
    CHECK_EQ(bench_stats(b).quarantined, SLOT);
    CHECK_EQ(bench_stats(b).free, 4 * MiB);
    CHECK_EQ(bench_stats(b).reserved, b->fake->held);
    take(b, &wide, 4 * MiB, STREAM); /* what was not touched serves */
    CHECK_EQ(bench_stats(b).free, 0);
    check_data(b, &wall);
    bench_end(b);
}

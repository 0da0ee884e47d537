/* SPDX-License-Identifier: MIT */
/* covers: remap.c */
/* Storage of free blocks moves to where a request needs it, and never under what somebody still uses. */
#include "alloc/heap/handles.h"
#include "alloc/storage/remap.h"
#include "tests/unit/alloc/followed.h"
#include "tests/unit/alloc/layout.h"

/* `count` pairs of a slot: the first of each is freed, the second stays. */
static void perforate(struct bench *b, struct owned_block *stay, int count)
{
    struct owned_block *gone = calloc((size_t)count, sizeof(*gone));

    REQUIRE(gone != NULL);
    for (int i = 0; i < count; i++) {
        take(b, &gone[i], SLOT, STREAM);
        take(b, &stay[i], SLOT, STREAM);
    }
    for (int i = 0; i < count; i++)
        give(b, &gone[i]);
    free(gone);
}

/* ── when ── */

TEST(lazy_storage_moves_only_for_what_would_pass_the_budget)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_LAZY, 40 * MiB);
    struct owned_block stay[8], big;

    perforate(b, stay, 8); /* 32 MiB held, 16 of them free */
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 4); /* 8 MiB of room in the budget, 8 MiB moved */
    CHECK_EQ(b->fake->held, 40 * MiB);
    check_all(b, stay, 8);
    check_data(b, &big);
    bench_end(b);
}

/* Without a budget that somebody asked for. */
TEST(a_small_program_moves_before_it_holds_a_slot_more_than_what_is_live)
{
    struct bench *b = bench_new(1 * GiB);
    struct owned_block stay[8], big;

    perforate(b, stay, 8); /* all 32 MiB were live */
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 8);
    CHECK_EQ(b->fake->held, 32 * MiB);
    check_all(b, stay, 8);
    bench_end(b);
}

TEST(a_large_program_holds_some_slots_more_before_it_moves)
{
    struct bench *b = bench_with(2 * GiB, POOL_REMAP_LAZY, 0);
    struct owned_block stay[10], large, big;

    take(b, &large, 600 * MiB, STREAM);
    perforate(b, stay, 10); /* 640 MiB were live */
    take(b, &big, 20 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 1);
    CHECK_EQ(b->fake->held, 658 * MiB);
    check_all(b, stay, 10);
    bench_end(b);
}

TEST(lazy_storage_stays_within_the_budget)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_LAZY, 1 * GiB);
    struct owned_block stay[8], big;

    perforate(b, stay, 8);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->unmaps, 0);
    CHECK_EQ(b->fake->held, 48 * MiB);
    bench_end(b);
}

TEST(eager_storage_moves_before_the_driver_is_asked)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 1 * GiB);
    struct owned_block stay[8], big;
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
    struct owned_block stay[8], big;

    perforate(b, stay, 8);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->held, 48 * MiB);
    bench_end(b);
}

TEST(what_the_driver_refuses_comes_from_under_free_blocks)
{
    struct bench *b = bench_with(36 * MiB, POOL_REMAP_LAZY, 1 * GiB);
    struct owned_block stay[8], big;

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
    struct owned_block stay[8], big;

    pool_opts_init(&opts);
    opts.budget = 1 * GiB;
    opts.cap = 34 * MiB;
    opts.remap = POOL_REMAP_LAZY;
    b = bench_new_with(1 * GiB, &opts);
    perforate(b, stay, 8);
    take(b, &big, 16 * MiB, STREAM);
    CHECK_NE(big.ptr, 0);
    CHECK_EQ(b->fake->held_high, 34 * MiB);
    take(b, &big, 4 * MiB, STREAM); /* 2 MiB are free */
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(bench_stats(b).ooms, 1);
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
    struct owned_block big;
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

/* ── what may not move ── */

static void check_late_device(enum pool_remap remap, uint64_t budget)
{
    struct bench *b = bench_without_aliases(1 * GiB, remap, budget);
    struct owned_block stay[4], late, big;

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
    struct owned_block stay[4], big;

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
    struct owned_block stay[4], shown, big;
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
    struct owned_block stay[4];
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
    struct owned_block stay[8], big;
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

/* ── against a walk over all blocks ── */

/* All handles that come, which go to the shelf; each is one that was mapped until then. */
static uint64_t take_handles(struct bench *b, struct heap *heap, uint64_t most)
{
    struct remap remap = {.heap = heap, .left = most};
    struct pool *pool = b->pool;
    uint64_t bytes = 0;
    uint64_t handle;

    for (; remap_next(pool, &remap, &handle) == 0; bytes += SLOT) {
        for (int i = 0; i < b->fake->piece_top; i++)
            CHECK(b->fake->pieces[i].kind != FAKE_MAPPING || b->fake->pieces[i].owner != handle);
        lock_take(&pool->lock);
        CHECK_EQ(handles_put(heap, SLOT, handle), 0);
        lock_drop(&pool->lock);
    }
    remap_end(pool, &remap);
    CHECK_EQ(remap_next(pool, &remap, &handle), -ENOENT);
    return bytes;
}

TEST(r73_whole_slots_of_clean_blocks_move_and_nothing_else)
{
    uint64_t all = 0;

    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct layout layout = layout_new(seed, 1 * GiB, NULL, false);
        struct bench *b = layout.b;
        struct pool *pool = layout.pool;
        uint64_t mapped = b->fake->mappings * SLOT;
        uint64_t held = b->fake->held;
        uint64_t some = seed % 5 * SLOT;
        struct remap any = {.heap = NULL};
        struct heap *heap;
        uint64_t there;

        layout_ask(&layout);
        lock_take(&pool->lock);
        heap = layout_heap(pool);
        there = layout_clean_slots(pool, heap);
        any.heap = heap;
        CHECK_EQ(remap_available(pool, &any, some), min_of(some, there));
        CHECK_EQ(remap_available(pool, &any, UINT64_MAX), there);
        lock_drop(&pool->lock);
        CHECK_EQ(take_handles(b, heap, some), min_of(some, there));
        BENCH_CHECK(b);
        CHECK_EQ(take_handles(b, heap, UINT64_MAX), there - min_of(some, there));
        BENCH_CHECK(b);
        CHECK_EQ(b->fake->mappings * SLOT, mapped - there);
        CHECK_EQ(b->fake->held, held);
        for (int i = 0; i < LAYOUT_BLOCKS; i++)
            CHECK(!layout.blocks[i].ptr || fake_is_accessible(b->fake, layout.blocks[i].ptr, 512));
        all += there;
        layout_end(&layout); /* what streams had still to do with freed blocks did not fault */
    }
    CHECK_GT(all, 100 * MiB);
}

/* ── failures ── */

/* Blocks of odd sizes on two streams come and go, so that requests widen free blocks, cross ranges and move storage. */
static void scenario(struct bench *b)
{
    enum {
        COUNT = 10
    };
    struct owned_block blocks[COUNT] = {{0}};

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

/* The n-th call of a name fails, for every n; NULL = of any name. `singly`: the driver unmaps one mapping at a time. */
static void fail_each(enum pool_remap remap, const char *name, int code, bool singly)
{
    uint64_t moved = 0;
    int calls = 0;

    FAIL_NTH(n, fired)
    {
        struct bench *b = bench_with(96 * MiB, remap, 24 * MiB);

        b->fake->range_max = 96 * MiB;
        b->fake->no_runs = singly;
        b->fake->fail_name = name;
        b->fake->fail_code = code;
        b->fake->fail_at = n;
        scenario(b);
        fired = b->fake->fired;
        moved += bench_stats(b).granules_moved;
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
    fail_each(POOL_REMAP_LAZY, name, FAKE_FAILURE, false);
    fail_each(POOL_REMAP_EAGER, name, FAKE_FAILURE, false);
    fail_each(POOL_REMAP_EAGER, name, DRIVER_OUT_OF_MEMORY, false);
}

TEST(no_byte_is_lost_when_an_unmap_fails)
{
    fail_each_way("unmap");
    fail_each(POOL_REMAP_LAZY, "unmap", FAKE_FAILURE, true);
    fail_each(POOL_REMAP_EAGER, "unmap", FAKE_FAILURE, true);
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
    fail_each(POOL_REMAP_LAZY, NULL, FAKE_FAILURE, false);
    fail_each(POOL_REMAP_EAGER, NULL, FAKE_FAILURE, false);
}

TEST(no_byte_is_lost_when_any_call_cannot_be_made)
{
    fail_each(POOL_REMAP_LAZY, NULL, -EBUSY, false);
    fail_each(POOL_REMAP_EAGER, NULL, -EBUSY, false);
}

TEST(a_slot_that_cannot_be_unmapped_is_kept_and_the_rest_goes_on)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct owned_block wide, wall, big;

    take(b, &wide, 8 * MiB, STREAM);
    take(b, &wall, SLOT, STREAM);
    give(b, &wide);
    b->fake->no_runs = true;
    b->fake->fail_name = "unmap";
    b->fake->fail_at = 3; /* of all, of the first, of the second */
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

/* ── slots side by side ── */

/* The moves for a request of 10 MiB from under a free block of 8. */
static struct bench *move_four(struct owned_block *wall, struct owned_block *big, bool singly)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct owned_block wide;

    take(b, &wide, 8 * MiB, STREAM);
    take(b, wall, SLOT, STREAM);
    give(b, &wide);
    b->fake->no_runs = singly;
    take(b, big, 10 * MiB, STREAM);
    CHECK_EQ(bench_stats(b).granules_moved, 4);
    CHECK_EQ(b->fake->unmaps, 4);
    CHECK_EQ(b->fake->held, 12 * MiB);
    CHECK_EQ(bench_heap_stats(b).cached, 0);
    check_data(b, wall);
    check_data(b, big);
    return b;
}

TEST(slots_side_by_side_are_unmapped_in_one_call)
{
    struct owned_block wall, big;
    struct bench *b = move_four(&wall, &big, false);

    CHECK_EQ(b->fake->unmap_calls, 1);
    bench_end(b);
}

TEST(a_driver_that_unmaps_one_at_a_time_is_asked_for_each)
{
    struct owned_block wall, big;
    struct bench *b = move_four(&wall, &big, true);

    CHECK_EQ(b->fake->unmap_calls, 5);
    bench_end(b);
}

TEST(what_was_unmapped_and_is_not_wanted_any_more_goes_to_the_shelf)
{
    struct bench *b = bench_with(1 * GiB, POOL_REMAP_EAGER, 0);
    struct owned_block wide, wall, big;

    take(b, &wide, 8 * MiB, STREAM);
    take(b, &wall, SLOT, STREAM);
    give(b, &wide);
    b->fake->fail_name = "map";
    b->fake->fail_at = 2;
    b->fake->fail_code = FAKE_FAILURE;
    CHECK_EQ(bench_alloc_on(b, 10 * MiB, STREAM), 0);
    CHECK_EQ(b->fake->mappings, 1);
    CHECK_EQ(bench_heap_stats(b).cached, 8 * MiB);
    CHECK_EQ(bench_stats(b).reserved, b->fake->held);
    BENCH_CHECK(b);
    take(b, &big, 10 * MiB, STREAM);
    CHECK_EQ(b->fake->held, 12 * MiB);
    check_data(b, &wall);
    bench_end(b);
}

TEST(free_slots_move_to_where_they_are_needed)
{
    struct bench *b = bench_with_budget(1 * GiB, 32 * MiB);
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

/* SPDX-License-Identifier: MIT */
/* covers: headroom.c */
/* What is free on a device, and in which pieces. */
#include "tests/unit/alloc/hinted.h"
#include "tests/unit/alloc/layout.h"

/* Growth moves nothing while the budget has room. */
static struct bench *roomy(void)
{
    return bench_with_budget(1 * GiB, 1 * GiB);
}

TEST(r31_whole_handles_whose_work_has_passed_are_remappable)
{
    struct bench *b = roomy();
    struct pool_room room;
    devptr_t live[5], dead[4];

    for (int i = 0; i < 4; i++) {
        live[i] = bench_alloc_on(b, 1 * MiB, 1);
        dead[i] = bench_alloc_on(b, 5 * MiB, 1);
    }
    live[4] = bench_alloc_on(b, 2 * MiB, 1); /* growth begins in a free tail: none here */
    fake_submit(b->fake, 1, dead[0], 5 * MiB);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(bench_free_on(b, dead[i], 1), 0);
    /* 6 MiB a pair: 1 of a live one, 5 of a dead one, of which two handles are whole */
    room = bench_room(b);
    CHECK_EQ(room.largest_free, 5 * MiB);
    CHECK_EQ(room.remappable, 0);
    CHECK_EQ(room.remappable_waiting, 16 * MiB);
    CHECK_EQ(room.stats.free, 20 * MiB);
    CHECK_EQ(room.stats.live_requested, 6 * MiB);
    CHECK_EQ(room.stats.reserved, b->fake->held);
    fake_drain(b->fake);
    CHECK_NE(bench_alloc_on(b, 32 * MiB, 2), 0); /* another stream's miss: the fences are asked */
    room = bench_room(b);
    CHECK_EQ(room.remappable, 16 * MiB);
    CHECK_EQ(room.remappable_waiting, 0);
    BENCH_CHECK(b);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(bench_free_on(b, live[i], 1), 0);
    bench_end(b);
}

TEST(r31_a_handle_that_a_live_byte_stands_on_is_not_remappable)
{
    struct bench *b = roomy();
    struct pool_room room;
    devptr_t all[64], tail, keep = 0;

    for (int i = 0; i < 64; i++)
        all[i] = bench_alloc_on(b, 512 * KiB, 1);
    tail = bench_alloc_on(b, 2 * MiB, 1);
    for (int i = 0; i < 64; i++) {
        if (i == 30)
            keep = all[i];
        else
            CHECK_EQ(bench_free_on(b, all[i], 1), 0);
    }
    fake_drain(b->fake);
    CHECK_NE(bench_alloc_on(b, 64 * MiB, 2), 0);
    room = bench_room(b);
    CHECK_EQ(room.remappable, 30 * MiB);
    CHECK_EQ(room.largest_free, 33 * 512 * KiB);
    CHECK_EQ(bench_free_on(b, keep, 1), 0);
    CHECK_EQ(bench_free_on(b, tail, 1), 0);
    bench_end(b);
}

TEST(a_handle_that_awaited_memory_only_reaches_into_is_not_whole)
{
    struct bench *b = roomy();
    devptr_t live[2], dead;
    struct pool_room room;

    live[0] = bench_alloc_on(b, 1 * MiB, 1);
    dead = bench_alloc_on(b, 3584 * KiB, 1);
    live[1] = bench_alloc_on(b, 1 * MiB, 1);
    fake_submit(b->fake, 1, dead, 3584 * KiB);
    CHECK_EQ(bench_free_on(b, dead, 1), 0);
    room = bench_room(b);
    CHECK_EQ(room.remappable, 0);
    CHECK_EQ(room.remappable_waiting, 2 * MiB);
    CHECK_EQ(bench_free_on(b, live[0], 1), 0);
    CHECK_EQ(bench_free_on(b, live[1], 1), 0);
    bench_end(b);
}

TEST(a_slot_that_two_streams_share_waits_for_both)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_room room;
    devptr_t a[4], c[4], tail;

    for (int i = 0; i < 4; i++) {
        a[i] = bench_alloc_on(b, 1 * MiB, 1);
        c[i] = bench_alloc_on(b, 1 * MiB, 2);
    }
    tail = bench_alloc_on(b, 2 * MiB, 1);
    for (int i = 0; i < 4; i++) {
        fake_submit(b->fake, 2, c[i], 1 * MiB);
        CHECK_EQ(bench_free_on(b, a[i], 1), 0);
        CHECK_EQ(bench_free_on(b, c[i], 2), 0);
    }
    room = bench_room(b);
    CHECK_EQ(room.remappable + room.remappable_waiting, room.stats.free);
    CHECK_EQ(room.remappable, 0);
    CHECK_EQ(room.largest_free, 1 * MiB);
    CHECK_EQ(bench_free_on(b, tail, 1), 0);
    bench_end(b);
}

TEST(another_devices_memory_is_not_counted)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 8 * MiB);
    struct pool_room room;

    CHECK_EQ(bench_free(b, a), 0);
    pool_room(b->pool, 1, &room);
    CHECK_EQ(room.stats.reserved, 0);
    CHECK_EQ(room.largest_free, 0);
    bench_end(b);
}

/* ── what one request would get ── */

/* Of what the device has free `others` bytes are neither ours nor to be had. */
static uint64_t available_beside(struct bench *b, uint64_t others, bool may_wait)
{
    const struct pool_memory memory = {
            .driver_free = b->fake->memory - b->fake->held - others,
            .total = b->fake->memory,
            .may_wait = may_wait,
    };

    return pool_available(b->pool, 0, &memory);
}

static uint64_t available(struct bench *b, bool may_wait)
{
    return available_beside(b, 0, may_wait);
}

static void ask_for_all(uint64_t handle)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct layout layout = layout_of_handles(seed, 300 * MiB, handle, true);
        struct bench *b = layout.b;
        uint64_t bytes = available(b, true);

        b->fake->hangs = false; /* it keeps up as soon as somebody waits for it */
        REQUIRE(bytes > 0);
        CHECK_EQ(bytes % handle, 0);
        if (!bench_alloc_on(b, bytes, seed % 3))
            printf("    seed %llu: no %llu MiB on stream %llu, %d\n", (unsigned long long)seed,
                    (unsigned long long)(bytes / MiB), (unsigned long long)(seed % 3), b->r);
        CHECK_EQ(b->r, 0);
        layout_end(&layout);
    }
}

TEST(r22_a_request_of_all_that_is_available_finds_its_place)
{
    ask_for_all(2 * MiB);
}

TEST(r22_a_request_of_all_that_is_available_finds_its_place_where_handles_are_large)
{
    ask_for_all(4 * MiB);
}

TEST(r22_all_that_was_freed_is_available_though_a_fence_is_awaited)
{
    struct bench *b = bench_new(64 * MiB + 700 * KiB); /* no answer is finer than a slot */
    devptr_t sync = bench_alloc(b, 20 * MiB);
    devptr_t mapped = bench_alloc_on(b, 20 * MiB, 1);

    CHECK_EQ(available(b, true), 24 * MiB);
    fake_submit(b->fake, 1, sync, 20 * MiB);
    fake_submit(b->fake, 1, mapped, 20 * MiB);
    CHECK_EQ(bench_free(b, sync), 0);
    CHECK_EQ(bench_free_on(b, mapped, 1), 0);
    CHECK_EQ(available(b, true), 64 * MiB);
    CHECK_EQ(available(b, false), 24 * MiB); /* nothing goes back to the driver */
    bench_end(b);
}

/* 32 MiB of 64 are the program's, half of them with a hint, 8 are somebody else's; what was hinted is released, in `mode`. */
static uint64_t available_beside_hints(enum hint_mode mode, bool passes)
{
    struct bench *b = hinted_bench(64 * MiB, mode);
    uint64_t bytes;

    for (int i = 0; i < 4; i++)
        CHECK_NE(hinted_on(b, 4 * MiB, (uint64_t)i % 2), 0);
    CHECK_NE(bench_alloc(b, 16 * MiB), 0);
    if (passes)
        CHECK_EQ(pass_edge(b), 4);
    bytes = available_beside(b, 8 * MiB, true);
    bench_end(b);
    return bytes;
}

TEST(r84_storage_that_a_hint_has_taken_is_not_available)
{
    CHECK_EQ(available_beside_hints(HINT_LIVE, false), 24 * MiB);
    CHECK_EQ(available_beside_hints(HINT_LIVE, true), 24 * MiB);
    CHECK_EQ(available_beside_hints(HINT_TRAP, true), 24 * MiB);
    CHECK_EQ(available_beside_hints(HINT_SHADOW, true), 24 * MiB);
}

TEST(r22_hinted_blocks_that_were_freed_are_available)
{
    struct bench *b = hinted_bench(64 * MiB, HINT_LIVE);
    devptr_t gone = hinted(b, 4 * MiB);
    devptr_t idle;

    CHECK_EQ(pass_edge(b), 1);
    idle = hinted(b, 6 * MiB);
    CHECK_EQ(available(b, true), 54 * MiB);
    CHECK_EQ(bench_free(b, gone), 0);
    CHECK_EQ(available(b, true), 58 * MiB);
    CHECK_EQ(bench_free(b, idle), 0); /* before its edge: it keeps its storage for the next */
    CHECK_EQ(available(b, true), 64 * MiB);
    CHECK_NE(bench_alloc(b, 2 * MiB), 0); /* a miss: what waited has passed */
    CHECK_EQ(bench_stats(b).pending, 0);
    CHECK_EQ(available(b, true), 62 * MiB);
    bench_end(b);
}

/* The driver was asked before the program got what is live now. */
TEST(r84_an_old_answer_of_the_driver_makes_nothing_free_that_is_live)
{
    struct bench *b = bench_new(64 * MiB);
    const struct pool_memory before = {
            .driver_free = 64 * MiB, .total = 64 * MiB, .may_wait = true};

    CHECK_NE(bench_alloc(b, 20 * MiB), 0);
    CHECK_EQ(pool_available(b->pool, 0, &before), 44 * MiB);
    CHECK_EQ(pool_available(b->pool, 1, &before), 64 * MiB);
    bench_end(b);
}

TEST(r22_what_is_kept_and_what_is_above_the_cap_is_not_available)
{
    struct pool_pinned pinned;
    struct pool_opts opts;
    struct pool_hit hit;
    struct bench *b;
    devptr_t a;

    pool_opts_init(&opts);
    opts.cap = 32 * MiB;
    b = bench_new_with(64 * MiB, &opts);
    CHECK_EQ(available(b, true), 32 * MiB);
    a = bench_alloc(b, 6 * MiB);
    CHECK_EQ(pool_pin(b->pool, a, 1, POOL_PIN_SHOWN, &pinned, &hit), 0);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(available(b, true), 26 * MiB);
    CHECK_EQ(bench_free(b, bench_alloc(b, 10 * MiB)), 0);
    CHECK_EQ(available(b, true), 26 * MiB);
    CHECK_EQ(available(b, false), 16 * MiB);
    bench_end(b);
}

/* A memory pool that was destroyed goes back as a whole, once its last block is freed. */
TEST(r22_what_is_free_in_a_pool_that_leaves_is_available)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc_on(b, 20 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 10 * MiB, 1);

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(available(b, true), 54 * MiB);
    CHECK_EQ(bench_free(b, bench_alloc(b, 54 * MiB)), 0);
    fake_submit(b->fake, 1, c, 10 * MiB);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    CHECK_EQ(available(b, true), 64 * MiB);
    CHECK_NE(bench_alloc(b, 64 * MiB), 0);
    bench_end(b);
}

TEST(r31_what_is_free_for_the_sync_api_is_told_apart)
{
    struct bench *b = roomy();
    devptr_t sync = bench_alloc(b, 8 * MiB);
    devptr_t on = bench_alloc_on(b, 4 * MiB, 1);

    CHECK_EQ(bench_free_on(b, on, 1), 0);
    CHECK_EQ(bench_room(b).stats.free, 4 * MiB);
    CHECK_EQ(bench_room(b).free_sync, 0);
    CHECK_EQ(bench_free(b, sync), 0);
    sync = bench_alloc(b, 4 * MiB); /* half of what was freed, once its fence has passed */
    CHECK_EQ(bench_room(b).free_sync, 4 * MiB);
    CHECK_EQ(bench_room(b).stats.free, 8 * MiB);
    CHECK_EQ(bench_free(b, sync), 0);
    bench_end(b);
}

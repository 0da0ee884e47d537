/* SPDX-License-Identifier: MIT */
/* What the pool says of a request that found no place, and what it gives back when the program sleeps. */
#include "tests/unit/alloc/pool_bench.h"

#define SECOND (UINT64_C(1000) * 1000 * 1000)

static struct pool_room room_of(struct bench *b)
{
    struct pool_room room;

    memset(&room, 0xa5, sizeof room);
    pool_room(b->pool, 0, &room);
    return room;
}

/* ── what is free, and in which pieces ── */

/* Growth moves nothing while the budget has room. */
static struct bench *roomy(void)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.budget = 1 * GiB;
    return bench_new_with(1 * GiB, &opts);
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
    room = room_of(b);
    CHECK_EQ(room.largest_free, 5 * MiB);
    CHECK_EQ(room.remappable, 0);
    CHECK_EQ(room.remappable_waiting, 16 * MiB);
    CHECK_EQ(room.stats.free, 20 * MiB);
    CHECK_EQ(room.stats.live_requested, 6 * MiB);
    CHECK_EQ(room.stats.reserved, b->fake->held);
    fake_drain(b->fake);
    CHECK_NE(bench_alloc_on(b, 32 * MiB, 2), 0); /* another stream's miss: the fences are asked */
    room = room_of(b);
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
    room = room_of(b);
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
    dead = bench_alloc_on(b, 4 * MiB, 1);
    live[1] = bench_alloc_on(b, 1 * MiB, 1);
    fake_submit(b->fake, 1, dead, 4 * MiB);
    CHECK_EQ(bench_free_on(b, dead, 1), 0);
    room = room_of(b);
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
    room = room_of(b);
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

/* ── what was done ── */

TEST(r31_the_ladder_of_a_failed_request_is_told)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc(b, 20 * MiB);
    devptr_t c = bench_alloc(b, 20 * MiB);
    struct pool_request request = bench_request(60 * MiB, 0);
    struct pool_ladder ladder = {.waits = 0};

    request.ladder = &ladder;
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(ladder.attempts, 2);
    CHECK_EQ(ladder.trims, 1);
    CHECK_EQ(ladder.trimmed_bytes, 20 * MiB);
    CHECK_EQ(room_of(b).largest_free, 0);
    CHECK_EQ(bench_free(b, c), 0);
    CHECK_NE(bench_ask(b, &request), 0);
    bench_end(b);
}

TEST(r31_host_waits_of_a_request_are_told)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc(b, 40 * MiB);
    struct pool_request request = bench_request(64 * MiB, 0);
    struct pool_ladder ladder = {.waits = 0};

    request.ladder = &ladder;
    fake_submit(b->fake, 1, a, 40 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_NE(bench_ask(b, &request), 0);
    CHECK_GE(ladder.waits, 1);
    CHECK_EQ(ladder.trimmed_bytes, 40 * MiB);
    bench_end(b);
}

TEST(a_hit_adds_nothing_to_the_ladder)
{
    struct bench *b = bench_new(64 * MiB);
    struct pool_request request = bench_request(3 * MiB, 1);
    struct pool_ladder ladder = {.waits = 0};
    devptr_t a;

    request.ladder = &ladder;
    a = bench_ask(b, &request);
    CHECK_EQ(ladder.attempts, 1);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(bench_ask(b, &request), a);
    CHECK_EQ(ladder.attempts, 1);
    bench_end(b);
}

/* ── idleness ── */

static struct bench *sleeper(enum pool_trim trim)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.trim = trim;
    return bench_new_with(1 * GiB, &opts);
}

TEST(after_idleness_an_eighth_may_stay_free)
{
    struct bench *b = sleeper(POOL_TRIM_AUTO);
    devptr_t live = bench_alloc(b, 64 * MiB);
    devptr_t dead[16];

    for (int i = 0; i < 16; i++)
        dead[i] = bench_alloc(b, 4 * MiB);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(bench_free(b, dead[i]), 0);
    CHECK_EQ(pool_idle(b->pool, 5 * SECOND), 0); /* the first that is heard of it */
    CHECK_EQ(pool_idle(b->pool, 64 * SECOND), 0);
    CHECK_EQ(b->fake->held, 128 * MiB);
    CHECK_EQ(pool_idle(b->pool, 124 * SECOND), 48 * MiB);
    CHECK_EQ(b->fake->held, 80 * MiB); /* 16 of 128 */
    CHECK_EQ(bench_free(b, live), 0);
    bench_end(b);
}

TEST(a_program_that_makes_calls_is_not_idle)
{
    struct bench *b = sleeper(POOL_TRIM_AUTO);
    devptr_t a = bench_alloc(b, 64 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    for (uint64_t at = 1; at < 1000; at += 59)
        CHECK_EQ(pool_idle(b->pool, at * SECOND), 0);
    CHECK_EQ(pool_idle(b->pool, 3 * SECOND), 0); /* a clock that another thread read earlier */
    CHECK_EQ(b->fake->held, 64 * MiB);
    bench_end(b);
}

TEST(an_idle_program_whose_memory_is_in_use_keeps_it)
{
    struct bench *b = sleeper(POOL_TRIM_AUTO);
    devptr_t live = bench_alloc(b, 72 * MiB);
    devptr_t dead = bench_alloc(b, 8 * MiB);
    uint64_t calls;

    CHECK_EQ(bench_free(b, dead), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    calls = b->fake->calls;
    CHECK_EQ(pool_idle(b->pool, 2 * SECOND), 0);
    CHECK_EQ(b->fake->calls, calls); /* not idle: nobody is asked anything */
    CHECK_EQ(pool_idle(b->pool, 100 * SECOND), 0);
    CHECK_EQ(b->fake->held, 80 * MiB);
    CHECK_EQ(bench_free(b, live), 0);
    bench_end(b);
}

TEST(idle_memory_of_mapped_heaps_goes_too_but_not_what_the_device_still_uses)
{
    struct bench *b = sleeper(POOL_TRIM_AUTO);
    struct pool_heap_attrs attrs;
    devptr_t a = bench_alloc_on(b, 32 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 32 * MiB, 2);

    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.release_threshold = UINT64_MAX; /* as PyTorch sets it */
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    fake_submit(b->fake, 2, c, 32 * MiB);
    b->fake->hangs = true;
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(bench_free_on(b, c, 2), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    CHECK_GE(pool_idle(b->pool, 100 * SECOND), 32 * MiB);
    CHECK_EQ(b->fake->held, 32 * MiB);
    b->fake->hangs = false;
    fake_drain(b->fake);
    CHECK_EQ(pool_idle(b->pool, 200 * SECOND), 28 * MiB);
    CHECK_EQ(b->fake->held, 4 * MiB);
    bench_end(b);
}

TEST(trim_never_means_never_when_idle)
{
    struct bench *b = sleeper(POOL_TRIM_NEVER);
    devptr_t a = bench_alloc(b, 64 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    CHECK_EQ(pool_idle(b->pool, 1000 * SECOND), 0);
    CHECK_EQ(b->fake->held, 64 * MiB);
    bench_end(b);
}

TEST(r34_a_frozen_pool_gives_nothing_back_when_idle)
{
    struct bench *b = sleeper(POOL_TRIM_AUTO);
    devptr_t a = bench_alloc(b, 64 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(pool_idle(b->pool, 1 * SECOND), 0);
    pool_freeze(b->pool);
    CHECK_EQ(pool_idle(b->pool, 1000 * SECOND), 0);
    CHECK_EQ(b->fake->held, 64 * MiB);
    b->fake->lost = 1;
    bench_end(b);
}

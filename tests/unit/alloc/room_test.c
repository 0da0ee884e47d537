/* SPDX-License-Identifier: MIT */
/* What is free on a device, and in which pieces. */
#include "tests/unit/alloc/pool_bench.h"

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
    dead = bench_alloc_on(b, 4 * MiB, 1);
    live[1] = bench_alloc_on(b, 1 * MiB, 1);
    fake_submit(b->fake, 1, dead, 4 * MiB);
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

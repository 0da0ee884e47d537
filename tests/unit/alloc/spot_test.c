/* SPDX-License-Identifier: MIT */
/* Where a request stands for the least storage. */
#include "tests/unit/alloc/followed.h"

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

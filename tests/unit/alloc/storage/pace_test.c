/* SPDX-License-Identifier: MIT */
/* covers: pace.c */
/* How readily storage moves: finished storage before growth, within a share of the program's time. */
#include "alloc/storage/pace.h"
#include "tests/unit/alloc/followed.h"
#include "tests/unit/alloc/layout.h"

#define SECOND UINT64_C(1000000000)

/* A pool whose moves take `move_ns` each and may take `share_ns` of each second. */
static struct bench *paced(uint64_t move_ns, uint64_t share_ns, uint64_t budget)
{
    struct pool_opts opts;
    struct bench *b;

    pool_opts_init(&opts);
    opts.move_ns = share_ns;
    opts.budget = budget;
    b = bench_new_with(1 * GiB, &opts);
    b->fake->move_ns = move_ns;
    return b;
}

/* 8 slots of storage in 8 holes, and a request that all of them serve if they move. */
static uint64_t moved_for_a_request(struct bench *b)
{
    struct owned_block stay[8], gone[8], big;
    uint64_t before = bench_stats(b).granules_moved;

    for (int i = 0; i < 8; i++) {
        take(b, &gone[i], SLOT, STREAM);
        take(b, &stay[i], SLOT, STREAM);
    }
    for (int i = 0; i < 8; i++)
        give(b, &gone[i]);
    take(b, &big, 8 * SLOT, STREAM);
    before = bench_stats(b).granules_moved - before;
    give(b, &big);
    for (int i = 0; i < 8; i++)
        give(b, &stay[i]);
    return before;
}

TEST(finished_storage_moves_before_growth)
{
    struct bench *b = paced(0, 5000000, 0);

    CHECK_EQ(moved_for_a_request(b), 8);
    CHECK_EQ(b->fake->held, 16 * SLOT);
    CHECK_EQ(bench_stats(b).granules_aliased, 0);
    bench_end(b);
}

TEST(storage_that_the_device_may_use_does_not_move_below_the_budget)
{
    struct bench *b = paced(0, 5000000, 0);
    struct owned_block large;

    take(b, &large, 512 * MiB, STREAM); /* the budget is 18 MiB above it */
    fake_submit(b->fake, STREAM, large.ptr, large.size);
    b->fake->hangs = true;
    CHECK_EQ(moved_for_a_request(b), 0);
    b->fake->hangs = false;
    give(b, &large);
    bench_end(b);
}

TEST(a_budget_of_the_user_is_where_moves_begin)
{
    struct bench *b = paced(0, 5000000, 1 * GiB);

    CHECK_EQ(moved_for_a_request(b), 0);
    bench_end(b);
}

TEST(moves_that_take_too_long_become_rare)
{
    static const struct {
        const char *name;
        uint64_t move_ns;
        enum pool_pace then;
    } rows[] = {
            {"8 ms of a minute's 300", SECOND / 1000, POOL_PACE_READY},
            {"160 ms, more than half of them", SECOND / 50, POOL_PACE_LAZY},
            {"400 ms", SECOND / 20, POOL_PACE_SPARING},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bench *b = paced(rows[i].move_ns, 5000000, 0);

        CHECK_ROW(rows[i].name);
        CHECK_EQ(moved_for_a_request(b), 8);
        pace_look(b->pool, SLOT);
        CHECK_EQ(b->pool->pace.now, rows[i].then);
        CHECK_GT(bench_stats(b).paces[rows[i].then], 0);
        bench_end(b);
    }
}

TEST(time_pays_the_debt_back)
{
    struct bench *b = paced(SECOND / 20, 5000000, 0);

    CHECK_EQ(moved_for_a_request(b), 8); /* 400 ms: 80 seconds' share */
    pace_look(b->pool, SLOT);
    CHECK_EQ(b->pool->pace.now, POOL_PACE_SPARING);
    b->fake->time += 30 * SECOND; /* 250 ms are left */
    pace_look(b->pool, SLOT);
    CHECK_EQ(b->pool->pace.now, POOL_PACE_LAZY);
    b->fake->time += 30 * SECOND; /* 100 ms */
    pace_look(b->pool, SLOT);
    CHECK_EQ(b->pool->pace.now, POOL_PACE_READY);
    b->fake->time += 3600 * SECOND; /* a debt does not become a credit */
    pace_look(b->pool, SLOT);
    CHECK_EQ(b->pool->pace.debt_ns, 0);
    bench_end(b);
}

TEST(a_sparing_pool_moves_above_the_budget_of_waits_alone)
{
    struct bench *b = paced(SECOND, 5000000, 0);
    struct owned_block big;

    take(b, &big, 512 * MiB, STREAM); /* the budget is 25.6 MiB more, that of moves 16 */
    CHECK_EQ(moved_for_a_request(b), 8);
    pace_look(b->pool, SLOT);
    CHECK_EQ(b->pool->pace.now, POOL_PACE_SPARING);
    CHECK_EQ(moved_for_a_request(b), 0);
    give(b, &big);
    bench_end(b);
}

TEST(without_a_share_nothing_is_counted)
{
    struct bench *b = paced(SECOND, 0, 0);

    CHECK_EQ(moved_for_a_request(b), 8);
    CHECK_EQ(moved_for_a_request(b), 8);
    CHECK_EQ(b->pool->pace.debt_ns, 0);
    CHECK_EQ(bench_stats(b).paces[POOL_PACE_READY], 0);
    bench_end(b);
}

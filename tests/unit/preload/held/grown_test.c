/* SPDX-License-Identifier: MIT */
/* covers: grown.c */
/* When live memory counts as grown, from what it was at each round. */
#include "preload/held/grown.h"
#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)

/* The rounds, of `rounds`, at which live(round) has grown, as bits by their comparison: 6, 12, 24 ... */
static unsigned grown_at(uint64_t rounds, uint64_t (*live)(uint64_t round))
{
    struct grown grown = {0};
    uint64_t comparison = 6;
    unsigned bits = 0, bit = 1;

    for (uint64_t round = 1; round <= rounds; round++) {
        bool has_grown = grown_round(&grown, live(round));

        CHECK(!has_grown || round == comparison);
        bits |= has_grown ? bit : 0;
        if (round == comparison) {
            comparison *= 2;
            bit *= 2;
        }
    }
    CHECK_EQ(grown.rounds, rounds);
    return bits;
}

static uint64_t constant(uint64_t round)
{
    return 100 * MIB + round % 2;
}

static uint64_t leaks(uint64_t round)
{
    return 100 * MIB + round * MIB;
}

static uint64_t leaks_each_epoch(uint64_t round)
{
    return 100 * MIB + round / 10 * 10 * MIB;
}

/* Full in the fourth round. */
static uint64_t fills_up(uint64_t round)
{
    return 100 * MIB + (round < 4 ? round : 4) * 50 * MIB;
}

/* Outputs pile up in an epoch of 7 rounds, and go. */
static uint64_t goes_each_epoch(uint64_t round)
{
    return 100 * MIB + round % 7 * 10 * MIB;
}

static uint64_t falls(uint64_t round)
{
    return 1000 * MIB - round * MIB;
}

/* 100 KiB a round, beside 100 MiB: 1/128 of it is added in a quarter of the rounds from 32 on. */
static uint64_t leaks_slowly(uint64_t round)
{
    return 100 * MIB + round * (100 << 10);
}

/* A leak begins after 20 rounds. */
static uint64_t leaks_late(uint64_t round)
{
    return 100 * MIB + (round > 20 ? round - 20 : 0) * MIB;
}

TEST(a_leak_is_seen_at_each_comparison)
{
    CHECK_EQ(grown_at(100, leaks), 0x1f);
    CHECK_EQ(grown_at(5, leaks), 0);
    CHECK_EQ(grown_at(6, leaks), 1);
}

TEST(a_leak_of_an_epoch_is_seen_when_one_has_ended)
{
    CHECK_EQ(grown_at(100, leaks_each_epoch), 0x1a); /* at 12, 48, 96; from 7 to 18 none ends */
}

TEST(what_does_not_grow_is_not_seen)
{
    CHECK_EQ(grown_at(10000, constant), 0);
    CHECK_EQ(grown_at(10000, fills_up), 0);
    CHECK_EQ(grown_at(10000, goes_each_epoch), 1); /* as long as none has ended, it grows */
    CHECK_EQ(grown_at(900, falls), 0);
}

TEST(a_slow_leak_is_seen_once_it_is_clear)
{
    unsigned bits = grown_at(6 << 8, leaks_slowly);

    CHECK_EQ(bits & 0x7, 0);
    CHECK_EQ(bits >> 3, 0x3f); /* from 48 on, with 3 % of the memory */
}

TEST(a_leak_that_begins_late_is_seen)
{
    CHECK_EQ(grown_at(200, leaks_late), 0x38); /* from 48 on */
}

/* In any order of sizes that are all different, the newest are seldom above all before. */
TEST(what_varies_is_rarely_seen)
{
    uint64_t state = 1;
    unsigned at_six = 0, later = 0;

    for (int program = 0; program < 3000; program++) {
        struct grown grown = {0};

        for (int round = 1; round <= 96; round++) {
            state = state * UINT64_C(6364136223846793005) + 1;
            if (grown_round(&grown, 100 * MIB + (state >> 33) % 1000 * MIB)) {
                at_six += round == 6;
                later += round > 6;
            }
        }
    }
    CHECK(at_six < 3000 / 12); /* 1 of 15 */
    CHECK(later < 3000 / 60);  /* 1 of 84, and less */
}

TEST(what_is_clear_is_a_part_of_what_there_was)
{
    CHECK(!grown_is_clear(100, 100));
    CHECK(!grown_is_clear(200, 100));
    CHECK(!grown_is_clear(0, (256 << 10) - 1));
    CHECK(grown_is_clear(0, 256 << 10));
    CHECK(!grown_is_clear(1280 * MIB, 1289 * MIB));
    CHECK(grown_is_clear(1280 * MIB, 1290 * MIB));
}

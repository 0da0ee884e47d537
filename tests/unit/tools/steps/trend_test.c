/* SPDX-License-Identifier: MIT */
/* covers: trend.c gains.c */
#include "tests/check.h"

#include <stdlib.h>

#include "tools/steps/trend.h"

enum {
    ROUNDS = 200,
    UNIT = 64,
};

/* At the ends of the rounds: "1 2*3 4" is 1, three times 2, and 4. */
struct row {
    const char *what, *units;
    enum trend trend;
    uint32_t rises, since;
};

static size_t changes_of(
        const char *units, bool is_one_block, struct trend_change *changes, uint32_t *ret_rounds)
{
    size_t count = 0;
    uint32_t round = 0;
    uint64_t before = 0;

    for (const char *at = units; *at;) {
        char *end;
        uint64_t value = strtoull(at, &end, 10);
        uint32_t times = *end == '*' ? (uint32_t)strtoul(end + 1, &end, 10) : 1;

        if (value != before)
            changes[count++] =
                    (struct trend_change){round, value * UNIT, is_one_block ? value > 0 : value};
        before = value;
        round += times;
        at = end + (*end == ' ');
    }
    *ret_rounds = round;
    return count;
}

static void check_rows(const struct row *rows, size_t count, bool is_one_block)
{
    struct trend_change changes[ROUNDS];
    uint32_t rounds;

    for (size_t i = 0; i < count; i++) {
        CHECK_ROW(rows[i].what);
        size_t changed = changes_of(rows[i].units, is_one_block, changes, &rounds);
        struct trend_figures is = trend_of(changes, changed, rounds);
        CHECK_EQ(is.trend, rows[i].trend);
        if (is.trend == TREND_STEADY)
            continue;
        CHECK_EQ(is.rises, rows[i].rises);
        CHECK_EQ(is.since, rows[i].since);
    }
}

#define CHECK_ROWS(rows_, is_one_block_) \
    check_rows(rows_, sizeof(rows_) / sizeof(*(rows_)), is_one_block_)

TEST(what_adds_blocks_grows_as_long_as_it_does_not_come_to_rest)
{
    static const struct row rows[] = {
            {"one in each of three", "1 2 3", TREND_GROWS, 2, 1},
            {"one in each of six", "1 2 3 4 5 6", TREND_GROWS, 5, 1},
            {"not in the first one", "0 1 2", TREND_GROWS, 2, 1},
            {"more each time", "1 3 6 10", TREND_GROWS, 3, 1},
            {"one in two", "0 1 1 2 2 3", TREND_GROWS, 3, 1},
            {"one in eight", "0*5 1*8 2*8 3*8 4*3", TREND_GROWS, 4, 5},
            {"one in ten, an epoch", "0*9 1*10 2*10 3*10 4", TREND_GROWS, 4, 9},
            {"once in each of three epochs, seen twice", "0*10 1*10 2*10", TREND_GROWS, 2, 10},
            {"at uneven distances", "0*3 1 2*7 3*2 4*9 5*6 6*5", TREND_GROWS, 6, 3},
            {"it begins late", "0*30 1 2 3 4 5", TREND_GROWS, 5, 30},
            {"it begins late, and there is much before", "9*30 10 11 12", TREND_GROWS, 3, 30},
            {"after something large was freed", "8*5 0*5 1*20 2*20 3*10", TREND_GROWS, 3, 10},
            {"over double buffers", "1 2 1 2 2 3 2 3 3 4 3 4 4 5 4 5 5 6 5 6 6 7 6 7", TREND_GROWS,
                    12, 1},
            {"below what comes and goes", "9 1 10 2 11 3 12 4 13 5", TREND_GROWS, 4, 2},
            {"below two shapes in turn", "20 1 22 3 24 5 26 7 28 9", TREND_GROWS, 4, 2},
            {"at the same place of each repetition", "3 9 4 5 11 6 7 13 8 9 15 10", TREND_GROWS, 7,
                    1},
            {"the same behind a warm-up", "7 2 8 1 3 9 4 5 11 6 7 13 8 9 15 10 11 17 12",
                    TREND_GROWS, 11, 2},
            {"twice, of other bytes", "0 1 3", TREND_UNKNOWN, 2, 1},
            {"twice, of nearly as many bytes", "0 4 11", TREND_GROWS, 2, 1},
            {"twice, at uneven distances", "0 1*4 2", TREND_UNKNOWN, 2, 1},
            {"twice, late", "0*8 1 2", TREND_UNKNOWN, 2, 8},
            {"once, in the last one", "3*9 4", TREND_UNKNOWN, 1, 9},
            {"once, late", "0*9 1*5", TREND_UNKNOWN, 1, 9},
            {"once of three", "1 2 2", TREND_UNKNOWN, 1, 1},
            {"at rest for longer than ever", "0*2 1*4 2*4 3*6", TREND_UNKNOWN, 3, 2},
            {"the climb before a fall that has not come yet", "1 2 3 0 1 2 3 4", TREND_UNKNOWN, 6,
                    1},
    };

    CHECK_ROWS(rows, false);
}

TEST(what_has_come_to_rest_is_filled)
{
    static const struct row rows[] = {
            {"in the second of four", "1 2 2 2", TREND_FILLED, 1, 1},
            {"a first evaluation", "1*5 4*15", TREND_FILLED, 1, 5},
            {"in some steps", "1 2 3 4 4 4 4", TREND_FILLED, 3, 1},
            {"slower and slower", "1 2 3*2 4*3 5*5 6*12", TREND_FILLED, 5, 1},
            {"after a fall", "9 1 2 3 3 3 3", TREND_FILLED, 2, 2},
            {"a cache that is full in the middle",
                    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 "
                    "20*21",
                    TREND_FILLED, 19, 1},
            {"a ring of eight", "1 2 3 4 5 6 7 8*17", TREND_FILLED, 7, 1},
    };

    CHECK_ROWS(rows, false);
}

TEST(what_comes_and_goes_is_steady)
{
    static const struct row rows[] = {
            {"nothing", "0*9", TREND_STEADY, 0, 0},
            {"a model", "5*3", TREND_STEADY, 0, 0},
            {"double buffers", "1 2 1 2 1 2 1 2", TREND_STEADY, 0, 0},
            {"three of them", "2 1 2", TREND_STEADY, 0, 0},
            {"four are added up, and freed", "1 2 3 0 1 2 3 0 1 2 3", TREND_STEADY, 0, 0},
            {"in the first cycles", "1 2 3 0 1 2 3", TREND_STEADY, 0, 0},
            {"what it began with is freed", "7*10 0*10", TREND_STEADY, 0, 0},
            {"a number that differs", "3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 2 3", TREND_STEADY, 0, 0},
            {"a leak that is collected", "1 2 3 4 5 6 7 8 0 1 2 3 4 5 6 7 8 9 0 1", TREND_STEADY, 0,
                    0},
            {"all is freed at the end", "1 2 3 4 5 6 0", TREND_STEADY, 0, 0},
    };

    CHECK_ROWS(rows, false);
}

TEST(one_block_that_is_replaced_grows_by_the_same_bytes_or_often)
{
    static const struct row rows[] = {
            {"a longer list each time", "1 2 3", TREND_GROWS, 2, 1},
            {"by chance", "10 13 14", TREND_UNKNOWN, 2, 1},
            {"by chance, of four", "12 11 13 17", TREND_UNKNOWN, 2, 2},
            {"longer sequences", "10 13 14 19 20 26", TREND_GROWS, 5, 1},
            {"sequences of any length", "10 17 12 19 11 13 18 12", TREND_STEADY, 0, 0},
            {"as long as the first one", "10 10 12 10 10", TREND_STEADY, 0, 0},
            {"a buffer for the longest one", "10 13 17 17 17 17", TREND_FILLED, 2, 1},
            {"a cache of keys for each request", "1 2 3 4 1 2 3 4 5 6 1 2 3", TREND_STEADY, 0, 0},
    };

    CHECK_ROWS(rows, true);
}

static uint64_t chance(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

static struct trend_figures random_sizes(uint64_t *state, uint32_t rounds, uint32_t every)
{
    struct trend_change changes[64];
    uint64_t leaked = 0;

    for (uint32_t i = 0; i < rounds; i++) {
        leaked += every && i % every == every - 1;
        changes[i] =
                (struct trend_change){i, 1000 + chance(state, 100000) + 4000 * leaked, 1 + leaked};
    }
    return trend_of(changes, rounds, rounds);
}

/* The leak of 40 rounds is as large as what hides it. */
TEST(a_leak_beneath_random_sizes_is_hardly_ever_denied)
{
    static const uint32_t every[] = {1, 2, 4};
    uint64_t state = 7;

    for (unsigned i = 0; i < sizeof(every) / sizeof(*every); i++) {
        unsigned grown = 0, denied = 0;

        for (unsigned run = 0; run < 500; run++) {
            enum trend trend = random_sizes(&state, 40, every[i]).trend;

            grown += trend == TREND_GROWS;
            denied += trend >= TREND_FILLED;
        }
        printf("    in each of %u: %u of 500 grow, %u are denied\n", every[i], grown, denied);
        CHECK_EQ(denied, 0);
    }
}

TEST(how_often_it_gains_is_told)
{
    static const struct {
        const char *units;
        uint32_t period, times;
        uint64_t each, first_rise, last_rise;
    } rows[] = {
            {"1 2 3", 1, 2, 1, 1, 1},
            {"0 1 1 2 2 3", 2, 2, 1, 1, 1},
            {"0*9 1*10 2*10 3*10 4*10", 10, 4, 1, 1, 1},
            {"0*4 1 2 3 4 5 6", 1, 6, 1, 1, 1},
            {"0 1 3 4 6 7 9", 2, 3, 3, 0, 0},
            {"0 1 1 3 3 6 6 10 10", 2, 4, 2, 1, 4},
            {"0 2 5 9 14", 1, 4, 3, 2, 5},
            {"0 5 9 12 14", 1, 4, 3, 0, 0},
            {"1 2 1 2 2 3 2 3 3 4 3 4 4 5 4 5 5 6 5 6", 4, 4, 1, 0, 0},
            {"0*3 1 2*7 3*2 4*9 5*6 6*5", 0, 0, 0, 1, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct trend_change changes[ROUNDS];
        uint32_t rounds;

        CHECK_ROW(rows[i].units);
        size_t changed = changes_of(rows[i].units, false, changes, &rounds);
        struct trend_figures is = trend_of(changes, changed, rounds);
        CHECK_EQ(is.trend, TREND_GROWS);
        CHECK_EQ(is.gains.period, rows[i].period);
        CHECK_EQ(is.gains.times, rows[i].times);
        CHECK_EQ(is.gains.each / UNIT, rows[i].each);
        CHECK_EQ(is.first_rise / UNIT, rows[i].first_rise);
        CHECK_EQ(is.last_rise / UNIT, rows[i].last_rise);
    }
}

TEST(why_it_is_not_known_is_told)
{
    static const struct {
        const char *units;
        bool is_one_block;
        enum trend_why why;
    } rows[] = {
            {"3*9 4", false, TREND_ONCE},
            {"0*2 1*4 2*4 3*6", false, TREND_RESTS},
            {"12 11 13 17", true, TREND_REPLACED},
            {"0 1*4 2", false, TREND_TWICE},
            {"0 1 3", false, TREND_TWICE},
            {"1 2 3 0 1 2 3 4", false, TREND_FALLS},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct trend_change changes[ROUNDS];
        uint32_t rounds;

        CHECK_ROW(rows[i].units);
        size_t changed = changes_of(rows[i].units, rows[i].is_one_block, changes, &rounds);
        struct trend_figures is = trend_of(changes, changed, rounds);
        CHECK_EQ(is.trend, TREND_UNKNOWN);
        CHECK_EQ(is.why, rows[i].why);
    }
    for (enum trend_why why = TREND_ONCE; why < TREND_WHY_COUNT; why++)
        CHECK_EQ(*trend_why_text(why) != '\0', true);
}

/* A third of the numbers above another third, by chance: once in 252 times of 15 rounds. */
TEST(random_sizes_hardly_ever_grow)
{
    uint64_t state = 1;
    unsigned grown = 0;

    for (unsigned run = 0; run < 2000; run++) {
        struct trend_change changes[40];
        uint32_t rounds = 3 + run % 38;

        for (uint32_t i = 0; i < rounds; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            changes[i] = (struct trend_change){i, 1000 + (state >> 33) % 100000, 1};
        }
        grown += trend_of(changes, rounds, rounds).trend == TREND_GROWS;
    }
    printf("    %u of 2000 grow\n", grown);
    CHECK_LE(grown, 4);
}

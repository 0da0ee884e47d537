/* SPDX-License-Identifier: MIT */
/* covers: bounds.c */
#include "preload/base/bounds.h"
#include "tests/check.h"

TEST(each_bound_that_is_reached_is_said_once)
{
    const char *line;

    CHECK(!bounds_news());
    for (int round = 0; round < 2; round++) {
        bounds_reached(BOUNDS_STREAMS);
        bounds_reached(BOUNDS_RECORDS);
        bounds_reached(BOUNDS_STREAMS);
        line = bounds_news();
        CHECK_EQ(line != NULL, round == 0);
        CHECK_EQ(bounds_news() != NULL, round == 0);
        CHECK(!bounds_news());
        CHECK_EQ(atomic_load(&bounds_waiting), 0);
    }
}

TEST(each_bound_has_a_line_of_its_own)
{
    const char *lines[BOUNDS_COUNT];

    for (int kind = 0; kind < BOUNDS_COUNT; kind++)
        bounds_reached((enum bounds_kind)kind);
    for (int kind = 0; kind < BOUNDS_COUNT; kind++) {
        lines[kind] = bounds_news();
        REQUIRE(lines[kind]);
        for (int i = 0; i < kind; i++)
            CHECK(strcmp(lines[i], lines[kind]) != 0);
    }
}

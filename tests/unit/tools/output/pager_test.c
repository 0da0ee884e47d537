/* SPDX-License-Identifier: MIT */
/* covers: pager.c */
/* How many lines of a terminal a text takes. */
#include "tests/check.h"

#include <string.h>

#include "tools/output/pager.h"

static size_t lines(const char *text, unsigned columns)
{
    return pager_lines(text, strlen(text), columns);
}

TEST(each_line_takes_one_and_a_wide_one_more)
{
    CHECK_EQ(lines("", 10), 0);
    CHECK_EQ(lines("\n", 10), 1);
    CHECK_EQ(lines("a\n\nb", 10), 3);
    CHECK_EQ(lines("0123456789\n", 10), 1);
    CHECK_EQ(lines("0123456789a\n", 10), 2);
    CHECK_EQ(lines("0123456789012345678901", 10), 3);
}

TEST(colours_take_no_room_and_a_character_one_place)
{
    CHECK_EQ(lines("\033[1m0123456789\033[0m\n", 10), 1);
    CHECK_EQ(lines("\033[31;1m0123456789a\033[0m\n", 10), 2);
    CHECK_EQ(lines("▁▂▃▄▅▆▇█▁▂\n", 10), 1);
    CHECK_EQ(lines("▁▂▃▄▅▆▇█▁▂▃\n", 10), 2);
    CHECK_EQ(lines("x\033", 10), 1); /* cut off */
    CHECK_EQ(lines("x\033[3", 10), 1);
}

TEST(nothing_is_held_back_where_there_is_no_terminal)
{
    pager_begin();
    CHECK(!pager_is_on());
    pager_end();
}

/* SPDX-License-Identifier: MIT */
/* The user's own patterns, as KEDGE_ANCHORS of this test has them (CMakeLists.txt): one of them is none. */
#include "tests/preload/told.h"

static void out(const char *text)
{
    CHECK_EQ(write(1, text, strlen(text)), (ssize_t)strlen(text));
}

TEST(patterns_are_the_users_and_replace_the_default)
{
    told_begin();
    (void)told();
    out("START x\nEpoch 1/3\nstep 5: loss\nstep 6: loss\nstep over\nEpoch 2/3\n");
    CHECK_STR_EQ(told(), "+1 +1/5 -1/5 +1/6 -1/6 -1 +2");
    CHECK_STR_EQ(told_path(), "2");
    out("Epoch 1/3\nEpoch 1/3\n"); /* its second time, and its third */
    CHECK_STR_EQ(told(), "-2 +1#1 -1#1 +1#2");
}

/* In a group of its own each pattern ends what it began, whatever order the lines come in. */
TEST(a_pattern_ends_its_own_range_below_that_of_another)
{
    told_begin();
    (void)told();
    out("Epoch 1/3\nstep 5: loss\nEpoch 2/3\nstep over\nstep over\n");
    CHECK_STR_EQ(told(), "+1 +1/5 -1 +1/5/2 -1/5");
}

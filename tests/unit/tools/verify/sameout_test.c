/* SPDX-License-Identifier: MIT */
/* covers: sameout.c */
/* When two runs count as having printed the same. */
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>

#include "tools/verify/sameout.h"

/* Whether `third` is as `first`, of which `second` (NULL = there was none) is another run; and what is said. */
static const char *tell(const char *first, const char *second, const char *third, bool any_order)
{
    static char text[512];
    struct sameout *same = sameout_new(first, strlen(first));
    char *difference;

    if (second)
        sameout_mask(same, second, strlen(second));
    difference = sameout_differs(same, third, strlen(third), any_order);
    (void)snprintf(text, sizeof text, "%s", difference ? difference : "same");
    free(difference);
    sameout_free(same);
    return text;
}

TEST(equal_texts_are_the_same)
{
    CHECK_STR_EQ(tell("", NULL, "", false), "same");
    CHECK_STR_EQ(tell("a\nb\n", NULL, "a\r\nb", false), "same");
    CHECK_STR_EQ(tell("a\n\n", NULL, "a  \n", false), "same");
}

TEST(the_first_difference_is_told)
{
    CHECK_STR_EQ(tell("a\nsum 12\nz\n", NULL, "a\nsum 0\nz\n", false),
            "line 2 is \"sum 0\" instead of \"sum 12\"");
    CHECK_STR_EQ(tell("a\nloss 0.5\n", NULL, "a\nloss nan\n", false),
            "line 2 is \"loss nan\" instead of \"loss 0.5\"");
    CHECK_STR_EQ(tell("a\n", NULL, "a\nb\n", false), "line 2, \"b\", is new");
    CHECK_STR_EQ(tell("a\nb\n", NULL, "a\n", false), "the line \"b\" is missing");
    CHECK_STR_EQ(tell("a\nb\n", NULL, "b\na\n", false), "the lines come in another order");
    CHECK_STR_EQ(tell("a\na\n", NULL, "a\n", false), "the line \"a\" is missing");
}

TEST(lines_of_the_library_are_left_out)
{
    CHECK_STR_EQ(tell("a\n", NULL, "kedge[12]: the device has failed\na\n", false), "same");
    CHECK_STR_EQ(tell("half whole\n", NULL, "half kedge[12]: a line\nwhole\n", false), "same");
    CHECK_STR_EQ(tell("a\n", NULL, "kedge: a\n", false), "line 1 is \"kedge: a\" instead of \"a\"");
}

TEST(what_differs_between_two_runs_is_masked)
{
    const char *one = "pid 77\nstep 1 loss 0.25 took 3.1s\nsum 0x12\n";
    const char *other = "pid 1078\nstep 1 loss 0.25 took  10.25s\nsum 0x12\n";

    CHECK_STR_EQ(tell(one, other, "pid 9\nstep 1 loss 0.25 took 7.0s\nsum 0x12\n", false), "same");
    CHECK_STR_EQ(tell(one, other, "pid 9\nstep 1 loss 0.26 took 7.0s\nsum 0x12\n", false),
            "line 2 is \"step 1 loss 0.26 took 7.0s\" instead of \"step 1 loss 0.25 took 3.1s\"");
    CHECK_STR_EQ(tell(one, other, "pid 9\nstep 1 loss 0.25 took 7.0s\nsum 0x13\n", false),
            "line 3 is \"sum 0x13\" instead of \"sum 0x12\"");
    CHECK_STR_EQ(tell(one, other, "step 1 loss 0.25 took 7.0s\nsum 0x12\n", false),
            "the line \"pid 77\" is missing");
    CHECK_STR_EQ(tell(one, other, one, false), "same");
    CHECK_STR_EQ(tell(one, other, other, false), "same");
}

TEST(addresses_that_differ_are_not_looked_at)
{
    const char *one = "at 0x7f0000001000\nat 0x7f0000002000, 3\nat 0x7f0000001000\n";
    const char *other = "at 0x7f0000001000\nat 0x7f0000001000, 3\nat 0x7f0000003000\n";

    /* which lines are equal in two runs is chance */
    CHECK_STR_EQ(
            tell(one, other, "at 0x55d06a2c\nat 0x7f0000005000, 3\nat 0x7f0000006000\n", false),
            "line 1 is \"at 0x55d06a2c\" instead of \"at 0x\"");
    CHECK_STR_EQ(
            tell(one, other, "at 0x55d06a2c10\nat 0x7f0000005000, 3\nat 0x55d06a2c10\n", false),
            "same");
    CHECK_STR_EQ(
            tell(one, other, "at 0x7f0000004000\nat 0x7f0000005000, 4\nat 0x7f0000006000\n", false),
            "line 2 is \"at 0x, 4\" instead of \"at 0x, 3\"");
    CHECK_STR_EQ(tell(one, other, "at (nil)\nat 0x7f0000005000, 3\nat 0x7f0000006000\n", false),
            "line 1 is \"at (nil)\" instead of \"at 0x\"");
    CHECK_STR_EQ(tell("0x7f0000001000\n0x7f0000002000\n", "0x7f0000002000\n0x7f0000001000\n",
                         "0x7f0000003000\n0x7f0000002000\n", false),
            "same");
    /* those of a run that always has the same count, as do sums */
    CHECK_STR_EQ(tell("at 0x7f0000001000\nn 1\n", "at 0x7f0000001000\nn 2\n",
                         "at 0x7f0000002000\nn 3\n", false),
            "line 1 is \"at 0x7f0000002000\" instead of \"at 0x7f0000001000\"");
    CHECK_STR_EQ(tell("0x123456789abcdef0\n0x1\n", "0x123456789abcdef1\n0x1\n",
                         "0x123456789abcdef2\n0x2\n", false),
            "line 2 is \"0x2\" instead of \"0x1\"");
}

TEST(a_masked_number_stays_a_number)
{
    CHECK_STR_EQ(tell("loss 0.25\n", "loss 0.26\n", "loss 0.31\n", false), "same");
    CHECK_STR_EQ(tell("loss 0.25\n", "loss 0.26\n", "loss nan\n", false),
            "line 1 is \"loss nan\" instead of \"loss 0.25\"");
    CHECK_STR_EQ(tell("loss 0.25\n", "loss 0.26\n", "loss -inf\n", false),
            "line 1 is \"loss -inf\" instead of \"loss 0.25\"");
    CHECK_STR_EQ(tell("loss 0.25\n", "loss 0.26\n", "loss x1\n", false),
            "line 1 is \"loss x1\" instead of \"loss 0.25\"");
    CHECK_STR_EQ(tell("at 0x1f\n", "at 0x2e\n", "at 0xa0\n", false), "same");
}

TEST(lines_that_only_one_run_has_may_be_there)
{
    const char *one = "50% 1\n90% 2\ndone\n";
    const char *other = "30% 1\ndone\n";

    CHECK_STR_EQ(tell(one, other, "20% 1\n70% 1\n95% 2\ndone\n", false), "same");
    CHECK_STR_EQ(tell(one, other, "done\n50% 3\n", false), "same");
    CHECK_STR_EQ(tell(one, other, "20% 1\n", false), "the line \"done\" is missing");
}

TEST(the_order_counts_unless_it_is_chance)
{
    CHECK_STR_EQ(tell("a\nb\n", "b\na\n", "a\nb\n", false), "same");
    CHECK_STR_EQ(tell("a\nb\nc\n", "b\na\nc\n", "c\na\nb\n", false), "same");
    CHECK_STR_EQ(tell("a\nb\n", NULL, "b\na\n", true), "same");
}

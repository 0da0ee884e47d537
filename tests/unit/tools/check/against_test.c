/* SPDX-License-Identifier: MIT */
/* covers: against.c */
#include "tests/check.h"

#include <stdlib.h>

#include "tools/check/against.h"
#include "tools/load/load.h"

/* Two runs of 100 allocations, 80 of them pairs, all of which were looked at. */
static const struct compare alike = {.all = {100, 1000},
        .all_good = {100, 1000},
        .paired = {80, 800},
        .looked = {80, 800},
        .remaining = {10, 500},
        .remaining_good = {10, 500}};

static enum claim_answer at_most(
        const struct against *against, enum claim_figure figure, uint64_t limit)
{
    char *why;
    struct claim_range range = against_range(against, figure, &why);

    CHECK_EQ(why != NULL, range.high == UINT64_MAX);
    free(why);
    return claim_holds(range, CLAIM_LESS_EQUAL, limit);
}

/* Is the bad run as good as the other one? */
static enum claim_answer as_good(const struct against *against)
{
    return claim_both(at_most(against, CLAIM_LATE, 0),
            claim_both(
                    at_most(against, CLAIM_EXTRA, 0), at_most(against, CLAIM_MORE_REMAINING, 0)));
}

TEST(each_way_of_losing_memory_fails_by_itself)
{
    struct compare c = alike;
    struct against runs = {&c, NULL, true, true, 50};

    CHECK_EQ(as_good(&runs), CLAIM_YES);
    c.never_count = 1; /* a free that never comes is missing as one that comes late */
    CHECK_EQ(at_most(&runs, CLAIM_LATE, 0), CLAIM_NO);
    CHECK_EQ(at_most(&runs, CLAIM_LATE, 1), CLAIM_YES);
    c = alike;
    c.extra_count = 1; /* freed in time after all */
    CHECK_EQ(as_good(&runs), CLAIM_YES);
    c.extra_remaining = (struct trace_sum){1, 1};
    CHECK_EQ(at_most(&runs, CLAIM_EXTRA, 0), CLAIM_NO);
    c = alike;
    c.remaining.bytes++;
    CHECK_EQ(at_most(&runs, CLAIM_MORE_REMAINING, 0), CLAIM_NO);
    CHECK_EQ(at_most(&runs, CLAIM_MORE_REMAINING, 1), CLAIM_YES);
    c.remaining.bytes = 0;
    CHECK_EQ(as_good(&runs), CLAIM_YES);
}

TEST(nobody_can_tell_without_partners)
{
    struct compare c = alike;
    struct against runs = {&c, NULL, true, true, 50};

    c.all_good.count = 161; /* the good run has more of which nothing is known */
    CHECK_EQ(at_most(&runs, CLAIM_EXTRA, 0), CLAIM_UNKNOWN);
    CHECK_EQ(at_most(&runs, CLAIM_MORE_REMAINING, 0), CLAIM_UNKNOWN);
    runs.pairs = 49;
    CHECK_EQ(as_good(&runs), CLAIM_YES);
    runs.pairs = 50;
    c.extra_remaining.count = 5; /* each block without a partner would be one */
    CHECK_EQ(at_most(&runs, CLAIM_EXTRA, 0), CLAIM_UNKNOWN);
    c.late_count = 1; /* but a late free has one */
    CHECK_EQ(at_most(&runs, CLAIM_LATE, 0), CLAIM_NO);
    c = alike;
    c.looked.count = 49;
    CHECK_EQ(at_most(&runs, CLAIM_LATE, 0), CLAIM_UNKNOWN);
    CHECK_EQ(at_most(&runs, CLAIM_EXTRA, 0), CLAIM_YES);
    c = (struct compare){.all = {0, 0}};
    CHECK_EQ(as_good(&runs), CLAIM_UNKNOWN);
}

TEST(nobody_can_tell_of_a_run_that_was_cut_off)
{
    struct compare c = alike;
    struct against bad_cut = {&c, NULL, true, false, 50};
    struct against good_cut = {&c, NULL, false, true, 50};
    struct against partial = {&c, LOAD_LACKS, true, true, 50};

    c.extra_remaining.count = c.remaining.bytes = 5000;
    for (enum claim_figure figure = CLAIM_LATE; figure <= CLAIM_MORE_REMAINING; figure++) {
        CHECK_EQ(at_most(&bad_cut, figure, 0), CLAIM_UNKNOWN);
        CHECK_EQ(at_most(&partial, figure, 0), CLAIM_UNKNOWN);
    }
    CHECK_EQ(at_most(&good_cut, CLAIM_LATE, 0), CLAIM_UNKNOWN);
    CHECK_EQ(at_most(&good_cut, CLAIM_EXTRA, 5000), CLAIM_YES);
    CHECK_EQ(at_most(&good_cut, CLAIM_MORE_REMAINING, 5000), CLAIM_UNKNOWN);
    c.late_count = 1; /* what was found is late all the same */
    CHECK_EQ(at_most(&bad_cut, CLAIM_LATE, 0), CLAIM_NO);
    CHECK_EQ(at_most(&partial, CLAIM_LATE, 0), CLAIM_NO);
}

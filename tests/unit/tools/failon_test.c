/* SPDX-License-Identifier: MIT */
#include "tests/check.h"

#include "tools/failon.h"
#include "tools/load.h"

/* Two runs of 100 allocations, 80 of them pairs, all of which were looked at. */
static const struct compare alike = {.all = {100, 1000},
        .all_good = {100, 1000},
        .paired = {80, 800},
        .looked = {80, 800},
        .remaining = {10, 500},
        .remaining_good = {10, 500}};

static struct failon_result judged(const char *text, const struct failon_runs *runs)
{
    struct failon failon;
    struct failon_result result;

    REQUIRE(failon_parse(text, &failon));
    failon_judge(&failon, runs, &result);
    return result;
}

static enum claim_answer answered(const char *text, const struct failon_runs *runs)
{
    struct failon_result result = judged(text, runs);

    return failon_answer(&result);
}

TEST(what_is_not_named_keeps_its_default)
{
    struct failon failon;

    REQUIRE(failon_parse("remaining>2GiB,late>7", &failon));
    CHECK_EQ(failon.limit[FAILON_LATE], 7);
    CHECK_EQ(failon.limit[FAILON_EXTRA], 0);
    CHECK_EQ(failon.limit[FAILON_REMAINING], UINT64_C(2) << 30);
    CHECK_EQ(failon.limit[FAILON_PAIRS], 50);
    REQUIRE(failon_parse("extra>any", &failon));
    CHECK_EQ(failon.limit[FAILON_EXTRA], FAILON_ANY);
    CHECK(!failon_parse("late>1K", &failon)); /* frees are no bytes */
    CHECK(!failon_parse("late>0default", &failon));
    CHECK(!failon_parse("default,late>0", &failon));
    CHECK(!failon_parse("late>00000000000000000000000000000000000000001", &failon));
}

TEST(each_way_of_losing_memory_fails_by_itself)
{
    struct compare c = alike;
    struct failon_runs runs = {&c, NULL, true, true};

    CHECK_EQ(answered("default", &runs), CLAIM_YES);
    c.never_count = 1; /* a free that never comes is missing as one that comes late */
    CHECK_EQ(answered("default", &runs), CLAIM_NO);
    CHECK_EQ(answered("late>1", &runs), CLAIM_YES);
    c = alike;
    c.extra_count = 1; /* freed in time after all */
    CHECK_EQ(answered("default", &runs), CLAIM_YES);
    c.extra_remaining = (struct trace_sum){1, 1};
    CHECK_EQ(answered("default", &runs), CLAIM_NO);
    c = alike;
    c.remaining.bytes++;
    CHECK_EQ(answered("default", &runs), CLAIM_NO);
    CHECK_EQ(answered("remaining>1", &runs), CLAIM_YES);
    c.remaining.bytes = 0;
    CHECK_EQ(answered("default", &runs), CLAIM_YES);
}

TEST(nobody_can_tell_without_partners)
{
    struct compare c = alike;
    struct failon_runs runs = {&c, NULL, true, true};

    c.all_good.count = 161; /* the good run has more of which nothing is known */
    CHECK_EQ(answered("default", &runs), CLAIM_UNKNOWN);
    CHECK_EQ(answered("pairs<49", &runs), CLAIM_YES);
    c.extra_remaining.count = 5; /* each block without a partner would be one */
    CHECK_EQ(answered("default", &runs), CLAIM_UNKNOWN);
    c.late_count = 1; /* but a late free has one */
    CHECK_EQ(answered("default", &runs), CLAIM_NO);
    c = alike;
    c.looked.count = 49;
    CHECK_EQ(answered("default", &runs), CLAIM_UNKNOWN);
    CHECK_EQ(answered("late>any", &runs), CLAIM_YES);
    c = (struct compare){.all = {0, 0}};
    CHECK_EQ(answered("default", &runs), CLAIM_UNKNOWN);
}

TEST(nobody_can_tell_of_a_run_that_was_cut_off)
{
    struct compare c = alike;
    struct failon_runs bad_cut = {&c, NULL, true, false};
    struct failon_runs good_cut = {&c, NULL, false, true};
    struct failon_runs partial = {&c, LOAD_LACKS, true, true};

    CHECK_EQ(answered("default", &bad_cut), CLAIM_UNKNOWN);
    CHECK_EQ(answered("extra>any", &good_cut), CLAIM_UNKNOWN);
    CHECK_EQ(answered("remaining>any", &good_cut), CLAIM_YES);
    CHECK_EQ(answered("late>any,extra>any,remaining>any", &bad_cut), CLAIM_YES);
    CHECK_EQ(answered("default", &partial), CLAIM_UNKNOWN);
    c.extra_remaining.count = c.remaining.bytes = 5000;
    CHECK_EQ(answered("default", &bad_cut), CLAIM_UNKNOWN);
    CHECK_EQ(answered("default", &partial), CLAIM_UNKNOWN);
}

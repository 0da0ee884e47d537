/* SPDX-License-Identifier: MIT */
#include "alloc/follow.h"
#include "tests/check.h"

/* Where a program is in a plan: exact, with strange requests in between, with some missing, round and round. */

#define STEP 40u

static struct planned step[STEP];

/* Sizes that are all different; no sites. */
static struct follow start(void)
{
    struct follow follow;

    for (uint32_t i = 0; i < STEP; i++)
        step[i] = (struct planned){.size = (i + 1) * 512, .until = PLANNED_STAYS};
    REQUIRE_EQ(follow_init(&follow, step, STEP), 0);
    return follow;
}

static uint32_t ask(struct follow *follow, uint32_t number)
{
    return follow_ask(follow, 1, step[number].size, step[number].site);
}

static void ask_all(struct follow *follow, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        CHECK_EQ(ask(follow, i), i);
}

TEST(a_program_that_repeats_the_step_is_followed_from_the_first_request_on)
{
    struct follow follow = start();

    for (int pass = 0; pass < 3; pass++)
        ask_all(&follow, 0, STEP);
    CHECK_EQ(follow.counts.matched, 3 * STEP);
    CHECK_EQ(follow.counts.steps, 3);
    CHECK_EQ(follow.counts.unmatched + follow.counts.skipped + follow.counts.resyncs, 0);
    follow_done(&follow);
}

TEST(a_request_that_the_plan_does_not_have_is_nothing_to_it)
{
    struct follow follow = start();

    ask_all(&follow, 0, 20);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(follow_ask(&follow, 1, 100 * 512 + i * 512, 0), FOLLOW_NONE);
    ask_all(&follow, 20, STEP);
    CHECK_EQ(follow.counts.unmatched, 5);
    CHECK_EQ(follow.counts.skipped, 0);
    CHECK_EQ(follow.counts.resyncs, 0);
    follow_done(&follow);
}

TEST(a_block_that_is_not_asked_for_is_skipped)
{
    struct follow follow = start();

    ask_all(&follow, 0, 20);
    ask_all(&follow, 23, STEP);
    ask_all(&follow, 0, STEP);
    CHECK_EQ(follow.counts.skipped, 3);
    CHECK_EQ(follow.counts.matched, 2 * STEP - 3);
    follow_done(&follow);
}

TEST(blocks_that_change_places_are_found)
{
    struct follow follow = start();

    ask_all(&follow, 0, 10);
    CHECK_EQ(ask(&follow, 11), 11);
    CHECK_EQ(ask(&follow, 10), 10);
    CHECK_EQ(ask(&follow, 14), 14);
    CHECK_EQ(ask(&follow, 12), 12);
    CHECK_EQ(ask(&follow, 13), 13);
    ask_all(&follow, 15, STEP);
    ask_all(&follow, 0, STEP);
    CHECK_EQ(follow.counts.unmatched + follow.counts.skipped, 0);
    follow_done(&follow);
}

TEST(a_step_that_ends_early_is_followed_by_the_next)
{
    struct follow follow = start();

    ask_all(&follow, 0, STEP);
    ask_all(&follow, 0, 15);
    for (uint32_t i = 0; i + 1 < FOLLOW_CONFIRM; i++)
        CHECK_EQ(ask(&follow, i), FOLLOW_NONE);
    ask_all(&follow, FOLLOW_CONFIRM - 1, STEP);
    CHECK_EQ(follow.counts.resyncs, 1);
    CHECK_EQ(follow.counts.steps, 3);
    CHECK_EQ(follow.counts.unmatched, FOLLOW_CONFIRM - 1);
    follow_done(&follow);
}

TEST(a_program_that_comes_to_the_step_later_is_found_by_a_row_of_requests)
{
    struct follow follow = start();

    for (uint32_t i = 0; i < 100; i++)
        CHECK_EQ(follow_ask(&follow, 1, (100 + i) * 512, 0), FOLLOW_NONE);
    CHECK(follow_is_lost(&follow));
    for (uint32_t i = 0; i + 1 < FOLLOW_CONFIRM; i++)
        CHECK_EQ(ask(&follow, i), FOLLOW_NONE);
    ask_all(&follow, FOLLOW_CONFIRM - 1, STEP);
    ask_all(&follow, 0, STEP);
    CHECK_EQ(follow.counts.skipped, 0);
    follow_done(&follow);
}

/* Weights: single familiar sizes, before the step or in it, must not be taken for the step. */
TEST(familiar_sizes_alone_are_no_step)
{
    struct follow follow = start();

    CHECK_EQ(follow_ask(&follow, 1, 77 * 512, 0), FOLLOW_NONE);
    for (uint32_t i = STEP; i-- > 0;)
        CHECK_EQ(ask(&follow, i), FOLLOW_NONE);
    CHECK(follow_is_lost(&follow));
    CHECK_EQ(follow.counts.matched, 0);
    follow_done(&follow);
}

TEST(a_program_that_leaves_the_step_is_lost_and_found_again)
{
    struct follow follow = start();

    ask_all(&follow, 0, 30);
    for (uint32_t i = 0; i < 50; i++)
        (void)follow_ask(&follow, 1, (200 + i) * 512, 0);
    CHECK(follow_is_lost(&follow));
    for (uint32_t i = 30; i < 33; i++)
        CHECK_EQ(ask(&follow, i), FOLLOW_NONE);
    ask_all(&follow, 33, STEP);
    ask_all(&follow, 0, STEP);
    CHECK_EQ(follow.counts.resyncs, 1);
    follow_done(&follow);
}

TEST(a_site_tells_blocks_of_one_size_apart)
{
    struct follow follow;

    for (uint32_t i = 0; i < STEP; i++)
        step[i] = (struct planned){.size = 512, .site = 100 + i, .until = PLANNED_STAYS};
    REQUIRE_EQ(follow_init(&follow, step, STEP), 0);
    for (uint32_t i = 0; i < 10; i++)
        CHECK_EQ(follow_ask(&follow, 1, 512, 7), FOLLOW_NONE);
    for (uint32_t i = 20; i + 1 < 20 + FOLLOW_CONFIRM; i++)
        CHECK_EQ(ask(&follow, i), FOLLOW_NONE);
    ask_all(&follow, 20 + FOLLOW_CONFIRM - 1, STEP);
    CHECK_EQ(follow_ask(&follow, 1, 512, 7), FOLLOW_NONE);
    ask_all(&follow, 0, 10);
    /* a run that takes no stacks knows sizes only */
    CHECK_EQ(follow_ask(&follow, 1, 512, 0), 10);
    follow_done(&follow);
}

TEST(a_plan_of_one_block_is_followed)
{
    static const struct planned one = {.size = 1024, .until = PLANNED_STAYS};
    struct follow follow;

    REQUIRE_EQ(follow_init(&follow, &one, 1), 0);
    CHECK_EQ(follow_ask(&follow, 1, 1024, 0), 0);
    CHECK_EQ(follow_ask(&follow, 1, 512, 0), FOLLOW_NONE);
    CHECK_EQ(follow_ask(&follow, 1, 1024, 5), 0);
    CHECK_EQ(follow_ask(&follow, 1, 1024, 5), 0);
    CHECK_EQ(follow.counts.steps, 3);
    follow_done(&follow);
}

/* Layers are alike: the step is a row of equal rows, and a program that skips one is soon back at the right place. */
TEST(a_step_of_equal_layers_is_followed_past_one_that_is_missing)
{
    enum {
        LAYER = 8,
        LAYERS = 10,
        ALL = LAYER * LAYERS + 5
    };
    static struct planned layers[ALL];
    struct follow follow;
    uint32_t right = 0;

    for (uint32_t i = 0; i < ALL; i++)
        layers[i] = (struct planned){.size = i < LAYER * LAYERS ? (1 + i % LAYER) * 512 : i * 4096,
                .until = PLANNED_STAYS};
    REQUIRE_EQ(follow_init(&follow, layers, ALL), 0);
    for (uint32_t pass = 0; pass < 4; pass++)
        for (uint32_t i = 0; i < ALL; i++)
            if (pass != 1 || i < 3 * LAYER || i >= 4 * LAYER)
                right += follow_ask(&follow, 1, layers[i].size, 0) == i;
    CHECK_GE(right, 4 * ALL - LAYER * LAYERS);
    for (uint32_t i = 0; i < ALL; i++)
        CHECK_EQ(follow_ask(&follow, 1, layers[i].size, 0), i);
    follow_done(&follow);
}

/* A request is compared with a bounded number of blocks: a million of one size behind one another make none slow. */
TEST(strange_requests_cost_the_same_in_a_long_plan)
{
    enum {
        MANY = 1 << 20
    };
    struct planned *many = calloc(MANY, sizeof(*many));
    struct follow follow;

    REQUIRE(many != NULL);
    for (uint32_t i = 0; i < MANY; i++)
        many[i] = (struct planned){.size = i % 2 ? 512 : 1024, .until = PLANNED_STAYS};
    REQUIRE_EQ(follow_init(&follow, many, MANY), 0);
    for (uint32_t i = 0; i < 300000; i++)
        (void)follow_ask(&follow, 1, i % 3 ? 1024 : 512, 0);
    CHECK_EQ(follow.counts.matched + follow.counts.unmatched, 300000);
    follow_done(&follow);
    free(many);
}

/* A plan is of one stream; which one, its requests say, however many others there are in between. */
TEST(what_other_streams_ask_for_is_nothing_to_it)
{
    struct follow follow = start();

    for (int pass = 0; pass < 3; pass++) {
        for (uint32_t i = 0; i < STEP; i++) {
            for (uint64_t other = 1; other < 6; other++)
                CHECK_EQ(follow_ask(&follow, other, step[(i * 7 + other) % STEP].size, 0),
                        FOLLOW_NONE);
            CHECK_EQ(follow_ask(&follow, 77, step[i].size, 0), i);
        }
    }
    CHECK_EQ(follow.counts.resyncs, 0);
    CHECK_EQ(follow.counts.skipped, 0);
    follow_done(&follow);
}

TEST(a_plan_of_all_streams_is_followed_whoever_asks)
{
    struct follow follow = start();

    follow.all_streams = true;
    for (uint32_t i = 0; i < 3 * STEP; i++)
        CHECK_EQ(follow_ask(&follow, i % 5, step[i % STEP].size, 0), i % STEP);
    follow_done(&follow);
}

TEST(a_stream_that_is_not_heard_of_any_more_is_left_for_another)
{
    struct follow follow = start();
    uint32_t right = 0;

    ask_all(&follow, 0, 10);
    for (uint32_t i = 0; i < 3 * STEP; i++)
        right += follow_ask(&follow, 2, step[i % STEP].size, 0) == i % STEP;
    CHECK_GE(right, 3 * STEP - FOLLOW_AWAY - FOLLOW_CONFIRM);
    follow_done(&follow);
}

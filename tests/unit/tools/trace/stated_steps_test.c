/* SPDX-License-Identifier: MIT */
/* covers: stated_steps.c */
#include "tests/check.h"
#include "tests/unit/tools/story.h"

#include "tools/trace/stated_steps.h"

static void work(struct story *s, int count)
{
    for (int i = 0; i < count; i++)
        story_free(s, story_alloc(s, 7, 4096));
}

static void range(struct story *s, const char *name, int count)
{
    (void)story_enter(s, name);
    work(s, count);
    story_exit(s);
}

static void check_family(struct story *s, const char *family, size_t count)
{
    struct stated_steps stated;

    stated_steps_find(s->trace, &stated);
    if (family)
        CHECK_STR_EQ(stated.family ? stated.family : "(none)", family);
    else
        CHECK(stated.family == NULL);
    CHECK_EQ(stated.count, count);
    for (size_t i = 1; i < stated.count; i++)
        CHECK(stated.spans[i - 1].behind <= stated.spans[i].first);
    stated_steps_done(&stated);
    story_end(s);
}

TEST(what_is_called_a_step_is_one_wherever_it_stands)
{
    struct story s = story_begin();
    (void)story_enter(&s, "train");
    for (int i = 0; i < 2; i++) {
        (void)story_enter(&s, "Step");
        range(&s, "forward", 3);
        range(&s, "backward", 3);
        story_exit(&s);
    }
    story_exit(&s);
    check_family(&s, "train/Step", 2);
}

TEST(names_that_differ_in_digits_are_one_family)
{
    struct story s = story_begin();
    work(&s, 3);
    for (int i = 8; i < 12; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "CALL_%d_of_12", i);
        range(&s, name, 2);
    }
    check_family(&s, "CALL_#_of_#", 4);
}

TEST(what_stands_on_its_own_must_come_three_times_and_hold_half)
{
    struct story s = story_begin();
    range(&s, "phase", 9);
    range(&s, "phase", 9);
    check_family(&s, NULL, 0);

    s = story_begin();
    for (int i = 0; i < 3; i++)
        range(&s, "phase", 2);
    work(&s, 7);
    check_family(&s, NULL, 0);

    s = story_begin();
    for (int i = 0; i < 3; i++)
        range(&s, "phase", 2);
    work(&s, 6);
    check_family(&s, "phase", 3);
}

TEST(ranges_of_several_threads_at_once_are_no_steps)
{
    struct story s = story_begin();
    for (int i = 0; i < 3; i++) {
        story_thread(&s, 0);
        (void)story_enter(&s, "step");
        work(&s, 1);
        story_thread(&s, 1);
        (void)story_enter(&s, "step");
        work(&s, 1);
        story_thread(&s, 0);
        story_exit(&s);
        story_thread(&s, 1);
        story_exit(&s);
    }
    check_family(&s, NULL, 0);
}

TEST(a_mark_reaches_to_the_next_one)
{
    struct story s = story_begin();
    struct stated_steps stated;
    for (int i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "START STEP %d", i);
        trace_add_edge(s.trace, TRACE_MARK, trace_add_anchor(s.trace, name, TRACE_NONE), 0);
        work(&s, 5);
    }
    stated_steps_find(s.trace, &stated);
    CHECK_STR_EQ(stated.family ? stated.family : "(none)", "START STEP #");
    REQUIRE_EQ(stated.count, 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(stated.spans[i].first, 11 * i);
        CHECK_EQ(stated.spans[i].behind, 11 * (i + 1));
    }
    stated_steps_done(&stated);
    story_end(&s);
}

TEST(a_range_that_is_open_at_the_end_is_a_step)
{
    struct story s = story_begin();
    range(&s, "step", 2);
    range(&s, "step", 2);
    (void)story_enter(&s, "step");
    work(&s, 1);
    check_family(&s, "step", 3);
}

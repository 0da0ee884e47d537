/* SPDX-License-Identifier: MIT */
/* covers: stepview.c */
#include "tests/check.h"
#include "tests/unit/tools/story.h"

#include "tools/base/vec.h"
#include "tools/steps/growth.h"

enum {
    STEPS = 10,
    OF_STEP = 14, /* events */
    SET_UP = 3,
};

/* Three that stay; then steps of 7 allocations. With `leak` a block of 100 more stays in each, at the size 64. */
static struct story run(bool leak)
{
    struct story s = story_begin();

    for (uint64_t i = 0; i < SET_UP; i++)
        (void)story_alloc(&s, 1, 1000);
    for (int i = 0; i < STEPS; i++) {
        uint32_t held[5];
        for (uint64_t k = 0; k < 5; k++)
            held[k] = story_alloc(&s, 10 + k, 100 * (k + 1));
        story_free(&s, story_alloc(&s, 20, 5000));
        for (int k = 4; k >= 0; k--)
            story_free(&s, held[k]);
        if (leak)
            (void)story_alloc(&s, 30, 64);
        else
            story_free(&s, story_alloc(&s, 30, 64));
    }
    return s;
}

static struct load load_of(const struct story *s)
{
    struct load load = {.trace = s->trace};

    for (size_t i = 0; i < s->trace->event_count; i++) {
        s->trace->events[i].seq = 100 + i;
        s->trace->events[i].time_ns = 1000 * (i + 1);
    }
    return load;
}

static struct model_window all_of(const struct story *s)
{
    return (struct model_window){.first = 0, .last = (uint32_t)s->trace->event_count};
}

TEST(r90_each_detected_step_has_its_figures)
{
    struct story s = run(false);
    struct load load = load_of(&s);
    struct stepview view;

    stepview_find(&load, all_of(&s), STEPVIEW_ANY, &view);
    CHECK_EQ(view.origin, STEPVIEW_DETECTED);
    REQUIRE_EQ(view.row_count, STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        const struct stepview_row *row = &view.rows[i];
        CHECK_EQ(row->first, SET_UP + OF_STEP * i);
        CHECK_EQ(row->behind, SET_UP + OF_STEP * (i + 1));
        CHECK_EQ(row->live_begin, 3000);
        CHECK_EQ(row->live_end, 3000);
        CHECK_EQ(row->peak, 3000 + 1500 + 5000);
        CHECK_EQ(row->allocated, 1500 + 5000 + 64);
        CHECK_EQ(row->allocated_count, 7);
        CHECK_EQ(row->freed_count, 7);
    }
    stepview_done(&view);
    story_end(&s);
}

/* Detected rounds, too. */
TEST(what_each_step_keeps_grows)
{
    struct story s = run(true);
    struct load load = load_of(&s);
    struct stepview view;
    struct growth growth;

    stepview_find(&load, all_of(&s), STEPVIEW_ANY, &view);
    REQUIRE_EQ(view.row_count, STEPS);
    CHECK_EQ(view.rows[4].live_end - view.rows[4].live_begin, 64);
    growth_find(&load, all_of(&s), &view, &growth);
    REQUIRE_EQ(growth.counts[TREND_GROWS], 1);
    CHECK_EQ(growth.sites[0].size, 64); /* the story has no stacks */
    CHECK_EQ(growth.sites[0].is.first, 64);
    CHECK_EQ(growth.sites[0].is.last, 64 * STEPS);
    CHECK_EQ(growth.sites[0].is.rises, STEPS - 1);
    CHECK_EQ(growth.sites[0].is.since, 1);
    growth_done(&growth);
    growth_find(&load, all_of(&s), NULL, &growth);
    CHECK_EQ(growth.kind_count, 0);
    growth_done(&growth);
    stepview_done(&view);
    story_end(&s);
}

TEST(nothing_is_told_of_what_a_ring_has_lost)
{
    struct story s = run(false);
    struct load load = load_of(&s);
    struct stepview view;

    load.complete_from = SET_UP + 2 * OF_STEP + 1;
    stepview_find(&load, all_of(&s), STEPVIEW_ANY, &view);
    REQUIRE_EQ(view.row_count, STEPS - 2); /* the first of them lacks one allocation */
    CHECK_EQ(view.rows[0].first, SET_UP + 2 * OF_STEP + 1);
    for (uint32_t i = 1; i < view.row_count; i++)
        CHECK_EQ(view.rows[i].first, SET_UP + OF_STEP * (i + 2));
    stepview_done(&view);

    load.complete_from = TRACE_NEVER;
    stepview_find(&load, all_of(&s), STEPVIEW_ANY, &view);
    CHECK_EQ(view.period.kind, PERIOD_NONE);
    CHECK_EQ(view.row_count, 0);
    stepview_done(&view);
    story_end(&s);
}

TEST(a_window_has_only_the_steps_in_it)
{
    struct story s = run(false);
    struct load load = load_of(&s);
    struct model_window window = {.first = SET_UP + OF_STEP, .last = SET_UP + 6 * OF_STEP};
    struct stepview view;

    stepview_find(&load, window, STEPVIEW_ONLY_DETECTED, &view);
    REQUIRE_EQ(view.row_count, 5);
    CHECK_EQ(view.rows[0].first, window.first);
    CHECK_EQ(view.rows[4].behind, window.last);
    CHECK_EQ(view.rows[0].live_begin, 3000);
    stepview_done(&view);
    story_end(&s);
}

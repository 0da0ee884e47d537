/* SPDX-License-Identifier: MIT */
/* covers: model.c */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/trace/model.h"

#include <errno.h>

#define UNIT 3538944u /* 3.38 MB: the three of them are the seed's sub-graph */

static struct model_figures whole(const struct story *story)
{
    struct model_figures figures;
    model_figure(story->trace, model_whole(story->trace), NULL, &figures);
    return figures;
}

static struct model_figures between(const struct story *story, const char *from, const char *to)
{
    struct model_window window = {0};
    struct model_figures figures;
    const char *missing;
    REQUIRE_EQ(model_find_window(story->trace, from, to, &window, &missing), 0);
    model_figure(story->trace, window, NULL, &figures);
    return figures;
}

/* The sub-graph of Paddle #66278: a strided input from before, its contiguous copy, two more tensors. */
static struct story subgraph(bool good, uint32_t *ret_copy)
{
    struct story s = story_begin();
    uint32_t input = story_alloc(&s, 1, UNIT);
    story_enter(&s, "SOT_CALL_0");
    uint32_t copy = story_alloc(&s, 2, UNIT);
    uint32_t middle = story_alloc(&s, 3, UNIT);
    (void)story_alloc(&s, 4, UNIT);
    story_free(&s, middle);
    if (good)
        story_free(&s, copy);
    story_exit(&s);
    if (!good)
        story_free(&s, copy);
    story_free(&s, input);
    if (ret_copy)
        *ret_copy = copy;
    return s;
}

TEST(the_bad_subgraph_has_the_seeds_figures)
{
    struct story s = subgraph(false, NULL);
    struct model_figures f = between(&s, "SOT_CALL_0", "SOT_CALL_0");
    CHECK_EQ(f.remaining, 2 * UNIT);
    CHECK_EQ(f.max, 3 * UNIT);
    CHECK_EQ(f.allocated, 3 * UNIT);
    CHECK_EQ(f.allocated_count, 3);
    CHECK_EQ(f.freed, UNIT);
    CHECK_EQ(f.freed_count, 1);
    story_end(&s);
}

TEST(the_good_subgraph_has_the_seeds_figures)
{
    struct story s = subgraph(true, NULL);
    struct model_figures f = between(&s, "SOT_CALL_0", "SOT_CALL_0");
    CHECK_EQ(f.remaining, UNIT);
    CHECK_EQ(f.max, 3 * UNIT);
    CHECK_EQ(f.allocated, 3 * UNIT);
    CHECK_EQ(f.allocated_count, 3);
    CHECK_EQ(f.freed, 2 * UNIT);
    CHECK_EQ(f.freed_count, 2);
    story_end(&s);
}

TEST(blocks_from_before_the_window_change_only_the_peaks)
{
    struct story s = story_begin();
    uint32_t before = story_alloc(&s, 1, 1000);
    uint32_t early = story_alloc(&s, 1, 500);
    story_free(&s, early);
    story_enter(&s, "A");
    uint32_t inside = story_alloc(&s, 2, 100);
    story_free(&s, before);
    story_free(&s, inside);
    (void)story_alloc(&s, 2, 10);
    story_exit(&s);
    struct model_figures f = between(&s, "A", "A");
    CHECK_EQ(f.remaining, 10);
    CHECK_EQ(f.max, 100);
    CHECK_EQ(f.freed, 100);
    CHECK_EQ(f.freed_count, 1);
    CHECK_EQ(f.outside_freed, 1000);
    CHECK_EQ(f.outside_freed_count, 1);
    CHECK_EQ(f.peak_live, 1100); /* the 1500 of before are over */
    CHECK_EQ(f.hinted.remaining, 10);
    CHECK_EQ(f.hinted.freed, 100);
    CHECK_EQ(f.would.max, 100);
    story_end(&s);
}

TEST(a_window_runs_from_the_first_enter_to_the_last_exit)
{
    struct story s = story_begin();
    for (int i = 0; i < 3; i++) {
        story_enter(&s, "step");
        (void)story_alloc(&s, 1, 1);
        story_exit(&s);
        (void)story_alloc(&s, 2, 100);
    }
    struct model_figures f = between(&s, "step", "step");
    CHECK_EQ(f.allocated_count, 5);
    CHECK_EQ(f.allocated, 203);
    CHECK_EQ(between(&s, "step", NULL).allocated_count, 6);
    CHECK_EQ(whole(&s).allocated_count, 6);
    story_end(&s);
}

TEST(windows_are_found_by_the_last_part_of_a_path_and_unknown_names_are_told)
{
    struct story s = story_begin();
    struct model_window window = {0};
    const char *missing = NULL;
    story_enter(&s, "epoch");
    story_enter(&s, "step");
    (void)story_alloc(&s, 1, 7);
    story_exit(&s);
    story_exit(&s);
    CHECK_EQ(between(&s, "step", "step").allocated, 7);
    CHECK_EQ(between(&s, "epoch/step", "epoch").allocated, 7);
    CHECK_EQ(model_find_window(s.trace, "nothing", NULL, &window, &missing), -ENOENT);
    CHECK_STR_EQ(missing, "nothing");
    CHECK_EQ(model_find_window(s.trace, NULL, "", &window, &missing), -ENOENT);
    story_end(&s);
}

/* As reports print instances: "step (2)". */
TEST(a_window_may_be_one_instance_of_an_anchor)
{
    struct story s = story_begin();
    struct model_window window = {0};
    const char *missing = NULL;
    uint32_t instance;

    story_enter(&s, "epoch");
    for (uint64_t size = 1; size <= 8; size *= 2) {
        story_enter(&s, "step");
        (void)story_alloc(&s, 1, size);
        story_exit(&s);
    }
    story_exit(&s);
    CHECK_EQ(between(&s, "step (2)", "step (3)").allocated, 6);
    CHECK_EQ(between(&s, "epoch/step (1)", "step (1)").allocated, 1);
    CHECK_EQ(between(&s, "step", "step (2)").allocated, 3);
    CHECK_EQ(model_find_window(s.trace, "step (5)", NULL, &window, &missing), -ENOENT);
    CHECK_STR_EQ(missing, "step (5)");
    CHECK_EQ(between(&s, "step:2", "epoch/step:3").allocated, 6);
    CHECK_EQ(model_name_length("step (12)", &instance), 4);
    CHECK_EQ(instance, 11);
    CHECK_EQ(model_name_length("a:step:12", &instance), 6);
    CHECK_EQ(instance, 11);
    static const char *const plain[] = {"step (0)", "step ()", "step (1x)", "step(1)", "step (1) ",
            "(1)", "step (99999999999)", "step:", "step:0", "step:1x", ":1", "ns::f"};
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
        CHECK_EQ(model_name_length(plain[i], &instance), strlen(plain[i]));
        CHECK_EQ(instance, TRACE_NONE);
    }
    story_end(&s);
}

TEST(a_window_that_ends_before_it_begins_is_refused)
{
    struct story s = story_begin();
    struct model_window window = {0};
    const char *missing = NULL;
    story_enter(&s, "A");
    story_exit(&s);
    story_enter(&s, "B");
    story_exit(&s);
    CHECK_EQ(model_find_window(s.trace, "B", "A", &window, &missing), -ERANGE);
    CHECK_EQ(model_find_window(s.trace, "A", "B", &window, &missing), 0);
    story_end(&s);
}

TEST(an_anchor_that_was_never_left_ends_with_the_process)
{
    struct story s = story_begin();
    story_enter(&s, "A");
    (void)story_alloc(&s, 1, 5);
    CHECK_EQ(between(&s, "A", "A").remaining, 5);
    story_end(&s);
}

/* With hints the bad form's figures are the good form's, byte for byte. */
TEST(a_release_at_the_exit_makes_bad_equal_good)
{
    struct story s = story_begin();
    uint32_t anchor = story_enter(&s, "SOT_CALL_0");
    uint32_t copy = story_alloc(&s, 2, UNIT);
    uint32_t middle = story_alloc(&s, 3, UNIT);
    (void)story_alloc(&s, 4, UNIT);
    story_free(&s, middle);
    story_exit(&s);
    story_release(&s, copy, anchor, HINT_LIVE);
    story_free(&s, copy);

    struct model_figures f = between(&s, "SOT_CALL_0", "SOT_CALL_0");
    CHECK_EQ(f.remaining, 2 * UNIT);
    CHECK_EQ(f.freed, UNIT);
    CHECK_EQ(f.hinted.remaining, UNIT);
    CHECK_EQ(f.hinted.max, 3 * UNIT);
    CHECK_EQ(f.hinted.freed, 2 * UNIT);
    CHECK_EQ(f.hinted.freed_count, 2);
    CHECK_EQ(f.hinted.released, UNIT);
    CHECK_EQ(f.hinted.released_count, 1);
    story_end(&s);
}

TEST(the_programs_later_free_of_released_storage_counts_nothing_twice)
{
    struct story s = story_begin();
    uint32_t anchor = story_enter(&s, "A");
    uint32_t x = story_alloc(&s, 1, 100);
    story_exit(&s);
    story_release(&s, x, anchor, HINT_LIVE);
    uint32_t y = story_alloc(&s, 1, 60);
    story_free(&s, x);
    story_free(&s, y);

    struct model_figures f = whole(&s);
    CHECK_EQ(f.max, 160);
    CHECK_EQ(f.hinted.max, 100);
    CHECK_EQ(f.freed, 160);
    CHECK_EQ(f.hinted.freed, 160);
    CHECK_EQ(f.hinted.freed_count, 2);
    CHECK_EQ(f.hinted.released, 100);
    CHECK_EQ(f.remaining, 0);
    CHECK_EQ(f.hinted.remaining, 0);
    story_end(&s);
}

TEST(shadow_and_trap_change_nothing_but_say_what_they_would)
{
    struct story s = story_begin();
    uint32_t anchor = story_enter(&s, "A");
    uint32_t x = story_alloc(&s, 1, 100);
    uint32_t y = story_alloc(&s, 1, 50);
    story_exit(&s);
    story_release(&s, x, anchor, HINT_SHADOW);
    story_release(&s, y, anchor, HINT_TRAP);
    (void)story_alloc(&s, 1, 10);

    struct model_figures f = whole(&s);
    CHECK_EQ(f.hinted.released_count, 0);
    CHECK_EQ(f.hinted.max, f.max);
    CHECK_EQ(f.hinted.remaining, f.remaining);
    CHECK_EQ(f.would.released, 150);
    CHECK_EQ(f.would.remaining, 10);
    CHECK_EQ(f.would.max, 150);
    CHECK_EQ(f.max, 160);
    story_end(&s);
}

TEST(a_release_recorded_before_its_exit_event_counts_too)
{
    struct story s = story_begin();
    uint32_t anchor = story_enter(&s, "A");
    uint32_t x = story_alloc(&s, 1, 100);
    story_release(&s, x, anchor, HINT_LIVE);
    story_exit(&s);
    CHECK_EQ(between(&s, "A", "A").hinted.remaining, 0);
    story_end(&s);
}

TEST(a_block_freed_before_its_release_was_not_released)
{
    struct story s = story_begin();
    struct model_figures f;
    uint32_t x = story_alloc(&s, 1, 100);
    story_free(&s, x);
    (void)story_alloc(&s, 1, 1);
    uint32_t at[2] = {2, TRACE_NEVER};
    model_figure(s.trace, model_whole(s.trace), at, &f);
    CHECK_EQ(f.hinted.released_count, 0);
    CHECK_EQ(f.hinted.freed_count, 1);
    CHECK_EQ(f.hinted.remaining, 1);
    story_end(&s);
}

TEST(peak_reserved_is_what_was_held_in_the_window)
{
    struct story s = story_begin();
    trace_add_reserved(s.trace, 0, 4000);
    trace_add_reserved(s.trace, 0, 1000);
    story_enter(&s, "A");
    (void)story_alloc(&s, 1, 100);
    story_exit(&s);
    story_enter(&s, "B");
    trace_add_reserved(s.trace, 0, 3000);
    story_exit(&s);
    CHECK_EQ(whole(&s).peak_reserved, 4000);
    CHECK_EQ(between(&s, "A", "A").peak_reserved, 1000);
    CHECK_EQ(between(&s, "A", "B").peak_reserved, 3000);
    story_end(&s);
}

TEST(peak_live_is_also_counted_in_blocks_of_512)
{
    struct story s = story_begin();
    uint32_t x = story_alloc(&s, 1, 1);
    (void)story_alloc(&s, 1, 512);
    story_free(&s, x);
    CHECK_EQ(whole(&s).peak_live, 513);
    CHECK_EQ(whole(&s).peak_live_512, 1024);
    CHECK_EQ(whole(&s).peak_stored_512, 1024);
    story_end(&s);
}

TEST(released_storage_needs_no_room_and_is_not_subtracted_twice)
{
    struct story s = story_begin();
    uint32_t anchor = story_enter(&s, "A");
    uint32_t x = story_alloc(&s, 1, 512);
    uint32_t y = story_alloc(&s, 1, 1024);
    story_exit(&s);
    story_release(&s, x, anchor, HINT_LIVE);
    story_release(&s, x, anchor, HINT_LIVE);
    story_release(&s, y, anchor, HINT_SHADOW);
    story_free(&s, x);
    (void)story_alloc(&s, 1, 2048);
    CHECK_EQ(whole(&s).peak_live_512, 3072);
    CHECK_EQ(whole(&s).peak_stored_512, 3072);
    (void)y;
    story_end(&s);

    s = story_begin();
    anchor = story_enter(&s, "A");
    x = story_alloc(&s, 1, 512);
    story_exit(&s);
    story_release(&s, x, anchor, HINT_LIVE);
    (void)story_alloc(&s, 1, 2048);
    CHECK_EQ(whole(&s).peak_live_512, 2560);
    CHECK_EQ(whole(&s).peak_stored_512, 2048);
    CHECK_EQ(whole(&s).hinted.released_count, 1);
    story_end(&s);
}

TEST(an_anchor_counts_the_blocks_of_the_anchors_inside_it)
{
    struct story s = story_begin();
    uint32_t outer = story_enter(&s, "step");
    uint32_t x = story_alloc(&s, 1, 100);
    uint32_t inner = story_enter(&s, "forward");
    uint32_t y = story_alloc(&s, 1, 10);
    story_free(&s, x);
    story_exit(&s);
    story_free(&s, y);
    (void)story_alloc(&s, 1, 1);
    story_exit(&s);

    struct model_figures *f = model_figure_anchors(s.trace, model_whole(s.trace));
    CHECK_EQ(f[outer].allocated, 111);
    CHECK_EQ(f[outer].freed, 110);
    CHECK_EQ(f[outer].remaining, 1);
    CHECK_EQ(f[outer].max, 110);
    CHECK_EQ(f[inner].allocated, 10);
    CHECK_EQ(f[inner].freed,
            0); /* its own block is freed after its exit, the other's is not its own */
    CHECK_EQ(f[inner].remaining, 10);
    CHECK_EQ(f[inner].peak_live, 110);
    CHECK_EQ(f[0].allocated, 111);
    free(f);
    story_end(&s);
}

TEST(threads_in_two_anchors_at_once_do_not_mix)
{
    struct story s = story_begin();
    uint32_t a = story_enter(&s, "A");
    story_thread(&s, 1);
    uint32_t b = story_enter(&s, "B");
    uint32_t y = story_alloc(&s, 2, 10);
    story_thread(&s, 0);
    (void)story_alloc(&s, 1, 100);
    story_free(&s, y); /* by the other thread: still B's block */
    story_exit(&s);
    story_thread(&s, 1);
    story_exit(&s);

    struct model_figures *f = model_figure_anchors(s.trace, model_whole(s.trace));
    CHECK_EQ(f[a].allocated, 100);
    CHECK_EQ(f[a].freed, 0);
    CHECK_EQ(f[b].allocated, 10);
    CHECK_EQ(f[b].freed, 10);
    free(f);
    story_end(&s);
}

TEST(instances_of_an_anchor_have_figures_and_releases_of_their_own)
{
    struct story s = story_begin();
    uint32_t first = story_enter(&s, "A");
    uint32_t x = story_alloc(&s, 1, 100);
    story_exit(&s);
    story_release(&s, x, first, HINT_LIVE);
    uint32_t second = story_enter(&s, "A");
    (void)story_alloc(&s, 1, 70);
    story_exit(&s);

    struct model_figures *f = model_figure_anchors(s.trace, model_whole(s.trace));
    CHECK_EQ(s.trace->anchors[second].instance, 1);
    CHECK_EQ(f[first].hinted.released, 100);
    CHECK_EQ(f[first].hinted.remaining, 0);
    CHECK_EQ(f[first].remaining, 100);
    CHECK_EQ(f[second].hinted.released, 0);
    CHECK_EQ(f[second].hinted.remaining, 70);
    CHECK_EQ(f[0].hinted.max, 100);
    free(f);
    story_end(&s);
}

TEST(a_block_released_in_shadow_and_freed_later_in_the_anchor_counts_as_freed)
{
    struct story s = story_begin();
    uint32_t outer = story_enter(&s, "step");
    uint32_t inner = story_enter(&s, "forward");
    uint32_t x = story_alloc(&s, 1, 100);
    uint32_t y = story_alloc(&s, 1, 10);
    story_exit(&s);
    story_release(&s, x, inner, HINT_SHADOW);
    story_release(&s, y, inner, HINT_LIVE);
    story_free(&s, x);
    story_free(&s, y);
    story_exit(&s);

    struct model_figures *f = model_figure_anchors(s.trace, model_whole(s.trace));
    CHECK_EQ(f[outer].freed, 110);
    CHECK_EQ(f[outer].hinted.freed, 110);
    CHECK_EQ(f[outer].hinted.freed_count, 2);
    CHECK_EQ(f[outer].hinted.released, 10);
    CHECK_EQ(f[outer].would.freed_count, 2);
    CHECK_EQ(f[outer].would.released, 110);
    CHECK_EQ(f[outer].hinted.remaining, 0);
    free(f);
    story_end(&s);
}

TEST(live_blocks_are_summed_by_stack_largest_first)
{
    struct story s = story_begin();
    struct trace_frame frame = {TRACE_NONE, 1};
    uint32_t one = trace_add_stack(s.trace, &frame, 1, false);
    uint32_t two = trace_add_stack(s.trace, &frame, 1, false);
    struct trace_block birth = {.address = 1, .size = 10, .stack = one, .nth = TRACE_COUNT_NTH};
    size_t count;
    (void)trace_add_alloc(s.trace, &birth);
    birth = (struct trace_block){.address = 2, .size = 30, .stack = two, .nth = TRACE_COUNT_NTH};
    (void)trace_add_alloc(s.trace, &birth);
    birth = (struct trace_block){.address = 3, .size = 5, .stack = one, .nth = TRACE_COUNT_NTH};
    (void)trace_add_alloc(s.trace, &birth);
    (void)trace_add_free(s.trace, 2, 0);
    birth = (struct trace_block){
            .address = 4, .size = 9, .stack = two, .device = 1, .nth = TRACE_COUNT_NTH};
    (void)trace_add_alloc(s.trace, &birth);

    uint32_t end = (uint32_t)s.trace->event_count;
    struct model_live *rows = model_live_by_stack(s.trace, 0, end, &count);
    REQUIRE_EQ(count, 1);
    CHECK_EQ(rows[0].stack, one);
    CHECK_EQ(rows[0].bytes, 15);
    CHECK_EQ(rows[0].count, 2);
    free(rows);
    rows = model_live_by_stack(s.trace, 0, 3, &count); /* before the free */
    REQUIRE_EQ(count, 2);
    CHECK_EQ(rows[0].stack, two);
    free(rows);
    rows = model_live_by_stack(s.trace, 1, end, &count);
    REQUIRE_EQ(count, 1);
    CHECK_EQ(rows[0].bytes, 9);
    free(rows);
    story_end(&s);
}

TEST(a_free_of_an_unknown_address_changes_nothing)
{
    struct story s = story_begin();
    (void)story_alloc(&s, 1, 10);
    CHECK_EQ(trace_add_free(s.trace, 0xdead, 0), TRACE_NONE);
    CHECK_EQ(whole(&s).freed_count, 0);
    CHECK_EQ(whole(&s).remaining, 10);
    story_end(&s);
}

TEST(an_address_that_comes_again_without_a_free_was_freed)
{
    struct story s = story_begin();
    struct trace_block birth = {.address = 1, .size = 10, .nth = TRACE_COUNT_NTH};
    (void)trace_add_alloc(s.trace, &birth);
    birth.size = 20;
    (void)trace_add_alloc(s.trace, &birth);
    CHECK_EQ(whole(&s).remaining, 20);
    CHECK_EQ(whole(&s).freed, 10);
    story_end(&s);
}

TEST(nth_counts_per_anchor_instance_site_and_size)
{
    struct story s = story_begin();
    story_enter(&s, "A");
    uint32_t a = story_alloc(&s, 1, 10);
    uint32_t b = story_alloc(&s, 1, 10);
    uint32_t c = story_alloc(&s, 1, 20);
    uint32_t d = story_alloc(&s, 2, 10);
    story_exit(&s);
    story_enter(&s, "A");
    uint32_t e = story_alloc(&s, 1, 10);
    CHECK_EQ(s.trace->blocks[a].nth, 0);
    CHECK_EQ(s.trace->blocks[b].nth, 1);
    CHECK_EQ(s.trace->blocks[c].nth, 0);
    CHECK_EQ(s.trace->blocks[d].nth, 0);
    CHECK_EQ(s.trace->blocks[e].nth, 0);
    story_end(&s);
}

TEST(ranges_nest_by_their_paths_and_ranges_by_id_in_nothing)
{
    struct story s = story_begin();
    uint32_t step = story_enter(&s, "step");
    uint32_t loose = trace_add_anchor(s.trace, "loose", TRACE_NONE);
    trace_add_edge(s.trace, TRACE_ENTER, loose, 0);
    uint32_t inner = story_enter(&s, "inner");
    CHECK_EQ(s.trace->anchors[step].parent, 0);
    CHECK_EQ(s.trace->anchors[loose].parent, 0);
    CHECK_EQ(s.trace->anchors[inner].parent, step);
    story_end(&s);
}

/* As a torn log may have it: more enters than there are anchors, exits that nobody entered, and one that never comes. */
TEST(peaks_of_an_anchor_are_those_since_it_was_entered)
{
    struct story s = story_begin();
    uint32_t first = story_alloc(&s, 1, 100);
    uint32_t outer = story_enter(&s, "outer");
    uint32_t inner = story_enter(&s, "inner");

    story_free(&s, first);
    (void)story_alloc(&s, 1, 30);
    story_exit(&s);
    for (int i = 0; i < 100; i++)
        trace_add_edge(s.trace, TRACE_ENTER, outer, 0);
    uint32_t never_entered = trace_add_anchor(s.trace, "other", TRACE_NONE);
    trace_add_edge(s.trace, TRACE_EXIT, never_entered, 0);
    (void)story_alloc(&s, 1, 40);
    trace_add_reserved(s.trace, 0, 500);
    trace_add_reserved(s.trace, 0, 200);

    struct model_figures *figures = model_figure_anchors(s.trace, model_whole(s.trace));
    CHECK_EQ(figures[0].peak_live, 100);
    CHECK_EQ(figures[inner].peak_live, 100); /* it was live when it was entered */
    CHECK_EQ(figures[inner].peak_reserved, 0);
    CHECK_EQ(figures[outer].peak_live, 100); /* never left */
    CHECK_EQ(figures[outer].peak_reserved, 500);
    CHECK_EQ(figures[never_entered].peak_live, 0);
    free(figures);

    /* Of a window what is in it: the first block is gone by then. */
    struct model_window late = {
            .first = s.trace->anchors[inner].exit, .last = (uint32_t)s.trace->event_count};
    figures = model_figure_anchors(s.trace, late);
    CHECK_EQ(figures[inner].peak_live, 30);
    CHECK_EQ(figures[outer].peak_live, 70);
    free(figures);
    story_end(&s);
}

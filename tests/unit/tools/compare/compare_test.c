/* SPDX-License-Identifier: MIT */
/* covers: compare.c */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/compare/compare.h"
#include "tools/compare/compare_coverage.h"

#define MB (UINT64_C(1) << 20)

static struct compare compared(const struct story *good, const struct story *bad)
{
    struct compare_side g = {good->trace, model_whole(good->trace), true};
    struct compare_side b = {bad->trace, model_whole(bad->trace), true};
    struct compare result;
    compare_runs(&g, &b, &result);
    return result;
}

TEST(a_free_after_the_exit_is_late)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    story_free(&good, story_alloc(&good, 1, MB));
    story_exit(&good);
    uint32_t anchor = story_enter(&bad, "A");
    uint32_t x = story_alloc(&bad, 1, MB);
    story_exit(&bad);
    story_free(&bad, x);

    struct compare c = compared(&good, &bad);
    REQUIRE_EQ(c.late_count, 1);
    CHECK_EQ(c.late_bytes, MB);
    CHECK_EQ(c.late[0].bad, x);
    CHECK_EQ(c.late[0].anchor, anchor);
    CHECK_EQ(c.never_count, 0);
    compare_done(&c);

    /* Seen the other way round nothing is late. */
    c = compared(&bad, &good);
    CHECK_EQ(c.late_count, 0);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(a_free_that_never_comes_is_late)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    story_free(&good, story_alloc(&good, 1, MB));
    story_exit(&good);
    story_enter(&bad, "A");
    (void)story_alloc(&bad, 1, MB);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.late_count, 1);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(freed_later_but_inside_the_same_anchor_is_not_late)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    story_free(&good, story_alloc(&good, 1, MB));
    (void)story_alloc(&good, 2, MB);
    story_exit(&good);
    story_enter(&bad, "A");
    uint32_t x = story_alloc(&bad, 1, MB);
    (void)story_alloc(&bad, 2, MB);
    story_free(&bad, x);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.late_count, 0);
    CHECK_EQ(c.paired.count, 2);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

/* The 852 extra pairs: many, between the others, of the same site and size as some of them. */
TEST(extra_pairs_are_harmless_and_do_not_disturb_the_rest)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    uint64_t extra = 0;
    for (int k = 0; k < 50; k++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "SOT_CALL_%d", k);
        story_enter(&good, name);
        story_enter(&bad, name);
        for (int i = 0; i < 6; i++) {
            uint64_t size = (uint64_t)(2 + i) * MB;
            if ((k + i) % 3 == 0) {
                story_free(&bad, story_alloc(&bad, 9, 4096));
                extra++;
            }
            uint32_t g = story_alloc(&good, (uint64_t)i, size);
            (void)story_alloc(&bad, (uint64_t)i, size);
            if (i == 2)
                story_free(&good, g); /* late in bad */
        }
        story_exit(&good);
        story_exit(&bad);
    }
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.late_count, 50);
    CHECK_EQ(c.late_bytes, 50 * 4 * MB);
    CHECK_EQ(c.freed_bad.count, extra);
    CHECK_EQ(c.freed_bad.bytes, extra * 4096);
    CHECK_EQ(c.extra_count, 0);
    CHECK_EQ(c.missing.count, 0);
    CHECK_EQ(c.anchors_paired, 51);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(what_only_bad_allocates_and_keeps_is_listed_apart)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    (void)story_alloc(&good, 1, MB);
    story_exit(&good);
    story_enter(&bad, "A");
    (void)story_alloc(&bad, 1, MB);
    uint32_t kept = story_alloc(&bad, 2, 3 * MB);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.late_count, 0);
    REQUIRE_EQ(c.extra_count, 1);
    CHECK_EQ(c.extra[0], kept);
    CHECK_EQ(c.extra_bytes, 3 * MB);
    CHECK_EQ(c.extra_remaining.count, 1);
    CHECK_EQ(c.remaining.bytes, 4 * MB);
    CHECK_EQ(c.remaining_good.bytes, MB);
    CHECK_EQ(c.all_good.count, 1);
    compare_done(&c);
    story_free(&bad, kept); /* outside of its anchor, but freed */
    c = compared(&good, &bad);
    CHECK_EQ(c.extra_count, 1);
    CHECK_EQ(c.extra_remaining.count, 0);
    CHECK_EQ(c.remaining.bytes, MB);
    compare_done(&c);
    c = compared(&bad, &good);
    CHECK_EQ(c.missing.count, 1);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(blocks_in_another_order_still_find_their_partners)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    uint32_t g = story_alloc(&good, 1, MB);
    (void)story_alloc(&good, 2, MB);
    (void)story_alloc(&good, 3, MB);
    story_free(&good, g);
    story_exit(&good);
    story_enter(&bad, "A");
    (void)story_alloc(&bad, 3, MB);
    (void)story_alloc(&bad, 2, MB);
    uint32_t late = story_alloc(&bad, 1, MB);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.paired.count, 3);
    REQUIRE_EQ(c.late_count, 1);
    CHECK_EQ(c.late[0].bad, late);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(interleaved_threads_find_their_partners)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    story_enter(&bad, "A");
    for (uint64_t i = 0; i < 40; i++) {
        uint32_t g = story_alloc(&good, 1 + i % 2, (1 + i / 2) * MB);
        if (i % 2)
            story_free(&good, g);
    }
    for (uint64_t half = 0; half < 2;
            half++) { /* bad: first all of the one thread, then of the other */
        for (uint64_t i = 0; i < 20; i++)
            (void)story_alloc(&bad, 1 + half, (1 + i) * MB);
    }
    story_exit(&good);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.paired.count, 40);
    CHECK_EQ(c.late_count, 20);
    for (size_t i = 0; i < c.late_count; i++)
        CHECK_EQ(bad.trace->blocks[c.late[i].bad].site, 2);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(a_rebuilt_program_is_paired_by_size)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    story_free(&good, story_alloc(&good, 1, MB));
    story_exit(&good);
    story_enter(&bad, "A");
    (void)story_alloc(&bad, 77, MB);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.late_count, 1);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(a_free_before_an_outer_exit_is_judged_by_the_outer_anchor)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "step");
    story_enter(&good, "forward");
    uint32_t g = story_alloc(&good, 1, MB);
    story_exit(&good);
    story_free(&good, g);
    story_exit(&good);
    uint32_t step = story_enter(&bad, "step");
    story_enter(&bad, "forward");
    (void)story_alloc(&bad, 1, MB);
    story_exit(&bad);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    REQUIRE_EQ(c.late_count, 1);
    CHECK_EQ(c.late[0].anchor, step);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(an_anchor_that_bad_never_left_proves_nothing)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    story_free(&good, story_alloc(&good, 1, MB));
    story_exit(&good);
    story_enter(&bad, "A");
    (void)story_alloc(&bad, 1, MB);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.late_count, 0);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(blocks_outside_of_anchors_are_never_freed_only_if_bad_ended_by_itself)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_free(&good, story_alloc(&good, 1, MB));
    (void)story_alloc(&bad, 1, MB);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.late_count, 0);
    CHECK_EQ(c.never_count, 1);
    CHECK_EQ(c.never_bytes, MB);
    compare_done(&c);

    struct compare_side g = {good.trace, model_whole(good.trace), true};
    struct compare_side b = {bad.trace, model_whole(bad.trace), false};
    compare_runs(&g, &b, &c);
    CHECK_EQ(c.never_count, 0);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(instances_of_one_path_are_paired_by_number)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    for (int i = 0; i < 3; i++) {
        story_enter(&good, "A");
        uint32_t g = story_alloc(&good, 1, MB);
        if (i == 1)
            story_free(&good, g);
        story_exit(&good);
        story_enter(&bad, "A");
        (void)story_alloc(&bad, 1, MB);
        story_exit(&bad);
    }
    struct compare c = compared(&good, &bad);
    REQUIRE_EQ(c.late_count, 1);
    CHECK_EQ(bad.trace->anchors[c.late[0].anchor].instance, 1);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

/* The inner anchors are each run's first, the outer ones are not the same: no exit of good's outer one exists in bad. */
TEST(an_outer_anchor_without_a_counterpart_proves_nothing)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "step");
    story_exit(&good);
    story_enter(&good, "step"); /* the second time */
    story_enter(&good, "forward");
    uint32_t g = story_alloc(&good, 1, MB);
    story_exit(&good);
    story_free(&good, g);
    story_exit(&good);
    story_enter(&bad, "step"); /* the first time */
    story_enter(&bad, "forward");
    (void)story_alloc(&bad, 1, MB);
    story_exit(&bad);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.paired.count, 1);
    CHECK_EQ(c.late_count, 0);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(anchors_of_one_run_only_are_counted)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    (void)story_alloc(&good, 1, MB);
    story_exit(&good);
    story_enter(&bad, "B");
    (void)story_alloc(&bad, 1, 2 * MB);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.anchors_lone_good, 1);
    CHECK_EQ(c.anchors_lone_bad, 1);
    CHECK_EQ(c.lone_bad.bytes, 2 * MB);
    REQUIRE_EQ(c.extra_count, 1); /* nobody but the bad run has it */
    CHECK_EQ(c.extra_remaining.bytes, 2 * MB);
    CHECK_EQ(c.missing.count, 1);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

/* Each block of the bad run was looked at, or is counted by why it was not. */
static void check_all_counted(const struct compare *c, const struct story *bad)
{
    CHECK_EQ(c->all.count, bad->trace->block_count);
    CHECK_EQ(c->looked.count + c->outside.count + c->lone_bad.count + c->unfinished.count
                    + c->unpaired.count + c->unjudged.count,
            c->all.count);
    CHECK_EQ(c->looked.bytes + c->outside.bytes + c->lone_bad.bytes + c->unfinished.bytes
                    + c->unpaired.bytes + c->unjudged.bytes,
            c->all.bytes);
}

TEST(only_pairs_in_anchors_that_bad_left_are_looked_at)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    struct story *both[] = {&good, &bad};

    for (int i = 0; i < 2; i++) {
        (void)story_alloc(both[i], 1, MB); /* has a partner, but no anchor's exit to be late by */
        story_enter(both[i], "A");
        (void)story_alloc(both[i], 1, 2 * MB);
        (void)story_alloc(both[i], 2, i ? 4 * MB : 5 * MB); /* no partner */
        story_exit(both[i]);
        story_enter(both[i], i ? "seq = 1" : "seq = 7");
        (void)story_alloc(both[i], 1, 8 * MB);
        story_exit(both[i]);
        story_enter(both[i], "B");
        (void)story_alloc(both[i], 1, 16 * MB);
        if (both[i] == &good)
            story_exit(both[i]);
    }
    struct compare c = compared(&good, &bad);
    CHECK_EQ(c.outside.bytes, MB);
    CHECK_EQ(c.looked.bytes, 2 * MB);
    CHECK_EQ(c.unpaired.bytes, 4 * MB);
    CHECK_EQ(c.lone_bad.bytes, 8 * MB);
    CHECK_EQ(c.unfinished.bytes, 16 * MB);
    CHECK_STR_EQ(good.trace->anchors[c.lone_good_anchor].path, "seq = 7");
    CHECK_STR_EQ(bad.trace->anchors[c.lone_bad_anchor].path, "seq = 1");
    check_all_counted(&c, &bad);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

TEST(less_than_half_is_little_and_nothing_found_in_it_is_unknown)
{
    struct compare c = {.all = {10, 0}, .looked = {5, 0}};

    CHECK(!compare_coverage_is_little(&c));
    CHECK(!compare_coverage_is_unknown(&c));
    c.looked.count = 4;
    CHECK(compare_coverage_is_little(&c));
    CHECK(compare_coverage_is_unknown(&c));
    c.late_count = 1;
    CHECK(compare_coverage_is_little(&c));
    CHECK(!compare_coverage_is_unknown(&c));
    c = (struct compare){0}; /* a run that allocates nothing frees nothing late */
    CHECK(!compare_coverage_is_little(&c));
}

TEST(only_blocks_born_in_the_window_take_part)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    for (int i = 0; i < 2; i++) {
        story_enter(&good, i ? "B" : "A");
        story_free(&good, story_alloc(&good, 1, MB));
        story_exit(&good);
        story_enter(&bad, i ? "B" : "A");
        (void)story_alloc(&bad, 1, MB);
        story_exit(&bad);
    }
    struct compare_side g = {good.trace, model_whole(good.trace), true};
    struct compare_side b = {bad.trace, model_whole(bad.trace), true};
    const char *missing;
    struct compare c;
    REQUIRE_EQ(model_find_window(good.trace, "A", "A", &g.window, &missing), 0);
    REQUIRE_EQ(model_find_window(bad.trace, "A", "A", &b.window, &missing), 0);
    compare_runs(&g, &b, &c);
    CHECK_EQ(c.late_count, 1);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

/* A block that one line of Python asked for through the one site that there is. */
static uint32_t ask(struct story *story, unsigned line, uint64_t size)
{
    struct trace_frame native = {TRACE_NONE, 0x1234};
    struct trace_pyframe python = {"layer", "model.py", line, true, false};
    uint32_t stack = trace_add_stack(story->trace, &native, 1, false);
    uint32_t block = story_alloc(story, 7, size);

    trace_set_python(story->trace, stack, &python, 1, false);
    story->trace->blocks[block].stack = stack;
    return block;
}

TEST(python_tells_blocks_of_one_site_apart)
{
    struct story good = story_begin();
    struct story bad = story_begin();
    story_enter(&good, "A");
    uint32_t freed = ask(&good, 10, MB);
    (void)ask(&good, 20, MB);
    (void)ask(&good, 20, MB);
    story_free(&good, freed);
    story_exit(&good);
    /* Bad asks in another order and, once, in a line that good has not. */
    story_enter(&bad, "A");
    (void)ask(&bad, 20, MB);
    uint32_t late = ask(&bad, 10, MB);
    uint32_t moved = ask(&bad, 21, MB);
    story_exit(&bad);
    struct compare c = compared(&good, &bad);

    REQUIRE_EQ(c.late_count, 1);
    CHECK_EQ(c.late[0].bad, late);
    CHECK_EQ(c.paired.count, 3); /* a line that moved is still paired, by its site */
    CHECK_EQ(c.extra_count, 0);
    CHECK(moved != late);
    compare_done(&c);
    story_end(&good);
    story_end(&bad);
}

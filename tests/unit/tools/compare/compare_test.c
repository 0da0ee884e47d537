/* SPDX-License-Identifier: MIT */
/* covers: compare.c */
#include "tests/check.h"

#include "tests/unit/tools/wordstory.h"
#include "tools/compare/compare.h"
#include "tools/compare/compare_coverage.h"

static struct compare compared(const struct story *good, const struct story *bad)
{
    struct compare_side g = {good->trace, model_whole(good->trace), true};
    struct compare_side b = {bad->trace, model_whole(bad->trace), true};
    struct compare result;
    compare_runs(&g, &b, &result);
    return result;
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

/* ---- runs that are told in words ---- */

static int letter_of(const struct told *told, uint32_t block)
{
    for (int letter = 'a'; letter <= 'z'; letter++)
        if (told->block[letter] == block)
            return letter;
    return '?';
}

/* "x by A 0": block x is late by the exit of the first A. The sum of their bytes is checked on the way. */
static void check_late(const struct compare *c, const struct told *bad, const char *late)
{
    const struct trace *trace = bad->story.trace;
    char text[256] = "";
    uint64_t bytes = 0;

    for (size_t i = 0; i < c->late_count; i++) {
        const struct trace_anchor *anchor = &trace->anchors[c->late[i].anchor];
        size_t length = strlen(text);
        (void)snprintf(text + length, sizeof(text) - length, "%s%c by %s %u", i ? ", " : "",
                letter_of(bad, c->late[i].bad), anchor->path, anchor->instance);
        bytes += trace->blocks[c->late[i].bad].size;
    }
    CHECK_STR_EQ(text, late);
    CHECK_EQ(c->late_bytes, bytes);
}

TEST(a_block_is_late_by_the_exit_before_which_good_has_freed_it)
{
    static const struct {
        const char *name, *good, *bad, *late;
        size_t paired, never; /* never freed, and outside of anchors */
        bool is_cut;          /* bad did not end by itself */
    } rows[] = {
            {"a free after the exit", "A{ x1 -x }", "A{ x1 } -x", "x by A 0", 1, 0, false},
            {"the other way round", "A{ x1 } -x", "A{ x1 -x }", "", 1, 0, false},
            {"a free that never comes", "A{ x1 -x }", "A{ x1 }", "x by A 0", 1, 0, false},
            {"later, inside the same anchor", "A{ x1 -x y2 }", "A{ x1 y2 -x }", "", 2, 0, false},
            {"another order", "A{ x1 y2 z3 -x }", "A{ z3 y2 x1 }", "x by A 0", 3, 0, false},
            {"a rebuilt program is paired by size", "A{ x1 -x }", "A{ x77 }", "x by A 0", 1, 0,
                    false},
            {"before an outer exit: by the outer anchor", "step{ forward{ x1 } -x }",
                    "step{ forward{ x1 } }", "x by step 0", 1, 0, false},
            /* The inner anchors are each run's first, the outer ones are not: no exit of good's outer one exists in bad. */
            {"an outer anchor without a counterpart", "step{ } step{ forward{ x1 } -x }",
                    "step{ forward{ x1 } }", "", 1, 0, false},
            {"an anchor that bad never left", "A{ x1 -x }", "A{ x1", "", 1, 0, false},
            {"instances of one path are paired by number", "A{ x1 } A{ y1 -y } A{ z1 }",
                    "A{ x1 } A{ y1 } A{ z1 }", "y by A 1", 3, 0, false},
            {"outside of anchors: never freed", "x1 -x", "x1", "", 1, 1, false},
            {"outside of anchors, bad did not end by itself", "x1 -x", "x1", "", 1, 0, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_ROW(rows[i].name);
        struct told good = tell(rows[i].good), bad = tell(rows[i].bad);
        struct compare_side g = {good.story.trace, model_whole(good.story.trace), true};
        struct compare_side b = {bad.story.trace, model_whole(bad.story.trace), !rows[i].is_cut};
        struct compare c;

        compare_runs(&g, &b, &c);
        check_late(&c, &bad, rows[i].late);
        CHECK_EQ(c.paired.count, rows[i].paired);
        CHECK_EQ(c.never_count, rows[i].never);
        CHECK_EQ(c.never_bytes, rows[i].never * MB);
        compare_done(&c);
        story_end(&good.story);
        story_end(&bad.story);
    }
}

TEST(what_only_bad_allocates_and_keeps_is_listed_apart)
{
    struct told good = tell("A{ x1 }");
    struct told bad = tell("A{ x1 y2:3 }");
    struct compare c = compared(&good.story, &bad.story);

    CHECK_EQ(c.late_count, 0);
    REQUIRE_EQ(c.extra_count, 1);
    CHECK_EQ(c.extra[0], bad.block['y']);
    CHECK_EQ(c.extra_bytes, 3 * MB);
    CHECK_EQ(c.extra_remaining.count, 1);
    CHECK_EQ(c.remaining.bytes, 4 * MB);
    CHECK_EQ(c.remaining_good.bytes, MB);
    CHECK_EQ(c.all_good.count, 1);
    compare_done(&c);
    story_free(&bad.story, bad.block['y']); /* outside of its anchor, but freed */
    c = compared(&good.story, &bad.story);
    CHECK_EQ(c.extra_count, 1);
    CHECK_EQ(c.extra_remaining.count, 0);
    CHECK_EQ(c.remaining.bytes, MB);
    compare_done(&c);
    c = compared(&bad.story, &good.story);
    CHECK_EQ(c.missing.count, 1);
    compare_done(&c);
    story_end(&good.story);
    story_end(&bad.story);
}

TEST(anchors_of_one_run_only_are_counted)
{
    struct told good = tell("A{ x1 }");
    struct told bad = tell("B{ x1:2 }");
    struct compare c = compared(&good.story, &bad.story);

    CHECK_EQ(c.anchors_lone_good, 1);
    CHECK_EQ(c.anchors_lone_bad, 1);
    CHECK_EQ(c.lone_bad.bytes, 2 * MB);
    REQUIRE_EQ(c.extra_count, 1); /* nobody but the bad run has it */
    CHECK_EQ(c.extra_remaining.bytes, 2 * MB);
    CHECK_EQ(c.missing.count, 1);
    compare_done(&c);
    story_end(&good.story);
    story_end(&bad.story);
}

TEST(only_pairs_in_anchors_that_bad_left_are_looked_at)
{
    /* x has a partner, but no anchor's exit to be late by; v has none */
    struct told good = tell("x1 A{ y1:2 v2:5 } seq=7{ z1:8 } B{ w1:16 }");
    struct told bad = tell("x1 A{ y1:2 v2:4 } seq=1{ z1:8 } B{ w1:16");
    struct compare c = compared(&good.story, &bad.story);

    CHECK_EQ(c.outside.bytes, MB);
    CHECK_EQ(c.looked.bytes, 2 * MB);
    CHECK_EQ(c.unpaired.bytes, 4 * MB);
    CHECK_EQ(c.lone_bad.bytes, 8 * MB);
    CHECK_EQ(c.unfinished.bytes, 16 * MB);
    CHECK_STR_EQ(good.story.trace->anchors[c.lone_good_anchor].path, "seq=7");
    CHECK_STR_EQ(bad.story.trace->anchors[c.lone_bad_anchor].path, "seq=1");
    check_all_counted(&c, &bad.story);
    compare_done(&c);
    story_end(&good.story);
    story_end(&bad.story);
}

TEST(only_blocks_born_in_the_window_take_part)
{
    struct told good = tell("A{ x1 -x } B{ y1 -y }");
    struct told bad = tell("A{ x1 } B{ y1 }");
    struct compare_side g = {good.story.trace, model_whole(good.story.trace), true};
    struct compare_side b = {bad.story.trace, model_whole(bad.story.trace), true};
    const char *missing;
    struct compare c;

    REQUIRE_EQ(model_find_window(good.story.trace, "A", "A", &g.window, &missing), 0);
    REQUIRE_EQ(model_find_window(bad.story.trace, "A", "A", &b.window, &missing), 0);
    compare_runs(&g, &b, &c);
    check_late(&c, &bad, "x by A 0");
    compare_done(&c);
    story_end(&good.story);
    story_end(&bad.story);
}

/* ---- runs that are too long for that ---- */

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
    CHECK_EQ(c.late_bytes, 50 * (4 * MB));
    CHECK_EQ(c.freed_bad.count, extra);
    CHECK_EQ(c.freed_bad.bytes, extra * 4096);
    CHECK_EQ(c.extra_count, 0);
    CHECK_EQ(c.missing.count, 0);
    CHECK_EQ(c.anchors_paired, 51);
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

/* A block that one line of Python asked for through the one site that there is. */
static uint32_t ask(struct story *story, unsigned line, uint64_t size)
{
    struct trace_frame native = {TRACE_NONE, 0x1234};
    struct trace_pyframe python = {"layer", "model.py", line, true, false, 0};
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

TEST(less_than_half_is_little_and_nothing_found_in_it_is_unknown)
{
    static const struct {
        const char *name;
        size_t all, looked, late;
        bool is_little, is_unknown;
    } rows[] = {
            {"half", 10, 5, 0, false, false},
            {"less, and nothing found", 10, 4, 0, true, true},
            {"less, and one found", 10, 4, 1, true, false},
            {"a run that allocates nothing frees nothing late", 0, 0, 0, false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct compare c = {
                .all = {rows[i].all, 0}, .looked = {rows[i].looked, 0}, .late_count = rows[i].late};

        CHECK_ROW(rows[i].name);
        CHECK_EQ(compare_coverage_is_little(&c), rows[i].is_little);
        CHECK_EQ(compare_coverage_is_unknown(&c), rows[i].is_unknown);
    }
}

/* SPDX-License-Identifier: MIT */
/* covers: explain.c explain_pairs.c */
#include "tests/check.h"

#include "tests/unit/tools/wordstory.h"
#include "tools/compare/align.h"
#include "tools/compare/explain.h"

static const char *const words[EXPLAIN_CAUSES] = {[EXPLAIN_KEPT] = "kept",
        [EXPLAIN_LATE] = "late",
        [EXPLAIN_LARGER] = "larger",
        [EXPLAIN_MORE] = "more",
        [EXPLAIN_LONE] = "lone",
        [EXPLAIN_ORDER] = "order"};

/* Bytes live after an event, of one call site or of all (0), added up by hand. */
static uint64_t live_after(const struct trace *trace, uint32_t at, uint64_t site)
{
    uint64_t live = 0;

    for (uint32_t i = 0; i <= at && at != TRACE_NEVER; i++) {
        const struct trace_event *event = &trace->events[i];
        if ((event->kind != TRACE_ALLOC && event->kind != TRACE_FREE) || event->block == TRACE_NONE)
            continue;
        const struct trace_block *block = &trace->blocks[event->block];
        if (site && block->site != site)
            continue;
        live += event->kind == TRACE_ALLOC ? block->size : -block->size;
    }
    return live;
}

static uint64_t peak_of(const struct trace *trace)
{
    uint64_t most = 0;

    for (uint32_t at = 0; at < trace->event_count; at++) {
        uint64_t live = live_after(trace, at, 0);
        if (live > most)
            most = live;
    }
    return most;
}

static struct explain explained(const struct story *good, const struct story *bad)
{
    struct compare_side g = {good->trace, model_whole(good->trace), true};
    struct compare_side b = {bad->trace, model_whole(bad->trace), true};
    struct explain_peaks peaks = {peak_of(good->trace), peak_of(bad->trace)};
    struct compare compare;
    struct explain explain;

    compare_runs(&g, &b, &compare);
    explain_by_events(&g, &b, &compare, peaks, COMPARE_GROUPS_PYTHON, &explain);
    compare_done(&compare);
    return explain;
}

static uint64_t site_of(
        const struct explain_row *row, const struct story *good, const struct story *bad)
{
    const struct trace *trace = row->is_good ? good->trace : bad->trace;

    for (size_t i = 0; i < trace->block_count; i++)
        if (trace->blocks[i].stack == row->stack)
            return trace->blocks[i].site;
    return 0;
}

/* What must hold of any two runs: each byte has one cause, and each row has its own bytes. */
static void check_sums(const struct explain *e, const struct story *good, const struct story *bad)
{
    int64_t sums[EXPLAIN_CAUSES] = {0};
    int64_t all = 0;

    CHECK_EQ(e->rest, 0);
    CHECK_EQ(e->difference, (int64_t)(peak_of(bad->trace) - peak_of(good->trace)));
    CHECK_EQ(live_after(bad->trace, e->bad_at, 0), peak_of(bad->trace));
    CHECK_EQ(live_after(good->trace, e->good_at, 0), peak_of(good->trace));
    CHECK_EQ(e->is_lower, peak_of(bad->trace) < peak_of(good->trace));
    CHECK_EQ(live_after(e->is_lower ? bad->trace : good->trace, e->there, 0), e->there_bytes);
    for (size_t i = 0; i < e->row_count; i++) {
        const struct explain_row *row = &e->rows[i];
        uint64_t site = site_of(row, good, bad);
        int64_t mine = 0;
        for (unsigned k = 0; k < EXPLAIN_CAUSES; k++) {
            sums[k] += row->cause[k].bytes;
            mine += row->cause[k].bytes;
        }
        CHECK_EQ(mine,
                (int64_t)(live_after(bad->trace, e->bad_at, site)
                        - live_after(good->trace, e->good_at, site)));
    }
    for (unsigned k = 0; k < EXPLAIN_CAUSES; k++) {
        CHECK_EQ(e->cause[k].bytes, sums[k]);
        all += sums[k];
    }
    CHECK_EQ(all, e->difference);
}

/* ---- each cause, and mixtures --------------------------------------------------------------- */

/* "kept 2, order -1" in MiB: the causes that have a part, with this sign. */
static void tell_causes(const struct explain *e, int sign, char *text, size_t room)
{
    *text = '\0';
    for (unsigned k = 0; k < EXPLAIN_CAUSES; k++) {
        size_t length = strlen(text);
        if (e->cause[k].bytes)
            (void)snprintf(text + length, room - length, "%s%s %d", length ? ", " : "", words[k],
                    sign * (int)(e->cause[k].bytes / (int64_t)MB));
    }
}

TEST(each_difference_of_the_peaks_has_its_cause)
{
    static const struct {
        const char *name, *good, *bad, *causes;
    } rows[] = {
            {"no difference", "A{ x1 -x }", "A{ x1 -x }", ""},
            {"a block of each anchor is never freed", "A{ x1 -x } B{ y1 -y } C{ z2 -z }",
                    "A{ x1 } B{ y1 } C{ z2 -z }", "kept 2"},
            {"the same, freed at the program's end", "A{ x1 -x } B{ y1 -y } C{ z2 -z }",
                    "A{ x1 } B{ y1 } C{ z2 -z } -x -y", "kept 2"},
            {"only bad makes it, and keeps it", "A{ z2 -z } B{ w2 -w }",
                    "A{ x1 z2 -z } B{ y1 w2 -w }", "kept 2"},
            {"more of what both keep", "x1 A{ z2:5 -z }", "x1 y1 A{ z2:5 -z }", "more 1"},
            {"freed an anchor later", "A{ x1:3 -x } B{ y2:4 -y } C{ z3 -z }",
                    "A{ x1:3 } B{ y2:4 -y -x } C{ z3 -z }", "late 3"},
            {"freed later in the same anchor", "A{ x1:3 -x y2:4 -y }", "A{ x1:3 y2:4 -y -x }",
                    "late 3"},
            {"larger", "A{ x1:2 y2 -y -x }", "A{ x1:5 y2 -y -x }", "larger 3"},
            {"each twice as large", "p1:2 A{ x2:2 y3 -y -x } B{ z2:2 w3 -w -z }",
                    "p1:4 A{ x2:4 y3:2 -y -x } B{ z2:4 w3:2 -w -z }", "larger 5"},
            {"a size that another line has in good is chance", "A{ w1 -w a2:2 v3:2 -v b4:4 -b -a }",
                    "A{ w1:2 -w a2:4 v3:4 -v b4:8 -b -a }", "larger 6"},
            {"an equal size at the same line is chance as well", "A{ a1:2 -a b1:4 c3 -c -b }",
                    "A{ a1:4 -a b1:8 c3:2 -c -b }", "larger 5"},
            {"more of the same", "A{ x1 -x }", "A{ x1 y1 z1 -x -y -z }", "more 2"},
            {"a line that good never reaches", "A{ x1 -x }", "A{ x1 q2:3 -q -x }", "lone 3"},
            {"a line that bad never reaches", "A{ x1 q2:3 -q -x }", "A{ x1 -x }", "lone -3"},
            {"the same blocks in another order", "A{ x1:2 -x y2:3 -y }", "A{ y2:3 x1:2 -x -y }",
                    "order 2"},
            {"good's peak is at another place", "A{ w1:9 -w } B{ x2 -x y3:4 -y }",
                    "A{ } B{ x2:5 y3:6 -x -y }", "late 5, larger 2, order -5"},
            {"the other way round", "A{ x1 } B{ y1 } C{ z2 -z }",
                    "A{ x1 -x } B{ y1 -y } C{ z2 -z }", "kept -2"},
            {"kept, larger and more", "A{ x1 -x } B{ y2:2 w4 -w -y }",
                    "A{ x1 } B{ y2:5 w4 v4:2 -w -v -y }", "kept 1, larger 3, more 2"},
            {"late frees and what is freed earlier", "A{ x1:3 -x w4:4 } B{ y2:8 -y -w } C{ z2 -z }",
                    "A{ x1:3 w4:4 -w } B{ y2:8 -y -x } C{ z2 -z }", "late -1"},
            {"a leak over more steps than good has", "p9:5 S{ x1 -x w2:4 -w } S{ y1 -y v2:4 -v }",
                    "p9:5 S{ a1 b2:4 -b } S{ c1 d2:4 -d } S{ e1 f2:4 -f } S{ g1 h2:4 -h }",
                    "kept 4"},
            {"larger over more steps than good has", "p9 S{ x2:4 -x } S{ y2:4 -y }",
                    "p9 S{ a2:6 -a } S{ b2:6 -b } S{ c2:7 -c }", "larger 3"},
            {"bad leaks up to a peak that is still lower",
                    "A{ x1 -x y2:9 -y } B{ z1 -z } C{ w3:2 -w }",
                    "A{ x1 y2:5 -y } B{ z1 } C{ w3:5 -w }", "kept 2, larger -4"},
            {"no anchors at all", "x1 -x y1 -y z2 -z", "x1 y1 z2 -z", "kept 2"},
            {"anchors of other names", "A{ x1 -x } A{ y1 -y z2 -z }", "B{ x1 } B{ y1 z2 -z }",
                    "kept 1, order 1"},
            {"more at once, of as many, in anchors of other names", "A{ x1:2 -x y1:2 -y z2 -z }",
                    "B{ x1:2 y1:2 -x -y z2 -z }", "late 2"},
            {"nothing in common", "A{ x1 -x }", "B{ y2:4 -y }", "lone 3"},
            {"a rebuilt program is paired by size", "A{ x1:3 -x } B{ y2:2 -y } C{ z2 -z }",
                    "A{ x77:3 } B{ y78:2 -y -x } C{ z78 -z }", "late 3, order -1"},
            {"good is empty", "", "A{ x1 -x }", "lone 1"},
            {"bad is empty", "A{ x1 -x }", "", "lone -1"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_ROW(rows[i].name);
        struct told good = tell(rows[i].good), bad = tell(rows[i].bad);
        struct explain e = explained(&good.story, &bad.story);
        char text[256];

        tell_causes(&e, 1, text, sizeof(text));
        CHECK_STR_EQ(text, rows[i].causes);
        CHECK_EQ(e.rest, 0);
        explain_done(&e);
        e = explained(&bad.story, &good.story);
        tell_causes(&e, -1, text, sizeof(text));
        CHECK_STR_EQ(text, rows[i].causes);
        explain_done(&e);
        story_end(&good.story);
        story_end(&bad.story);
    }
}

/* Peak live of a window counts what was made before it, which has no partner. */
TEST(what_was_made_before_the_window_is_explained_as_well)
{
    struct told good = tell("p1:2 A{ x2 -x }");
    struct told bad = tell("p1:2 q1:2 A{ x2:4 -x }");
    struct compare_side g = {good.story.trace, .ended = true};
    struct compare_side b = {bad.story.trace, .ended = true};
    struct compare compare;
    struct explain e;
    const char *missing;

    REQUIRE_EQ(model_find_window(good.story.trace, "A", "A", &g.window, &missing), 0);
    REQUIRE_EQ(model_find_window(bad.story.trace, "A", "A", &b.window, &missing), 0);
    compare_runs(&g, &b, &compare);
    explain_by_events(
            &g, &b, &compare, (struct explain_peaks){3 * MB, 8 * MB}, COMPARE_GROUPS_PYTHON, &e);
    CHECK_EQ(e.cause[EXPLAIN_MORE].bytes, 2 * (int64_t)MB);
    CHECK_EQ(e.cause[EXPLAIN_LARGER].bytes, 3 * (int64_t)MB);
    CHECK_EQ(e.rest, 0);
    explain_done(&e);
    compare_done(&compare);
    story_end(&good.story);
    story_end(&bad.story);
}

/* A peak that the record of events does not show, as a run counted it. */
TEST(what_no_event_shows_is_not_explained)
{
    struct told good = tell("A{ x1 -x }");
    struct told bad = tell("A{ x1:3 -x }");
    struct compare_side g = {good.story.trace, model_whole(good.story.trace), true};
    struct compare_side b = {bad.story.trace, model_whole(bad.story.trace), true};
    struct compare compare;
    struct explain e;

    compare_runs(&g, &b, &compare);
    explain_by_events(
            &g, &b, &compare, (struct explain_peaks){MB, 7 * MB}, COMPARE_GROUPS_PYTHON, &e);
    CHECK_EQ(e.difference, 6 * (int64_t)MB);
    CHECK_EQ(e.cause[EXPLAIN_LARGER].bytes, 2 * (int64_t)MB);
    CHECK_EQ(e.rest, 4 * (int64_t)MB);
    explain_done(&e);
    compare_done(&compare);
    story_end(&good.story);
    story_end(&bad.story);
}

/* ---- any two runs --------------------------------------------------------------------------- */

static uint32_t state = 2463534242;

static uint32_t dice(uint32_t sides)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % sides;
}

enum {
    OPS = 12,
    SITES = 8,
    FOREVER = 1000,
    WAITING = 512,
};

/* A program of steps that do the same. */
struct program {
    uint32_t site[OPS], size[OPS], life[OPS]; /* life: in requests */
    uint32_t steps;
    const char *anchor; /* NULL: it states no steps */
};

/* In how many of a hundred requests a run differs from its program, and in what. */
struct change {
    uint32_t life, size, extra, skipped, alien;
};

static struct program any_program(void)
{
    struct program program = {.steps = 2 + dice(5), .anchor = dice(4) ? "step" : NULL};

    for (unsigned i = 0; i < OPS; i++) {
        program.site[i] = 1 + dice(SITES);
        program.size[i] = dice(1000);
        program.life[i] = dice(20) == 0 ? FOREVER : 1 + dice(OPS);
    }
    return program;
}

struct running {
    struct story story;
    uint32_t block[WAITING], due[WAITING];
    uint32_t count, now;
};

/* Sizes tell sites apart, so that no block is paired with one of another site. */
static void request(struct running *run, uint32_t site, uint32_t size, uint32_t life)
{
    for (uint32_t i = 0; i < run->count; i++) {
        if (run->due[i] != run->now)
            continue;
        story_free(&run->story, run->block[i]);
        run->due[i] = FOREVER;
    }
    uint32_t block = story_alloc(&run->story, site, site * 1000 + size);
    /* a row's site is looked up by its stack */
    struct trace_frame frame = {TRACE_NONE, site};
    run->story.trace->blocks[block].stack = trace_add_stack(run->story.trace, &frame, 1, false);
    if (life < FOREVER && run->count < WAITING) {
        run->block[run->count] = block;
        run->due[run->count++] = run->now + life;
    }
    run->now++;
}

static struct story run_of(const struct program *program, const struct change *change)
{
    struct running run = {.story = story_begin()};

    for (uint32_t step = 0; step < program->steps; step++) {
        if (program->anchor)
            (void)story_enter(&run.story, program->anchor);
        for (unsigned i = 0; i < OPS; i++) {
            uint32_t life = dice(100) < change->life ? dice(2 * OPS) + 1 : program->life[i];
            if (dice(100) < change->alien)
                request(&run, SITES + 1 + dice(3), dice(1000), life);
            if (dice(100) < change->extra)
                request(&run, program->site[i], program->size[i], life);
            if (dice(100) >= change->skipped)
                request(&run, program->site[i],
                        dice(100) < change->size ? dice(1000) : program->size[i],
                        dice(100) < change->life / 4 ? FOREVER : life);
        }
        if (program->anchor)
            story_exit(&run.story);
    }
    return run.story;
}

TEST(causes_of_any_two_runs_add_up_to_the_byte)
{
    for (int round = 0; round < 600; round++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "round %d", round);
        CHECK_ROW(name);
        struct program program = any_program();
        struct program other = dice(8) ? program : any_program();
        struct change none = {0};
        struct change change = {dice(2) * dice(30), dice(2) * dice(100), dice(2) * dice(30),
                dice(2) * dice(30), dice(2) * dice(20)};
        if (dice(4) == 0)
            other.steps = 1 + dice(8);
        if (dice(8) == 0)
            other.anchor = "epoch";
        struct story good = run_of(&program, dice(2) ? &none : &change);
        struct story bad = run_of(&other, &change);
        struct explain e = explained(&good, &bad);

        check_sums(&e, &good, &bad);
        explain_done(&e);
        e = explained(&bad, &good);
        check_sums(&e, &bad, &good);
        explain_done(&e);
        e = explained(&bad, &bad);
        for (unsigned k = 0; k < EXPLAIN_CAUSES; k++)
            CHECK_EQ(e.cause[k].bytes, 0);
        explain_done(&e);
        story_end(&good);
        story_end(&bad);
    }
}

/* ---- one change in a run that has no other --------------------------------------------------- */

/* Of 100 B of the difference, how many have this cause in this row. */
static int64_t percent_of(const struct explain *e, enum explain_cause cause, uint64_t site,
        const struct story *good, const struct story *bad)
{
    for (size_t i = 0; i < e->row_count; i++)
        if (site_of(&e->rows[i], good, bad) == site)
            return 100 * e->rows[i].cause[cause].bytes / e->difference;
    return 0;
}

TEST(a_planted_change_is_explained_by_its_cause_and_call_site)
{
    static const struct change none = {0};
    static const enum explain_cause causes[] = {
            EXPLAIN_KEPT, EXPLAIN_LARGER, EXPLAIN_LONE, EXPLAIN_LATE};

    for (int round = 0; round < 200; round++) {
        char name[32];
        unsigned what = dice(4);
        unsigned where = dice(OPS);
        (void)snprintf(name, sizeof(name), "round %d, %u at %u", round, what, where);
        CHECK_ROW(name);
        struct program good_program = any_program();
        good_program.steps = 6;
        for (unsigned i = 0; i < OPS; i++)
            good_program.life[i] = 1 + i % 3;
        good_program.site[where] = SITES + 5; /* this line's alone */
        struct program bad_program = good_program;
        if (what == 0)
            bad_program.life[where] = FOREVER; /* never freed */
        if (what == 1)
            bad_program.size[where] += 1000000; /* so large that the peak is there */
        if (what == 2) {
            bad_program.site[where] = SITES + 6; /* another line, and larger */
            bad_program.size[where] += 100000000;
        }
        if (what == 3)
            bad_program.life[where] = 2 * OPS; /* two steps later */
        struct story good = run_of(&good_program, &none);
        struct story bad = run_of(&bad_program, &none);
        struct explain e = explained(&good, &bad);

        check_sums(&e, &good, &bad);
        if (e.difference)
            CHECK_GE(percent_of(&e, causes[what], bad_program.site[where], &good, &bad), 95);
        explain_done(&e);
        story_end(&good);
        story_end(&bad);
    }
}

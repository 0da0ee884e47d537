/* SPDX-License-Identifier: MIT */
/* covers: growth.c larger.c places.c */
#include "tests/check.h"
#include "tests/unit/tools/story.h"

#include "tools/steps/growth.h"

/*
 * A run in words: "s" enters a step, "e" an epoch, "v" a validation, "q" a request, "r" a rollout,
 * "m" a main loop, each with a number of its own; ")" leaves the innermost one. "+a" allocates a
 * block of site a that stays, "-a" frees the oldest of them, "." is a block of another site that is
 * freed at once.
 */
static const char *const names[] = {['e'] = "epoch",
        ['s'] = "step",
        ['v'] = "val",
        ['q'] = "request",
        ['r'] = "rollout",
        ['m'] = "main"};

struct telling {
    struct story story;
    uint32_t held[26][64];
    unsigned first[26], behind[26];
};

static void tell(struct telling *t, const char *text)
{
    unsigned number = 0;

    for (const char *at = text; *at; at++) {
        unsigned site = (unsigned)(at[0] && at[1] >= 'a' && at[1] <= 'z' ? at[1] - 'a' : 0);
        char name[32];
        switch (*at) {
        case '+':
            t->held[site][t->behind[site]++] = story_alloc(&t->story, site + 1, 100 * (site + 1));
            at++;
            break;
        case '-':
            story_free(&t->story, t->held[site][t->first[site]++]);
            at++;
            break;
        case '.':
            story_free(&t->story, story_alloc(&t->story, 77, 7777));
            break;
        case ')':
            story_exit(&t->story);
            break;
        case ' ':
            break;
        default:
            (void)snprintf(name, sizeof(name), "%s_%u", names[(unsigned char)*at], number++);
            (void)story_enter(&t->story, name);
        }
    }
}

struct row {
    const char *what, *told;
    int times; /* of `told` */
    const char *end;
    enum trend trend; /* of the one site that is not steady */
    const char *text;
};

/* The sites of a run are told apart by their sizes: it has no stacks. */
static void check_row(const struct row *row)
{
    struct telling t = {.story = story_begin()};
    struct growth growth;

    CHECK_ROW(row->what);
    for (int i = 0; i < row->times; i++)
        tell(&t, row->told);
    tell(&t, row->end);
    struct load load = {.trace = t.story.trace};
    growth_find(&load, model_whole(load.trace), NULL, &growth);
    CHECK_EQ(growth.site_count, row->trend == TREND_STEADY ? 0 : 1);
    if (growth.site_count == 1) {
        char *text = growth_text(&growth, &growth.sites[0]);
        CHECK_EQ(growth.sites[0].is.trend, row->trend);
        CHECK_EQ(growth_first(&growth, row->trend) == &growth.sites[0], true);
        CHECK_STR_EQ(text, row->text);
        free(text);
    }
    growth_done(&growth);
    story_end(&t.story);
}

TEST(what_grows_is_told_by_its_rounds)
{
    static const struct row rows[] = {
            {"a leak in each of three steps", "s.+a)", 3, "", TREND_GROWS, "+100.00 B a step"},
            {"in every other step", "s.) s.+a)", 4, "", TREND_GROWS, "+100.00 B every 2 steps"},
            {"in each of three epochs", "e s.)s.)s.) +a )", 3, "", TREND_GROWS,
                    "+100.00 B an epoch"},
            {"in each validation", "s.)s.)s.) v.+a)", 4, "", TREND_GROWS, "+100.00 B a val"},
            {"in each rollout, once in a loop", "m r.+a) s.)s.) )", 3, "", TREND_GROWS,
                    "+100.00 B a main"},
            {"with each request", "q.+a)", 5, "", TREND_GROWS, "+100.00 B a request"},
            {"with some requests", "q.)q.)q.+a)q.)", 5, "", TREND_GROWS,
                    "+100.00 B every 4 requests"},
            {"it begins late", "s.)s.)s.)", 3, "s+a)s+a)s+a)", TREND_GROWS,
                    "+100.00 B a step in the last 3 of 12"},
            {"in each seventh step", "s.)s.)s.)s.)s.)s.)s.+a)", 3, "", TREND_GROWS,
                    "+100.00 B every 7 steps"},
            {"in an evaluation after each tenth step", "s.)s.)s.)s.)s.)s.)s.)s.)s.)s.) v.+a.)", 3,
                    "", TREND_GROWS, "+100.00 B a val"},
            {"in two evaluations, as the steps see them", "s.)s.)s.)s.)s.) v.+a.)", 2,
                    "s.)s.)s.)s.)s.)", TREND_GROWS, "+100.00 B every 5 steps"},
            {"of two shapes in turn", "s.+b)s.+b+b)", 4, "", TREND_GROWS,
                    "+600.00 B every 2 steps"},
            {"what is freed at the same place of each request", "q+a+a)q+a)q-a)", 6, "",
                    TREND_GROWS, "+200.00 B every 3 requests"},
            {"more with each step", "s+a)s+a+a)s+a+a+a)s+a+a+a+a)", 1, "", TREND_GROWS,
                    "+400.00 B a step in the end, +200.00 B in the beginning"},
            {"now more, now less", "s+a)s+a+a+a)s+a)s+a+a+a+a)s+a+a)", 1, "", TREND_GROWS,
                    "about +250.00 B a step"},
            {"in most steps", "s+a)s+a)s+a)s.)s+a)s+a)s+a)s+a)s.)s+a)", 1, "", TREND_GROWS,
                    "about +77.00 B a step"},
            {"in three rounds", "s+a)", 3, "", TREND_GROWS, "+100.00 B a step"},
            {"in a phase after the last step, and to the end", "s.)s.)", 3, "v+a)v+a)v+a)v+a)",
                    TREND_GROWS, "+100.00 B a val"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_row(&rows[i]);
}

TEST(what_is_held_for_a_while_does_not_grow)
{
    static const struct row rows[] = {
            {"the steps free all", "s+a.-a)", 6, "", TREND_STEADY, ""},
            {"asked for in another way", "s+a+b.)s.)s.)s-a-b+c.)s.)", 1, "", TREND_STEADY, ""},
            {"double buffers", "s+a.) s+a.-a-a)", 6, "", TREND_STEADY, ""},
            {"an epoch adds up", "e s+a)s+a)s+a) -a-a-a )", 3, "", TREND_STEADY, ""},
            {"all evaluations free what they added up", "s.) v+a)v+a)v+a) -a-a-a", 3, ".",
                    TREND_STEADY, ""},
            {"one evaluation, and the program goes on", "s.)", 5, "v+a)v+a)v+a) -a-a-a .",
                    TREND_STEADY, ""},
            {"a model", "", 1, "+a+a s.) s.) s.) s.)", TREND_STEADY, ""},
            {"a ring that was full before", "s+a-a.)", 20, "", TREND_STEADY, ""},
            {"two shapes in turn", "s+a+a)s-a-a)", 6, "", TREND_STEADY, ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_row(&rows[i]);
}

TEST(what_is_filled_and_what_may_grow)
{
    static const struct row rows[] = {
            {"a cache", "s+a)s+a)s.)s.)s.)s.)", 1, "", TREND_FILLED,
                    "+100.00 B in 1 of 5 steps, not in the last 4"},
            {"a ring that fills up", "", 1,
                    "s+a)s+a)s+a)s+a)s+a-a)s+a-a)s+a-a)s+a-a)s+a-a)s+a-a)s+a-a)", TREND_FILLED,
                    "+300.00 B in 3 of 10 steps, not in the last 7"},
            {"a leak that stops", "s+a)", 20, "s.)s.)s.)s.)s.)s.)s.)s.)s.)s.)", TREND_FILLED,
                    "+1.86 KiB in 19 of 29 steps, not in the last 10"},
            {"two of three, of other bytes", "", 1, "s.)s+a)s+a+a)", TREND_UNKNOWN,
                    "+300.00 B in 2 of 2 steps"},
            {"results of a program without steps, joined and freed", "v+a)", 6,
                    "+b -a-a-a-a-a-a . -b", TREND_UNKNOWN, "+500.00 B in 5 of 5 vals"},
            {"once in the last step", "s.)", 5, "s+a)", TREND_UNKNOWN, "+100.00 B in 1 of 5 steps"},
            {"an evaluation before the exit", "s.)", 5, "v+a)v+a)v+a) -a-a-a", TREND_UNKNOWN,
                    "+200.00 B in 2 of 2 vals"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_row(&rows[i]);
}

/* Graphs that were captured in evaluations are replayed; "." is asked for around each of them. */
TEST(what_rests_while_the_program_goes_on_without_rounds_is_filled)
{
    static const struct row rows[] = {
            {"for long enough", "", 1, "v.)v.+a)v.+a+a) ...", TREND_FILLED,
                    "+300.00 B in 2 of 2 vals, not in the time of 3 more"},
            {"not for long enough", "", 1, "v.)v.+a)v.+a+a) ..", TREND_UNKNOWN,
                    "+300.00 B in 2 of 2 vals"},
            {"the vals ask for it more often", "", 1, "v.)v..+a)v..+a+a) .....", TREND_UNKNOWN,
                    "+300.00 B in 2 of 2 vals"},
            {"they do not ask for it equally often", "", 1, "v.)v..+a)v.+a+a) .......",
                    TREND_UNKNOWN, "+300.00 B in 2 of 2 vals"},
            {"a place of the first val is emptied, and asks later", "", 1,
                    "v.+b+b)v.-b+a)v.-b+a+a) .....+b-b", TREND_FILLED,
                    "+300.00 B in 2 of 2 vals, not in the time of 5 more"},
            {"it holds more for a while", "", 1, "v.)v.+a)v.+a+a) ..+a-a.....", TREND_UNKNOWN,
                    "+300.00 B in 2 of 2 vals"},
            {"it gives back, and holds as much again", "", 1, "v.)v.+a)v.+a+a) ..-a+a.....",
                    TREND_FILLED, "+300.00 B in 2 of 2 vals, not in the time of 7 more"},
            {"what grows clearly, grows", "", 1, "v.+a)v.+a)v.+a) .......", TREND_GROWS,
                    "+100.00 B a val"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_row(&rows[i]);
}

/* An interpreter gives everything back in the step that is open when the program ends. */
TEST(a_step_that_was_not_finished_does_not_hide_what_grows)
{
    static const struct row row = {
            "open", "s.+a)", 5, "s -a-a-a-a-a", TREND_GROWS, "+100.00 B a step"};

    check_row(&row);
}

/*
 * A job dies within its last round: what it holds then counts, but for what each round gives back.
 * "s+a+b-b" holds a, and b for a while.
 */
TEST(a_round_that_ended_in_a_failure_counts_where_the_others_leave_it_open)
{
    static const struct {
        const char *told;
        enum trend trend;
        const char *text;
    } rows[] = {
            {"s.)s+a)s.) s+a", TREND_GROWS, "+200.00 B in 2 of 3 steps"},
            {"s+a-a)s+a+a-a)s+a-a) s+a+a", TREND_GROWS, "+200.00 B in 2 of 3 steps"},
            {"s+a-a)s+a+a-a)s+a-a) s+a", TREND_UNKNOWN, "+100.00 B in 1 of 2 steps"},
            {"s.)s.)s.) s+a", TREND_STEADY, ""},
            {"s.)s+a)s.)s.)s.) s+a", TREND_FILLED, "+100.00 B in 1 of 4 steps, not in the last 3"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct telling t = {.story = story_begin()};
        struct growth growth;

        CHECK_ROW(rows[i].told);
        tell(&t, rows[i].told);
        struct load_oom oom = {.at = (uint32_t)t.story.trace->event_count};
        struct load load = {.trace = t.story.trace, .ooms = &oom, .oom_count = 1};
        story_free(&t.story, story_alloc(&t.story, 77, 7777));
        growth_find(&load, model_whole(load.trace), NULL, &growth);
        REQUIRE_EQ(growth.site_count, rows[i].trend == TREND_STEADY ? 0 : 1);
        if (growth.site_count) {
            char *text = growth_text(&growth, &growth.sites[0]);
            CHECK_EQ(growth.sites[0].is.trend, rows[i].trend);
            CHECK_STR_EQ(text, rows[i].text);
            free(text);
        }
        growth_done(&growth);
        story_end(&t.story);
    }
}

/* An exception leaves the step, which then has an end: it is not whole all the same. */
TEST(a_failure_in_the_last_round_leaves_its_end_out)
{
    struct telling t = {.story = story_begin()};
    struct growth growth;

    tell(&t, "s+a)s+a)s+a)s+a)s.");
    struct load_oom oom = {.at = (uint32_t)t.story.trace->event_count};
    struct load load = {.trace = t.story.trace, .ooms = &oom, .oom_count = 1};
    tell(&t, ".)");
    growth_find(&load, model_whole(load.trace), NULL, &growth);
    CHECK_EQ(growth.rounds[0].count, 4);
    REQUIRE_EQ(growth.counts[TREND_GROWS], 1);
    char *text = growth_text(&growth, &growth.sites[0]);
    CHECK_STR_EQ(text, "+100.00 B a step");
    free(text);
    growth_done(&growth);
    story_end(&t.story);
}

/*
 * Of six places five give back what they ask for, with the step's length or without it; the sixth
 * has one block, which the next step replaces.
 */
static enum trend replaced_beside(const unsigned *lengths, unsigned rounds, unsigned scaling)
{
    struct story s = story_begin();
    struct growth growth;
    uint32_t last = TRACE_NONE;
    uint32_t stacks[6];

    for (unsigned i = 0; i < 6; i++) {
        struct trace_frame frame = {TRACE_NONE, 0x10 * (i + 1)};
        stacks[i] = trace_add_stack(s.trace, &frame, 1, false);
    }
    for (unsigned round = 0; round < rounds; round++) {
        (void)story_enter(&s, "step");
        for (unsigned i = 0; i < 5; i++) {
            uint32_t block = story_alloc(&s, i, 100 * (i < scaling ? lengths[round] : 1));
            s.trace->blocks[block].stack = stacks[i];
            story_free(&s, block);
        }
        if (last != TRACE_NONE)
            story_free(&s, last);
        last = story_alloc(&s, 5, 1000 * lengths[round]);
        s.trace->blocks[last].stack = stacks[5];
        story_exit(&s);
    }
    struct load load = {.trace = s.trace};
    growth_find(&load, model_whole(s.trace), NULL, &growth);
    enum trend trend = growth.site_count ? growth.sites[0].is.trend : TREND_STEADY;
    if (trend == TREND_UNKNOWN)
        CHECK_EQ(growth.sites[0].is.why, TREND_LARGER);
    growth_done(&growth);
    story_end(&s);
    return trend;
}

TEST(longer_texts_are_told_from_a_list_that_is_copied_and_grows)
{
    static const unsigned lengths[] = {2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5};
    static const unsigned each[] = {1, 2, 3, 4, 5, 6, 7};

    CHECK_EQ(replaced_beside(lengths, 12, 0), TREND_GROWS);
    CHECK_EQ(replaced_beside(lengths, 12, 2), TREND_GROWS);
    CHECK_EQ(replaced_beside(lengths, 12, 3), TREND_STEADY);
    CHECK_EQ(replaced_beside(lengths, 12, 5), TREND_STEADY);
    CHECK_EQ(replaced_beside(each, 7, 0), TREND_GROWS);
    CHECK_EQ(replaced_beside(each, 7, 5), TREND_STEADY);
}

TEST(why_there_are_no_rounds_is_told)
{
    static const struct {
        const char *told, *why;
    } rows[] = {
            {"m.+a.+a)",
                    "the program states no steps or other rounds: no anchors of one name but "
                    "for digits, one after another"},
            {"s.+a)s.+a)", "2 finished steps, and growth shows in 3"},
            {"s.+a)s.+a)s.+a", "2 finished steps, and growth shows in 3"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct telling t = {.story = story_begin()};
        struct growth growth;

        CHECK_ROW(rows[i].told);
        tell(&t, rows[i].told);
        struct load load = {.trace = t.story.trace};
        growth_find(&load, model_whole(load.trace), NULL, &growth);
        CHECK_STR_EQ(growth.why ? growth.why : "(known)", rows[i].why);
        growth_done(&growth);
        story_end(&t.story);
    }
}

/* Of evaluate two layers allocate, each below a frame of its own. */
TEST(what_one_line_of_the_program_lets_grow_is_one_site)
{
    static const struct trace_pyframe linear = {
            "linear", "/x/site-packages/torch/nn/l.py", 7, false, false, 0};
    static const struct trace_pyframe gelu = {
            "gelu", "/x/site-packages/torch/nn/g.py", 8, false, false, 0};
    static const struct trace_pyframe evaluate = {
            "evaluate", "/home/me/leak.py", 41, true, false, 0};
    static const struct trace_pyframe train = {"train", "/home/me/leak.py", 30, true, false, 0};
    const struct trace_pyframe frames[][2] = {{linear, evaluate}, {gelu, evaluate}, {gelu, train}};
    static const uint64_t sizes[] = {100, 50, 7};
    struct story s = story_begin();
    struct growth growth;
    uint32_t stacks[3];

    for (unsigned i = 0; i < 3; i++) {
        struct trace_frame frame = {TRACE_NONE, 0x10 * (i + 1)};
        stacks[i] = trace_add_stack(s.trace, &frame, 1, false);
        trace_set_python(s.trace, stacks[i], frames[i], 2, false);
    }
    for (int round = 0; round < 4; round++) {
        (void)story_enter(&s, "step");
        for (unsigned i = 0; i < 3; i++) {
            uint32_t block = story_alloc(&s, 1 + i, sizes[i]);
            s.trace->blocks[block].stack = stacks[i];
        }
        story_exit(&s);
    }
    struct load load = {.trace = s.trace};
    growth_find(&load, model_whole(s.trace), NULL, &growth);
    REQUIRE_EQ(growth.counts[TREND_GROWS], 3);
    struct symbols *symbols = symbols_new(s.trace);
    growth_join(&growth, symbols);
    REQUIRE_EQ(growth.counts[TREND_GROWS], 2);
    CHECK_EQ(growth.sites[0].stack, stacks[0]);
    char *text = growth_text(&growth, &growth.sites[0]);
    CHECK_STR_EQ(text, "+150.00 B a step");
    CHECK_EQ(growth.sites[1].is.last, 4 * 7);
    free(text);
    symbols_free(symbols);
    growth_done(&growth);
    story_end(&s);
}

/* What a ring has lost, and what a window leaves out. */
TEST(rounds_that_are_not_whole_do_not_count)
{
    struct telling t = {.story = story_begin()};
    struct growth growth;

    for (int i = 0; i < 6; i++)
        tell(&t, "s.+a)");
    struct load load = {.trace = t.story.trace, .complete_from = 6}; /* in the second step */
    growth_find(&load, model_whole(load.trace), NULL, &growth);
    CHECK_EQ(growth.rounds[0].count, 4);
    growth_done(&growth);
    struct model_window window = {.first = 5, .last = 24};
    load.complete_from = 0;
    growth_find(&load, window, NULL, &growth);
    CHECK_EQ(growth.rounds[0].count, 3);
    growth_done(&growth);
    story_end(&t.story);
}

/* SPDX-License-Identifier: MIT */
/* covers: measure.c */
#include "tests/check.h"
#include "tests/unit/tools/story.h"

#include "tools/check/measure.h"

/*
 * Three steps; each allocates 100 and 50, frees the 50, and keeps the 100, the last one until the end. Outside lies a block of 1000
 * that is never freed. Then peak 1350, remaining 1300 in 4 blocks.
 */
static struct story three_steps(void)
{
    struct story s = story_begin();

    (void)story_alloc(&s, 1, 1000);
    for (int i = 0; i < 3; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "part_%d", i);
        (void)story_enter(&s, name);
        (void)story_alloc(&s, 2, 100);
        story_free(&s, story_alloc(&s, 3, 50));
        story_exit(&s);
    }
    return s;
}

/* A capture of a run that ended as it should. */
static struct read_capture ended(void)
{
    return (struct read_capture){.state = FORMAT_STATE_CLEAN};
}

static struct load load_of(const struct story *s, struct read_capture *capture)
{
    return (struct load){.trace = s->trace, .capture = capture};
}

/* The answer; *ret_result: with the note, which the caller frees. */
static enum claim_answer asked(
        const struct load *load, const char *text, struct measure_result *ret_result)
{
    struct measure measure;
    struct claim claim;
    struct claim_error error;

    REQUIRE(claim_parse(text, &claim, &error));
    measure_begin(load, &measure);
    REQUIRE(measure_claim(&measure, &claim, ret_result));
    measure_done(&measure);
    claim_done(&claim);
    return ret_result->answer;
}

static enum claim_answer answered(const struct load *load, const char *text)
{
    struct measure_result result;
    enum claim_answer answer = asked(load, text, &result);

    free(result.note);
    return answer;
}

static void check_value(const struct load *load, const char *figure, uint64_t value)
{
    char text[80];

    (void)snprintf(text, sizeof(text), "%s==%llu", figure, (unsigned long long)value);
    CHECK_EQ(answered(load, text), CLAIM_YES);
    (void)snprintf(text, sizeof(text), "%s!=%llu", figure, (unsigned long long)value);
    CHECK_EQ(answered(load, text), CLAIM_NO);
}

TEST(the_figures_of_a_run_are_those_of_its_report)
{
    struct story s = three_steps();
    struct read_capture capture = ended();
    struct load load = load_of(&s, &capture);

    trace_add_reserved(s.trace, 0, 4096);
    trace_add_reserved(s.trace, 0, 2048);
    check_value(&load, "peak", 1350);
    check_value(&load, "reserved", 4096);
    check_value(&load, "allocated", 1450);
    check_value(&load, "allocations", 7);
    check_value(&load, "freed", 150);
    check_value(&load, "frees", 3);
    check_value(&load, "remaining", 1300);
    check_value(&load, "leaks", 4);
    check_value(&load, "peak_with_hints", 1350);
    check_value(&load, "peak_if_live", 1350);
    check_value(&load, "remaining_with_hints", 1300);
    check_value(&load, "hint_releases", 0);
    story_end(&s);
}

TEST(what_hints_released_counts_by_their_mode)
{
    static const struct {
        enum hint_mode mode;
        uint64_t with_hints, if_live, remaining, releases;
    } rows[] = {{HINT_LIVE, 100, 100, 0, 2}, {HINT_SHADOW, 200, 100, 200, 0}};

    for (size_t i = 0; i < 2; i++) {
        struct story s = story_begin();
        struct read_capture capture = ended();

        for (int k = 0; k < 2; k++) {
            uint32_t anchor = story_enter(&s, "A");
            uint32_t block = story_alloc(&s, 1, 100);
            story_exit(&s);
            story_release(&s, block, anchor, rows[i].mode);
        }
        struct load load = load_of(&s, &capture);
        check_value(&load, "peak", 200);
        check_value(&load, "peak_with_hints", rows[i].with_hints);
        check_value(&load, "peak_if_live", rows[i].if_live);
        check_value(&load, "remaining", 200);
        check_value(&load, "remaining_with_hints", rows[i].remaining);
        check_value(&load, "hint_releases", rows[i].releases);
        story_end(&s);
    }
}

TEST(of_anchors_the_worst_instance_counts_and_is_named)
{
    struct story s = story_begin();
    struct read_capture capture = ended();
    struct measure_result result;
    static const struct {
        const char *text;
        enum claim_answer answer;
        const char *path;
        uint32_t instance;
    } rows[] = {
            {"anchor:\"step_*\".remaining<=30", CLAIM_YES, "train/step_1", 0},
            {"anchor:\"step_*\".remaining<30", CLAIM_NO, "train/step_1", 0},
            {"anchor:\"step_*\".remaining>=10", CLAIM_YES, "train/step_0", 0},
            {"anchor:\"step_*\".remaining>10", CLAIM_NO, "train/step_0", 0},
            {"anchor:\"step_*\".remaining==10", CLAIM_NO, "train/step_1", 0},
            {"anchor:\"step_*\".remaining!=20", CLAIM_NO, "train/step_0", 1},
            {"anchor:\"train/step_0\".leaks==1", CLAIM_YES, "train/step_0", 0},
            {"anchor:\"train/step_0\".remaining<=10", CLAIM_NO, "train/step_0", 1},
            {"anchor:train.remaining==60", CLAIM_YES, "train", 0},
            {"anchor:\"*\".peak<=60", CLAIM_YES, "train", 0},
    };

    (void)story_enter(&s, "train");
    static const char *const names[] = {"step_0", "step_1", "step_0"};
    static const uint64_t sizes[] = {10, 30, 20};
    for (int i = 0; i < 3; i++) {
        (void)story_enter(&s, names[i]);
        (void)story_alloc(&s, 1, sizes[i]);
        story_exit(&s);
    }
    story_exit(&s);
    struct load load = load_of(&s, &capture);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        printf("    %s\n", rows[i].text);
        CHECK_EQ(asked(&load, rows[i].text, &result), rows[i].answer);
        REQUIRE(result.anchor != TRACE_NONE);
        CHECK_STR_EQ(s.trace->anchors[result.anchor].path, rows[i].path);
        CHECK_EQ(s.trace->anchors[result.anchor].instance, rows[i].instance);
        free(result.note);
    }
    story_end(&s);
}

TEST(an_anchor_that_is_not_there_is_no_answer)
{
    struct story s = three_steps();
    struct read_capture capture = ended();
    struct load load = load_of(&s, &capture);
    struct measure_result result;

    CHECK_EQ(asked(&load, "anchor:\"part-1\".remaining<1GiB", &result), CLAIM_UNKNOWN);
    CHECK_STR_EQ(result.note, "no anchor is called 'part-1'; did you mean 'part_1'?");
    free(result.note);
    CHECK_EQ(asked(&load, "anchor:\"other_*\".remaining<1GiB", &result), CLAIM_UNKNOWN);
    CHECK_STR_EQ(result.note, "no anchor is called 'other_*'");
    free(result.note);
    story_end(&s);
}

TEST(a_mark_holds_nothing_and_is_no_anchor_to_ask)
{
    struct story s = three_steps();
    struct read_capture capture = ended();
    uint32_t mark = trace_add_anchor(s.trace, "here", TRACE_NONE);

    trace_add_edge(s.trace, TRACE_MARK, mark, s.thread);
    struct load load = load_of(&s, &capture);
    CHECK_EQ(answered(&load, "anchor:here.remaining<1GiB"), CLAIM_UNKNOWN);
    CHECK_EQ(answered(&load, "anchor:\"*\".peak>=100"), CLAIM_YES);
    story_end(&s);
}

TEST(of_a_run_that_was_cut_off_only_so_much_is_known)
{
    struct story s = three_steps();
    struct read_capture capture = {.state = FORMAT_STATE_OOM};
    struct measure_result result;

    (void)story_enter(&s, "part_3");
    (void)story_alloc(&s, 2, 100);
    struct load load = load_of(&s, &capture);
    CHECK_EQ(answered(&load, "peak<1400"), CLAIM_NO);
    CHECK_EQ(asked(&load, "peak<1401", &result), CLAIM_UNKNOWN);
    CHECK_STR_EQ(result.note, "not known: the run was cut off before its end");
    free(result.note);
    CHECK_EQ(answered(&load, "allocations>=8"), CLAIM_YES);
    CHECK_EQ(answered(&load, "remaining<1000"), CLAIM_UNKNOWN); /* it would have freed more */
    CHECK_EQ(answered(&load, "leaks==0"), CLAIM_UNKNOWN);
    /* anchors that it left are known, but others would have come, and one is open */
    CHECK_EQ(answered(&load, "anchor:\"part_0\".remaining<100"), CLAIM_NO);
    CHECK_EQ(answered(&load, "anchor:\"part_0\".remaining<=100"), CLAIM_UNKNOWN);
    CHECK_EQ(answered(&load, "anchor:\"part_3\".remaining<100"), CLAIM_UNKNOWN);
    CHECK_EQ(answered(&load, "anchor:\"part_3\".allocated<100"), CLAIM_NO);
    story_end(&s);
}

TEST(where_events_are_missing_the_writers_own_figures_count)
{
    struct story s = three_steps();
    struct read_capture capture = ended();
    struct load load = load_of(&s, &capture);
    struct read_rule rule = {.id = "r", .mode = HINT_SHADOW};
    struct measure_result result;

    capture.total = (struct format_totals){.peak_bytes = 5000,
            .peak_hinted_bytes = 5000,
            .live_bytes = 700,
            .allocated_count = 90,
            .freed_count = 88,
            .peak_reserved_bytes = 8192};
    load.complete_from = 5;
    check_value(&load, "peak", 5000);
    check_value(&load, "remaining", 700);
    check_value(&load, "leaks", 2);
    check_value(&load, "reserved", 8192);
    check_value(&load, "peak_if_live", 5000); /* no hint would change it */
    capture.rule = &rule;
    capture.rule_count = 1;
    static const char *const texts[] = {
            "anchor:\"part_*\".remaining<1GiB", "growth==0", "peak_if_live<1GiB"};
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(asked(&load, texts[i], &result), CLAIM_UNKNOWN);
        CHECK_STR_EQ(result.note, LOAD_LACKS);
        free(result.note);
    }
    story_end(&s);
}

/* Steps of the names step_N; each keeps `more` bytes of site 7. */
static struct story stated_steps(int count, uint64_t more)
{
    struct story s = story_begin();

    for (int i = 0; i < count; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "step_%d", i);
        (void)story_enter(&s, name);
        story_free(&s, story_alloc(&s, 6, 100));
        if (more)
            (void)story_alloc(&s, 7, more);
        story_exit(&s);
    }
    return s;
}

TEST(growth_is_what_stated_steps_add)
{
    struct read_capture capture = ended();
    struct measure_result result;
    struct story still = stated_steps(6, 0);
    struct story grows = stated_steps(6, 8);
    struct story brief = stated_steps(2, 8);
    struct load load = load_of(&still, &capture);

    CHECK_EQ(answered(&load, "growth==0"), CLAIM_YES);
    load = load_of(&grows, &capture);
    CHECK_EQ(asked(&load, "growth==0", &result), CLAIM_NO);
    CHECK_EQ(result.range.low, 5 * 8);
    CHECK_STR_EQ(result.note, "blocks of 8.00 B: +8.00 B a step, 48.00 B after the last");
    free(result.note);
    CHECK_EQ(answered(&load, "growth<=40"), CLAIM_YES);
    load = load_of(&brief, &capture);
    CHECK_EQ(asked(&load, "growth==0", &result), CLAIM_UNKNOWN);
    CHECK_STR_EQ(result.note, "not known: 2 finished steps, and growth shows in 3");
    free(result.note);
    capture.state = FORMAT_STATE_OOM; /* more rounds would have followed */
    load = load_of(&grows, &capture);
    CHECK_EQ(answered(&load, "growth==0"), CLAIM_NO);
    CHECK_EQ(answered(&load, "growth>=40"), CLAIM_YES);
    CHECK_EQ(answered(&load, "growth<=40"), CLAIM_UNKNOWN);
    load = load_of(&still, &capture);
    CHECK_EQ(asked(&load, "growth==0", &result), CLAIM_UNKNOWN);
    CHECK_STR_EQ(result.note, "not known: the run was cut off before its end");
    free(result.note);
    story_end(&still);
    story_end(&grows);
    story_end(&brief);
}

/* Steps of which site 7 keeps 8 bytes in those that are marked. */
static struct story marked_steps(const char *marks)
{
    struct story s = story_begin();

    for (const char *at = marks; *at; at++) {
        (void)story_enter(&s, "step");
        story_free(&s, story_alloc(&s, 6, 100));
        if (*at == '+')
            (void)story_alloc(&s, 7, 8);
        story_exit(&s);
    }
    return s;
}

TEST(growth_now_and_then_is_told_as_such)
{
    static const struct {
        const char *marks;
        enum claim_answer answer;
        const char *note;
    } rows[] = {
            {"+...+...+...", CLAIM_NO,
                    "blocks of 8.00 B: +8.00 B every 4 steps, 24.00 B after the last"},
            {"...........+", CLAIM_UNKNOWN,
                    "not known: blocks of 8.00 B: +8.00 B in 1 of 11 steps; it rose once, which a "
                    "cache does, too"},
            {"++++........", CLAIM_YES,
                    "filled, and stays: blocks of 8.00 B: +24.00 B in 3 of 11 steps, not in the "
                    "last 8, 32.00 B after the last"},
            {"+...........", CLAIM_YES, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct story s = marked_steps(rows[i].marks);
        struct read_capture capture = ended();
        struct load load = load_of(&s, &capture);
        struct measure_result result;

        CHECK_ROW(rows[i].marks);
        CHECK_EQ(asked(&load, "growth==0", &result), rows[i].answer);
        CHECK_STR_EQ(result.note ? result.note : "", rows[i].note ? rows[i].note : "");
        free(result.note);
        story_end(&s);
    }
}

/* Each block of another size, so of another site: none of them grows by itself. */
TEST(growth_is_not_denied_where_each_step_keeps_something_else)
{
    struct story s = story_begin();
    struct read_capture capture = ended();
    struct measure_result result;

    for (uint64_t i = 0; i < 6; i++) {
        (void)story_enter(&s, "step");
        (void)story_alloc(&s, 1, 100 + i);
        story_exit(&s);
    }
    struct load load = load_of(&s, &capture);
    CHECK_EQ(asked(&load, "growth==0", &result), CLAIM_UNKNOWN);
    CHECK_STR_EQ(result.note,
            "not known: blocks of 105.00 B: +105.00 B in 1 of 5 steps; it rose once, which a cache "
            "does, too");
    free(result.note);
    story_end(&s);
}

/*
 * A block of 1000 from before the first step goes after the seventh; of site 7 as many bytes leak
 * as `leaks` says, in each fourth step.
 */
static struct story masked_steps(unsigned count, uint64_t leaks)
{
    struct story s = story_begin();
    uint32_t model = story_alloc(&s, 1, 1000);

    for (unsigned i = 0; i < count; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "step_%u", i);
        (void)story_enter(&s, name);
        story_free(&s, story_alloc(&s, 6, 100));
        if (leaks && i % 4 == 3)
            (void)story_alloc(&s, 7, leaks);
        if (i == 6)
            story_free(&s, model);
        story_exit(&s);
    }
    return s;
}

TEST(growth_is_not_denied_where_more_is_freed_meanwhile)
{
    struct read_capture capture = ended();

    for (unsigned count = 8; count <= 24; count++) {
        struct story leaks = masked_steps(count, 8);
        struct story none = masked_steps(count, 0);
        struct load load = load_of(&leaks, &capture);
        struct measure_result result;

        CHECK_ROW("leaks");
        CHECK_EQ(asked(&load, "growth==0", &result), CLAIM_NO);
        CHECK_EQ(strncmp(result.note, "blocks of 8.00 B: +", 19), 0);
        free(result.note);
        load = load_of(&none, &capture);
        CHECK_EQ(answered(&load, "growth==0"), CLAIM_YES);
        story_end(&leaks);
        story_end(&none);
    }
}

/* Released at the exit of its step, and never freed. */
TEST(growth_is_a_range_where_hints_released_what_grows)
{
    struct story s = story_begin();
    struct read_capture capture = ended();

    for (int i = 0; i < 6; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "step_%d", i);
        uint32_t anchor = story_enter(&s, name);
        uint32_t block = story_alloc(&s, 7, 8);
        story_exit(&s);
        story_release(&s, block, anchor, HINT_LIVE);
    }
    struct load load = load_of(&s, &capture);
    struct measure_result result;
    CHECK_EQ(asked(&load, "growth==0", &result), CLAIM_UNKNOWN);
    CHECK_EQ(result.range.low, 0);
    CHECK_EQ(result.range.high, 5 * 8);
    CHECK_STR_EQ(result.note,
            "not known: call sites gained 40.00 B by what the program freed, and 0.00 B by what "
            "hints have not released");
    free(result.note);
    CHECK_EQ(answered(&load, "growth<=40"), CLAIM_YES);
    CHECK_EQ(answered(&load, "growth>40"), CLAIM_NO);
    story_end(&s);
}

/* Freed by the program in the second step and later, and held by a hint for good. */
TEST(growth_is_not_denied_where_hints_hold_what_was_freed)
{
    struct story s = masked_steps(8, 0);
    struct read_capture capture = ended();
    struct load_hold holds[6];
    struct load load = load_of(&s, &capture);
    struct measure_result result;

    for (unsigned i = 0; i < 6; i++)
        holds[i] = (struct load_hold){4 * (i + 1), 8 * (i + 1)};
    load.holds = holds;
    load.held_count = 6;
    CHECK_EQ(asked(&load, "growth==0", &result), CLAIM_UNKNOWN);
    CHECK_STR_EQ(result.note,
            "not known: hints hold 32.00 B more at the end than before, of blocks that the "
            "program freed");
    free(result.note);
    load.held_count = 1; /* once, and never more */
    holds[0].at = 0;
    CHECK_EQ(answered(&load, "growth==0"), CLAIM_YES);
    story_end(&s);
}

TEST(growth_is_not_known_of_the_last_steps_alone)
{
    struct read_capture capture = ended();
    struct story s = stated_steps(6, 8);
    struct load load = load_of(&s, &capture);

    load.complete_from = 5;
    CHECK_EQ(answered(&load, "growth<=40"), CLAIM_UNKNOWN);
    CHECK_EQ(answered(&load, "growth==0"), CLAIM_UNKNOWN);
    story_end(&s);
}

TEST(r90_growth_is_not_asked_of_detected_steps)
{
    struct story s = story_begin();
    struct read_capture capture = ended();

    for (int i = 0; i < 10; i++) {
        uint32_t held[5];

        for (uint64_t k = 0; k < 5; k++)
            held[k] = story_alloc(&s, 10 + k, 100 * (k + 1));
        for (int k = 4; k >= 0; k--)
            story_free(&s, held[k]);
        (void)story_alloc(&s, 30, 64);
    }
    struct load load = load_of(&s, &capture);
    CHECK_EQ(answered(&load, "growth==0"), CLAIM_UNKNOWN);
    story_end(&s);
}

/* SPDX-License-Identifier: MIT */
/* covers: predict.c suggest_candidates.c suggest_lastuse.c suggest_rules.c */
#include "tests/check.h"

#include "alloc/base/wildcard.h"
#include "tests/unit/tools/pipestory.h"
#include "tools/base/vec.h"
#include "tools/replay/predict.h"
#include "tools/suggest/suggest_candidates.h"
#include "tools/suggest/suggest_lastuse.h"
#include "tools/suggest/suggest_rules.h"
#include "tracker/hints/apicalls.h"
#include "tracker/hints/hintfile.h"
#include "tracker/hints/hintwrite.h"

#define MB (UINT64_C(1) << 20)

/* Two runs of one program; `late` blocks are freed inside the anchor by good and kept by bad. */
struct pair {
    struct story good, bad;
    bool late[4096]; /* per block of bad */
};

static struct pair *pair_begin(void)
{
    struct pair *p = calloc(1, sizeof(*p));
    p->good = story_begin();
    p->bad = story_begin();
    return p;
}

static void pair_end(struct pair *p)
{
    story_end(&p->good);
    story_end(&p->bad);
    free(p);
}

static void enter(struct pair *p, const char *name)
{
    (void)story_enter(&p->good, name);
    (void)story_enter(&p->bad, name);
}

static void leave(struct pair *p)
{
    story_exit(&p->good);
    story_exit(&p->bad);
}

static void kept(struct pair *p, uint64_t site, uint64_t size)
{
    (void)story_alloc(&p->good, site, size);
    (void)story_alloc(&p->bad, site, size);
}

static uint32_t late(struct pair *p, uint64_t site, uint64_t size)
{
    story_free(&p->good, story_alloc(&p->good, site, size));
    uint32_t block = story_alloc(&p->bad, site, size);
    p->late[block] = true;
    return block;
}

static void numbered(char name[32], const char *stem, int number)
{
    (void)snprintf(name, 32, "%s%d", stem, number);
}

/* ---- two runs that are told in words ---- */

/* "1:4" is a block of site 1 and 4 MiB. */
static void tell_block(struct story *story, const char *text, bool is_freed)
{
    char *rest;
    uint64_t site = strtoul(text, &rest, 10);
    uint32_t block = story_alloc(story, site, strtoul(rest + 1, NULL, 10) * MB);

    if (is_freed)
        story_free(story, block);
}

/*
 * "A{" enters A and "}" leaves it; "+1:4" is kept by both runs, "-1:4" freed at once by both, "!1:4" by the good one alone. With
 * "good:" before it a word is told of the good run alone.
 */
static void tell_word(struct pair *p, const char *word)
{
    bool is_good = strncmp(word, "good:", 5) == 0;
    struct story *both[] = {&p->good, &p->bad};
    char name[32];

    word += is_good ? 5 : 0;
    for (int i = 0; i < (is_good ? 1 : 2); i++) {
        if (*word == '}') {
            story_exit(both[i]);
        } else if (strchr("+-!", *word)) {
            tell_block(both[i], word + 1, *word == '-' || (*word == '!' && i == 0));
            if (i == 1)
                p->late[p->bad.trace->block_count - 1] = *word == '!';
        } else {
            (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "{"), word);
            (void)story_enter(both[i], name);
        }
    }
}

/* So many times; a "%" that a name ends in is the number of the turn. */
static struct pair *pair_told(const char *words, int turns)
{
    struct pair *p = pair_begin();

    for (int i = 0; i < turns; i++) {
        char *text = strdup(words), *rest = text, *word;
        while ((word = strsep(&rest, " ")) != NULL) {
            size_t length = strcspn(word, "%");
            char filled[40];
            if (word[length])
                (void)snprintf(filled, sizeof(filled), "%.*s%d{", (int)length, word, i);
            else
                (void)snprintf(filled, sizeof(filled), "%s", word);
            tell_word(p, filled);
        }
        free(text);
    }
    return p;
}

static struct suggest_rules mined_as(const struct pair *p, bool only_effective)
{
    struct compare_side g = {p->good.trace, model_whole(p->good.trace), true};
    struct compare_side b = {p->bad.trace, model_whole(p->bad.trace), true};
    struct compare c;
    struct suggest_rules mine;

    compare_runs(&g, &b, &c);
    struct suggest_rules_job job = {.trace = p->bad.trace,
            .good = p->good.trace,
            .window = b.window,
            .late = c.late,
            .late_count = c.late_count,
            .min_size = 2 * MB,
            .only_effective = only_effective};
    REQUIRE_EQ(suggest_rules_hints(&job, &mine), 0);
    compare_done(&c);
    return mine;
}

static struct suggest_rules mined(const struct pair *p)
{
    return mined_as(p, false);
}

/* The least and the most that hint `number` matches at one event are what it expects. */
static void check_expectation(const struct trace *trace, const struct predict_match *matches,
        const struct suggest_rules *mine, size_t number)
{
    const struct rule_expect *expect = &mine->hints[number].rule.expect;
    struct rule_seen *seen = calloc(trace->event_count, sizeof(*seen));
    struct rule_expect found = {{UINT64_MAX, 0}, {UINT64_MAX, 0}};

    for (size_t i = 0; i < trace->block_count; i++) {
        if (matches[i].rule != number || matches[i].small)
            continue;
        seen[matches[i].at].count++;
        seen[matches[i].at].bytes += trace->blocks[i].size;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (seen[i].count == 0)
            continue;
        found.count.lo = min_of(found.count.lo, seen[i].count);
        found.count.hi = max_of(found.count.hi, seen[i].count);
        found.bytes.lo = min_of(found.bytes.lo, seen[i].bytes);
        found.bytes.hi = max_of(found.bytes.hi, seen[i].bytes);
    }
    CHECK_EQ(memcmp(&found, expect, sizeof(found)), 0);
    free(seen);
}

/* The hints match late blocks and nothing else, each released at the exit of its own anchor: checked by the acting code. */
static void check_exact(const struct pair *p, const struct suggest_rules *mine)
{
    const struct trace *trace = p->bad.trace;
    struct predict_match *matches = calloc(trace->block_count, sizeof(*matches));
    struct rule *rules = calloc(mine->hint_count + 1, sizeof(*rules));
    uint64_t matched = 0;

    for (size_t i = 0; i < mine->hint_count; i++)
        rules[i] = mine->hints[i].rule;
    REQUIRE_EQ(predict_matches(trace, rules, mine->hint_count, matches), 0);
    for (size_t i = 0; i < trace->block_count; i++) {
        if (matches[i].rule == TRACE_NONE || matches[i].small)
            continue;
        matched++;
        CHECK(p->late[i]);
        CHECK_EQ(matches[i].at, trace->anchors[trace->blocks[i].anchor].exit);
    }
    CHECK_EQ(matched, mine->covered.count);
    for (size_t i = 0; i < mine->hint_count; i++)
        check_expectation(trace, matches, mine, i);
    free(matches);
    free(rules);
}

TEST(one_site_that_is_always_late_needs_one_hint)
{
    struct pair *p = pair_begin();
    char name[32];
    for (int i = 0; i < 40; i++) {
        numbered(name, "SOT_CALL_", i);
        enter(p, name);
        kept(p, 1, 8 * MB);
        (void)late(p, 2, (uint64_t)(2 + i) * MB);
        leave(p);
    }
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 1);
    const struct rule *rule = &m.hints[0].rule;
    CHECK_STR_EQ(rule->pick.inside, "SOT_CALL_*");
    CHECK_STR_EQ(rule->when.anchor, "SOT_CALL_*");
    CHECK_EQ(rule->when.kind, EDGE_EXIT);
    CHECK_EQ(rule->pick.site[0], 2);
    CHECK_EQ(rule->pick.size_lo, 2 * MB);
    CHECK_EQ(rule->pick.size_hi, UINT64_MAX);
    CHECK_EQ(rule->pick.nth_hi, UINT32_MAX);
    CHECK_EQ(rule->mode, HINT_SHADOW);
    CHECK_EQ(rule->expect.count.lo, 1); /* in each instance */
    CHECK_EQ(rule->expect.count.hi, 1);
    CHECK_EQ(rule->expect.bytes.lo, 2 * MB);
    CHECK_EQ(rule->expect.bytes.hi, 41 * MB);
    CHECK_EQ(m.covered.count, 40);
    check_exact(p, &m);
    suggest_rules_done(&m);
    pair_end(p);
}

/* "1:2..3 #0..1 in A": blocks of site 1, of 2 to 3 MiB, the first two, in A. Nothing is said of a bound that is none. */
static void hints_text(const struct suggest_rules *mine, char text[512])
{
    *text = '\0';
    for (size_t i = 0; i < mine->hint_count; i++) {
        const struct rule *rule = &mine->hints[i].rule;
        const struct rule_pick *pick = &rule->pick;
        size_t length = strlen(text);
        FILE *out = fmemopen(text + length, 512 - length, "w");

        (void)fprintf(
                out, "%s%d:%d..", i ? ", " : "", (int)pick->site[0], (int)(pick->size_lo / MB));
        if (pick->size_hi != UINT64_MAX)
            (void)fprintf(out, "%d", (int)(pick->size_hi / MB));
        if (pick->nth_lo != 0 || pick->nth_hi != UINT32_MAX)
            (void)fprintf(out, " #%u..%u", pick->nth_lo, pick->nth_hi);
        (void)fprintf(out, " in %s", pick->inside);
        (void)fclose(out);
        CHECK_EQ(pick->size_lo % MB, 0);
        CHECK(pick->size_hi % MB == 0 || pick->size_hi == UINT64_MAX);
        CHECK_STR_EQ(rule->when.anchor, pick->inside);
        CHECK_EQ(rule->when.kind, EDGE_EXIT);
    }
}

TEST(hints_match_what_is_late_and_nothing_else)
{
    static const struct {
        const char *name, *words;
        int turns;
        const char *hints;
        uint64_t covered, mixed, mixed_mib, unplaced;
    } rows[] = {
            {"kept ones of the site split the hint by size", "A{ !1:2 !1:3 +1:4 !1:5 +1:6 }", 1,
                    "1:2..3 in A, 1:5..5 in A", 3, 0, 0, 0},
            {"kept ones of the site and size split it by nth", "SOT_CALL_%{ +1:4 !1:4 !1:4 +1:4 }",
                    5, "1:2.. #1..2 in SOT_CALL_*", 10, 0, 0, 0},
            {"anchors where it is kept split it by name",
                    "S_0{ !1:4 } S_1{ !1:4 } S_2{ +1:4 } S_3{ !1:4 } S_4{ !1:4 } S_5{ +1:4 }", 1,
                    "1:2.. in S_0, 1:2.. in S_1, 1:2.. in S_3, 1:2.. in S_4", 4, 0, 0, 0},
            /*
             * The good run allocates more at that site and keeps it: a hint that would release it there is wrong, though no block of
             * the bad run says so. The last one ends in time.
             */
            {"what good keeps past the exit is not matched",
                    "A{ !1:4 good:+1:6 } B{ !2:4 good:+2:4 } C{ !3:4 good:-3:8 }", 1,
                    "3:2.. in C, 2:2.. #0..0 in B, 1:4..4 in A", 3, 0, 0, 0},
            /* A fourth step of the good run alone keeps what is late in three. */
            {"what only good speaks against gets none",
                    "step{ !1:4 } step{ !1:4 } step{ !1:4 } good:step{ good:+1:4 good:}", 1, "", 0,
                    3, 12, 0},
            /* The same site, size, number and name: in one instance late, in another kept. No hint can say that. */
            {"what cannot be told apart gets none",
                    "step{ !1:4 } step{ +1:4 } step{ !1:4 } step{ !1:4 }", 1, "", 0, 3, 12, 0},
            {"what bad frees in time is not matched either", "A{ !1:4 -1:6 }", 1, "1:4..4 in A", 1,
                    0, 0, 0},
            {"what the site allocates outside of the anchor does not matter",
                    "+1:4 A{ !1:4 } B{ +1:4 }", 1, "1:2.. in A", 1, 0, 0, 0},
            {"blocks without a stack get none", "A{ !0:4 }", 1, "", 0, 0, 0, 1},
            {"a name that is no text matches itself", "st\xe9p{ !1:4 } st\xe8p{ +1:4 }", 1,
                    "1:2.. in st\xe9p", 1, 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];

        CHECK_ROW(rows[i].name);
        struct pair *p = pair_told(rows[i].words, rows[i].turns);
        struct suggest_rules m = mined(p);
        hints_text(&m, text);
        CHECK_STR_EQ(text, rows[i].hints);
        CHECK_EQ(m.covered.count, rows[i].covered);
        CHECK_EQ(m.mixed.count, rows[i].mixed);
        CHECK_EQ(m.mixed.bytes, rows[i].mixed_mib * MB);
        CHECK_EQ(m.unplaced.count, rows[i].unplaced);
        check_exact(p, &m);
        suggest_rules_done(&m);
        pair_end(p);
    }
}

TEST(a_hint_expects_what_it_matches_in_each_instance)
{
    /* without a match an instance is not to be judged */
    struct pair *p = pair_told("A{ !1:4 } A{ } A{ !1:4 !1:4 } A{ } A{ !1:4 !1:4 !1:4 } A{ }", 1);
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 1);
    const struct rule_expect *expect = &m.hints[0].rule.expect;
    CHECK_EQ(expect->count.lo, 1);
    CHECK_EQ(expect->count.hi, 3);
    CHECK_EQ(expect->bytes.lo, 4 * MB);
    CHECK_EQ(expect->bytes.hi, 12 * MB);
    suggest_rules_done(&m);
    pair_end(p);
}

/* One kept in an anchor where the others are late: a range of turns for that anchor does not spoil the hint for the rest. */
TEST(the_hint_that_covers_most_is_taken_first)
{
    struct pair *p = pair_begin();
    char name[32];

    for (int i = 0; i < 8; i++) {
        numbered(name, "SOT_CALL_", i);
        enter(p, name);
        for (int k = 0; k < 20;
                k++) /* of many sizes, all late in one anchor, each second size kept in the others */
            if (i == 3 || k % 2)
                (void)late(p, 1, (uint64_t)(2 + k) * MB);
            else
                kept(p, 1, (uint64_t)(2 + k) * MB);
        leave(p);
    }
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 11); /* the anchor, and each second size of all anchors */
    CHECK_STR_EQ(m.hints[0].rule.pick.inside, "SOT_CALL_3");
    CHECK_EQ(m.hints[0].count, 20);
    for (size_t i = 1; i < m.hint_count; i++)
        CHECK_STR_EQ(m.hints[i].rule.pick.inside, "SOT_CALL_*");
    CHECK_EQ(m.covered.count, 90);
    check_exact(p, &m);
    suggest_rules_done(&m);
    pair_end(p);
}

/* A layer asks four times at one site, in sizes that differ from step to step: the second and the fourth are late. */
TEST(late_turns_of_all_sizes_need_one_hint_each)
{
    struct pair *p = pair_begin();
    char name[32];

    for (int i = 0; i < 12; i++) {
        uint64_t size = (uint64_t)(2 + i) * MB;
        numbered(name, "step_", i);
        enter(p, name);
        for (int k = 0; k < 4; k++)
            if (k % 2)
                (void)late(p, 1, size);
            else
                kept(p, 1, size);
        leave(p);
    }
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(m.hints[i].rule.pick.nth_lo, 1 + 2 * i);
        CHECK_EQ(m.hints[i].rule.pick.nth_hi, 1 + 2 * i);
        CHECK_EQ(m.hints[i].rule.pick.size_hi, UINT64_MAX);
    }
    CHECK_EQ(m.covered.count, 24);
    check_exact(p, &m);
    suggest_rules_done(&m);
    pair_end(p);
}

/* Two threads ask in the same place, and only what the first one got is late. Which comes first is a matter of scheduling. */
static struct pair *threads_take_turns(uint64_t first_size, bool in_one_instance, bool only_good)
{
    struct pair *p = pair_begin();

    for (int i = 0; i < 5; i++) {
        enter(p, "A");
        (void)late(p, 1, first_size);
        p->good.thread = in_one_instance ? 1 : 0;
        p->bad.thread = in_one_instance && !only_good ? 1 : 0;
        p->good.depth[1] = p->bad.depth[1] = 1;
        p->good.open[1][0] = p->good.open[0][0];
        p->bad.open[1][0] = p->bad.open[0][0];
        kept(p, 1, 4 * MB);
        p->good.thread = p->bad.thread = 0;
        leave(p);
    }
    return p;
}

TEST(r109_where_several_threads_ask_no_hint_counts)
{
    for (int only_good = 0; only_good < 2; only_good++) {
        CHECK_ROW(only_good ? "in the good run alone" : "in both runs");
        struct pair *p = threads_take_turns(4 * MB, true, only_good);
        struct suggest_rules m = mined(p);

        CHECK_EQ(m.hint_count, 0);
        CHECK_EQ(m.mixed.count, 5);
        suggest_rules_done(&m);
        pair_end(p);
    }
}

TEST(r109_where_one_thread_asks_or_sizes_differ_a_hint_may_count_or_tell_sizes)
{
    struct pair *p = threads_take_turns(4 * MB, false, false);
    struct suggest_rules m = mined(p);

    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.hints[0].rule.pick.nth_hi, 0);
    suggest_rules_done(&m);
    pair_end(p);
    p = threads_take_turns(8 * MB, true, false);
    m = mined(p);
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.hints[0].rule.pick.nth_hi, UINT32_MAX);
    CHECK_EQ(m.hints[0].rule.pick.size_lo, 8 * MB);
    suggest_rules_done(&m);
    pair_end(p);
}

/* What another size says of turns does not hold where threads take them. */
TEST(r109_turns_of_all_sizes_are_none_where_threads_take_those_of_one)
{
    struct pair *p = threads_take_turns(4 * MB, true, false);

    for (int i = 0; i < 5; i++) {
        enter(p, "A");
        (void)late(p, 1, 6 * MB);
        kept(p, 1, 6 * MB);
        leave(p);
    }
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.hints[0].rule.pick.size_lo, 6 * MB);
    CHECK_EQ(m.hints[0].rule.pick.size_hi, 6 * MB);
    CHECK_EQ(m.hints[0].rule.pick.nth_hi, 0);
    suggest_rules_done(&m);
    pair_end(p);
}

/* The site with fewer blocks is looked at, the other one is not, and that is said. */
TEST(a_search_that_is_cut_says_so)
{
    struct story s = story_begin();
    uint32_t late_exit[11];
    uint32_t late_anchor[11];
    uint32_t anchor = story_enter(&s, "A");

    for (int i = 0; i < 11; i++)
        (void)story_alloc(&s, i == 10 ? 2 : 1, 4 * MB);
    story_exit(&s);
    for (int i = 0; i < 11; i++) {
        late_exit[i] = s.trace->anchors[anchor].exit;
        late_anchor[i] = anchor;
    }
    for (uint64_t looks = 1; looks <= 100; looks += 99) {
        struct suggest_candidates_job job = {.bad = s.trace,
                .late_exit = late_exit,
                .late_anchor = late_anchor,
                .min_size = 2 * MB,
                .looks_max = looks};
        struct suggest_candidates found = suggest_candidates_find(&job);
        CHECK_EQ(found.is_cut, looks == 1);
        REQUIRE_EQ(found.count, looks == 1 ? 1 : 2);
        CHECK_EQ(found.list[0].key.key, 2);
        suggest_candidates_done(&found);
    }
    story_end(&s);
}

/* ---- Python call sites ---- */

/* Blocks of a new native site and this Python stack, in both runs; innermost first. */
static void python_site(struct pair *p, uint64_t site, const struct trace_pyframe *frames,
        uint32_t count, uint64_t size, bool is_late)
{
    struct story *both[] = {&p->good, &p->bad};
    uint32_t block = 0;

    for (int i = 0; i < 2; i++) {
        struct trace_frame frame = {.module = TRACE_NONE, .offset = site};
        uint32_t stack = trace_add_stack(both[i]->trace, &frame, 1, false);
        trace_set_python(both[i]->trace, stack, frames, count, false);
        block = story_alloc(both[i], site, size);
        both[i]->trace->blocks[block].stack = stack;
        if (i == 0 && is_late)
            story_free(both[i], block);
    }
    p->late[block] = is_late;
}

#define FRAMES(...)                              \
    (const struct trace_pyframe[]){__VA_ARGS__}, \
            sizeof((struct trace_pyframe[]){__VA_ARGS__}) / sizeof(struct trace_pyframe)

static const struct trace_pyframe attend = {"Block.attend", "/home/me/gpt.py", 28, false, false, 0};
static const struct trace_pyframe attend_again = {
        "Block.attend", "/home/me/gpt.py", 30, false, false, 0};
static const struct trace_pyframe norm = {"Block.norm", "/home/me/gpt.py", 40, false, false, 0};
static const struct trace_pyframe train = {"main", "/home/me/train.py", 9, false, false, 0};
static const struct trace_pyframe linear = {
        "Linear.forward", "/usr/lib/python3/dist-packages/torch/nn/linear.py", 7, false, false, 0};

static const struct suggest_rules_hint *only_python_hint(const struct suggest_rules *m)
{
    CHECK_EQ(m->hint_count, 1);
    CHECK_EQ(m->hints[0].rule.pick.python, 1);
    return &m->hints[0];
}

/* Each layer comes through native code of its own: one function is what they have together, and the program's own at that. */
TEST(many_native_sites_of_one_python_function_need_one_hint)
{
    struct pair *p = pair_begin();

    enter(p, "step");
    for (uint64_t i = 0; i < 12; i++) {
        python_site(p, 1 + i, FRAMES(linear, i % 2 ? attend : attend_again, train), 4 * MB, true);
        python_site(p, 101 + i, FRAMES(linear, norm, train), 4 * MB, false);
    }
    leave(p);
    struct suggest_rules m = mined(p);
    const struct suggest_rules_hint *hint = only_python_hint(&m);
    CHECK_STR_EQ(hint->key.frame->function, "Block.attend");
    CHECK(!hint->key.has_line);
    CHECK_EQ(m.covered.count, 12);
    check_exact(p, &m);
    suggest_rules_done(&m);
    pair_end(p);
}

TEST(a_line_is_named_where_the_function_keeps_in_another_one)
{
    struct pair *p = pair_begin();

    enter(p, "step");
    for (uint64_t i = 0; i < 12; i++) {
        python_site(p, 1 + i, FRAMES(linear, attend, train), 4 * MB, true);
        python_site(p, 101 + i, FRAMES(linear, attend_again, train), 4 * MB, false);
    }
    leave(p);
    struct suggest_rules m = mined(p);
    const struct suggest_rules_hint *hint = only_python_hint(&m);
    CHECK_STR_EQ(hint->key.frame->function, "Block.attend");
    CHECK(hint->key.has_line);
    CHECK_EQ(hint->key.frame->line, 28);
    check_exact(p, &m);
    suggest_rules_done(&m);
    pair_end(p);
}

/* As many blocks either way: Python says more than a number, the program more than a package, the function more than its line. */
TEST(of_equal_sites_the_most_readable_is_named)
{
    struct pair *p = pair_begin();

    enter(p, "step");
    python_site(p, 1, FRAMES(linear, attend, train), 4 * MB, true);
    leave(p);
    struct suggest_rules m = mined(p);
    const struct suggest_rules_hint *hint = only_python_hint(&m);
    CHECK_STR_EQ(hint->key.frame->function, "Block.attend");
    CHECK(!hint->key.has_line);
    suggest_rules_done(&m);
    pair_end(p);
}

/* A run that ran out of memory in its last step, or ended in it: no exit, so no release, and no word against the hint. */
TEST(the_step_that_the_run_did_not_finish_does_not_spoil_the_hint)
{
    for (int inner = 0; inner < 2; inner++) {
        CHECK_ROW(inner ? "in an inner anchor" : "in the step itself");
        struct pair *p = pair_begin();

        for (int i = 0; i < 4; i++) {
            enter(p, "step");
            if (inner)
                enter(p, "forward");
            uint32_t g = story_alloc(&p->good, 1, 4 * MB);
            uint32_t b = story_alloc(&p->bad, 1, 4 * MB);
            if (inner)
                leave(p);
            story_free(&p->good, g);
            p->late[b] = i < 3;
            if (i < 3)
                leave(p);
        }
        struct suggest_rules m = mined(p);
        REQUIRE_EQ(m.hint_count, 1);
        CHECK_EQ(m.covered.count, 3);
        CHECK_EQ(m.hints[0].count, 3);
        CHECK_EQ(m.hints[0].rule.expect.count.lo, 1);
        CHECK_EQ(m.hints[0].rule.expect.count.hi, 1);
        CHECK_EQ(m.mixed.count, 0);
        suggest_rules_done(&m);
        pair_end(p);
    }
}

TEST(small_blocks_are_left_alone_and_counted)
{
    struct pair *p = pair_begin();
    enter(p, "A");
    (void)late(p, 1, 2 * MB - 1);
    (void)late(p, 1, 2 * MB);
    leave(p);
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.covered.count, 1);
    CHECK_EQ(m.small.count, 1);
    CHECK_EQ(m.small.bytes, 2 * MB - 1);
    suggest_rules_done(&m);
    pair_end(p);
}

/* KEDGE_STACKS=python: no native call site, and yet a function to name. */
TEST(blocks_of_a_python_stack_alone_get_hints_by_function)
{
    for (int shares = 0; shares < 2; shares++) {
        CHECK_ROW(shares ? "a shared block" : "no shared block");
        struct pair *p = pair_begin();

        enter(p, "step");
        python_site(p, 0, FRAMES(linear, attend, train), 4 * MB, true);
        python_site(p, 0, FRAMES(linear, norm, train), 4 * MB, false);
        leave(p);
        p->bad.trace->blocks[shares ? 0 : 1].shared = true; /* norm's does not matter */
        struct suggest_rules m = mined(p);
        CHECK_EQ(m.hint_count, shares ? 0 : 1);
        CHECK_EQ(m.unplaced.count, 0);
        CHECK_EQ(m.shared.count, shares ? 1 : 0);
        if (!shares)
            CHECK_STR_EQ(only_python_hint(&m)->key.frame->function, "Block.attend");
        check_exact(p, &m);
        suggest_rules_done(&m);
        pair_end(p);
    }
}

/* In either run: the next one may export a block that this one did not. */
TEST(r85_a_site_that_shared_a_block_gets_no_hint)
{
    static const struct {
        const char *name;
        bool by_bad, by_good;
        uint64_t shared, covered;
    } rows[] = {
            {"by nobody", false, false, 0, 3},
            {"by the bad run", true, false, 2, 1},
            {"by the good run", false, true, 2, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_ROW(rows[i].name);
        struct pair *p = pair_told("A{ !1:4 !1:4 !2:4 }", 1);
        p->bad.trace->blocks[0].shared = rows[i].by_bad;
        p->good.trace->blocks[0].shared = rows[i].by_good;
        struct suggest_rules m = mined(p);
        CHECK_EQ(m.shared.count, rows[i].shared);
        CHECK_EQ(m.covered.count, rows[i].covered);
        suggest_rules_done(&m);
        pair_end(p);
    }
}

/* Times as a capture has them: one millisecond between events. */
static void give_times(struct trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++)
        trace->events[i].time_ns = (i + 1) * 1000000;
}

static void use_at(struct trace *trace, uint32_t block, uint64_t time_ns)
{
    trace_set_uses(
            trace, block, &(struct trace_uses){.first = time_ns, .last = time_ns, .count = 1});
}

TEST(what_the_bad_run_still_uses_after_the_exit_gets_no_hint)
{
    enum {
        USED,
        DEAD /* nobody saw a use of the third */
    };
    struct pair *p = pair_told("A{ !1:4 !2:8 !3:2 }", 1);
    uint32_t exit;

    give_times(p->bad.trace);
    exit = p->bad.trace->anchors[p->bad.trace->blocks[USED].anchor].exit;
    use_at(p->bad.trace, USED, p->bad.trace->events[exit].time_ns + 1);
    use_at(p->bad.trace, DEAD, p->bad.trace->events[exit].time_ns - 1);
    p->late[USED] = false;
    struct suggest_rules m = mined(p);
    CHECK_EQ(m.used.count, 1);
    CHECK_EQ(m.used.bytes, 4 * MB);
    CHECK_EQ(m.covered.count, 2);
    check_exact(p, &m);
    suggest_rules_done(&m);
    pair_end(p);
}

/* The anchor around it ends behind that use; unless there may be uses that nobody saw. */
TEST(what_the_bad_run_uses_after_the_exit_waits_for_the_next_one_around_it)
{
    static const struct {
        const char *name;
        uint8_t use_flags;
        uint64_t used, covered;
        size_t hints;
    } rows[] = {
            {"all uses seen", FORMAT_USE_WATCHED, 0, 3, 1},
            {"uses that nobody saw", FORMAT_USE_WATCHED | FORMAT_USE_SHOWN, 3, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_ROW(rows[i].name);
        struct pair *p = pair_told("step_%{ forward{ !1:4 } -2:1 }", 3);
        pipestory_times(&p->bad);
        for (uint32_t id = 0; id < 6; id += 2) {
            struct trace_block *b = &p->bad.trace->blocks[id];
            uint32_t exit = p->bad.trace->anchors[b->anchor].exit;
            use_at(p->bad.trace, id, p->bad.trace->events[exit].time_ns + 1);
            b->use_flags = rows[i].use_flags;
        }
        struct suggest_rules m = mined(p);
        CHECK_EQ(m.used.count, rows[i].used);
        CHECK_EQ(m.covered.count, rows[i].covered);
        REQUIRE_EQ(m.hint_count, rows[i].hints);
        for (size_t k = 0; k < m.hint_count; k++) {
            CHECK_STR_EQ(m.hints[k].rule.pick.inside, "step_*/forward");
            CHECK_STR_EQ(m.hints[k].rule.when.anchor, "step_?");
        }
        suggest_rules_done(&m);
        pair_end(p);
    }
}

/* One of two that no hint can tell apart is still used: the other one gets none either. */
TEST(a_block_that_is_still_used_is_matched_by_no_hint_for_others)
{
    struct pair *p = pair_told("step{ !1:4 }", 3);

    give_times(p->bad.trace);
    for (uint32_t i = 0; i < 2; i++) { /* used in the step that follows; the last step has none */
        const struct trace_anchor *next =
                &p->bad.trace->anchors[p->bad.trace->blocks[i + 1].anchor];
        use_at(p->bad.trace, i, p->bad.trace->events[next->enter].time_ns + 1);
    }
    struct suggest_rules m = mined(p);
    CHECK_EQ(m.hint_count, 0);
    CHECK_EQ(m.used.count, 2);
    CHECK_EQ(m.mixed.count, 1);
    suggest_rules_done(&m);
    pair_end(p);
}

/* Freed by good after the inner anchor and before the outer one's exit: only the outer exit is proved. */
TEST(a_hint_for_an_outer_anchor_does_not_act_at_the_inner_exit)
{
    struct pair *p = pair_begin();
    char name[32];
    for (int i = 0; i < 3; i++) {
        numbered(name, "step_", i);
        enter(p, name);
        enter(p, "forward");
        uint32_t g = story_alloc(&p->good, 1, 4 * MB);
        uint32_t b = story_alloc(&p->bad, 1, 4 * MB);
        leave(p);
        story_free(&p->good, g);
        leave(p);
        p->late[b] = true;
    }
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_STR_EQ(m.hints[0].rule.when.anchor, "step_?");
    CHECK_STR_EQ(m.hints[0].rule.pick.inside, "step_*/forward");
    CHECK_EQ(m.covered.count, 3);

    struct predict_match matches[3];
    REQUIRE_EQ(predict_matches(p->bad.trace, &m.hints[0].rule, 1, matches), 0);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t inner = p->bad.trace->blocks[i].anchor;
        uint32_t outer = p->bad.trace->anchors[inner].parent;
        CHECK_EQ(matches[i].at, p->bad.trace->anchors[outer].exit);
    }
    suggest_rules_done(&m);
    pair_end(p);
}

TEST(the_prediction_counts_releases_at_their_exits)
{
    struct pair *p = pair_told("SOT_CALL_%{ +1:4 !2:8 }", 10);
    struct suggest_rules m = mined(p);
    CHECK_EQ(m.max_before, 120 * MB);
    CHECK_EQ(m.max_after, 48 * MB); /* all kept, and the last late one before its exit */
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.hints[0].effect, SUGGEST_RULES_EFFECT_PEAK);
    CHECK_EQ(m.hints[0].gain, 72 * MB);
    suggest_rules_done(&m);
    pair_end(p);
}

TEST(a_hint_behind_the_peak_is_said_to_have_no_effect)
{
    struct pair *p = pair_told("A{ -9:100 } B{ !2:8 }", 1);
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 1); /* it is written all the same: every missing free becomes a hint */
    CHECK_EQ(m.hints[0].effect, SUGGEST_RULES_EFFECT_NONE);
    CHECK_EQ(m.max_after, m.max_before);
    suggest_rules_done(&m);
    pair_end(p);
}

/* What is left out because it does nothing for the peak is counted as that, and the figures are those of the hints that stay. */
TEST(hints_that_are_left_out_as_idle_are_counted_apart)
{
    /* in D late once and kept once: no hint tells them apart */
    struct pair *p = pair_told("A{ !1:50 } B{ -9:100 } C{ !2:8 !2:4 } D{ !3:2 } D{ +3:2 }", 1);
    struct suggest_rules m = mined_as(p, true);
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.hints[0].rule.pick.site[0], 1);
    CHECK_EQ(m.hints[0].effect, SUGGEST_RULES_EFFECT_PEAK);
    CHECK_EQ(m.covered.count, 1);
    CHECK_EQ(m.covered.bytes, 50 * MB);
    CHECK_EQ(m.idle.count, 2);
    CHECK_EQ(m.idle.bytes, 12 * MB);
    CHECK_EQ(m.mixed.count, 1);
    CHECK_EQ(m.max_before, 150 * MB);
    CHECK_EQ(m.max_after, 100 * MB);
    check_exact(p, &m);
    suggest_rules_done(&m);
    m = mined(p);
    CHECK_EQ(m.hint_count, 2);
    CHECK_EQ(m.idle.count, 0);
    suggest_rules_done(&m);
    pair_end(p);
}

/* Sites, sizes and anchors at random: never a hint that matches something else, never a late block lost. */
TEST(random_runs_never_give_a_hint_that_matches_a_kept_tensor)
{
    uint32_t state = 7;
    for (int round = 0; round < 300; round++) {
        struct pair *p = pair_begin();
        char name[32];
        uint64_t late_count = 0;
        for (int i = 0; i < 12; i++) {
            numbered(name, "S", i % 8);
            enter(p, name);
            for (int k = 0; k < 6; k++) {
                state = state * 1664525u + 1013904223u;
                uint64_t site = 1 + (state >> 20) % 2;
                uint64_t size = (1 + (state >> 10) % 4) * MB;
                if ((state >> 28) % 3 == 0) {
                    (void)late(p, site, size);
                    late_count++;
                } else {
                    kept(p, site, size);
                }
            }
            leave(p);
        }
        struct suggest_rules m = mined_as(p, round % 2);
        check_exact(p, &m);
        CHECK_EQ(m.covered.count + m.small.count + m.mixed.count + m.unplaced.count + m.idle.count,
                late_count);
        suggest_rules_done(&m);
        pair_end(p);
    }
}

static struct rule rule_for(uint64_t site)
{
    return (struct rule){.action = ACTION_RELEASE,
            .mode = HINT_SHADOW,
            .pick = {.site = {site},
                    .site_count = 1,
                    .size_hi = UINT64_MAX,
                    .nth_hi = UINT32_MAX,
                    .device = -1},
            .when = {.anchor = "A", .kind = EDGE_EXIT},
            .min_size = 2 * MB};
}

TEST(small_and_native_blocks_are_matched_but_not_released)
{
    struct story s = story_begin();
    struct predict_match matches[3];
    struct rule rule = rule_for(1);
    uint32_t anchor = story_enter(&s, "A");
    (void)story_alloc(&s, 1, MB);
    (void)story_alloc(&s, 1, 4 * MB);
    struct trace_block native = {
            .address = 1, .size = 4 * MB, .site = 1, .anchor = anchor, .native = true};
    (void)trace_add_alloc(s.trace, &native);
    story_exit(&s);
    REQUIRE_EQ(predict_matches(s.trace, &rule, 1, matches), 0);
    CHECK(matches[0].small);
    CHECK_EQ(matches[0].at, TRACE_NEVER);
    CHECK_EQ(matches[1].at, s.trace->anchors[anchor].exit);
    CHECK_EQ(matches[2].rule, 0);
    CHECK_EQ(matches[2].at, TRACE_NEVER);
    story_end(&s);
}

TEST(a_block_from_outside_of_the_anchor_waits_for_the_next_exit)
{
    struct story s = story_begin();
    struct predict_match matches[2];
    struct rule rule = rule_for(1);
    story_enter(&s, "A");
    story_exit(&s);
    (void)story_alloc(&s, 1, 4 * MB);
    uint32_t anchor = story_enter(&s, "A");
    story_exit(&s);
    story_enter(&s, "A");
    story_exit(&s);
    (void)story_alloc(&s, 1, 4 * MB);
    REQUIRE_EQ(predict_matches(s.trace, &rule, 1, matches), 0);
    CHECK_EQ(matches[0].at, s.trace->anchors[anchor].exit);
    CHECK_EQ(matches[1].at, TRACE_NEVER);
    story_end(&s);
}

/* Handles of 2 MiB: ten late tensors of 8 MiB, one alive at a time with the hint. */
TEST(held_bytes_are_predicted_by_the_pool_itself)
{
    struct story s = story_begin();
    struct rule rule = rule_for(2);
    uint64_t without = 0;
    uint64_t with = 0;
    for (int i = 0; i < 10; i++) {
        story_enter(&s, "A");
        (void)story_alloc(&s, 2, 8 * MB);
        story_exit(&s);
    }
    REQUIRE_EQ(predict_reserved(s.trace, &rule, 0, &without), 0);
    REQUIRE_EQ(predict_reserved(s.trace, &rule, 1, &with), 0);
    CHECK_GE(without, 80 * MB);
    CHECK_GE(with, 8 * MB);
    CHECK_LT(with, 40 * MB);
    story_end(&s);
}

/* What it takes no hint after it does, and what becomes of it is no release: as if the program had been asked to leave it alone. */
TEST(evictions_are_no_releases_in_what_is_predicted)
{
    struct story s = story_begin();
    struct rule rules[] = {rule_for(2), rule_for(2), rule_for(2)};
    struct predict_match matches[20];
    uint64_t without[2] = {0, 0};
    uint64_t with[2] = {0, 0};

    rules[0].action = ACTION_RESTORE;
    rules[0].of = 1;
    rules[1].action = ACTION_EVICT;
    rules[1].when.kind = EDGE_ENTER;
    rules[1].evict = RULE_EVICT_DEFAULT;
    rules[1].evict.cap = 8 * MB;
    rules[1].min_size = 0;
    for (int i = 0; i < 20; i++) {
        story_enter(&s, "A");
        (void)story_alloc(&s, 2, MB);
        story_exit(&s);
    }
    REQUIRE_EQ(predict_matches(s.trace, rules, 3, matches), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(matches[i].rule, 1);
        CHECK_EQ(matches[i].at, TRACE_NEVER);
    }
    REQUIRE_EQ(predict_max(s.trace, NULL, 0, &without[0]), 0);
    REQUIRE_EQ(predict_max(s.trace, rules, 3, &with[0]), 0);
    CHECK_EQ(with[0], without[0]);
    REQUIRE_EQ(predict_reserved(s.trace, NULL, 0, &without[1]), 0);
    REQUIRE_EQ(predict_reserved(s.trace, rules, 3, &with[1]), 0);
    CHECK_EQ(with[1], without[1]);
    story_end(&s);
}

/* Of hint 0 eight blocks of 8 MiB, each dead when the block of hint 1 that comes with it is freed. */
TEST(frees_of_another_hints_blocks_are_foreseen)
{
    struct story s = story_begin();
    struct rule rules[] = {rule_for(1), rule_for(2)};
    struct predict_match matches[24];
    uint64_t without = 0;
    uint64_t with = 0;

    rules[0].when = (struct rule_when){.kind = EDGE_FREE, .count = 1, .rule = 1};
    for (int i = 0; i < 8; i++) {
        (void)story_alloc(&s, 1, 8 * MB);
        uint32_t other = story_alloc(&s, 3, 2 * MB); /* no hint's */
        uint32_t signal = story_alloc(&s, 2, 2 * MB);
        story_free(&s, other);
        story_free(&s, signal);
    }
    REQUIRE_EQ(predict_matches(s.trace, rules, 2, matches), 0);
    for (int i = 0; i < 8; i++) {
        const struct trace_block *signal = &s.trace->blocks[3 * i + 2];

        CHECK_EQ(matches[3 * i].at, signal->died);
        CHECK_EQ(matches[3 * i + 1].rule, TRACE_NONE);
        CHECK_EQ(matches[3 * i + 2].at, TRACE_NEVER);
    }
    REQUIRE_EQ(predict_reserved(s.trace, rules, 0, &without), 0);
    REQUIRE_EQ(predict_reserved(s.trace, rules, 2, &with), 0);
    CHECK_GE(without, 64 * MB);
    CHECK_LT(with, 40 * MB);
    story_end(&s);
}

/* Each block is dead at the second launch after it of a kernel that the hint names. */
TEST(launches_are_foreseen_by_the_names_of_kernels)
{
    struct story s = story_begin();
    struct rule rule = rule_for(1);
    struct predict_match matches[4];
    uint64_t max = 0;

    rule.when = (struct rule_when){.kind = EDGE_LAUNCH, .count = 2, .anchor = "*sum"};
    CHECK_EQ(predict_lacks_launch(s.trace, &rule, 1), 0);
    memcpy(rule.pick.rank, "7", 2); /* off in this rank */
    CHECK_EQ(predict_lacks_launch(s.trace, &rule, 1), -1);
    rule.pick.rank[0] = '\0';
    trace_add_launch(s.trace, "a_sum", 0, 0);
    CHECK_EQ(predict_lacks_launch(s.trace, &rule, 1), -1);
    for (int i = 0; i < 4; i++) {
        (void)story_alloc(&s, 1, 8 * MB);
        trace_add_launch(s.trace, "a_sum", 0, 0);
        trace_add_launch(s.trace, "summary", 0, 0);
    }
    REQUIRE_EQ(predict_matches(s.trace, &rule, 1, matches), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(matches[i].at, s.trace->blocks[i + 1].born + 1);
    CHECK_EQ(matches[3].at, TRACE_NEVER);
    REQUIRE_EQ(predict_max(s.trace, &rule, 1, &max), 0);
    CHECK_EQ(max, 16 * MB);
    REQUIRE_EQ(predict_reserved(s.trace, &rule, 1, &max), 0);
    CHECK_LT(max, 32 * MB);
    rule.when.kind = EDGE_EXIT;
    rule.when.count = 0;
    rule.otherwise = (struct rule_when){.kind = EDGE_LAUNCH, .count = 1, .anchor = "product"};
    CHECK_EQ(predict_lacks_launch(s.trace, &rule, 1), 0);
    story_end(&s);
}

/* Where the run could not count (its table was full), only a hint for all numbers can match. */
TEST(blocks_without_a_number_are_not_picked_by_number)
{
    struct pair *p = pair_begin();
    enter(p, "A");
    for (int i = 0; i < 4; i++) {
        struct trace_block birth = {.address = (uint64_t)(i + 1) << 40,
                .size = 4 * MB,
                .site = 1,
                .nth = i == 0 ? 0 : UINT32_MAX,
                .anchor = story_here(&p->bad)};
        (void)trace_add_alloc(p->good.trace, &birth);
        p->late[trace_add_alloc(p->bad.trace, &birth)] = i != 3;
        if (i != 3)
            (void)trace_add_free(p->good.trace, birth.address, 0);
    }
    leave(p);
    struct suggest_rules m = mined(p);
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.hints[0].rule.pick.nth_lo, 0);
    CHECK_EQ(m.hints[0].rule.pick.nth_hi, 0);
    CHECK_EQ(m.mixed.count, 2);
    suggest_rules_done(&m);
    pair_end(p);
}

static uint32_t roll(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* Bytes with a meaning somewhere more often than the others. */
static char roll_byte(uint32_t *seed)
{
    static const char odd[] = "*?[]\\\"'x:#{}-&%\n\t\x1b\x7f\xc3\xa4\xe2\x80\xa8\xff\xed\xa0";

    return (char)(roll(seed, 3) ? odd[roll(seed, sizeof(odd) - 1)] : (char)(1 + roll(seed, 255)));
}

/* The glob as the file that it is written to has it. */
static void through_file(const char *glob, char ret_glob[static RULE_GLOB_MAX])
{
    struct rule rule = {.id = "a",
            .action = ACTION_RELEASE,
            .mode = HINT_SHADOW,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.kind = EDGE_EXIT}};
    struct hintfile file = {.mode = HINT_SHADOW, .rule_count = 1, .rule = &rule};
    struct hintfile *again = NULL;
    struct hintfile_error error;
    char *text = NULL;
    size_t length = 0;

    memcpy(rule.pick.inside, glob, RULE_GLOB_MAX);
    memcpy(rule.when.anchor, glob, RULE_GLOB_MAX);
    REQUIRE_EQ(hintwrite_text(&file, &text, &length), 0);
    if (hintfile_read_bytes(text, length, "t", &again, &error) < 0)
        printf("%s\n%s", error.text, text);
    REQUIRE(again != NULL);
    CHECK_STR_EQ(again->rule[0].pick.inside, again->rule[0].when.anchor);
    memcpy(ret_glob, again->rule[0].when.anchor, RULE_GLOB_MAX);
    hintfile_free(again);
    free(text);
}

/* Any bytes: what is written for a name matches it when it is read, and no name that differs in a byte. */
TEST(a_name_is_the_only_one_that_its_hint_is_for)
{
    uint32_t seed = 31;

    for (int round = 0; round < 20000; round++) {
        char glob[RULE_GLOB_MAX] = "", again[RULE_GLOB_MAX];
        char name[25] = "", other[27];
        size_t length = 1 + roll(&seed, sizeof(name) - 1);

        for (size_t i = 0; i < length; i++)
            name[i] = roll_byte(&seed);
        suggest_candidates_fold(name, SUGGEST_CANDIDATES_FOLD_NOTHING, glob);
        REQUIRE(wildcard_is_literal(glob));
        through_file(glob, again);
        REQUIRE_EQ(memcmp(again, glob, strlen(glob) + 1), 0);
        REQUIRE(wildcard_match(again, name));
        for (int k = 0; k < 8; k++) {
            size_t at = roll(&seed, (uint32_t)length);
            size_t kind = roll(&seed, 3); /* a byte is another one, is left out, or comes in */

            (void)snprintf(other, sizeof(other), "%.*s%c%s", (int)at, name, roll_byte(&seed),
                    name + at + (kind == 0));
            if (kind == 1)
                (void)snprintf(other, sizeof(other), "%.*s%s", (int)at, name, name + at + 1);
            REQUIRE_EQ(wildcard_match(again, other), strcmp(other, name) == 0);
        }
    }
}

/* A name that is cut is no literal one, and is looked for in all paths: once for all names that fold alike. */
TEST(long_names_are_looked_for_once)
{
    struct story s = story_begin();
    char name[256];
    uint32_t *late_exit = calloc(2000, sizeof(*late_exit));
    uint32_t *late_anchor = calloc(2000, sizeof(*late_anchor));

    for (uint32_t i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "layer_%u_%0200u", i, i);
        late_anchor[i] = story_enter(&s, name);
        (void)story_alloc(&s, 1, 4 * MB);
        story_exit(&s);
        late_exit[i] = s.trace->anchors[late_anchor[i]].exit;
    }
    struct suggest_candidates_job job = {.bad = s.trace,
            .late_exit = late_exit,
            .late_anchor = late_anchor,
            .min_size = 2 * MB,
            .looks_max = SUGGEST_CANDIDATES_LOOKS_MAX};
    struct suggest_candidates found = suggest_candidates_find(&job);
    CHECK_EQ(found.count, 1);
    CHECK_EQ(found.glob_count, 1);
    suggest_candidates_done(&found);
    free(late_exit);
    free(late_anchor);
    story_end(&s);
}

/* Hashes as names: each folds to another name, and comparing all of them with all would be quadratic. */
TEST(names_of_letters_and_digits_are_compared_so_often_and_then_folded_whole)
{
    enum {
        NAMES = 5000
    };
    struct story s = story_begin();
    uint32_t *late_exit = calloc(NAMES, sizeof(*late_exit));
    uint32_t *late_anchor = calloc(NAMES, sizeof(*late_anchor));
    char name[32];

    for (uint32_t i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), "req_%08x", (i + 1) * 2654435761u);
        late_anchor[i] = story_enter(&s, name);
        (void)story_alloc(&s, 1, 4 * MB);
        story_exit(&s);
        late_exit[i] = s.trace->anchors[late_anchor[i]].exit;
    }
    struct suggest_candidates_job job = {.bad = s.trace,
            .late_exit = late_exit,
            .late_anchor = late_anchor,
            .min_size = 2 * MB,
            .looks_max = SUGGEST_CANDIDATES_LOOKS_MAX};
    struct suggest_candidates found = suggest_candidates_find(&job);
    size_t folded = 0;
    bool has_whole = false;
    for (size_t i = 0; i < found.glob_count; i++) {
        folded += strchr(found.globs[i], '*') != NULL;
        has_whole |= strcmp(found.globs[i], "req_*") == 0;
    }
    CHECK_LE(folded, SUGGEST_CANDIDATES_GLOBS_MAX / NAMES + 1);
    CHECK(has_whole);
    CHECK(!found.is_cut);
    suggest_candidates_done(&found);
    free(late_exit);
    free(late_anchor);
    story_end(&s);
}

TEST(a_name_is_folded_as_was_asked_for)
{
    static const struct {
        const char *name, *path;
        enum suggest_candidates_fold how;
        const char *glob;
    } rows[] = {
            {"runs of digits", "SOT_CALL_17", SUGGEST_CANDIDATES_FOLD_RUNS, "SOT_CALL_*"},
            {"several runs", "step_12/layer3.fwd", SUGGEST_CANDIDATES_FOLD_RUNS,
                    "step_*/layer*.fwd"},
            {"digits", "step_12", SUGGEST_CANDIDATES_FOLD_DIGITS, "step_\?\?"},
            {"words", "req_5f3a/layer/uid-9Z", SUGGEST_CANDIDATES_FOLD_WORDS, "req_*/layer/uid-*"},
            {"letters", "req_5f3a/layer/uid-9Z", SUGGEST_CANDIDATES_FOLD_LETTERS,
                    "req_\?\?\?\?/layer/uid-\?\?"},
            {"a star of the name's own", "abc*1", SUGGEST_CANDIDATES_FOLD_WORDS, "abc\\**"},
            {"what means something in a glob", "a*b?c\\d", SUGGEST_CANDIDATES_FOLD_NOTHING,
                    "a\\*b\\?c\\\\d"},
            {"no text", "st\xe9p_1", SUGGEST_CANDIDATES_FOLD_NOTHING, "st\xe9p_1"},
            {"text of several bytes", "st\xc3\xa9p\xe2\x80\xa8\t", SUGGEST_CANDIDATES_FOLD_NOTHING,
                    "st\xc3\xa9p\xe2\x80\xa8\t"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char glob[RULE_GLOB_MAX];

        CHECK_ROW(rows[i].name);
        suggest_candidates_fold(rows[i].path, rows[i].how, glob);
        CHECK_STR_EQ(glob, rows[i].glob);
    }
}

TEST(a_name_that_is_too_long_is_cut_between_two_characters)
{
    char glob[RULE_GLOB_MAX];
    char path[RULE_GLOB_MAX + 100];

    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    suggest_candidates_fold(path, SUGGEST_CANDIDATES_FOLD_RUNS, glob);
    CHECK_EQ(strlen(glob), RULE_GLOB_MAX - 1);
    CHECK_EQ(glob[RULE_GLOB_MAX - 2], '*');
    *path = '\0';
    for (int i = 0; i < 120; i++)
        (void)strcat(path, "\xc3\xa9");
    suggest_candidates_fold(path, SUGGEST_CANDIDATES_FOLD_NOTHING, glob);
    CHECK_EQ(strlen(glob), RULE_GLOB_MAX - 1);
    CHECK_EQ(glob[RULE_GLOB_MAX - 2], '*');
    suggest_candidates_fold(path + 1, SUGGEST_CANDIDATES_FOLD_NOTHING, glob);
    CHECK_EQ((unsigned char)glob[0], 0xa9);
    CHECK_EQ((unsigned char)glob[strlen(glob) - 2], 0xa9);
    memset(path, '*', sizeof(path) - 1); /* no escape is cut */
    suggest_candidates_fold(path, SUGGEST_CANDIDATES_FOLD_NOTHING, glob);
    CHECK(!wildcard_is_cut(glob));
    CHECK(!wildcard_is_literal(glob));
}

/* A record that lost an allocation has a free of nothing: it changes no prediction. */
TEST(a_free_of_what_was_never_allocated_changes_no_prediction)
{
    struct story s = story_begin();
    struct rule rule = rule_for(2);
    uint64_t bytes[2];

    for (int turn = 0; turn < 2; turn++) {
        story_enter(&s, "A");
        story_free(&s, story_alloc(&s, 2, 8 * MB));
        story_exit(&s);
        REQUIRE_EQ(predict_reserved(s.trace, &rule, 1, &bytes[turn]), 0);
        (void)trace_add_free(s.trace, 0xdead000, 0);
        CHECK_EQ(s.trace->events[s.trace->event_count - 1].block, TRACE_NONE);
    }
    CHECK_EQ(bytes[1], bytes[0]);
    story_end(&s);
}

/* ---- what piles up ---- */

static struct suggest_rules mined_growers(struct story *s, struct growers *ret_growers)
{
    struct model_window window = model_whole(s->trace);
    struct suggest_rules mine;

    pipestory_times(s);
    suggest_growth_find(s->trace, window, 2 * MB, ret_growers);
    struct suggest_rules_job job = {.trace = s->trace,
            .window = window,
            .growers = ret_growers,
            .min_size = 2 * MB,
            .only_effective = true};
    REQUIRE_EQ(suggest_rules_hints(&job, &mine), 0);
    return mine;
}

static uint64_t max_of_story(const struct story *s)
{
    struct model_figures figures;

    model_figure(s->trace, model_whole(s->trace), NULL, &figures);
    return figures.max;
}

/* The hint frees what the mended program frees, when it frees it; what no receive ends goes at the update's exit. */
TEST(send_buffers_that_pile_up_are_released_as_the_mended_program_frees_them)
{
    struct story plain = story_begin();
    struct story mended = story_begin();
    struct growers growers;
    uint64_t with, without, held, held_without;

    for (int step = 0; step < 2; step++) {
        pipestory_step(&plain, step, PIPESTORY(.micro_batches = 12));
        pipestory_step(&mended, step, PIPESTORY(.micro_batches = 12, .is_mended = true));
    }
    struct suggest_rules m = mined_growers(&plain, &growers);
    REQUIRE_EQ(m.hint_count, 1);
    const struct rule *rule = &m.hints[0].rule;
    CHECK_EQ(rule->mode, HINT_TRAP);
    CHECK_EQ(rule->pick.site[0], PIPESTORY_GRADIENT);
    CHECK_EQ(rule->pick.use.call, APICALL_ncclSend);
    CHECK_STR_EQ(rule->pick.use.inside, "step/*/backward");
    CHECK_EQ(rule->when.kind, EDGE_CALL);
    CHECK_EQ(rule->when.call, APICALL_ncclRecv);
    CHECK_STR_EQ(rule->when.anchor, "step/*/forward");
    CHECK_EQ(rule->when.count, 2);
    CHECK_EQ(rule->when.from, RULE_FROM_USE);
    CHECK_STR_EQ(rule->otherwise.anchor, "step/*/update");
    CHECK_EQ(rule->otherwise.kind, EDGE_EXIT);
    CHECK_EQ(m.grown.count, 24);
    CHECK_EQ(m.covered.count, 0);
    /* one at each receive; and at the update, which frees them itself, none that is still held */
    CHECK_EQ(rule->expect.count.lo, 1);
    CHECK_EQ(rule->expect.count.hi, 1);
    CHECK_EQ(rule->expect.bytes.hi, PIPESTORY_SIZE);

    struct predict_match *matches = calloc(plain.trace->block_count, sizeof(*matches));
    REQUIRE_EQ(predict_matches(plain.trace, rule, 1, matches), 0);
    int at_receive = 0, at_update = 0;
    for (size_t i = 0; i < plain.trace->block_count; i++) {
        if (plain.trace->blocks[i].site != PIPESTORY_GRADIENT) {
            CHECK_EQ(matches[i].rule, TRACE_NONE);
            continue;
        }
        REQUIRE(matches[i].at != TRACE_NEVER);
        enum trace_kind kind = plain.trace->events[matches[i].at].kind;
        CHECK(kind == TRACE_CALL || kind == TRACE_EXIT);
        at_receive += kind == TRACE_CALL;
        at_update += kind == TRACE_EXIT;
    }
    CHECK_EQ(at_receive, 2 * (12 - PIPESTORY_STARTUP - 2));
    CHECK_EQ(at_update, 2 * (PIPESTORY_STARTUP + 2));
    CHECK_EQ(m.max_before, max_of_story(&plain));
    CHECK_EQ(m.max_after, max_of_story(&mended));
    REQUIRE_EQ(predict_max(plain.trace, rule, 1, &with), 0);
    CHECK_EQ(with, m.max_after);
    REQUIRE_EQ(predict_max(mended.trace, rule, 0, &without), 0);
    CHECK_EQ(with, without);
    /* by the pool: to a physical handle of what the mended program holds */
    REQUIRE_EQ(predict_reserved(plain.trace, rule, 1, &held), 0);
    REQUIRE_EQ(predict_reserved(mended.trace, rule, 0, &held_without), 0);
    CHECK(held <= held_without + 2 * MB && held_without <= held + 32 * MB);
    free(matches);
    suggest_rules_done(&m);
    suggest_growth_done(&growers);
    story_end(&plain);
    story_end(&mended);
}

/* Of frees behind the update its exit is the release, and what it expects says how many: never more than are in the drain. */
TEST(a_drain_is_released_at_the_update)
{
    struct story s = story_begin();
    struct growers growers;

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12, .is_behind = true));
    struct suggest_rules m = mined_growers(&s, &growers);
    REQUIRE_EQ(m.hint_count, 1);
    CHECK_EQ(m.hints[0].rule.expect.count.lo, 1);
    CHECK_EQ(m.hints[0].rule.expect.count.hi, PIPESTORY_STARTUP + 2);
    suggest_rules_done(&m);
    suggest_growth_done(&growers);
    story_end(&s);
}

/* All blocks of a native site get this Python stack. */
static void give_python(struct story *s, uint64_t site, const struct trace_pyframe *frames)
{
    struct trace_frame frame = {.module = TRACE_NONE, .offset = site};
    uint32_t stack = trace_add_stack(s->trace, &frame, 1, false);

    trace_set_python(s->trace, stack, frames, 2, false);
    for (size_t i = 0; i < s->trace->block_count; i++)
        if (s->trace->blocks[i].site == site)
            s->trace->blocks[i].stack = stack;
}

/* A function if nothing else comes from it in such anchors, else its line, else the native site. */
TEST(a_hint_for_what_piles_up_names_what_tells_it_apart)
{
    static const struct {
        const char *name;
        const struct trace_pyframe *other;
        bool has_function, has_line;
    } rows[] = {
            {"the rest comes from another function", &norm, true, false},
            {"from another line", &attend_again, true, true},
            {"from the same line", &attend, false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct story s = story_begin();
        struct growers growers;
        const struct trace_pyframe own[] = {attend, train};
        const struct trace_pyframe other[] = {*rows[i].other, train};

        CHECK_ROW(rows[i].name);
        pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12));
        give_python(&s, PIPESTORY_GRADIENT, own);
        give_python(&s, PIPESTORY_CHANGE, other);
        struct suggest_rules m = mined_growers(&s, &growers);
        REQUIRE_EQ(m.hint_count, 1);
        CHECK_EQ(m.hints[0].key.frame != NULL, rows[i].has_function);
        CHECK_EQ(m.hints[0].key.has_line, rows[i].has_line);
        if (m.hints[0].key.frame)
            CHECK_STR_EQ(m.hints[0].key.frame->function, "Block.attend");
        else
            CHECK_EQ(m.hints[0].rule.pick.site[0], PIPESTORY_GRADIENT);
        CHECK_EQ(m.grown.count, 12);
        suggest_rules_done(&m);
        suggest_growth_done(&growers);
        story_end(&s);
    }
}

/* The globs of a hint for step/0 would also take what is sent in step/1/x/backward here. */
static void step_of_a_later_use(struct story *s, const char *name, bool is_used)
{
    const struct pipestory_link up = {PIPESTORY_UP_OUT, 0}, down = {PIPESTORY_DOWN_IN, 0};

    (void)story_enter(s, name);
    (void)story_enter(s, "backward");
    uint32_t block = story_alloc(s, PIPESTORY_GRADIENT, PIPESTORY_SIZE);
    pipestory_call(s, "ncclSend", "sendbuff", block, up);
    story_exit(s);
    for (int i = 0; i < 3; i++) {
        (void)story_enter(s, "forward");
        pipestory_call(s, "ncclRecv", "recvbuff", TRACE_NONE, down);
        story_exit(s);
    }
    if (is_used)
        pipestory_use(s, block);
    else /* by the third receive: the hint would have been right, and is not proved */
        story_free(s, block);
    story_exit(s);
}

/* It is sent, and still read behind the receive: no hint is better. */
TEST(a_hint_for_what_piles_up_releases_nothing_that_is_still_used)
{
    for (int is_used = 0; is_used < 2; is_used++) {
        struct story s = story_begin();
        struct growers growers;

        pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12));
        step_of_a_later_use(&s, "step/1/x", is_used > 0);
        struct suggest_rules m = mined_growers(&s, &growers);
        CHECK_EQ(growers.count, 1);
        CHECK_EQ(m.hint_count, 0);
        suggest_rules_done(&m);
        suggest_growth_done(&growers);
        story_end(&s);
    }
}

/* The last block that the hint releases before the program frees it. */
static uint32_t last_released(
        const struct story *s, const struct rule *rule, struct predict_match *matches)
{
    size_t id = s->trace->block_count;

    REQUIRE_EQ(predict_matches(s->trace, rule, 1, matches), 0);
    while (id-- > 0)
        if (matches[id].rule != TRACE_NONE && matches[id].at < s->trace->blocks[id].died)
            return (uint32_t)id;
    REQUIRE(false);
    return TRACE_NONE;
}

/* It goes at the update's exit, and is freed behind that. */
TEST(a_hint_for_what_piles_up_may_act_at_the_moment_of_a_last_use_and_not_before)
{
    for (uint64_t later = 0; later < 2; later++) {
        struct story s = story_begin();
        struct growers growers;

        pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12, .is_behind = true));
        struct suggest_rules m = mined_growers(&s, &growers);
        REQUIRE_EQ(m.hint_count, 1);
        struct predict_match *matches = vec_new(s.trace->block_count, sizeof(*matches));
        uint32_t id = last_released(&s, &m.hints[0].rule, matches);
        struct trace_uses uses = trace_uses(s.trace, &s.trace->blocks[id]);
        uses.last = s.trace->events[matches[id].at].time_ns + later;
        trace_set_uses(s.trace, id, &uses);
        suggest_rules_done(&m);
        suggest_growth_done(&growers);
        m = mined_growers(&s, &growers);
        CHECK_EQ(m.hint_count, 1 - later);
        suggest_rules_done(&m);
        suggest_growth_done(&growers);
        free(matches);
        story_end(&s);
    }
}

/* One hint for steps in ranges of other names; but one each, if that one would take what is still used elsewhere. */
TEST(one_hint_is_for_what_piles_up_in_anchors_of_one_ending)
{
    for (int is_used = 0; is_used < 2; is_used++) {
        struct story s = story_begin();
        struct growers growers;

        pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12));
        (void)story_enter(&s, "train");
        pipestory_step(&s, 1, PIPESTORY(.micro_batches = 12));
        story_exit(&s);
        if (is_used)
            step_of_a_later_use(&s, "other/1", true);
        struct suggest_rules m = mined_growers(&s, &growers);
        REQUIRE_EQ(m.hint_count, is_used ? 2 : 1);
        CHECK_STR_EQ(m.hints[0].rule.pick.inside, is_used ? "step/*/backward" : "*/*/backward");
        CHECK_STR_EQ(m.hints[0].rule.when.anchor, is_used ? "step/*/forward" : "*/*/forward");
        CHECK_STR_EQ(m.hints[0].rule.otherwise.anchor, is_used ? "step/*/update" : "*/*/update");
        CHECK_EQ(m.grown.count, 24);
        suggest_rules_done(&m);
        suggest_growth_done(&growers);
        story_end(&s);
    }
}

/* The hint for the gradients of a run, in which another rank has its say; false: there is none. */
static bool mined_with(struct story *s, const struct story *other, struct rule *ret_rule)
{
    struct model_window window = model_whole(s->trace);
    const struct trace *const ranks[] = {s->trace, other->trace};
    struct growers growers;
    struct compare late;
    struct suggest_rules m;
    bool is_found = false;

    pipestory_times(s);
    pipestory_times(other);
    suggest_growth_find(s->trace, window, 2 * MB, &growers);
    suggest_lastuse_late(s->trace, window, &late);
    struct suggest_rules_job job = {.trace = s->trace,
            .ranks = ranks,
            .rank_count = 2,
            .window = window,
            .late = late.late,
            .late_count = late.late_count,
            .growers = &growers,
            .min_size = 2 * MB,
            .only_effective = true};
    REQUIRE_EQ(suggest_rules_hints(&job, &m), 0);
    for (size_t i = 0; i < m.hint_count; i++)
        if (m.hints[i].rule.pick.site[0] == PIPESTORY_GRADIENT) {
            *ret_rule = m.hints[i].rule;
            is_found = true;
        }
    suggest_rules_done(&m);
    compare_done(&late);
    suggest_growth_done(&growers);
    return is_found;
}

/* One that receives nothing gives them back at the update, all at once. */
TEST(a_hint_expects_what_it_matches_in_each_rank)
{
    static const struct {
        const char *name;
        struct pipestory other;
        uint64_t most;
    } rows[] = {
            {"a rank that receives", {.micro_batches = 12}, 3},
            {"one that does not", {.micro_batches = 9, .is_silent = true, .is_behind = true}, 9},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct story s = story_begin(), other = story_begin();
        struct rule rule;

        CHECK_ROW(rows[i].name);
        pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12, .is_behind = true));
        pipestory_step(&other, 0, &rows[i].other);
        REQUIRE(mined_with(&s, &other, &rule));
        CHECK_EQ(rule.expect.count.lo, 1);
        CHECK_EQ(rule.expect.count.hi, rows[i].most);
        CHECK_EQ(rule.expect.bytes.hi, rows[i].most * 16 * MB);
        story_end(&s);
        story_end(&other);
    }
}

/* Nothing at that site is written, at another anchor neither. */
TEST(no_hint_takes_what_another_rank_still_uses)
{
    static const struct {
        const char *name;
        struct pipestory other;
        bool is_shared;
    } rows[] = {
            {"it reads them once more", {.micro_batches = 12, .read_after = 3}, false},
            {"it may do so unseen", {.micro_batches = 12, .is_doubtful = true}, false},
            {"it gave them to somebody", {.micro_batches = 12}, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct story s = story_begin(), other = story_begin();
        struct rule rule;

        CHECK_ROW(rows[i].name);
        pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12));
        pipestory_step(&other, 0, &rows[i].other);
        for (size_t k = 0; k < other.trace->block_count; k++)
            other.trace->blocks[k].shared = rows[i].is_shared;
        CHECK(!mined_with(&s, &other, &rule));
        story_end(&s);
        story_end(&other);
    }
}

/* With a Python stack of one function besides the native site. */
static uint32_t alloc_called(struct story *s, uint64_t site, uint64_t size, struct trace_pyframe by)
{
    struct trace_frame frame = {.module = TRACE_NONE, .offset = site};
    uint32_t stack = trace_add_stack(s->trace, &frame, 1, false);
    uint32_t block = story_alloc(s, site, size);

    trace_set_python(s->trace, stack, &by, 1, false);
    s->trace->blocks[block].stack = stack;
    return block;
}

/* Time passes. */
static void alloc_and_free(struct story *s, uint64_t size)
{
    story_free(s, story_alloc(s, 99, size));
}

/*
 * Blocks of `attend`, from two native sites, are late by "o" and without an effect on the peak; two of native site 7 are late by
 * "i". So that a function cannot pick the latter, a third one of `norm` is used to the end.
 */
static void add_idle_and_late(struct story *s)
{
    uint32_t late[2], idle[6], kept;

    (void)story_enter(s, "o");
    (void)story_enter(s, "i");
    for (int i = 0; i < 2; i++)
        late[i] = alloc_called(s, 7, 16 * MB, norm);
    kept = alloc_called(s, 8, 16 * MB, norm);
    for (int i = 0; i < 6; i++)
        idle[i] = alloc_called(s, 1 + (uint64_t)i % 2, 2 * MB, attend);
    story_exit(s);
    for (int i = 0; i < 6; i++)
        pipestory_use(s, idle[i]);
    pipestory_use(s, kept);
    alloc_and_free(s, 100 * MB);
    story_exit(s);
    pipestory_use(s, kept);
    alloc_and_free(s, MB);
    for (int i = 0; i < 6; i++)
        story_free(s, idle[i]);
    for (int i = 0; i < 2; i++)
        story_free(s, late[i]);
    story_free(s, kept);
    pipestory_times(s);
}

/* One of `attend` through native site 7, used after "i" and not after "o". */
static uint32_t add_used_after(struct story *s)
{
    uint32_t block;

    (void)story_enter(s, "o");
    (void)story_enter(s, "i");
    block = alloc_called(s, 7, 16 * MB, attend);
    story_exit(s);
    alloc_and_free(s, MB);
    pipestory_use(s, block);
    alloc_and_free(s, MB);
    story_exit(s);
    alloc_and_free(s, MB);
    story_free(s, block);
    pipestory_times(s);
    return block;
}

/* The hint that has no effect takes the block of the other rank at the right exit; without it another one would take it too soon. */
TEST(what_another_rank_still_uses_is_not_taken_when_idle_hints_are_left_out)
{
    struct story s = story_begin(), other = story_begin();
    const struct trace *const ranks[] = {s.trace, other.trace};
    struct compare late;
    struct suggest_rules m;

    add_idle_and_late(&s);
    uint32_t used = add_used_after(&other);
    struct model_window window = model_whole(s.trace);
    suggest_lastuse_late(s.trace, window, &late);
    struct suggest_rules_job job = {.trace = s.trace,
            .ranks = ranks,
            .rank_count = 2,
            .window = window,
            .late = late.late,
            .late_count = late.late_count,
            .min_size = 2 * MB,
            .only_effective = true};
    REQUIRE_EQ(suggest_rules_hints(&job, &m), 0);
    REQUIRE(m.hint_count > 0);
    struct rule *rules = suggest_rules_rules(&m);
    struct predict_match matches[8];
    REQUIRE_EQ(predict_matches(other.trace, rules, m.hint_count, matches), 0);
    uint32_t at = matches[used].at;
    CHECK(at == TRACE_NEVER
            || other.trace->events[at].time_ns
                    > trace_uses(other.trace, &other.trace->blocks[used]).last);
    free(rules);
    suggest_rules_done(&m);
    compare_done(&late);
    story_end(&s);
    story_end(&other);
}

enum wanted {
    WANTED_NONE,
    WANTED_ORDINARY,
    WANTED_GROWN,
};

/* The hint for the gradients; and each late free is in one of the sums (here all that pile up are late). */
static void check_gradients(struct story *s, enum wanted wanted)
{
    enum wanted is = WANTED_NONE;
    struct model_window window = model_whole(s->trace);
    struct growers growers;
    struct compare late;
    struct suggest_rules m;

    pipestory_times(s);
    suggest_growth_find(s->trace, window, 2 * MB, &growers);
    suggest_lastuse_late(s->trace, window, &late);
    REQUIRE_EQ(growers.count, 1);
    struct suggest_rules_job job = {.trace = s->trace,
            .window = window,
            .late = late.late,
            .late_count = late.late_count,
            .growers = &growers,
            .min_size = 2 * MB,
            .only_effective = true};
    REQUIRE_EQ(suggest_rules_hints(&job, &m), 0);
    for (size_t i = 0; i < m.hint_count; i++)
        if (m.hints[i].rule.pick.site[0] == PIPESTORY_GRADIENT)
            is = m.hints[i].grower ? WANTED_GROWN : WANTED_ORDINARY;
    CHECK_EQ(is, wanted);
    CHECK_EQ(m.covered.count + m.grown.count + m.small.count + m.mixed.count + m.unplaced.count
                    + m.shared.count + m.used.count + m.idle.count,
            late.late_count);
    suggest_rules_done(&m);
    compare_done(&late);
    suggest_growth_done(&growers);
}

TEST(what_piles_up_without_an_effect_on_the_peak_is_counted_as_idle)
{
    struct story s = story_begin();

    story_free(&s, story_alloc(&s, 99, 1024 * MB));
    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12));
    check_gradients(&s, WANTED_NONE);
    story_end(&s);
}

TEST(what_piles_up_and_loses_its_hint_is_late_like_others)
{
    struct story s = story_begin();

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12));
    step_of_a_later_use(&s, "step/1/x", true);
    check_gradients(&s, WANTED_ORDINARY);
    story_end(&s);
}

TEST(what_piles_up_to_the_end_of_the_run_is_counted_with_its_hint)
{
    struct story s = story_begin();

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12, .is_cut = true));
    check_gradients(&s, WANTED_GROWN);
    story_end(&s);
}

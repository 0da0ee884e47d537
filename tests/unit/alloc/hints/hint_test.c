/* SPDX-License-Identifier: MIT */
/* covers: hint.c */
#include "alloc/base/wildcard.h"
#include "alloc/hints/hint.h"
#include "tests/check.h"

#include <errno.h>
#include <time.h>

static struct rule any_rule(void)
{
    struct rule rule = {
            .action = ACTION_RELEASE,
            .mode = HINT_LIVE,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "*", .kind = EDGE_EXIT},
    };

    return rule;
}

static struct tag any_tag(void)
{
    return (struct tag){.site = 7, .size = 4096, .nth = 2, .anchor = 30, .path = "step/fwd"};
}

/* The rule that one rule array picks for a tag. */
static int picks(const struct rule *rules, size_t n, const struct tag *tag)
{
    struct hints *hints = NULL;
    struct plan plan;

    REQUIRE_EQ(hint_new(rules, n, &hints), 0);
    hint_plan(hints, tag, &plan);
    hint_free(hints);
    return plan.rule;
}

TEST(globs)
{
    static const struct {
        const char *glob, *text;
        bool matches;
    } rows[] = {
            {"", "", true},
            {"", "a", false},
            {"*", "", true},
            {"*", "a/b/c", true},
            {"a", "a", true},
            {"a", "ab", false},
            {"a*", "a", true},
            {"a*c", "a/b/c", true},
            {"a*c", "a/b/cd", false},
            {"?", "", false},
            {"?", "x", true},
            {"a?c", "a/c", true},
            {"SOT_CALL_*", "SOT_CALL_17", true},
            {"SOT_CALL_1", "SOT_CALL_17", false},
            {"*/fwd", "step/fwd", true},
            {"*/fwd", "step/fwd/x", false},
            {"*a*b*", "xxaxxbxx", true},
            {"*a*b*", "xxbxxaxx", false},
            {"**", "x", true},
            {"[a]", "a", false},
            {"[a]", "[a]", true},
            {"\\*", "*", true},
            {"\\*", "a", false},
            {"\\?", "?", true},
            {"\\?", "a", false},
            {"\\\\*", "\\anything", true},
            {"\\\\", "\\", true},
            {"\\a", "a", true},
            {"*\\*", "a*", true},
            {"*\\*", "ab", false},
            {"*\\*b", "a*a*b", true},
            {"\\", "\\", false},
            {"a\\", "a", false},
            {"*\\", "a\\", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        CHECK_EQ(wildcard_match(rows[i].glob, rows[i].text), rows[i].matches);
}

/* A glob with escapes alone is found by the hash of what it matches, as any other rule is found by its glob. */
TEST(a_literal_glob_with_escapes_is_found)
{
    static const char *const paths[] = {"a*b", "a?b", "a\\b", "axb", "ab"};
    static const char *const globs[] = {"a\\*b", "a\\?b", "a\\\\b", "\\a\\x\\b", "ab"};

    for (size_t g = 0; g < sizeof(globs) / sizeof(*globs); g++) {
        struct rule rule = any_rule();
        struct tag tag = any_tag();

        (void)snprintf(rule.pick.inside, sizeof(rule.pick.inside), "%s", globs[g]);
        for (size_t p = 0; p < sizeof(paths) / sizeof(*paths); p++) {
            tag.path = paths[p];
            CHECK_EQ(picks(&rule, 1, &tag), p == g ? 0 : -1);
        }
    }
}

TEST(a_glob_that_ends_in_an_escape_is_cut)
{
    CHECK(wildcard_is_cut("\\"));
    CHECK(wildcard_is_cut("a\\\\\\"));
    CHECK(!wildcard_is_cut(""));
    CHECK(!wildcard_is_cut("a\\\\"));
    CHECK(!wildcard_is_cut("\\a"));
}

/* The glob that a matcher with recursion takes exponential time for. Here it is at most |glob| x |text| steps. */
TEST(a_hostile_glob_takes_no_time_to_speak_of)
{
    static char text[1 << 16];
    char glob[RULE_GLOB_MAX];
    struct timespec before, after;

    memset(text, 'a', sizeof(text) - 1);
    for (size_t i = 0; i + 2 < sizeof(glob); i += 2)
        memcpy(glob + i, "*a", 3);
    memcpy(glob + sizeof(glob) - 2, "b", 2);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    CHECK(!wildcard_match(glob, text));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    printf("%ld ms\n",
            (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

TEST(everything_that_a_pick_states_must_hold)
{
    struct rule rule = any_rule();
    struct tag tag = any_tag();

    CHECK_EQ(picks(&rule, 1, &tag), 0);
    rule.pick.site_count = 2;
    rule.pick.site[0] = 1;
    rule.pick.site[1] = 7;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    rule.pick.site[1] = 8;
    CHECK_EQ(picks(&rule, 1, &tag), -1);

    rule = any_rule();
    rule.pick.size_lo = 4096;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    rule.pick.size_hi = 4096;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    rule.pick.size_lo = rule.pick.size_hi = 4097;
    CHECK_EQ(picks(&rule, 1, &tag), -1);

    rule = any_rule();
    rule.pick.nth_lo = rule.pick.nth_hi = 2;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    rule.pick.nth_lo = rule.pick.nth_hi = 1;
    CHECK_EQ(picks(&rule, 1, &tag), -1);
    rule.pick.nth_lo = 3;
    rule.pick.nth_hi = 9;
    CHECK_EQ(picks(&rule, 1, &tag), -1);

    rule = any_rule();
    strcpy(rule.pick.inside, "step/*");
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    strcpy(rule.pick.inside, "step/fwd");
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    strcpy(rule.pick.inside, "step");
    CHECK_EQ(picks(&rule, 1, &tag), -1);

    rule = any_rule();
    rule.pick.device = 0;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    tag.device = 1;
    CHECK_EQ(picks(&rule, 1, &tag), -1);
    tag.device = -1;
    CHECK_EQ(picks(&rule, 1, &tag), -1);

    rule = any_rule();
    rule.pick.stream = 3;
    CHECK_EQ(picks(&rule, 1, &tag), -1);
    tag.stream = 3;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    rule.pick.stream = 1;
    CHECK_EQ(picks(&rule, 1, &tag), -1);

    rule = any_rule();
    rule.pick.thread = RULE_THREAD_MAIN;
    CHECK_EQ(picks(&rule, 1, &tag), -1);
    tag.is_main = true;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
    rule.pick.thread = RULE_THREAD_ANY;
    CHECK_EQ(picks(&rule, 1, &tag), 0);
}

TEST(a_rule_without_a_rank_is_for_all)
{
    struct rule rule = any_rule();

    CHECK(hint_is_for(&rule, "3"));
    CHECK(hint_is_for(&rule, ""));
    strcpy(rule.pick.rank, "1?");
    CHECK(hint_is_for(&rule, "12"));
    CHECK(!hint_is_for(&rule, "1"));
    CHECK(!hint_is_for(&rule, ""));
}

TEST(the_first_rule_of_the_file_wins_whatever_it_is_keyed_by)
{
    struct rule rules[4] = {any_rule(), any_rule(), any_rule(), any_rule()};
    struct tag tag = any_tag();

    rules[0].mode = HINT_OFF; /* off rules are not there */
    rules[1].action = ACTION_NONE;
    rules[2].pick.size_lo = rules[2].pick.size_hi = 4096;
    rules[3].pick.site_count = 1;
    rules[3].pick.site[0] = 7;
    CHECK_EQ(picks(rules, 4, &tag), 2);
    rules[2].pick.size_lo = rules[2].pick.size_hi = 1;
    CHECK_EQ(picks(rules, 4, &tag), 3);
    CHECK_EQ(picks(rules, 0, &tag), -1);
}

static bool is_in(const struct pysite *sites, uint64_t key)
{
    while (sites && sites->key != key)
        sites = sites->outer;
    return sites != NULL;
}

/* The index against a walk over the rules. */
TEST(the_index_finds_what_a_walk_finds)
{
    enum {
        RULES = 400
    };
    static struct rule rules[RULES];
    static const char *const paths[] = {"a", "a/b", "b", "step/fwd", ""};
    static const char *const globs[] = {"", "a", "a*", "*", "step/?wd", "b"};
    struct hints *hints;
    uint64_t random = 11;
    unsigned found = 0;

    for (int i = 0; i < RULES; i++) {
        uint64_t bits = random = random * UINT64_C(6364136223846793005) + 1;

        bits >>= 20;
        rules[i] = any_rule();
        rules[i].pick.site_count = (uint32_t)(bits % 3);
        for (uint32_t s = 0; s < rules[i].pick.site_count; s++)
            rules[i].pick.site[s] = (bits >> 8) % 5 + s;
        rules[i].pick.python = (uint32_t)(bits >> 32) & 3;
        rules[i].pick.size_lo = (bits >> 12) % 6;
        rules[i].pick.size_hi = bits >> 16 & 1 ? rules[i].pick.size_lo : (bits >> 17) % 6;
        rules[i].pick.nth_lo = (uint32_t)((bits >> 20) % 3);
        rules[i].pick.nth_hi = bits >> 22 & 1 ? UINT32_MAX : rules[i].pick.nth_lo;
        strcpy(rules[i].pick.inside, globs[(bits >> 24) % 6]);
        rules[i].mode = bits >> 28 & 3 ? HINT_LIVE : HINT_OFF;
    }
    REQUIRE_EQ(hint_new(rules, RULES, &hints), 0);
    for (int step = 0; step < 20000; step++) {
        uint64_t bits = random = random * UINT64_C(6364136223846793005) + 1;
        struct tag tag = {.device = 0};
        struct pysite room[2];
        struct plan plan;
        int naive = -1;

        bits >>= 20;
        for (int k = 0; k < 2; k++)
            tag.pysites = hint_pysite(hints, tag.pysites, (bits >> (16 + 4 * k)) % 7, &room[k]);
        tag.site = bits % 7;
        tag.size = (bits >> 4) % 7;
        tag.nth = (uint32_t)((bits >> 8) % 4);
        tag.path = paths[(bits >> 12) % 5];
        for (int i = 0; i < RULES && naive < 0; i++) {
            const struct rule_pick *pick = &rules[i].pick;
            bool site = pick->site_count == 0;

            for (uint32_t s = 0; s < pick->site_count; s++)
                site = site
                        || (pick->python >> s & 1 ? is_in(tag.pysites, pick->site[s])
                                                  : pick->site[s] == tag.site);
            if (site && rules[i].mode != HINT_OFF && tag.size >= pick->size_lo
                    && tag.size <= pick->size_hi && tag.nth >= pick->nth_lo
                    && tag.nth <= pick->nth_hi
                    && (!pick->inside[0] || wildcard_match(pick->inside, tag.path)))
                naive = i;
        }
        hint_plan(hints, &tag, &plan);
        REQUIRE_EQ(plan.rule, naive);
        found += naive >= 0;
    }
    CHECK_GT(found, 1000);
    CHECK_LT(found, 19999);
    hint_free(hints);
}

static struct rule rule_of(uint64_t site, uint64_t pysite)
{
    struct rule rule = any_rule();

    if (site)
        rule.pick.site[rule.pick.site_count++] = site;
    if (pysite) {
        rule.pick.python |= 1u << rule.pick.site_count;
        rule.pick.site[rule.pick.site_count++] = pysite;
    }
    return rule;
}

TEST(a_python_call_site_may_be_anywhere_in_the_stack)
{
    struct rule rules[3] = {rule_of(0, 100), rule_of(0, 101), rule_of(0, 102)};
    struct pysite outer = {.key = 101};
    struct pysite middle = {.key = 7, .outer = &outer};
    struct tag tag = any_tag();

    CHECK_EQ(picks(rules, 3, &tag), -1);
    tag.pysites = &middle;
    CHECK_EQ(picks(rules, 3, &tag), 1);
    tag.site = 100; /* that number of a native site is no Python call site */
    CHECK_EQ(picks(rules, 3, &tag), 1);
    rules[0] = rule_of(7, 0); /* nor is that one of a Python call site native */
    CHECK_EQ(picks(rules, 3, &tag), 1);
}

TEST(sites_of_both_kinds_are_alternatives_and_the_first_rule_wins)
{
    struct rule rules[3] = {rule_of(5, 100), rule_of(7, 101), rule_of(0, 102)};
    struct pysite last = {.key = 102};
    struct pysite first = {.key = 101, .outer = &last};
    struct tag tag = any_tag();

    tag.site = 9;
    tag.pysites = &last;
    CHECK_EQ(picks(rules, 3, &tag), 2);
    tag.pysites = &first;
    CHECK_EQ(picks(rules, 3, &tag), 1);
    tag.site = 5;
    CHECK_EQ(picks(rules, 3, &tag), 0);
    tag.site = 7;
    tag.pysites = NULL;
    CHECK_EQ(picks(rules, 3, &tag), 1);
    rules[1].pick.size_lo = rules[1].pick.size_hi = 1; /* what else it states must hold too */
    tag.pysites = &first;
    CHECK_EQ(picks(rules, 3, &tag), 2);
}

/* Of a stack only that counts which a rule names, once. */
TEST(what_no_rule_names_is_not_in_the_list_of_a_stack)
{
    struct rule rules[3] = {rule_of(50, 100), rule_of(0, 101), any_rule()};
    struct pysite room[4];
    const struct pysite *sites = NULL;
    struct hints *hints;

    rules[2] = rule_of(0, 102);
    rules[2].mode = HINT_OFF;
    REQUIRE_EQ(hint_new(rules, 3, &hints), 0);
    CHECK(hint_has_pysites(hints));
    sites = hint_pysite(hints, sites, 101, &room[0]);
    CHECK_EQ(sites, &room[0]);
    CHECK_EQ(hint_pysite(hints, sites, 50, &room[1]), sites);
    CHECK_EQ(hint_pysite(hints, sites, 99, &room[1]), sites);
    CHECK_EQ(hint_pysite(hints, sites, 101, &room[1]), sites);
    CHECK_EQ(hint_pysite(hints, sites, 102, &room[1]), sites);
    sites = hint_pysite(hints, sites, 100, &room[1]);
    CHECK_EQ(sites, &room[1]);
    CHECK_EQ(sites->outer, &room[0]);
    CHECK_EQ(hint_pysite(hints, sites, 101, &room[2]), sites);
    hint_free(hints);

    rules[0] = rule_of(50, 0);
    REQUIRE_EQ(hint_new(rules, 1, &hints), 0);
    CHECK(!hint_has_pysites(hints));
    hint_free(hints);
}

TEST(a_thousand_rules_of_python_call_sites_are_told_apart)
{
    enum {
        RULES = 1000
    };
    static struct rule rules[RULES];
    struct pysite room[2];
    struct hints *hints;

    for (uint64_t i = 0; i < RULES; i++) {
        rules[i] = rule_of(i % 2 ? 1 + i : 0, 10000 + i);
        rules[i].pick.size_lo = rules[i].pick.size_hi = 1 + i % 3;
    }
    REQUIRE_EQ(hint_new(rules, RULES, &hints), 0);
    for (uint64_t i = 0; i < RULES; i++) {
        struct tag tag = {.size = 1 + i % 3, .path = ""};
        struct plan plan;

        tag.pysites = hint_pysite(hints, NULL, 10000 + i, &room[0]);
        REQUIRE(tag.pysites != NULL);
        hint_plan(hints, &tag, &plan);
        CHECK_EQ(plan.rule, (int)i);
        tag.size = 7;
        hint_plan(hints, &tag, &plan);
        CHECK_EQ(plan.rule, -1);
        CHECK(hint_pysite(hints, NULL, 20000 + i, &room[0]) == NULL);
    }
    hint_free(hints);
}

/* A size is passed over only if no rule can match it; those far from all that rules state are. */
TEST(sizes_that_no_rule_speaks_of_are_known)
{
    static const struct {
        uint64_t lo, hi;
        enum hint_mode mode;
    } rows[] = {{512, 512, HINT_LIVE}, {5000, 5000, HINT_SHADOW}, {40000, 70000, HINT_LIVE},
            {UINT64_C(1) << 40, UINT64_MAX, HINT_LIVE}, {900, 900, HINT_OFF}, {90, 80, HINT_LIVE}};
    static const uint64_t sizes[] = {0, 1, 2, 80, 85, 90, 511, 512, 513, 900, 4999, 5000, 5001,
            20000, 39999, 40000, 65535, 65536, 70000, 70001, 200000, UINT64_C(1) << 39,
            UINT64_C(1) << 40, UINT64_MAX};
    static const uint64_t passed_over[] = {0, 1, 85, 511, 513, 900, 4999, 20000, 200000, 1 << 30};
    struct rule rules[sizeof rows / sizeof *rows];
    struct hints *hints = NULL;
    struct tag tag = any_tag();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rules[i] = any_rule();
        rules[i].pick.size_lo = rows[i].lo;
        rules[i].pick.size_hi = rows[i].hi;
        rules[i].mode = rows[i].mode;
    }
    REQUIRE_EQ(hint_new(rules, sizeof rows / sizeof *rows, &hints), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tag.size = sizes[i];
        CHECK(hint_has_size(hints, sizes[i])
                || picks(rules, sizeof rows / sizeof *rows, &tag) == -1);
    }
    for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++)
        CHECK(!hint_has_size(hints, passed_over[i]));
    CHECK(hint_has_size(hints, 5000));
    CHECK(hint_has_size(hints, 65536));
    hint_free(hints);

    rules[0] = any_rule();
    REQUIRE_EQ(hint_new(rules, 1, &hints), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CHECK(hint_has_size(hints, sizes[i]));
    hint_free(hints);
}

TEST(small_blocks_are_matched_but_left_alone)
{
    struct rule rule = any_rule();
    struct tag tag = any_tag();
    struct hints *hints;
    struct plan plan;

    rule.min_size = 4096;
    REQUIRE_EQ(hint_new(&rule, 1, &hints), 0);
    hint_plan(hints, &tag, &plan);
    CHECK(!plan.small);
    CHECK(hint_acts(&plan));
    tag.size = 4095;
    hint_plan(hints, &tag, &plan);
    CHECK_EQ(plan.rule, 0);
    CHECK(plan.small);
    CHECK(!hint_acts(&plan));
    hint_free(hints);
}

TEST(what_a_pin_or_an_ignore_takes_no_later_hint_does)
{
    static const enum action actions[] = {ACTION_PIN, ACTION_IGNORE};

    for (size_t i = 0; i < 2; i++) {
        struct rule rules[2] = {any_rule(), any_rule()};
        struct tag tag = any_tag();
        struct hints *hints;
        struct plan plan;

        rules[0].action = actions[i];
        rules[0].when = (struct rule_when){.kind = EDGE_EXIT, .anchor = "*"};
        rules[0].min_size = 1 << 20;
        REQUIRE_EQ(hint_new(rules, 2, &hints), 0);
        hint_plan(hints, &tag, &plan);
        CHECK_EQ(plan.rule, 0);
        CHECK_EQ(plan.action, actions[i]);
        CHECK(!plan.small); /* any size */
        CHECK_EQ(plan.due_anchor, 0);
        CHECK(!hint_acts(&plan));
        hint_free(hints);
    }
}

/* Its step is of no instance, and the file's defaults for releases are not for it. */
TEST(an_evict_hint_takes_blocks_by_size_and_waits_for_no_instance)
{
    struct rule rule = any_rule();
    struct tag tag = any_tag();
    struct hints *hints;
    struct plan plan;

    rule.action = ACTION_EVICT;
    rule.mode = HINT_LIVE;
    rule.when = (struct rule_when){.kind = EDGE_EXIT, .anchor = "*"};
    rule.min_size = 4096;
    rule.backend = RULE_ALIAS;
    rule.canary = 16;
    tag.anchor = 3;
    REQUIRE_EQ(hint_new(&rule, 1, &hints), 0);
    for (int i = 0; i < 2; i++) {
        tag.size = 4096 - (uint64_t)i;
        hint_plan(hints, &tag, &plan);
        CHECK_EQ(plan.rule, 0);
        CHECK_EQ(plan.action, ACTION_EVICT);
        CHECK_EQ(plan.small, i == 1);
        CHECK_EQ(plan.due_anchor, 0);
        CHECK_EQ(plan.else_anchor, 0);
        CHECK(!plan.shares);
        hint_canary(hints, &plan);
        CHECK_EQ(plan.mode, HINT_LIVE);
        CHECK_EQ(hint_acts(&plan), i == 0);
    }
    hint_free(hints);
}

/* Each tenth of the first 640 blocks, then all. */
TEST(a_canary_lets_few_blocks_go_until_it_has_seen_enough)
{
    enum {
        CANARY = 10,
    };
    struct rule rule = any_rule();
    struct tag tag = any_tag();
    struct hints *hints;

    rule.canary = CANARY;
    REQUIRE_EQ(hint_new(&rule, 1, &hints), 0);
    for (int number = 1; number <= HINT_CANARY * CANARY + 2 * CANARY; number++) {
        bool is_live = number % CANARY == 0 || number > HINT_CANARY * CANARY;
        struct plan plan;

        hint_plan(hints, &tag, &plan);
        hint_canary(hints, &plan);
        CHECK_EQ(plan.mode, is_live ? HINT_LIVE : HINT_SHADOW);
    }
    hint_free(hints);
}

TEST(an_evict_hint_that_has_learnt_something_acts_no_more)
{
    static const enum hint_learnt learnt[] = {HINT_LEARNT_STOPPED, HINT_LEARNT_OFF};

    for (size_t i = 0; i < 2; i++) {
        struct rule rule = any_rule();
        struct tag tag = any_tag();
        struct hints *hints;
        struct plan plan;

        rule.action = ACTION_EVICT;
        rule.mode = HINT_LIVE;
        REQUIRE_EQ(hint_new(&rule, 1, &hints), 0);
        CHECK(hint_may(hints, 0, HINT_LIVE));
        CHECK(hint_learn(hints, 0, learnt[i]));
        CHECK(!hint_may(hints, 0, HINT_LIVE));
        hint_plan(hints, &tag, &plan);
        CHECK_EQ(plan.rule, i == 0 ? 0 : -1);
        CHECK(!hint_acts(&plan));
        hint_free(hints);
    }
}

TEST(a_restore_takes_no_allocation_from_any_hint)
{
    struct rule rules[2] = {any_rule(), any_rule()};
    struct tag tag = any_tag();
    struct hints *hints;
    struct plan plan;

    rules[0].action = ACTION_RESTORE;
    REQUIRE_EQ(hint_new(rules, 2, &hints), 0);
    hint_plan(hints, &tag, &plan);
    CHECK_EQ(plan.rule, 1);
    CHECK_EQ(hint_count(hints), 2);
    hint_free(hints);
    REQUIRE_EQ(hint_new(rules, 1, &hints), 0);
    hint_plan(hints, &tag, &plan);
    CHECK_EQ(plan.rule, -1);
    CHECK(!hint_has_size(hints, tag.size)); /* not even the slow way is taken for it */
    hint_free(hints);
}

TEST(only_release_keep_meta_and_evict_in_poison_trap_and_live_act)
{
    for (int mode = 0; mode < HINT_MODE_COUNT; mode++) {
        for (int action = 0; action < ACTION_COUNT; action++) {
            struct plan plan = {
                    .rule = 0,
                    .mode = (enum hint_mode)mode,
                    .action = (enum action)action,
            };

            CHECK_EQ(hint_acts(&plan),
                    (action == ACTION_RELEASE || action == ACTION_KEEP_META
                            || action == ACTION_EVICT)
                            && (mode == HINT_POISON || mode == HINT_TRAP || mode == HINT_LIVE));
            plan.rule = -1;
            CHECK(!hint_acts(&plan));
        }
    }
}

static bool is_due(const struct rule *rule, const struct tag *tag, const struct edge *edge)
{
    struct hints *hints;
    struct plan plan;
    bool due;

    REQUIRE_EQ(hint_new(rule, 1, &hints), 0);
    hint_plan(hints, tag, &plan);
    REQUIRE_EQ(plan.rule, 0);
    due = hint_is_due(hints, &plan, edge);
    hint_free(hints);
    return due;
}

TEST(an_allocation_inside_the_anchor_waits_for_that_very_instance)
{
    struct rule rule = any_rule();
    struct tag tag = any_tag();
    struct edge edge = {.kind = EDGE_EXIT, .anchor = 30, .path = "step/fwd"};

    strcpy(rule.when.anchor, "step/*");
    CHECK(is_due(&rule, &tag, &edge));
    edge.anchor = 31; /* another instance of the same path */
    CHECK(!is_due(&rule, &tag, &edge));
    edge.anchor = 30;
    edge.kind = EDGE_ENTER;
    CHECK(!is_due(&rule, &tag, &edge));
}

TEST(an_allocation_outside_waits_for_the_first_edge_that_matches)
{
    struct rule rule = any_rule();
    struct tag tag = any_tag();
    struct edge edge = {.kind = EDGE_EXIT, .anchor = 99, .path = "backward"};

    strcpy(rule.when.anchor, "back*");
    CHECK(is_due(&rule, &tag, &edge));
    edge.path = "forward";
    CHECK(!is_due(&rule, &tag, &edge));

    /* the enter of the instance that it lies in is over: the next one of any instance counts; and a mark is a point */
    strcpy(rule.when.anchor, "step/fwd");
    rule.when.kind = EDGE_ENTER;
    edge.kind = EDGE_ENTER;
    edge.path = "step/fwd";
    CHECK(is_due(&rule, &tag, &edge));
    rule.when.kind = EDGE_MARK;
    edge.kind = EDGE_MARK;
    CHECK(is_due(&rule, &tag, &edge));

    /* without any open anchor */
    rule.when.kind = edge.kind = EDGE_EXIT;
    tag.anchor = 0;
    CHECK(is_due(&rule, &tag, &edge));
}

TEST(nothing_is_due_by_a_rule_that_is_not_there)
{
    struct rule rule = any_rule();
    struct edge edge = {.kind = EDGE_EXIT, .path = "x"};
    struct plan plan = {.rule = -1};
    struct hints *hints;

    REQUIRE_EQ(hint_new(&rule, 1, &hints), 0);
    CHECK(!hint_is_due(hints, &plan, &edge));
    plan.rule = 1;
    CHECK(!hint_is_due(hints, &plan, &edge));
    CHECK(hint_rule(hints, 1) == NULL);
    CHECK_EQ(hint_rule(hints, 0), &rule);
    CHECK_EQ(hint_count(hints), 1);
    hint_free(hints);
    hint_free(NULL);
}

TEST(rules_without_an_end_are_refused)
{
    struct rule rule = any_rule();
    struct hints *hints;

    memset(rule.pick.inside, 'x', sizeof(rule.pick.inside));
    CHECK_EQ(hint_new(&rule, 1, &hints), -EINVAL);
    rule = any_rule();
    memset(rule.when.anchor, 'x', sizeof(rule.when.anchor));
    CHECK_EQ(hint_new(&rule, 1, &hints), -EINVAL);
    rule = any_rule();
    memset(rule.id, 'x', sizeof(rule.id));
    CHECK_EQ(hint_new(&rule, 1, &hints), -EINVAL);
    rule = any_rule();
    rule.pick.site_count = RULE_SITES_MAX + 1;
    CHECK_EQ(hint_new(&rule, 1, &hints), -EINVAL);
}

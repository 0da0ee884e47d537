/* SPDX-License-Identifier: MIT */
/* covers: expect.c */
/* What a hint matches in an instance of its anchor: counted, judged once at the edge, within bounds. */
#include "alloc/heap/expect.h"
#include "tests/unit/alloc/hinted.h"

/* One rule for what is made anywhere, due at the exits of `when`, with as many blocks as that in each instance. */
static struct bench *expecting(const char *when, uint64_t count, enum hint_mode mode)
{
    static struct rule rule;
    struct bench *b = bench_new(1 * GiB);

    rule = (struct rule){
            .action = ACTION_RELEASE,
            .mode = mode,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.kind = EDGE_EXIT},
            .expect.count = {count, count},
    };
    (void)snprintf(rule.when.anchor, sizeof(rule.when.anchor), "%s", when);
    bench_rules(b, &rule, 1);
    return b;
}

static devptr_t made_in(struct bench *b, uint32_t anchor, const char *path)
{
    struct tag tag = {.size = 4 * KiB, .anchor = anchor, .path = path};
    struct pool_request request = bench_request(tag.size, 0);
    struct plan plan;

    hint_plan(b->hints, &tag, &plan);
    request.plan = &plan;
    return bench_ask(b, &request);
}

static struct edge exit_of(uint32_t anchor, const char *path)
{
    return (struct edge){.kind = EDGE_EXIT, .anchor = anchor, .path = path};
}

/* One call with room for `max`. */
static size_t pass_on(struct bench *b, struct edge *edge, struct outcome *ret, size_t max)
{
    size_t count = 0;

    REQUIRE_EQ(pool_edge(b->pool, edge, ret, max, &count), 0);
    return count;
}

/* All in one call. */
static size_t leave(
        struct bench *b, uint32_t anchor, const char *path, struct outcome *ret, size_t max)
{
    struct edge edge = exit_of(anchor, path);

    return pass_on(b, &edge, ret, max);
}

TEST(every_drift_is_told_and_the_first_of_them_says_so)
{
    struct bench *b = expecting("step", 1, HINT_SHADOW);
    struct outcome told[8];
    devptr_t a[4];

    for (uint32_t i = 0; i < 2; i++) {
        a[2 * i] = made_in(b, i + 1, "step");
        a[2 * i + 1] = made_in(b, i + 1, "step");
        REQUIRE_EQ(leave(b, i + 1, "step", told, 8), 3);
        CHECK_EQ(told[0].kind, OUTCOME_DRIFT);
        CHECK_EQ(told[0].rule, 0);
        CHECK_EQ(told[0].rounded, 2);
        CHECK_EQ(told[0].size, 8 * KiB);
        CHECK_EQ(told[0].how, i == 0 ? OUTCOME_FIRST : 0);
        CHECK_EQ(told[1].kind, OUTCOME_REFUSED);
        CHECK_EQ(told[2].kind, OUTCOME_REFUSED);
    }
    CHECK_EQ(hint_learnt(b->hints, 0), HINT_LEARNT_NOTHING);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(bench_free(b, a[i]), 0);
    bench_end(b);
}

/* Where there is no room for all that is due, the same edge comes again: what was made meanwhile is of the next instance. */
TEST(an_edge_that_is_told_in_pieces_is_judged_once)
{
    struct bench *b = expecting("end", 5, HINT_SHADOW);
    struct outcome told[2];
    devptr_t a[10];

    for (uint32_t i = 0; i < 2; i++) {
        struct edge edge = exit_of(i + 1, "end");
        size_t all = 0, count;

        for (int k = i ? 1 : 0; k < 5; k++)
            a[5 * i + (uint32_t)k] = made_in(b, 100, "step");
        do {
            count = pass_on(b, &edge, told, 2);
            for (size_t k = 0; k < count; k++)
                CHECK_EQ(told[k].kind, OUTCOME_SHADOW);
            if (i == 0 && all == 0)
                a[5] = made_in(b, 100, "step");
            all += count;
        } while (count == 2);
        CHECK_EQ(all, 5);
    }
    CHECK_EQ(hint_learnt(b->hints, 0), HINT_LEARNT_NOTHING);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(bench_free(b, a[i]), 0);
    bench_end(b);
}

/* What is made in "first", and what elsewhere, both due at the exits of "end". */
static void expecting_twice(struct rule *ret_rules, uint64_t count)
{
    for (int i = 0; i < 2; i++)
        ret_rules[i] = (struct rule){
                .action = ACTION_RELEASE,
                .mode = HINT_SHADOW,
                .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
                .when = {.kind = EDGE_EXIT, .anchor = "end"},
                .expect.count = {count, count},
        };
    (void)snprintf(ret_rules[0].pick.inside, sizeof(ret_rules[0].pick.inside), "first");
}

/* The same where the rule that is judged comes behind one that has filled the room. */
TEST(a_rule_that_is_told_of_later_is_judged_by_what_there_was_at_the_edge)
{
    struct rule rules[2];
    struct bench *b = bench_new(1 * GiB);
    struct edge edge = exit_of(1, "end");
    struct outcome told[2];
    devptr_t a[6];

    expecting_twice(rules, 2);
    bench_rules(b, rules, 2);
    for (int i = 0; i < 4; i++)
        a[i] = made_in(b, 100, i < 2 ? "first" : "then");
    REQUIRE_EQ(pass_on(b, &edge, told, 2), 2);
    CHECK_EQ(told[1].rule, 0);
    a[4] = made_in(b, 100, "first");
    a[5] = made_in(b, 100, "then");
    REQUIRE_EQ(pass_on(b, &edge, told, 2), 2);
    CHECK_EQ(told[0].kind, OUTCOME_SHADOW);
    CHECK_EQ(told[0].rule, 1);
    CHECK_EQ(told[0].ptr, a[3]);
    CHECK_EQ(told[1].ptr, a[2]);
    CHECK_EQ(pass_on(b, &edge, told, 2), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(hint_learnt(b->hints, i), HINT_LEARNT_NOTHING);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(bench_free(b, a[i]), 0);
    bench_end(b);
}

TEST(a_drift_is_told_before_what_it_refuses_however_little_room_there_is)
{
    struct bench *b = expecting("step", 2, HINT_SHADOW);
    struct edge edge = exit_of(1, "step");
    struct outcome told;
    devptr_t a = made_in(b, 1, "step");

    REQUIRE_EQ(pass_on(b, &edge, &told, 1), 1);
    CHECK_EQ(told.kind, OUTCOME_DRIFT);
    REQUIRE_EQ(pass_on(b, &edge, &told, 1), 1);
    CHECK_EQ(told.kind, OUTCOME_REFUSED);
    CHECK_EQ(pass_on(b, &edge, &told, 1), 0);
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

static void forwarded_in(struct bench *b, uint32_t anchor, const char *path)
{
    struct tag tag = {.size = 4 * KiB, .anchor = anchor, .path = path};
    struct plan plan;

    hint_plan(b->hints, &tag, &plan);
    pool_forwarded(b->pool, &plan, tag.size);
}

/* `served` blocks from the pool and others from the driver, of 2 that the hint expects: is there a drift? */
static bool drifts(const char *when, int served, int forwarded)
{
    struct bench *b = expecting(when, 2, HINT_SHADOW);
    struct outcome told[8];
    size_t count;
    bool drift;

    for (int i = 0; i < forwarded; i++)
        forwarded_in(b, 1, "step");
    for (int i = 0; i < served; i++)
        (void)made_in(b, 1, "step");
    count = leave(b, 1, when, told, 8);
    drift = count > 0 && told[0].kind == OUTCOME_DRIFT;
    CHECK_EQ(count, (size_t)served + drift);
    CHECK_EQ(b->pool->matched.count, 0); /* it ends at the edge, whoever has served it */
    bench_end(b);
    return drift;
}

TEST(what_the_driver_serves_is_not_missed)
{
    static const char *const edges[] = {"step", "end"}; /* its own instance, and any */

    for (int i = 0; i < 2; i++) {
        CHECK(drifts(edges[i], 1, 0));
        CHECK(!drifts(edges[i], 1, 1));
        CHECK(!drifts(edges[i], 1,
                2)); /* the second may be none that was counted when the hint was made */
        CHECK(!drifts(edges[i], 2, 1));
        CHECK(drifts(edges[i], 3, 1));  /* too many without it */
        CHECK(!drifts(edges[i], 0, 1)); /* nothing can be due */
    }
}

TEST(what_the_driver_served_in_one_instance_excuses_nothing_in_the_next)
{
    struct bench *b = expecting("step", 2, HINT_SHADOW);
    struct outcome told[8];

    forwarded_in(b, 1, "step");
    (void)made_in(b, 1, "step");
    CHECK_EQ(leave(b, 1, "step", told, 8), 1);
    (void)made_in(b, 2, "step");
    CHECK_EQ(leave(b, 2, "step", told, 8), 2);
    CHECK_EQ(told[0].kind, OUTCOME_DRIFT);
    bench_end(b);
}

TEST(a_rule_that_is_off_is_not_judged)
{
    struct bench *b = expecting("step", 2, HINT_SHADOW);
    struct outcome told[8];
    devptr_t a = made_in(b, 1, "step");

    CHECK(hint_learn(b->hints, 0, HINT_LEARNT_OFF));
    CHECK(!hint_learn(b->hints, 0, HINT_LEARNT_STOPPED)); /* it is worse already */
    REQUIRE_EQ(leave(b, 1, "step", told, 8), 1);
    CHECK_EQ(told[0].kind, OUTCOME_REFUSED);
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

TEST(a_match_that_comes_after_its_instance_has_ended_keeps_no_room)
{
    struct bench *b = expecting("step", 1, HINT_SHADOW);
    struct outcome told[8];
    devptr_t a = made_in(b, 1, "step");
    devptr_t late;

    CHECK_EQ(leave(b, 1, "step", told, 8), 1);
    late = made_in(b, 1, "step"); /* another thread's, which was on its way */
    CHECK_EQ(b->pool->matched.count, 0);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, late), 0);
    bench_end(b);
}

TEST(a_hint_whose_instances_never_end_takes_no_room_of_another)
{
    struct rule rules[2];
    struct bench *b = bench_new(1 * GiB);
    struct outcome told[2];
    devptr_t a;

    expecting_twice(rules, 1);
    (void)snprintf(rules[0].when.anchor, sizeof(rules[0].when.anchor), "first");
    bench_rules(b, rules, 2);
    for (uint32_t i = 1; i <= EXPECT_OPEN_MAX + 1; i++)
        REQUIRE_EQ(bench_free(b, made_in(b, i, "first")), 0);
    CHECK_EQ(hint_learnt(b->hints, 0), HINT_LEARNT_UNCOUNTED);
    a = made_in(b, 1, "then");
    CHECK_EQ(leave(b, 1, "end", told, 2), 1);
    CHECK_EQ(told[0].kind, OUTCOME_SHADOW);
    CHECK_EQ(told[0].ptr, a);
    CHECK_EQ(hint_learnt(b->hints, 1), HINT_LEARNT_NOTHING);
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

TEST(a_hint_that_cannot_be_counted_is_in_shadow_and_the_next_edge_tells)
{
    struct bench *b = expecting("step", 1, HINT_SHADOW);
    struct outcome told[8];
    uint32_t anchor = 1;

    for (; anchor <= EXPECT_OPEN_MAX; anchor++) /* none of them ever ends */
        REQUIRE_EQ(bench_free(b, made_in(b, anchor, "step")), 0);
    CHECK_EQ(b->pool->matched.count, EXPECT_OPEN_MAX);
    CHECK_EQ(hint_learnt(b->hints, 0), HINT_LEARNT_NOTHING);
    CHECK(hint_may(b->hints, 0, HINT_TRAP));
    REQUIRE_EQ(bench_free(b, made_in(b, anchor, "step")), 0);
    CHECK_EQ(hint_learnt(b->hints, 0), HINT_LEARNT_UNCOUNTED);
    devptr_t a = made_in(b, anchor, "step");
    CHECK(!hint_may(b->hints, 0, HINT_TRAP));
    REQUIRE_EQ(leave(b, anchor, "step", told, 8), 2);
    CHECK_EQ(told[0].kind, OUTCOME_DRIFT);
    CHECK_EQ(told[0].how, OUTCOME_FIRST);
    CHECK_EQ(told[0].rounded, 0); /* not known */
    CHECK_EQ(told[1].kind, OUTCOME_REFUSED);
    CHECK_EQ(leave(b, anchor, "step", told, 8), 0); /* told once */
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

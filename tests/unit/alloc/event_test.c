/* SPDX-License-Identifier: MIT */
/* covers: pool.c hint.c */
/* Storage that goes by events: calls counted from the allocation or from the last use, and an `else` beside them. */
#include "tests/unit/alloc/hinted.h"

enum {
    SEND = 1,
    RECEIVE,
};

static const struct edge receive = {.kind = EDGE_CALL, .call = RECEIVE, .path = "step/forward"};
static const struct edge send = {.kind = EDGE_CALL, .call = SEND, .path = "step/backward"};

/* What is made in "step" is dead at the `count`-th receive. */
static struct rule counting(uint32_t count)
{
    struct rule rule = {
            .action = ACTION_RELEASE,
            .mode = HINT_LIVE,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "*/forward", .kind = EDGE_CALL, .call = RECEIVE, .count = count},
            .min_size = 2 * MiB,
    };
    return rule;
}

/* The same from the send of it as the first buffer; what is left is dead when the update ends. */
static struct rule sending(uint32_t count)
{
    struct rule rule = counting(count);

    rule.pick.use = (struct rule_use){.call = SEND, .inside = "*/backward"};
    rule.when.from = RULE_FROM_USE;
    rule.otherwise = (struct rule_when){.anchor = "step/update", .kind = EDGE_EXIT};
    return rule;
}

static struct bench *events_bench(const struct rule *rules, size_t n)
{
    struct bench *b = bench_new(1 * GiB);

    bench_rules(b, rules, n);
    return b;
}

/* How many outcomes it told, the first in b->last. */
static size_t pass(struct bench *b, const struct edge *passed)
{
    struct edge edge = *passed;
    struct outcome told[2]; /* in portions, where more is due */
    size_t count = 0;
    size_t all = 0;

    do {
        REQUIRE_EQ(pool_edge(b->pool, &edge, told, 2, &count), 0);
        if (count && all == 0)
            b->last = told[0];
        all += count;
    } while (count == 2);
    (void)pool_poll(b->pool, true, told, 0, &count);
    BENCH_CHECK(b);
    return all;
}

/* True if the hint's pick fits the block by it. */
static bool use(struct bench *b, devptr_t ptr, const struct edge *call)
{
    struct outcome picked;
    bool is_first = pool_use(b->pool, ptr, call, 0, &picked);

    if (is_first) {
        CHECK_EQ(picked.kind, OUTCOME_PICKED);
        CHECK(ptr >= picked.ptr && ptr < picked.ptr + picked.size);
        CHECK_EQ(picked.rule, 0);
    }
    CHECK_EQ(pass(b, call), 0);
    return is_first;
}

static size_t leave(struct bench *b, const char *path)
{
    const struct edge edge = {.kind = EDGE_EXIT, .anchor = 77, .path = path};

    return pass(b, &edge);
}

TEST(an_event_is_counted_from_the_allocation)
{
    struct rule rule = counting(2);
    struct bench *b = events_bench(&rule, 1);
    devptr_t early, late;

    CHECK_EQ(pass(b, &receive), 0); /* nobody waits */
    early = hinted(b, 3 * MiB);
    CHECK_EQ(pass(b, &receive), 0);
    late = hinted(b, 3 * MiB);
    CHECK_EQ(pass(b, &receive), 1);
    CHECK_EQ(b->last.kind, OUTCOME_RELEASE);
    CHECK_EQ(b->last.ptr, early);
    CHECK_EQ(state_of(b, early), HOLDER_HUSK);
    CHECK_EQ(state_of(b, late), HOLDER_LIVE);
    CHECK_EQ(pass(b, &receive), 1);
    CHECK_EQ(b->last.ptr, late);
    CHECK_EQ(pass(b, &receive), 0);
    bench_end(b);
}

TEST(only_the_call_in_its_anchor_is_the_event)
{
    struct rule rule = counting(1);
    struct bench *b = events_bench(&rule, 1);
    struct edge other = receive;

    CHECK_NE(hinted(b, 3 * MiB), 0);
    CHECK_EQ(pass(b, &send), 0);
    other.path = "step/backward";
    CHECK_EQ(pass(b, &other), 0);
    other = (struct edge){.kind = EDGE_EXIT, .anchor = 1, .path = "step/forward"};
    CHECK_EQ(pass(b, &other), 0);
    CHECK_EQ(pass(b, &receive), 1);
    bench_end(b);
}

TEST(nothing_is_due_before_the_use_and_the_last_use_counts)
{
    struct rule rule = sending(2);
    struct bench *b = events_bench(&rule, 1);
    devptr_t a = hinted(b, 3 * MiB);
    struct edge elsewhere = send;
    struct outcome picked;

    for (int i = 0; i < 3; i++)
        CHECK_EQ(pass(b, &receive), 0);
    CHECK_EQ(leave(b, "step/update"), 0); /* `else` neither */
    elsewhere.path = "step/forward";
    CHECK(!use(b, a, &elsewhere));
    CHECK(!pool_use(b->pool, a, &send, 1, &picked));    /* as another argument */
    CHECK(!pool_use(b->pool, 4096, &send, 0, &picked)); /* nobody's */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pass(b, &receive), 0);
    CHECK(use(b, a + 1 * MiB, &send)); /* a part of it */
    CHECK_EQ(pass(b, &receive), 0);
    CHECK(!use(b, a, &send)); /* it was picked before */
    CHECK_EQ(pass(b, &receive), 0);
    CHECK_EQ(state_of(b, a), HOLDER_LIVE);
    CHECK_EQ(pass(b, &receive), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    bench_end(b);
}

TEST(what_no_event_came_for_goes_by_else)
{
    struct rule rule = sending(2);
    struct bench *b = events_bench(&rule, 1);
    devptr_t a[3];

    for (int i = 0; i < 3; i++) {
        a[i] = hinted(b, 3 * MiB);
        use(b, a[i], &send);
        CHECK_EQ(pass(b, &receive), i == 0 ? 0 : 1);
    }
    CHECK_EQ(state_of(b, a[1]), HOLDER_HUSK);
    CHECK_EQ(state_of(b, a[2]), HOLDER_LIVE);
    CHECK_EQ(leave(b, "step/forward"), 0);
    CHECK_EQ(leave(b, "step/update"), 1);
    CHECK_EQ(state_of(b, a[2]), HOLDER_HUSK);
    CHECK_EQ(leave(b, "step/update"), 0);
    bench_end(b);
}

/* A call that is the use and the event: what it sends itself is not due by it. */
TEST(a_call_does_not_count_for_what_it_uses)
{
    struct rule rule = sending(1);
    struct outcome picked;
    struct bench *b;
    devptr_t a, c;

    rule.when.call = SEND;
    rule.when.anchor[0] = '\0';
    b = events_bench(&rule, 1);
    a = hinted(b, 3 * MiB);
    c = hinted(b, 3 * MiB);
    (void)use(b, a, &send);
    CHECK(pool_use(b->pool, c, &send, 0, &picked));
    CHECK_EQ(pass(b, &send), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    (void)use(b, c, &send); /* again: it is needed until the next */
    CHECK_EQ(state_of(b, c), HOLDER_LIVE);
    CHECK_EQ(pass(b, &send), 1);
    bench_end(b);
}

/* Two threads' events: what the first has found is told to the first, and judged there alone. */
TEST(an_event_between_the_calls_of_another_finds_only_its_own)
{
    struct rule rule = sending(1);
    struct edge one = receive, other = receive;
    struct outcome told[2], picked;
    struct bench *b;
    devptr_t a[6];
    size_t count;

    rule.expect.count = (struct rule_range){3, 3};
    b = events_bench(&rule, 1);
    for (int i = 0; i < 6; i++)
        a[i] = hinted(b, 3 * MiB);
    for (int i = 0; i < 3; i++)
        CHECK(pool_use(b->pool, a[i], &send, 0, &picked));
    REQUIRE_EQ(pool_edge(b->pool, &one, told, 2, &count), 0);
    CHECK_EQ(count, 2);
    for (int i = 3; i < 6; i++)
        CHECK(pool_use(b->pool, a[i], &send, 0, &picked));
    CHECK_EQ(pass(b, &other), 3);
    REQUIRE_EQ(pool_edge(b->pool, &one, told, 2, &count), 0);
    CHECK_EQ(count, 1);
    CHECK_EQ(told[0].kind, OUTCOME_RELEASE);
    CHECK_EQ(hint_learnt(b->hints, 0), HINT_LEARNT_NOTHING);
    bench_end(b);
}

/* It is needed until the next event, whatever the one says that is still being told. */
TEST(what_is_used_again_between_the_calls_of_an_event_is_not_due_by_it)
{
    struct rule rule = sending(1);
    struct bench *b = events_bench(&rule, 1);
    struct edge event = receive;
    struct outcome told, picked;
    devptr_t a[2] = {hinted(b, 3 * MiB), hinted(b, 3 * MiB)};
    size_t count;

    for (int i = 0; i < 2; i++)
        CHECK(pool_use(b->pool, a[i], &send, 0, &picked));
    REQUIRE_EQ(pool_edge(b->pool, &event, &told, 1, &count), 0);
    CHECK_EQ(told.ptr, a[1]);
    CHECK(!pool_use(b->pool, a[0], &send, 0, &picked));
    REQUIRE_EQ(pool_edge(b->pool, &event, &told, 1, &count), 0);
    CHECK_EQ(count, 0);
    CHECK_EQ(pass(b, &receive), 1);
    CHECK_EQ(state_of(b, a[0]), HOLDER_HUSK);
    bench_end(b);
}

TEST(each_rule_counts_for_itself_however_little_room_there_is)
{
    struct rule rules[] = {counting(1), counting(2)};
    struct bench *b;
    devptr_t large[3], small[3];

    rules[0].pick.size_lo = 4 * MiB;
    rules[1].pick.size_hi = 4 * MiB - 1;
    b = events_bench(rules, 2);
    for (int i = 0; i < 3; i++) {
        large[i] = hinted(b, 4 * MiB);
        small[i] = hinted(b, 2 * MiB);
    }
    CHECK_EQ(pass(b, &receive), 3);
    CHECK_EQ(state_of(b, large[2]), HOLDER_HUSK);
    CHECK_EQ(state_of(b, small[2]), HOLDER_LIVE);
    CHECK_EQ(pass(b, &receive), 3);
    CHECK_EQ(state_of(b, small[2]), HOLDER_HUSK);
    bench_end(b);
}

/* expect: what one event finds, freed ones not among them; nothing due is no instance. */
TEST(an_event_that_finds_something_else_than_expected_ends_the_hint)
{
    struct rule rule = sending(1);
    struct bench *b;
    devptr_t a[4];

    rule.expect.count = (struct rule_range){1, 1};
    b = events_bench(&rule, 1);
    CHECK_EQ(pass(b, &receive), 0);
    for (int i = 0; i < 4; i++)
        a[i] = hinted(b, 3 * MiB); /* not judged when it is made, nor unless it is used */
    CHECK_EQ(pass(b, &receive), 0);
    (void)use(b, a[0], &send);
    (void)use(b, a[3], &send);
    CHECK_EQ(bench_free(b, a[3]), 0);
    CHECK_EQ(pass(b, &receive), 1);
    CHECK_EQ(b->last.kind, OUTCOME_RELEASE);
    (void)use(b, a[1], &send);
    (void)use(b, a[2], &send);
    CHECK_EQ(leave(b, "step/update"), 3);
    CHECK_EQ(b->last.kind, OUTCOME_DRIFT);
    CHECK_EQ(b->last.rounded, 2);
    CHECK_EQ(b->last.size, 6 * MiB);
    CHECK_EQ(b->last.how, OUTCOME_FIRST);
    CHECK_EQ(state_of(b, a[1]), HOLDER_LIVE);
    bench_end(b);
}

TEST(an_event_is_judged_once_however_little_room_there_is)
{
    struct rule rule = counting(1);
    struct bench *b;

    rule.expect.count = (struct rule_range){3, 3};
    b = events_bench(&rule, 1);
    for (int i = 0; i < 3; i++)
        CHECK_NE(hinted(b, 3 * MiB), 0);
    CHECK_EQ(pass(b, &receive), 3);
    CHECK_EQ(b->last.kind, OUTCOME_RELEASE);
    CHECK_EQ(hint_learnt(b->hints, 0), HINT_LEARNT_NOTHING);
    bench_end(b);
}

TEST(an_else_is_counted_for_itself)
{
    struct rule rule = counting(3);
    struct bench *b;
    devptr_t a;

    rule.otherwise = (struct rule_when){.kind = EDGE_CALL, .call = SEND, .count = 2};
    b = events_bench(&rule, 1);
    a = hinted(b, 3 * MiB);
    CHECK_EQ(pass(b, &receive), 0);
    CHECK_EQ(pass(b, &send), 0);
    CHECK_EQ(pass(b, &receive), 0);
    CHECK_EQ(state_of(b, a), HOLDER_LIVE);
    CHECK_EQ(pass(b, &send), 1);
    CHECK_NE(hinted(b, 3 * MiB), 0);
    CHECK_EQ(pass(b, &send), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pass(b, &receive), i == 2 ? 1 : 0);
    bench_end(b);
}

TEST(r84_r55_events_in_shadow_are_on_paper)
{
    struct rule rule = sending(1);
    struct bench *b;
    devptr_t a;
    uint64_t calls;

    rule.mode = HINT_SHADOW;
    b = events_bench(&rule, 1);
    a = hinted(b, 3 * MiB);
    calls = b->fake->calls;
    (void)use(b, a, &send);
    CHECK_EQ(pass(b, &receive), 1);
    CHECK_EQ(b->last.kind, OUTCOME_SHADOW);
    CHECK_EQ(b->fake->calls, calls);
    CHECK(fake_is_accessible(b->fake, a, 3 * MiB));
    bench_end(b);
}

TEST(launches_are_events_by_the_name_of_the_kernel)
{
    struct edge launch = {.kind = EDGE_LAUNCH, .path = "step", .name = "scale"};
    struct rule rule = counting(2);
    struct bench *b;

    rule.when.kind = EDGE_LAUNCH;
    strcpy(rule.when.anchor, "*gemm*");
    b = events_bench(&rule, 1);
    CHECK_NE(hinted(b, 3 * MiB), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pass(b, &launch), 0);
    launch.name = "ampere_gemm_128";
    CHECK_EQ(pass(b, &launch), 0);
    CHECK_EQ(pass(b, &launch), 1);
    bench_end(b);
}

TEST(frees_are_events_by_the_hint_of_the_block)
{
    struct edge freed = {.kind = EDGE_FREE, .path = "step", .rule = 1};
    struct rule rules[] = {counting(1), counting(9)};
    struct bench *b;
    devptr_t other;

    rules[0].when = (struct rule_when){.kind = EDGE_FREE, .count = 1, .rule = 1};
    rules[1].pick.size_lo = 4 * MiB;
    rules[0].pick.size_hi = 4 * MiB - 1;
    b = events_bench(rules, 2);
    CHECK_NE(hinted(b, 3 * MiB), 0);
    other = hinted(b, 4 * MiB);
    CHECK_EQ(bench_free(b, other), 0);
    CHECK_EQ(b->last.rule, 1);
    freed.rule = 0;
    CHECK_EQ(pass(b, &freed), 0);
    freed.rule = 1;
    CHECK_EQ(pass(b, &freed), 1);
    bench_end(b);
}

/* ── wait: event ── */

#define COMMS 3 /* the stream of the receive */

static struct bench *waiting_bench(void)
{
    static struct rule rule;

    rule = sending(1);
    rule.wait = RULE_WAIT_EVENT;
    return events_bench(&rule, 1);
}

static size_t receive_on(struct bench *b, uint64_t stream)
{
    struct edge call = receive;

    call.stream = stream;
    return pass(b, &call);
}

TEST(r57_storage_waits_for_the_call_that_was_the_event_alone)
{
    struct bench *b = waiting_bench();
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c = hinted(b, 4 * MiB);

    use(b, a, &send);
    fake_submit(b->fake, 2, 0, 0); /* never ends here, and does not matter */
    fake_reader_enter(b->fake, 1); /* the receive itself, on its way */
    CHECK_EQ(receive_on(b, COMMS), 1);
    fake_submit(b->fake, COMMS, a, 4 * MiB);
    CHECK_EQ(state_of(b, a), HOLDER_DEAD);
    fake_reader_leave(b->fake, 1);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    CHECK_EQ(b->fake->stream_records, 1);
    CHECK_EQ(b->fake->records, 0);
    BENCH_CHECK(b);
    REQUIRE(fake_step(b->fake, COMMS));
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    use(b, c, &send);
    CHECK_EQ(leave(b, "step/update"), 1); /* `else` has no stream: it waits for all */
    CHECK_EQ(state_of(b, c), HOLDER_LIMBO);
    CHECK_EQ(b->fake->stream_records, 1);
    fake_drain(b->fake);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_EQ(state_of(b, c), HOLDER_HUSK);
    bench_end(b);
}

/* The proof is of the call in `when`: what another call lets go waits for all, though that call has a stream. */
TEST(r57_what_goes_by_the_call_of_else_waits_for_all_streams)
{
    static struct rule rule;
    static const struct edge other = {
            .kind = EDGE_CALL, .call = RECEIVE + 1, .path = "step/update", .stream = COMMS};
    struct bench *b;
    devptr_t a;

    rule = sending(2);
    rule.wait = RULE_WAIT_EVENT;
    rule.otherwise = (struct rule_when){
            .kind = EDGE_CALL, .call = RECEIVE + 1, .count = 1, .from = RULE_FROM_USE};
    b = events_bench(&rule, 1);
    a = hinted(b, 4 * MiB);
    use(b, a, &send);
    fake_submit(b->fake, 2, a, 4 * MiB); /* the send, which is late */
    CHECK_EQ(pass(b, &other), 1);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    CHECK_EQ(b->fake->stream_records, 0);
    CHECK_EQ(b->fake->records, 1);
    fake_drain(b->fake);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    bench_end(b);
}

/* A peer that does not come: each request would wait for it as long again. */
TEST(a_wait_for_an_event_that_ended_without_it_is_not_made_again)
{
    struct pool_opts opts;
    struct rule rule = sending(1);
    struct bench *b;
    devptr_t a;

    pool_opts_init(&opts);
    opts.budget = 8 * MiB;
    b = bench_new_with(64 * MiB, &opts);
    rule.wait = RULE_WAIT_EVENT;
    bench_rules(b, &rule, 1);
    a = hinted(b, 8 * MiB);
    use(b, a, &send);
    fake_submit(b->fake, COMMS, a, 8 * MiB);
    CHECK_EQ(receive_on(b, COMMS), 1);
    b->fake->hangs = true;
    for (int i = 0; i < 4; i++)
        CHECK_NE(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(bench_stats(b).timeouts, 1);
    b->fake->hangs = false;
    fake_drain(b->fake);
    bench_end(b);
}

/* What another stream has queued before is late then: it tells that the proof is wrong. */
TEST(poison_waits_for_that_call_alone_too)
{
    static struct rule rule;
    struct outcome told[8];
    struct bench *b;
    devptr_t a;
    size_t count;

    rule = sending(1);
    rule.wait = RULE_WAIT_EVENT;
    rule.mode = HINT_POISON;
    b = events_bench(&rule, 1);
    a = hinted(b, 4 * MiB);
    use(b, a, &send);
    fake_submit(b->fake, 2, a, 512);
    CHECK_EQ(receive_on(b, COMMS), 1);
    (void)pool_poll(b->pool, true, NULL, 0, &count);
    CHECK_EQ(b->fake->poisons, 1);
    while (fake_step(b->fake, 0))
        ;
    CHECK_EQ(bench_free(b, a), 0);
    fake_drain(b->fake);
    (void)pool_poll(b->pool, true, told, 8, &count);
    REQUIRE(count > 0);
    CHECK_EQ(told[count - 1].kind, OUTCOME_WRITTEN);
    bench_end(b);
}

TEST(events_on_two_streams_pass_in_any_order)
{
    for (uint64_t first = 0; first < 2; first++) {
        struct bench *b = waiting_bench();
        devptr_t a[2];

        for (int i = 0; i < 2; i++)
            a[i] = hinted(b, 4 * MiB);
        for (uint64_t i = 0; i < 2; i++) {
            use(b, a[i], &send);
            fake_submit(b->fake, COMMS + i, 0, 0);
            CHECK_EQ(receive_on(b, COMMS + i), 1);
        }
        REQUIRE(fake_step(b->fake, COMMS + first));
        (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
        CHECK_EQ(state_of(b, a[1 - first]), HOLDER_LIMBO);
        CHECK_EQ(state_of(b, a[first]), HOLDER_HUSK);
        CHECK_EQ(bench_free(b, a[1 - first]), 0); /* while it waits */
        BENCH_CHECK(b);
        CHECK_EQ(bench_stats(b).limbo, 4 * MiB);
        fake_drain(b->fake);
        (void)pool_trim_device(b->pool, 0, true);
        CHECK_EQ(bench_stats(b).limbo, 0);
        bench_end(b);
    }
}

/* The stream is gone, or no fence can be recorded there: then it is all streams. */
TEST(r5_an_event_whose_stream_is_gone_waits_for_all)
{
    struct bench *b = waiting_bench();
    devptr_t a = hinted(b, 4 * MiB);

    use(b, a, &send);
    fake_submit(b->fake, 2, a, 4 * MiB);
    b->fake->streams[COMMS].gone = true;
    CHECK_EQ(receive_on(b, COMMS), 1);
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    CHECK_EQ(b->fake->records, 1);
    fake_drain(b->fake);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    bench_end(b);
}

TEST(r31_a_request_that_finds_nothing_waits_for_an_event)
{
    struct rule rule = sending(1);
    struct bench *b = bench_new(8 * MiB);
    devptr_t a;

    rule.wait = RULE_WAIT_EVENT;
    bench_rules(b, &rule, 1);
    a = hinted(b, 8 * MiB);
    use(b, a, &send);
    fake_submit(b->fake, COMMS, a, 8 * MiB);
    CHECK_EQ(receive_on(b, COMMS), 1);
    CHECK_NE(bench_alloc(b, 6 * MiB), 0);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    bench_end(b);
}

TEST(r30_a_dead_context_takes_blocks_along_that_wait_for_an_event)
{
    struct bench *b = waiting_bench();
    devptr_t a = hinted(b, 4 * MiB);

    use(b, a, &send);
    fake_submit(b->fake, COMMS, 0, 0);
    CHECK_EQ(receive_on(b, COMMS), 1);
    pool_context_going(b->pool, BENCH_CONTEXT);
    fake_context_gone(b->fake, BENCH_CONTEXT);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    BENCH_CHECK(b);
    fake_drain(b->fake);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    BENCH_CHECK(b);
    CHECK_EQ(bench_stats(b).limbo, 0);
    bench_end(b);
}

/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
/* Hints that hold: what the program freed stays as it is until their edge, whoever asks for memory meanwhile. */
#include "tests/unit/alloc/hinted.h"

#define STREAMS 2 /* a stream of 0 is the sync API */

static struct rule holding(enum hint_mode mode)
{
    return (struct rule){
            .action = ACTION_HOLD,
            .mode = mode,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_EXIT},
            .min_size = 2 * MiB, /* of releases */
    };
}

static struct bench *holding_bench(uint64_t memory, enum hint_mode mode)
{
    static struct rule rule;
    struct bench *b = bench_new(memory);

    rule = holding(mode);
    bench_rules(b, &rule, 1);
    return b;
}

/* Everything that is free goes back to the device. */
static void give_back(struct bench *b)
{
    fake_drain(b->fake);
    (void)pool_trim_device(b->pool, 0, true);
}

TEST(r58_a_held_block_is_free_to_the_program_and_nobody_elses_until_the_edge)
{
    static const enum hint_mode modes[] = {HINT_TRAP, HINT_LIVE};

    for (uint64_t stream = 0; stream < STREAMS; stream++)
        for (size_t m = 0; m < 2; m++) {
            struct bench *b = holding_bench(256 * MiB, modes[m]);
            devptr_t a = hinted_on(b, 4 * MiB, stream);
            struct pool_stats stats;

            CHECK_EQ(b->last.rule, 0);
            CHECK_EQ(b->last.mode, modes[m]);
            CHECK(!(b->last.how & (OUTCOME_HINTED | OUTCOME_SMALL))); /* as any other block */
            CHECK_EQ(bench_free_on(b, a, stream), 0);
            CHECK_EQ(b->last.kind, OUTCOME_FREE);
            CHECK(b->last.how & OUTCOME_HELD);
            CHECK_EQ(bench_free_on(b, a, stream), -EINVAL); /* once, as ever */
            stats = bench_stats(b);
            CHECK_EQ(stats.live_requested, 0); /* R84 */
            CHECK_EQ(stats.used, 0);
            CHECK_EQ(stats.held, 4 * MiB);
            CHECK_EQ(stats.quarantined, 4 * MiB);
            CHECK_EQ(stats.stored, 4 * MiB); /* but it needs its storage */
            BENCH_CHECK(b);
            give_back(b);
            CHECK_EQ(b->fake->held, 4 * MiB);
            CHECK(fake_is_accessible(b->fake, a, 4 * MiB));
            CHECK_EQ(pool_touch(b->pool, a, 1, &(struct pool_hit){0}), 0);
            for (int i = 0; i < 4; i++)
                CHECK_NE(bench_alloc_on(b, 4 * MiB, stream), a);
            CHECK_EQ(pass_edge(b), 1);
            CHECK_EQ(b->last.kind, OUTCOME_LET_GO);
            CHECK_EQ(b->last.how & ~(uint32_t)OUTCOME_HINTED, 0);
            CHECK_EQ(b->last.ptr, a);
            CHECK_EQ(b->last.size, 4 * MiB);
            CHECK_EQ(b->last.rule, 0);
            stats = bench_stats(b);
            CHECK_EQ(stats.held + stats.quarantined, 0);
            CHECK_EQ(stats.stored, 16 * MiB);
            CHECK_EQ(pass_edge(b), 0);
            BENCH_CHECK(b);
            give_back(b);
            CHECK_EQ(b->fake->held, 16 * MiB); /* it went like any freed block */
            bench_end(b);
        }
}

TEST(an_edge_before_the_free_lets_nothing_go)
{
    struct bench *b = holding_bench(256 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 1 * MiB); /* of any size */
    struct edge edge = exit_edge;
    struct outcome told[2];
    size_t count;

    CHECK_EQ(pass_edge(b), 0);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK(b->last.how & OUTCOME_HELD);
    edge.kind = EDGE_ENTER;
    CHECK_EQ(pool_edge(b->pool, &edge, told, 2, &count), 0);
    CHECK_EQ(count, 0);
    edge = exit_edge;
    edge.anchor = 7; /* whichever instance is the first */
    CHECK_EQ(pool_edge(b->pool, &edge, told, 2, &count), 0);
    CHECK_EQ(count, 1);
    CHECK_EQ(bench_stats(b).held, 0);
    bench_end(b);
}

/* The work of all streams before the edge is waited for, not that before the free. */
TEST(r57_what_is_let_go_is_handed_out_behind_the_work_before_the_edge)
{
    for (uint64_t stream = 0; stream < STREAMS; stream++) {
        struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
        devptr_t a = hinted_on(b, 40 * MiB, stream);

        CHECK_EQ(bench_free_on(b, a, stream), 0);
        fake_submit(b->fake, 3, a, 40 * MiB); /* the program is not done with it */
        CHECK_EQ(pass_edge(b), 1);
        CHECK_NE(bench_alloc_on(b, 40 * MiB, stream), 0); /* else the device sees two tenants */
        CHECK(b->last.how & OUTCOME_WAITED);
        bench_end(b);
    }
}

/* What is let go at an edge is kept while a call is on its way that began before: the edge may be that call. */
TEST(r66_what_is_let_go_waits_for_calls_that_are_on_their_way)
{
    for (uint64_t stream = 0; stream < STREAMS; stream++) {
        struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
        devptr_t a = hinted_on(b, 40 * MiB, stream);
        size_t count;

        CHECK_EQ(bench_free_on(b, a, stream), 0);
        fake_reader_enter(b->fake, 4);
        CHECK_EQ(pass_edge(b), 1);
        CHECK_EQ(b->last.kind, OUTCOME_LET_GO);
        CHECK(pool_waits_for_readers(b->pool));
        CHECK_EQ(bench_alloc_on(b, 40 * MiB, stream), 0);
        CHECK_EQ(bench_stats(b).held, 0);
        CHECK_EQ(bench_stats(b).quarantined, 40 * MiB);
        CHECK_EQ(bench_free_on(b, a, stream), -EINVAL);
        BENCH_CHECK(b);
        CHECK_EQ(pass_edge(b), 0); /* once */
        fake_submit(b->fake, 3, a, 40 * MiB);
        fake_reader_leave(b->fake, 4);
        CHECK_EQ(pool_poll(b->pool, true, NULL, 0, &count), 0);
        CHECK(!pool_waits_for_readers(b->pool));
        CHECK_EQ(bench_stats(b).held + bench_stats(b).quarantined, 0);
        BENCH_CHECK(b);
        CHECK_NE(bench_alloc_on(b, 40 * MiB, stream), 0); /* else the device sees two tenants */
        CHECK(b->last.how & OUTCOME_WAITED);
        bench_end(b);
    }
}

TEST(r66_what_is_let_go_waits_for_calls_that_name_it_and_are_still_to_be_made)
{
    struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 40 * MiB);
    struct pool_collected call;

    CHECK_EQ(bench_free(b, a), 0);
    CHECK(pool_collect(b->pool, a, true, &call));
    CHECK_EQ(pass_edge(b), 1);
    CHECK(!pool_waits_for_readers(b->pool));
    CHECK_EQ(bench_alloc(b, 40 * MiB), 0);
    CHECK_EQ(bench_stats(b).quarantined, 40 * MiB);
    BENCH_CHECK(b);
    pool_call_made(b->pool, &call);
    CHECK(pool_waits_for_readers(b->pool));
    CHECK_NE(bench_alloc(b, 40 * MiB), 0);
    bench_end(b);
}

TEST(r55_in_shadow_nothing_is_held)
{
    struct bench *with = holding_bench(256 * MiB, HINT_SHADOW);
    struct bench *without = bench_new(256 * MiB);

    for (uint64_t stream = 0; stream < STREAMS; stream++)
        for (int i = 0; i < 4; i++) {
            devptr_t a = hinted_on(with, 4 * MiB, stream);
            devptr_t c = bench_alloc_on(without, 4 * MiB, stream);

            CHECK_EQ(a, c);
            CHECK_EQ(bench_free_on(with, a, stream), 0);
            CHECK(with->last.how & OUTCOME_HELD); /* told, and no more */
            CHECK_EQ(with->last.mode, HINT_SHADOW);
            CHECK_EQ(bench_free_on(without, c, stream), 0);
            BENCH_CHECK(with);
        }
    CHECK_EQ(bench_stats(with).held, 0);
    CHECK_EQ(pass_edge(with), 0);
    CHECK_EQ(with->fake->calls, without->fake->calls);
    bench_end(with);
    bench_end(without);
}

/* ── others who keep it ── */

TEST(r80_a_block_that_a_graph_names_too_is_kept_until_both_let_go)
{
    for (int first = 0; first < 2; first++) {
        struct bench *b = holding_bench(256 * MiB, HINT_LIVE);
        devptr_t a = hinted(b, 4 * MiB);
        struct pool_pinned pinned;
        struct pool_hit hit;

        CHECK_EQ(pool_pin(b->pool, a, 1, POOL_PIN_SHOWN, &pinned, &hit), 0);
        CHECK_EQ(bench_free(b, a), 0);
        CHECK(b->last.how & OUTCOME_HELD);
        for (int i = 0; i < 2; i++) {
            give_back(b);
            CHECK_EQ(b->fake->held, 4 * MiB);
            BENCH_CHECK(b);
            if (i == first)
                CHECK_EQ(pass_edge(b), 1);
            else
                pool_unpin(b->pool, pinned.base, pinned.alloc_seq, POOL_PIN_SHOWN);
        }
        CHECK_EQ(bench_stats(b).quarantined, 0);
        give_back(b);
        CHECK_EQ(b->fake->held, 0);
        bench_end(b);
    }
}

/* ── a full device ── */

TEST(on_a_full_device_what_is_held_is_not_given_up)
{
    for (uint64_t stream = 0; stream < STREAMS; stream++) {
        struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
        devptr_t a = hinted_on(b, 40 * MiB, stream);

        CHECK_EQ(bench_free_on(b, a, stream), 0);
        CHECK_EQ(bench_alloc_on(b, 40 * MiB, stream), 0);
        CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
        CHECK_EQ(bench_room(b).stats.held, 40 * MiB); /* the line about it says so */
        CHECK(fake_is_accessible(b->fake, a, 40 * MiB));
        CHECK_EQ(pass_edge(b), 1);
        CHECK_NE(bench_alloc_on(b, 40 * MiB, stream), 0);
        bench_end(b);
    }
}

TEST(r84_what_is_held_is_available_to_the_program_that_asks)
{
    for (uint64_t stream = 0; stream < STREAMS; stream++) {
        struct bench *with = holding_bench(64 * MiB, HINT_LIVE);
        struct bench *without = bench_new(64 * MiB);
        devptr_t a = hinted_on(with, 24 * MiB, stream);
        devptr_t c = bench_alloc_on(without, 24 * MiB, stream);
        struct pool_memory memory = {64 * MiB - with->fake->held, 64 * MiB, true};
        uint64_t available;

        CHECK_EQ(with->fake->held, without->fake->held);
        CHECK_EQ(bench_free_on(with, a, stream), 0);
        CHECK_EQ(bench_free_on(without, c, stream), 0);
        available = pool_available(without->pool, 0, &memory);
        CHECK_EQ(available, 64 * MiB);
        CHECK_EQ(pool_available(with->pool, 0, &memory), available);
        bench_end(with);
        bench_end(without);
    }
}

/* A graph or another process would keep it without the hint, too. */
TEST(r84_what_is_held_and_pinned_is_as_available_as_without_the_hint)
{
    static const enum pool_pin kinds[] = {POOL_PIN_LIVE, POOL_PIN_GRAPH, POOL_PIN_SHOWN};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct bench *benches[] = {holding_bench(64 * MiB, HINT_LIVE), bench_new(64 * MiB)};
        uint64_t available[2];

        for (int i = 0; i < 2; i++) {
            struct bench *b = benches[i];
            devptr_t a = i ? bench_alloc(b, 24 * MiB) : hinted(b, 24 * MiB);
            struct pool_memory memory = {64 * MiB - b->fake->held, 64 * MiB, true};
            struct pool_pinned pinned;
            struct pool_hit hit;

            CHECK_EQ(pool_pin(b->pool, a, 1, kinds[k], &pinned, &hit), 0);
            CHECK_EQ(bench_free(b, a), 0);
            available[i] = pool_available(b->pool, 0, &memory);
            bench_end(b);
        }
        CHECK_EQ(available[1], (kinds[k] == POOL_PIN_LIVE ? 64 : 40) * MiB);
        CHECK_EQ(available[0], available[1]);
    }
}

/* ── what ends ── */

TEST(r26_held_blocks_go_with_their_context)
{
    struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c = hinted(b, 4 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    fake_context_gone(b->fake, BENCH_CONTEXT);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    BENCH_CHECK(b);
    CHECK_EQ(bench_stats(b).held + bench_stats(b).quarantined + bench_stats(b).stored, 0);
    CHECK_EQ(pass_edge(b), 0);
    CHECK_EQ(bench_free(b, c), -ENOENT);
    bench_end(b);
}

TEST(r26_blocks_that_are_being_let_go_go_with_their_context)
{
    struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    size_t count;

    CHECK_EQ(bench_free(b, a), 0);
    fake_reader_enter(b->fake, 4);
    CHECK_EQ(pass_edge(b), 1);
    fake_context_gone(b->fake, BENCH_CONTEXT);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    BENCH_CHECK(b);
    CHECK_EQ(bench_stats(b).held + bench_stats(b).quarantined + bench_stats(b).stored, 0);
    fake_reader_leave(b->fake, 4);
    CHECK_EQ(pool_poll(b->pool, true, NULL, 0, &count), 0);
    CHECK(!pool_waits_for_readers(b->pool));
    BENCH_CHECK(b);
    bench_end(b);
}

TEST(a_memory_pool_that_is_destroyed_goes_with_its_last_held_block)
{
    struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
    devptr_t a = hinted_on(b, 4 * MiB, 1);
    struct pool_request request = bench_request(4 * MiB, 1);

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(pool_heap_gone(b->pool, request.owner), 0);
    give_back(b);
    CHECK_EQ(b->fake->held, 4 * MiB);
    CHECK_EQ(pass_edge(b), 1);
    give_back(b);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

TEST(r66_a_memory_pool_that_is_destroyed_stays_for_a_call_that_is_on_its_way)
{
    struct bench *b = holding_bench(64 * MiB, HINT_LIVE);
    devptr_t a = hinted_on(b, 4 * MiB, 1);
    struct pool_request request = bench_request(4 * MiB, 1);

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(pool_heap_gone(b->pool, request.owner), 0);
    fake_reader_enter(b->fake, 4);
    CHECK_EQ(pass_edge(b), 1);
    give_back(b);
    CHECK_EQ(b->fake->held, 4 * MiB);
    fake_reader_leave(b->fake, 4);
    give_back(b);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

/* ── what a run learns against a hint ── */

/* They speak against releasing. A hold protects. */
TEST(what_holds_live_hints_back_does_not_end_a_hold)
{
    struct bench *b = holding_bench(256 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c;

    CHECK(hint_refuse_live(b->hints));
    CHECK(hint_learn(b->hints, 0, HINT_LEARNT_STOPPED));
    CHECK_EQ(bench_free(b, a), 0);
    CHECK(b->last.how & OUTCOME_HELD);
    c = hinted(b, 4 * MiB);
    CHECK_EQ(b->last.mode, HINT_LIVE);
    CHECK_EQ(bench_free(b, c), 0);
    CHECK(b->last.how & OUTCOME_HELD);
    CHECK_EQ(bench_stats(b).held, 8 * MiB);
    CHECK_EQ(pass_edge(b), 2);
    CHECK_EQ(b->last.kind, OUTCOME_LET_GO);
    give_back(b);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

TEST(r85_a_hint_that_is_off_holds_nothing_more_and_what_is_held_goes_at_its_edge)
{
    struct bench *b = holding_bench(256 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c = hinted(b, 4 * MiB);

    CHECK_EQ(bench_free(b, a), 0);
    CHECK(hint_learn(b->hints, 0, HINT_LEARNT_OFF));
    CHECK_EQ(bench_free(b, c), 0);
    CHECK(!(b->last.how & OUTCOME_HELD));
    CHECK_EQ(bench_stats(b).held, 4 * MiB);
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_LET_GO);
    give_back(b);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

/* ── counted events ── */

/* Held until the second call 5 after the free. */
static struct bench *counting_bench(bool uses)
{
    static struct rule rule;
    struct bench *b = bench_new(256 * MiB);

    rule = holding(HINT_LIVE);
    rule.when =
            (struct rule_when){.kind = EDGE_CALL, .call = 5, .count = 2, .from = RULE_FROM_FREE};
    if (uses)
        rule.pick.use = (struct rule_use){.call = 6};
    bench_rules(b, &rule, 1);
    return b;
}

static size_t call(struct bench *b, uint32_t number)
{
    struct edge edge = {.kind = EDGE_CALL, .call = number, .path = "step"};
    size_t count = 0;

    REQUIRE_EQ(pool_edge(b->pool, &edge, &b->last, 1, &count), 0);
    return count;
}

TEST(events_are_counted_from_the_free)
{
    struct bench *b = counting_bench(false);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c = hinted(b, 4 * MiB);

    for (int i = 0; i < 5; i++)
        CHECK_EQ(call(b, 5), 0); /* nothing waits yet */
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(call(b, 5), 0);
    CHECK_EQ(call(b, 6), 0);
    CHECK_EQ(bench_free(b, c), 0);
    CHECK_EQ(call(b, 5), 1);
    CHECK_EQ(b->last.kind, OUTCOME_LET_GO);
    CHECK_EQ(b->last.ptr, a);
    CHECK_EQ(call(b, 5), 1);
    CHECK_EQ(b->last.ptr, c);
    CHECK_EQ(call(b, 5), 0);
    bench_end(b);
}

TEST(what_was_not_used_as_the_pick_says_is_not_held)
{
    const struct edge use = {.kind = EDGE_CALL, .call = 6, .path = "step"};
    struct bench *b = counting_bench(true);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c = hinted(b, 4 * MiB);

    (void)pool_use(b->pool, a, &use, 0, &(struct outcome){.kind = OUTCOME_NONE});
    CHECK_EQ(bench_free(b, c), 0);
    CHECK(!(b->last.how & OUTCOME_HELD));
    CHECK_EQ(bench_free(b, a), 0);
    CHECK(b->last.how & OUTCOME_HELD);
    CHECK_EQ(call(b, 5), 0);
    CHECK_EQ(call(b, 5), 1);
    bench_end(b);
}

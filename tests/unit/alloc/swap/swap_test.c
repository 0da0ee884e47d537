/* SPDX-License-Identifier: MIT */
/* covers: swap.c swapcall.c swapqueue.c swapstep.c swapset.c */
/* Blocks that go out to the host and come in: contents, order, the cap on the device's books, and every driver call failing. */
#include "tests/unit/alloc/swapped.h"

#define BLOCK (16 * MiB)

/* Blocks of one size under a cap of `room` of them. */
static struct swapped *blocks(int count, uint64_t room)
{
    struct rule rule = swapped_rule(room * BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);

    for (int i = 0; i < count; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 0));
    return s;
}

/* Blocks in this order, on the stream. */
static void play(struct swapped *s, uint64_t stream, const int *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        REQUIRE_EQ(swapped_use(s, stream, order[i]), 0);
}
#define PLAY(s, stream, order) play(s, stream, order, sizeof(order) / sizeof((order)[0]))

TEST(a_block_that_nobody_has_used_has_no_storage)
{
    struct swapped *s = blocks(3, 2);
    struct block_info info;

    CHECK_EQ(s->b->fake->held, 0);
    CHECK_EQ(bench_stats(s->b).live_requested, 3 * BLOCK);
    CHECK_EQ(bench_stats(s->b).stored, 0);
    REQUIRE_EQ(pool_find(s->b->pool, s->block[1] + 5, &info), 0);
    CHECK_EQ(info.size, BLOCK);
    CHECK_EQ(info.state, HOLDER_LIVE);
    REQUIRE_EQ(swapped_use(s, 1, 1), 0);
    CHECK_EQ(s->b->fake->held, BLOCK);
    CHECK_EQ(s->b->fake->ins, 0); /* it has no content yet */
    BENCH_CHECK(s->b);
    swapped_free(s, 0);
    swapped_free(s, 1);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(what_goes_out_comes_back_as_it_was)
{
    static const int order[] = {0, 1, 2, 0, 1, 2, 2, 1, 0};
    struct swapped *s = blocks(3, 2);

    PLAY(s, 1, order);
    CHECK(s->b->fake->outs > 0);
    CHECK(s->b->fake->ins > 0);
    CHECK_EQ(s->b->fake->held_high, 2 * BLOCK);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

/* Steps of ColossalAI's test; the volume of the last one, both ways. */
static uint64_t volume_of_seed(enum rule_victim victim, bool cyclic, struct pool_evict_step *ret)
{
    static const int order[] = {0, 1, 2, 0, 1};
    struct rule rule = swapped_rule(256 * MiB);
    struct swapped *s;

    rule.evict.victim = victim;
    rule.evict.cyclic = cyclic;
    s = swapped_new(4 * GiB, &rule);
    for (int i = 0; i < 3; i++) {
        REQUIRE(swapped_make(s, i, 128 * MiB, 0));
        REQUIRE_EQ(swapped_use(s, 0, i), 0); /* filled by a copy */
    }
    for (int step = 0; step < 6; step++) {
        (void)swapped_step(s, NULL);
        PLAY(s, 1, order);
    }
    CHECK(swapped_step(s, ret));
    CHECK_EQ(ret->cap, 256 * MiB);
    CHECK_EQ(ret->bytes, 384 * MiB);
    CHECK_EQ(s->b->fake->held_high, 256 * MiB);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
    return ret->moved_in + ret->moved_out;
}

TEST(the_seeds_own_test_moves_what_the_seed_moves_and_512_mib_with_the_next_step_in_view)
{
    struct pool_evict_step step = {.step = 0};

    CHECK_EQ(volume_of_seed(RULE_VICTIM_FARTHEST, false, &step), 768 * MiB);
    CHECK_EQ(volume_of_seed(RULE_VICTIM_LRU, false, &step), 768 * MiB);
    CHECK_EQ(volume_of_seed(RULE_VICTIM_FARTHEST, true, &step), 512 * MiB);
    CHECK_EQ(step.bound, 256 * MiB);
    CHECK_EQ(step.moved_in, step.bound);
    CHECK(step.is_planned);
}

/* On the device's own copies, not on the figures. */
TEST(figures_of_a_step_are_what_the_device_has_copied)
{
    static const int order[] = {0, 1, 2, 3, 2, 1};
    struct swapped *s = blocks(4, 2);
    struct pool_evict_step step = {.step = 0};
    uint64_t in = 0;
    uint64_t out = 0;

    for (int i = 0; i < 5; i++) {
        bool is_told = swapped_step(s, &step);

        CHECK(is_told || i == 0);
        if (is_told) {
            CHECK_EQ(step.moved_in, s->b->fake->in_bytes - in);
            CHECK_EQ(step.moved_in, step.count_in * BLOCK);
            CHECK_EQ(step.moved_out, s->b->fake->out_bytes - out);
        }
        in = s->b->fake->in_bytes;
        out = s->b->fake->out_bytes;
        PLAY(s, 2, order);
    }
    CHECK(in > 0 && out > 0);
    swapped_end(s);
}

/* The set is made within the third step: its anchor was entered three times before. */
TEST(steps_are_told_by_the_number_of_their_edge_also_where_the_first_block_came_late)
{
    struct swapped *s = blocks(2, 1);
    struct pool_evict_step step = {.step = 0};

    for (uint64_t instance = 3; instance < 6; instance++) {
        struct edge edge = step_edge;
        struct outcome told[8];
        size_t count;

        edge.instance = (uint32_t)instance;
        REQUIRE_EQ(pool_edge(s->b->pool, &edge, told, 8, &count), 0);
        REQUIRE(pool_evict_next_step(s->b->pool, &step));
        CHECK_EQ(step.step, instance);
    }
    swapped_end(s);
}

TEST(storage_goes_only_behind_the_work_that_uses_it)
{
    struct swapped *s = blocks(2, 1);

    REQUIRE_EQ(swapped_use(s, 3, 0), 0);
    s->b->fake->hangs = true;
    CHECK_EQ(
            swapped_use(s, 1, 1), DRIVER_OUT_OF_MEMORY); /* it waited as long as a fence may take */
    CHECK(fake_is_accessible(s->b->fake, s->block[0], BLOCK));
    s->b->fake->hangs = false;
    CHECK_EQ(swapped_use(s, 1, 1), 0);
    CHECK(!fake_is_accessible(s->b->fake, s->block[0], 1));
    fake_drain(s->b->fake);
    CHECK_EQ(swapped_use(s, 2, 0), 0);
    fake_drain(s->b->fake);
    swapped_end(s);
}

TEST(r73_a_device_far_behind_is_waited_for_twelve_times_as_long_as_a_fence_may_take)
{
    struct swapped *s = blocks(2, 1);

    REQUIRE_EQ(swapped_use(s, 1, 0), 0);
    s->b->fake->slow = 11;
    CHECK_EQ(swapped_use(s, 1, 1), 0);
    CHECK_EQ(s->b->fake->slow, 0);
    s->b->fake->slow = 40;
    CHECK_EQ(swapped_use(s, 1, 0), DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(s->b->fake->slow, 28);
    s->b->fake->slow = 0;
    CHECK_EQ(swapped_use(s, 1, 0), 0);
    fake_drain(s->b->fake);
    swapped_end(s);
}

TEST(each_stream_waits_for_what_comes_in)
{
    struct swapped *s = blocks(3, 2);

    for (uint64_t stream = 1; stream < FAKE_STREAMS; stream++)
        for (int n = 0; n < 3; n++)
            REQUIRE_EQ(swapped_use(s, stream, n), 0);
    for (uint64_t stream = FAKE_STREAMS - 1; stream > 0; stream--) /* the latest first */
        while (fake_step(s->b->fake, stream))
            ;
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->wrong, 0);
    swapped_end(s);
}

TEST(a_call_whose_stream_is_not_known_waits_on_the_host)
{
    struct swapped *s = blocks(2, 1);

    REQUIRE_EQ(swapped_use(s, 0, 0), 0);
    REQUIRE_EQ(swapped_use(s, 0, 1), 0);
    REQUIRE_EQ(swapped_use(s, 0, 0), 0);
    CHECK_EQ(s->b->fake->stream_waits, 0);
    fake_drain(s->b->fake);
    swapped_end(s);
}

/* Neither a device that hangs nor a capture lets a fence pass; the call is refused, and can be made later. */
TEST(r73_a_call_that_waits_on_the_host_waits_for_a_limited_time)
{
    for (int captures = 0; captures < 2; captures++) {
        struct swapped *s = blocks(2, 1);

        REQUIRE_EQ(swapped_use(s, 1, 0), 0);
        REQUIRE_EQ(swapped_use(s, 1, 1), 0);
        fake_drain(s->b->fake);
        REQUIRE_EQ(swapped_use(s, 1, 0), 0); /* its content is on its way */
        s->b->fake->hangs = !captures;
        s->b->fake->capturing = captures;
        CHECK_EQ(swapped_read(s, 0, 0), DRIVER_OUT_OF_MEMORY);
        s->b->fake->hangs = s->b->fake->capturing = false;
        CHECK_EQ(swapped_read(s, 0, 0), 0);
        fake_drain(s->b->fake);
        swapped_end(s);
    }
}

TEST(what_is_dropped_waits_for_its_readers_as_often_as_it_takes)
{
    struct rule rule = swapped_rule(BLOCK);
    struct swapped *s;

    rule.evict.clean = true;
    s = swapped_new(4 * GiB, &rule);
    for (int i = 0; i < 2; i++) {
        struct pool_call call = {.stream = 1};

        REQUIRE(swapped_make(s, i, BLOCK, 0));
        REQUIRE_EQ(swapped_begin(s, &call, &i, 1, true), 0); /* a copy */
        s->value[i] = ++s->next;
        fake_write(s->b->fake, 1, s->block[i], s->value[i]);
        swapped_end_call(s, &call);
    }
    REQUIRE_EQ(swapped_read(s, 1, 0), 0);
    fake_drain(s->b->fake);
    REQUIRE_EQ(swapped_read(s, 2, 0), 0); /* the host has what it has */
    s->b->fake->hangs = true;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(swapped_read(s, 1, 1), DRIVER_OUT_OF_MEMORY);
    s->b->fake->hangs = false;
    CHECK_EQ(swapped_read(s, 1, 1), 0);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->misuses, 0);
    swapped_end(s);
}

TEST(blocks_that_one_call_names_are_in_together_or_it_is_refused_with_the_numbers)
{
    static const int both[] = {0, 1};
    static const int all[] = {0, 1, 2};
    struct swapped *s = blocks(4, 2);

    CHECK_EQ(swapped_use(s, 1, 3), 0);
    CHECK_EQ(swapped_use_all(s, 1, both, 2, true), 0);
    CHECK_EQ(swapped_use_all(s, 1, all, 3, true), DRIVER_OUT_OF_MEMORY);
    CHECK_EQ(s->why.needed, 3 * BLOCK);
    CHECK_EQ(s->why.room, 2 * BLOCK);
    CHECK_EQ(s->why.cap, 2 * BLOCK);
    CHECK_EQ(s->why.rule, 0);
    CHECK_EQ(swapped_use_all(s, 1, both, 2, true), 0);
    CHECK_EQ(swapped_use(s, 1, 3), 0);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(a_call_names_what_its_range_reaches_and_nothing_behind)
{
    struct swapped *s = blocks(2, 2);
    devptr_t lo = s->block[0] < s->block[1] ? s->block[0] : s->block[1];
    devptr_t hi = s->block[0] + s->block[1] - lo;

    for (uint64_t more = 0; more < 2; more++) {
        struct pool_call call = {.stream = 1};

        CHECK_EQ(pool_call_name(s->b->pool, lo, hi - lo + more, false, &call), 0);
        CHECK_EQ(call.count, 1 + more);
        pool_call_end(s->b->pool, &call);
    }
    swapped_end(s);
}

TEST(a_call_that_is_on_its_way_keeps_its_blocks_in)
{
    static const int first = 0;
    struct swapped *s = blocks(2, 1);
    struct pool_call call = {.stream = 1};

    CHECK_EQ(swapped_begin(s, &call, &first, 1, false), 0);
    CHECK_EQ(swapped_use(s, 2, 1), DRIVER_OUT_OF_MEMORY); /* patience ends */
    CHECK(s->why.is_waiting);
    CHECK(fake_is_accessible(s->b->fake, s->block[0], BLOCK));
    fake_write(s->b->fake, 1, s->block[0], 77);
    s->value[0] = 77;
    swapped_end_call(s, &call);
    CHECK_EQ(swapped_use(s, 2, 1), 0);
    CHECK_EQ(swapped_use(s, 2, 0), 0);
    fake_drain(s->b->fake);
    swapped_end(s);
}

TEST(what_nothing_has_written_is_dropped_and_not_copied)
{
    static const int order[] = {0, 1, 2, 0, 1, 2};
    struct rule rule = swapped_rule(2 * BLOCK);
    struct pool_evict_step step = {.step = 0};
    struct swapped *s;
    uint64_t outs;

    rule.evict.clean = true;
    s = swapped_new(4 * GiB, &rule);
    for (int i = 0; i < 3; i++) {
        struct pool_call call = {.stream = 1};

        REQUIRE(swapped_make(s, i, BLOCK, 0));
        CHECK_EQ(swapped_begin(s, &call, &i, 1, true), 0); /* a copy */
        s->value[i] = ++s->next;
        fake_write(s->b->fake, 1, s->block[i], s->value[i]);
        swapped_end_call(s, &call);
    }
    for (size_t i = 0; i < 6; i++)
        REQUIRE_EQ(swapped_read(s, 1, order[i]), 0);
    for (int round = 0; round < 2; round++) {
        (void)swapped_step(s, NULL);
        for (size_t i = 0; i < 6; i++)
            REQUIRE_EQ(swapped_read(s, 1, order[i]), 0);
    }
    outs = s->b->fake->outs;
    CHECK(outs >= 2 && outs <= 3);
    (void)swapped_step(s, NULL);
    for (size_t i = 0; i < 6; i++)
        REQUIRE_EQ(swapped_read(s, 1, order[i]), 0);
    CHECK_EQ(s->b->fake->outs, outs);
    CHECK(swapped_step(s, &step));
    CHECK_EQ(step.moved_out, 0);
    CHECK(step.dropped > 0);
    fake_drain(s->b->fake);
    swapped_end(s);
}

TEST(policy_cpu_and_trap_leave_in_what_the_call_names_and_nothing_else)
{
    for (int trap = 0; trap < 2; trap++) {
        struct rule rule = swapped_rule(8 * BLOCK);
        static const int both[] = {0, 1};
        struct swapped *s;

        rule.evict.policy = trap ? RULE_POLICY_AUTO : RULE_POLICY_CPU;
        rule.mode = trap ? HINT_TRAP : HINT_LIVE;
        s = swapped_new(4 * GiB, &rule);
        for (int i = 0; i < 4; i++)
            REQUIRE(swapped_make(s, i, BLOCK, 0));
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 4; i++) {
                REQUIRE_EQ(swapped_use(s, 1, i), 0);
                fake_drain(s->b->fake);
                pool_evict_go_on(s->b->pool);
                for (int other = 0; other < 4; other++)
                    CHECK_EQ(fake_is_accessible(s->b->fake, s->block[other], 1), other == i);
            }
            REQUIRE_EQ(swapped_use_all(s, 1, both, 2, true), 0);
        }
        fake_drain(s->b->fake);
        swapped_end(s);
    }
}

TEST(a_hint_that_was_stopped_takes_nothing_more_out)
{
    struct swapped *s = blocks(4, 2);
    uint64_t outs;

    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(swapped_use(s, 1, i), 0);
    fake_drain(s->b->fake);
    outs = s->b->fake->outs;
    CHECK_EQ(outs, 2);
    CHECK(hint_learn(s->b->hints, 0, HINT_LEARNT_STOPPED));
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(swapped_use(s, 1, i % 4), 0);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->outs, outs);
    CHECK_EQ(s->b->fake->held, 4 * BLOCK);
    swapped_end(s);
}

TEST(policy_cuda_takes_nothing_out)
{
    struct rule rule = swapped_rule(1 * BLOCK);
    struct swapped *s;

    rule.evict.policy = RULE_POLICY_CUDA;
    s = swapped_new(4 * GiB, &rule);
    for (int i = 0; i < 4; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 0));
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(swapped_use(s, 1, i % 4), 0);
    CHECK_EQ(s->b->fake->outs, 0);
    CHECK_EQ(s->b->fake->held, 4 * BLOCK);
    swapped_end(s);
}

TEST(in_shadow_nothing_moves_and_the_figures_are_those_of_a_run_that_does)
{
    static const int order[] = {0, 1, 2, 0, 1};
    struct pool_evict_step live = {.step = 0};
    struct pool_evict_step paper = {.step = 0};

    for (int shadow = 0; shadow < 2; shadow++) {
        struct rule rule = swapped_rule(2 * BLOCK);
        struct swapped *s;

        rule.mode = shadow ? HINT_SHADOW : HINT_LIVE;
        s = swapped_new(4 * GiB, &rule);
        for (int i = 0; i < 3; i++)
            REQUIRE(swapped_make(s, i, BLOCK, 0));
        for (int step = 0; step < 4; step++) {
            (void)swapped_step(s, NULL);
            PLAY(s, 1, order);
        }
        CHECK(swapped_step(s, shadow ? &paper : &live));
        CHECK_EQ(s->b->fake->outs > 0, !shadow);
        CHECK_EQ(pool_evict_has_more(s->b->pool), false);
        BENCH_CHECK(s->b);
        swapped_end(s);
    }
    CHECK(paper.is_paper && !live.is_paper);
    CHECK_EQ(paper.moved_in, live.moved_in);
    CHECK_EQ(paper.moved_out, live.moved_out);
    CHECK_EQ(paper.bound, live.bound);
    CHECK(live.moved_in > 0);
}

TEST(moves_ahead_are_made_between_calls_and_calls_then_find_all_in)
{
    static const int order[] = {0, 1, 2, 3, 1, 0};
    struct rule rule = swapped_rule(3 * BLOCK);
    struct pool_evict_step step = {.late = 99};
    struct swapped *s;

    rule.evict.prefetch = 1;
    s = swapped_new(4 * GiB, &rule);
    for (int i = 0; i < 4; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 0));
    for (int round = 0; round < 16; round++) {
        (void)swapped_step(s, &step);
        for (size_t i = 0; i < 6; i++) {
            REQUIRE_EQ(swapped_use(s, 1, order[i]), 0);
            for (int look = 0; look < 4;
                    look++) { /* the device keeps up, and the program makes other calls */
                fake_drain(s->b->fake);
                pool_evict_go_on(s->b->pool);
            }
        }
    }
    (void)swapped_step(s, &step);
    CHECK(step.is_replayed);
    CHECK(step.moved_in > 0);
    CHECK_EQ(step.late, 0);
    CHECK_EQ(s->b->fake->held_high, 3 * BLOCK);
    swapped_end(s);
}

TEST(a_restore_edge_brings_in_what_there_is_room_for)
{
    static struct rule rules[2];
    struct swapped *s;
    struct edge edge = {.kind = EDGE_MARK, .anchor = 2, .path = "wake"};
    struct outcome told[8];
    size_t count;

    rules[0] = swapped_rule(4 * BLOCK);
    rules[1] = (struct rule){.action = ACTION_RESTORE,
            .mode = HINT_LIVE,
            .of = 0,
            .when = {.anchor = "wake", .kind = EDGE_MARK}};
    s = calloc(1, sizeof(*s));
    REQUIRE(s != NULL);
    s->b = bench_new(4 * GiB);
    bench_rules(s->b, rules, 2);
    for (int i = 0; i < 3; i++) {
        REQUIRE(swapped_make(s, i, BLOCK, 0));
        REQUIRE_EQ(swapped_use(s, 1, i), 0);
    }
    fake_drain(s->b->fake);
    CHECK_EQ(pool_evict_make_room(s->b->pool, 0, 3 * BLOCK), 3 * BLOCK);
    CHECK(!fake_is_accessible(s->b->fake, s->block[0], 1));
    REQUIRE_EQ(pool_edge(s->b->pool, &edge, told, 8, &count), 0);
    CHECK(pool_evict_has_more(s->b->pool));
    pool_evict_go_on(s->b->pool);
    fake_drain(s->b->fake);
    for (int i = 0; i < 3; i++)
        CHECK(fake_is_accessible(s->b->fake, s->block[i], BLOCK));
    swapped_end(s);
}

TEST(freed_blocks_go_in_every_state_and_their_storage_counts_until_it_has_gone)
{
    static const int order[] = {0, 1, 2, 3, 0, 1};

    for (int stop = 0; stop <= 6; stop++) {
        struct swapped *s = blocks(4, 2);

        play(s, 1, order, (size_t)stop);
        for (int n = 0; n < 4; n++)
            swapped_free(s, n);
        BENCH_CHECK(s->b);
        for (int n = 0; n < 4; n++)
            REQUIRE(swapped_make(s, n, BLOCK, 0));
        PLAY(s, 2, order);
        CHECK_EQ(s->b->fake->held_high, (stop < 2 ? 2 : 2) * BLOCK);
        fake_drain(s->b->fake);
        BENCH_CHECK(s->b);
        swapped_end(s);
    }
}

/* How often this was told of blocks that stay in. */
static unsigned kept(struct swapped *s, enum pool_kept why)
{
    struct outcome news[32];
    unsigned n = 0;
    size_t count;

    REQUIRE_EQ(pool_poll(s->b->pool, true, news, 32, &count), 0);
    for (size_t i = 0; i < count; i++)
        n += news[i].kind == OUTCOME_KEPT && news[i].rounded == (uint64_t)why;
    return n;
}

TEST(host_memory_is_taken_within_the_budget_and_used_again)
{
    static const int order[] = {0, 1, 2, 3};
    struct rule rule = swapped_rule(2 * BLOCK);
    struct swapped *s;

    rule.evict.host_budget = 3 * BLOCK;
    s = swapped_new(4 * GiB, &rule);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 4; i++)
            REQUIRE(swapped_make(s, i, BLOCK, 0));
        PLAY(s, 1, order);
        for (int i = 0; i < 4; i++)
            swapped_free(s, i);
        fake_drain(s->b->fake);
    }
    CHECK(s->b->fake->host_high <= 3 * BLOCK);
    CHECK_EQ(s->refused, 0);
    CHECK_EQ(kept(s, POOL_KEPT_DRIVER), 0);
    swapped_end(s);
}

TEST(host_memory_that_is_used_again_takes_nothing_of_the_budget)
{
    static const int order[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    struct rule rule = swapped_rule(2 * BLOCK);
    struct swapped *s;

    rule.evict.host_budget = 5 * BLOCK;
    s = swapped_new(4 * GiB, &rule);
    for (int i = 0; i < 3; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 0));
    CHECK_EQ(s->b->fake->host, 3 * BLOCK);
    PLAY(s, 1, order);
    CHECK(s->b->fake->outs > 3);
    for (int i = 3; i < 5; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 0));
    CHECK_EQ(s->b->fake->host, 5 * BLOCK);
    swapped_end(s);
}

TEST(r89_host_memory_for_what_is_over_the_cap_is_there_before_the_first_step)
{
    static const int order[] = {0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0};
    struct swapped *s = blocks(6, 4);
    uint64_t before = s->b->fake->host;

    CHECK_EQ(before, 4 * BLOCK); /* two are over it, and one goes out while another one comes in */
    for (int step = 0; step < 4; step++) {
        (void)swapped_step(s, NULL);
        PLAY(s, 1, order);
        fake_drain(s->b->fake);
    }
    CHECK(s->b->fake->outs > 0);
    CHECK_EQ(s->b->fake->host_high, before);
    swapped_end(s);
}

TEST(while_the_order_is_not_known_the_cap_is_that_of_the_warm_up)
{
    static const int order[] = {0, 1, 2, 3, 0, 1, 2, 3};
    static const uint32_t percents[] = {0, 25, 50, 100};

    for (int i = 0; i < 4; i++) {
        struct rule rule = swapped_rule(4 * BLOCK);
        struct pool_evict_step was;
        struct swapped *s;

        rule.evict.warmup_percent = percents[i];
        s = swapped_new(4 * GiB, &rule);
        for (int n = 0; n < 4; n++)
            REQUIRE(swapped_make(s, n, BLOCK, 0));
        PLAY(s, 1, order);
        REQUIRE(swapped_step(s, &was));
        CHECK_EQ(was.in_bytes_high, percents[i] % 100 ? percents[i] * 4 * BLOCK / 100 : 4 * BLOCK);
        swapped_end(s);
    }
}

TEST(without_host_memory_blocks_stay_in_and_it_is_said)
{
    for (int budgeted = 0; budgeted < 2; budgeted++) {
        struct rule rule = swapped_rule(2 * BLOCK);
        struct swapped *s;

        rule.evict.host_budget = budgeted ? BLOCK - 1 : 0; /* a byte less than one block */
        s = swapped_new(4 * GiB, &rule);
        s->b->fake->host_max = budgeted ? UINT64_MAX : 1;
        for (int i = 0; i < 3; i++)
            REQUIRE(swapped_make(s, i, BLOCK, 0));
        REQUIRE_EQ(swapped_use(s, 1, 0), 0);
        REQUIRE_EQ(swapped_use(s, 1, 1), 0);
        CHECK_EQ(swapped_use(s, 1, 2), DRIVER_OUT_OF_MEMORY);
        CHECK_EQ(kept(s, POOL_KEPT_HOST), 2);
        CHECK_EQ(swapped_use(s, 1, 0), 0);
        BENCH_CHECK(s->b);
        swapped_end(s);
    }
}

/* What cannot be done ends as the driver says, and as out of memory where it says nothing. */
TEST(a_call_that_stays_impossible_has_the_code_of_the_driver)
{
    static const int codes[] = {FAKE_FAILURE, DRIVER_OUT_OF_MEMORY};

    for (int i = 0; i < 2; i++) {
        struct swapped *s = blocks(2, 2);

        REQUIRE_EQ(swapped_use(s, 1, 0), 0);
        s->b->fake->fail_name = "map";
        s->b->fake->fail_at = 1;
        s->b->fake->fail_all = true;
        s->b->fake->fail_code = codes[i];
        CHECK_EQ(swapped_use(s, 1, 1), codes[i]);
        s->b->fake->fail_all = false;
        s->b->fake->fail_at = 0;
        if (codes[i] == FAKE_FAILURE) /* else the device has no more than what is in */
            CHECK_EQ(swapped_use(s, 1, 1), 0);
        fake_drain(s->b->fake);
        BENCH_CHECK(s->b);
        swapped_end(s);
    }
}

TEST(where_addresses_end_a_block_is_served_as_if_it_had_no_hint)
{
    struct rule rule = swapped_rule(20 * MiB);
    struct swapped *s = swapped_new(128 * MiB, &rule);

    s->b->fake->range_max = 40 * MiB;
    for (int i = 0; i < 2; i++)
        REQUIRE(swapped_make(s, i, 10 * MiB, 0));
    CHECK_EQ(s->b->fake->held, 0);
    REQUIRE(swapped_make(s, 2, 10 * MiB, 0));
    CHECK_EQ(s->b->fake->held, 10 * MiB);
    BENCH_CHECK(s->b);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(swapped_use(s, 1, i), 0);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(r80_what_is_pinned_or_kept_stays_in)
{
    struct swapped *s = blocks(4, 2);
    static const enum pool_pin kinds[] = {POOL_PIN_LIVE, POOL_PIN_SHOWN, POOL_PIN_HINT};
    struct pool_pinned pinned;
    struct pool_hit hit;

    REQUIRE_EQ(swapped_use(s, 1, 0), 0);
    for (int kind = 0; kind < 3; kind++)
        REQUIRE_EQ(pool_pin(s->b->pool, s->block[0], 8, kinds[kind], &pinned, &hit), 0);
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < 8; i++)
            REQUIRE_EQ(swapped_use(s, 1, 1 + i % 3), 0);
        CHECK(fake_is_accessible(s->b->fake, s->block[0], BLOCK));
        pool_unpin(s->b->pool, pinned.base, pinned.alloc_seq, kinds[kind]);
    }
    REQUIRE_EQ(swapped_use(s, 1, 1), 0);
    REQUIRE_EQ(swapped_use(s, 1, 2), 0);
    CHECK(!fake_is_accessible(s->b->fake, s->block[0], 1));
    pool_evict_keep(s->b->pool, s->block[2], POOL_KEPT_POINTER);
    CHECK_EQ(kept(s, POOL_KEPT_POINTER), 1);
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(swapped_use(s, 1, i % 2), 0);
    CHECK(fake_is_accessible(s->b->fake, s->block[2], BLOCK));
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(what_no_call_has_named_in_the_step_that_was_learnt_stays_in)
{
    struct swapped *s = blocks(4, 3);

    REQUIRE_EQ(swapped_use(s, 1, 0), 0);
    for (int step = 0; step < 4; step++) {
        (void)swapped_step(s, NULL);
        for (int n = 1; n < 3; n++)
            REQUIRE_EQ(swapped_use(s, 1, n), 0);
    }
    CHECK_EQ(kept(s, POOL_KEPT_UNUSED), 1);
    for (int i = 0; i < 9; i++)
        REQUIRE_EQ(swapped_use(s, 1, 1 + i % 3), 0);
    CHECK(fake_is_accessible(s->b->fake, s->block[0], BLOCK));
    REQUIRE_EQ(swapped_use(s, 1, 0), 0); /* so it is named, and as all others */
    for (int i = 0; i < 9; i++)
        REQUIRE_EQ(swapped_use(s, 1, 1 + i % 3), 0);
    CHECK(!fake_is_accessible(s->b->fake, s->block[0], 1));
    fake_drain(s->b->fake);
    swapped_end(s);
}

TEST(what_no_call_has_named_goes_before_a_call_is_refused)
{
    static const int three[] = {1, 2, 3};
    struct swapped *s = blocks(4, 3);

    REQUIRE_EQ(swapped_use(s, 1, 0), 0);
    for (int step = 0; step < 3; step++) {
        (void)swapped_step(s, NULL);
        REQUIRE_EQ(swapped_use(s, 1, 1), 0);
    }
    CHECK_EQ(kept(s, POOL_KEPT_UNUSED), 1);
    CHECK_EQ(swapped_use_all(s, 1, three, 3, true), 0);
    CHECK(!fake_is_accessible(s->b->fake, s->block[0], 1));
    fake_drain(s->b->fake);
    swapped_end(s);
}

/* Before an OOM the device is waited for, whatever else may go out. */
TEST(r31_a_full_device_waits_though_blocks_may_go_out)
{
    struct swapped s = {.rule = swapped_rule(BLOCK)};
    devptr_t other;

    s.b = bench_with_budget(4 * BLOCK, 8 * BLOCK); /* which asks for no wait */
    bench_rules(s.b, &s.rule, 1);
    other = bench_alloc(s.b, 3 * BLOCK);
    REQUIRE(swapped_make(&s, 0, BLOCK, 0));
    REQUIRE_EQ(swapped_use(&s, 1, 0), 0);
    fake_submit(s.b->fake, 2, other, 3 * BLOCK);
    CHECK_EQ(bench_free(s.b, other), 0);
    CHECK_NE(bench_alloc(s.b, 3 * BLOCK), 0);
    CHECK_EQ(s.b->fake->waits, 1);
    BENCH_CHECK(s.b);
    CHECK_EQ(s.b->fake->wrong, 0);
    bench_end(s.b);
}

/* Of a hint that releases and keeps content: the block has some from its beginning on, whoever puts it there. */
TEST(what_no_call_is_known_to_have_written_comes_back_as_it_was)
{
    struct rule rule = swapped_rule(0);
    struct tag tag = {.size = BLOCK, .anchor = 1, .path = "step"};
    struct pool_request request = bench_request(BLOCK, 0);
    struct edge edge = {.kind = EDGE_EXIT, .anchor = 1, .path = "step"};
    struct outcome told[8];
    struct swapped *s;
    struct plan plan;
    int rounds = 0;
    size_t count;

    rule.action = ACTION_RELEASE;
    rule.when.kind = EDGE_EXIT;
    rule.keep_content = 100;
    s = swapped_new(4 * GiB, &rule);
    hint_plan(s->b->hints, &tag, &plan);
    request.plan = &plan;
    s->block[0] = bench_ask(s->b, &request);
    REQUIRE(s->block[0]);
    s->size[0] = BLOCK;
    s->value[0] = 77;
    fake_write(s->b->fake, 1, s->block[0], 77);
    fake_drain(s->b->fake);
    REQUIRE_EQ(pool_edge(s->b->pool, &edge, told, 8, &count), 0);
    CHECK_EQ(count, 1);
    while (fake_is_accessible(s->b->fake, s->block[0], 1)) {
        pool_evict_go_on(s->b->pool);
        fake_drain(s->b->fake);
        REQUIRE(++rounds < 10);
    }
    CHECK_EQ(s->b->fake->outs, 1);
    CHECK_EQ(swapped_read(s, 1, 0), 0);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->ins, 1);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(r81_before_an_oom_blocks_go_out_for_others)
{
    struct rule rule = swapped_rule(8 * BLOCK);
    struct swapped *s = swapped_new(8 * BLOCK, &rule);
    devptr_t other;

    for (int i = 0; i < 6; i++) {
        REQUIRE(swapped_make(s, i, BLOCK, 0));
        REQUIRE_EQ(swapped_use(s, 1, i), 0);
    }
    other = bench_alloc_on(s->b, 5 * BLOCK, 2); /* of another heap, matched by no hint */
    CHECK_NE(other, 0);
    for (int i = 0; i < 12; i++)
        REQUIRE_EQ(swapped_use(s, 1, i % 6), 0); /* in what is left */
    CHECK(s->b->fake->held_high <= 8 * BLOCK);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

/* The device has room; that growth would rather leave it free is no reason to move content. */
TEST(r46_r81_nothing_goes_out_for_what_growth_leaves_free)
{
    struct rule rule = swapped_rule(8 * BLOCK);
    struct swapped s = {.rule = rule};
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.reserve = 4 * BLOCK;
    s.b = bench_new_with(8 * BLOCK, &opts);
    bench_rules(s.b, &s.rule, 1);
    for (int i = 0; i < 5; i++) {
        REQUIRE(swapped_make(&s, i, BLOCK, 0));
        REQUIRE_EQ(swapped_use(&s, 1, i), 0);
    }
    CHECK_NE(bench_alloc_on(s.b, 3 * BLOCK, 2), 0);
    CHECK_EQ(s.b->fake->outs, 0);
    CHECK_NE(bench_alloc_on(s.b, BLOCK, 2), 0); /* now it has none */
    CHECK_EQ(s.b->fake->outs, 1);
    BENCH_CHECK(s.b);
    CHECK_EQ(s.b->fake->wrong, 0);
    bench_end(s.b);
}

/* Every driver call fails once: contents are whole, or the call is refused. */
static void play_with_failure(int at, int code, bool all, bool *ret_fired)
{
    static const int order[] = {0, 1, 2, 3, 2, 1, 0, 3};
    struct rule rule = swapped_rule(2 * BLOCK);
    struct swapped *s;

    rule.evict.prefetch = 2;
    s = swapped_new(4 * GiB, &rule);
    s->b->fake->fail_code = code;
    s->b->fake->fail_at = at;
    s->b->fake->fail_all = all;
    for (int i = 0; i < 4; i++)
        if (!swapped_make(s, i, BLOCK, 0))
            s->block[i] = bench_alloc(s->b, BLOCK);
    for (int step = 0; step < 4; step++) {
        (void)swapped_step(s, NULL);
        for (size_t i = 0; i < 8; i++)
            if (s->block[order[i]])
                (void)swapped_use(s, 1 + (uint64_t)step % 2, order[i]);
        fake_drain(s->b->fake); /* the next step is on another stream */
    }
    *ret_fired = s->b->fake->fired;
    s->b->fake->fail_at = 0;
    s->b->fake->fail_all = false;
    fake_drain(s->b->fake);
    if (s->b->fake->wrong || s->b->fake->faults)
        printf("    call %d failed with %d\n", at, code);
    CHECK_EQ(s->b->fake->wrong, 0);
    CHECK_EQ(s->b->fake->faults, 0);
    BENCH_CHECK(s->b);
    for (int i = 0; i < 4; i++)
        if (s->block[i])
            swapped_free(s, i);
    fake_drain(s->b->fake);
    swapped_end(s);
}

TEST(each_driver_call_may_fail_and_no_content_is_lost)
{
    static const int codes[] = {DRIVER_OUT_OF_MEMORY, FAKE_FAILURE, -EBUSY};

    for (size_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
        bool fired = true;

        for (int at = 1; fired && atomic_load(&check_state.failures) == 0; at++)
            play_with_failure(at, codes[c], false, &fired);
    }
}

TEST(blocks_of_a_context_that_ends_are_forgotten_wherever_they_are)
{
    static const int order[] = {0, 1, 2, 3, 0};
    struct swapped *s = blocks(4, 2);

    PLAY(s, 1, order);
    fake_drain(s->b->fake);
    pool_context_gone(s->b->pool, BENCH_CONTEXT);
    fake_context_gone(s->b->fake, BENCH_CONTEXT);
    BENCH_CHECK(s->b);
    for (int i = 0; i < 4; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 2)); /* on the stream API now */
    PLAY(s, 2, order);
    fake_drain(s->b->fake);
    swapped_end(s);
}

/* All orders of three blocks with this many uses that name each of them; how many. */
static unsigned play_orders(int length, unsigned *ret_moves)
{
    unsigned count = 0;
    int all = 1;

    for (int i = 0; i < length; i++)
        all *= 3;
    for (int code = 0; code < all; code++) {
        struct swapped *s;
        int order[6];
        unsigned seen = 0;

        for (int i = 0, rest = code; i < length; i++, rest /= 3) {
            order[i] = rest % 3;
            seen |= 1u << order[i];
        }
        if (seen != 7)
            continue;
        s = blocks(3, 2);
        count++;
        for (int step = 0; step < 5; step++) {
            (void)swapped_step(s, NULL);
            play(s, 1, order, (size_t)length);
        }
        fake_drain(s->b->fake);
        CHECK_EQ(s->b->fake->held_high, 2 * BLOCK);
        *ret_moves += (unsigned)s->b->fake->ins;
        swapped_end(s);
    }
    return count;
}

TEST(contents_are_whole_under_the_cap_in_all_732_short_orders_of_three_blocks)
{
    unsigned moves = 0;
    unsigned orders = 0;

    for (int length = 3; length <= 6; length++)
        orders += play_orders(length, &moves);
    CHECK_EQ(orders, 732);
    CHECK(moves > 732);
}

TEST(a_cap_less_what_others_hold_follows_the_step_before)
{
    struct rule rule = swapped_rule(0);
    struct pool_evict_step step = {.step = 0};
    struct swapped *s;
    devptr_t other;

    rule.evict.cap_percent = 100;
    rule.evict.less_other = true;
    s = swapped_new(8 * BLOCK, &rule);
    other = bench_alloc(s->b, 3 * BLOCK);
    for (int i = 0; i < 6; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 0));
    for (int round = 0; round < 4; round++) {
        (void)swapped_step(s, &step);
        for (int i = 0; i < 6; i++)
            REQUIRE_EQ(swapped_use(s, 1, i), 0);
        fake_drain(s->b->fake);
    }
    (void)swapped_step(s, &step);
    CHECK_EQ(step.cap, 5 * BLOCK);
    CHECK(step.in_bytes_high <= 5 * BLOCK);
    CHECK_EQ(bench_free(s->b, other), 0);
    (void)pool_trim_device(s->b->pool, 0, true);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 6; i++)
            REQUIRE_EQ(swapped_use(s, 1, i), 0);
        (void)swapped_step(s, &step);
    }
    CHECK_EQ(step.cap, 8 * BLOCK);
    CHECK_EQ(s->refused, 0);
    CHECK(s->b->fake->held_high <= 8 * BLOCK);
    swapped_end(s);
}

/* One past each of these blocks names none, so that a call with it brings nothing in. */
static void check_ends(struct rule rule)
{
    struct swapped *s = swapped_new(4 * GiB, &rule);
    struct pool_call call = {.count = 0};

    for (int i = 0; i < 4; i++)
        REQUIRE(swapped_make(s, i, 16 * MiB, 0));
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pool_call_name(s->b->pool, s->block[i] + 16 * MiB, 1, false, &call), 0);
        CHECK_EQ(pool_call_name(s->b->pool, s->block[i] - 1, 1, false, &call), 0);
    }
    CHECK_EQ(call.count, 0);
    CHECK_EQ(pool_call_name(s->b->pool, s->block[3], 1, false, &call), 0);
    CHECK_EQ(call.count, 1);
    pool_call_end(s->b->pool, &call);
    swapped_end(s);
}

TEST(r110_the_end_of_a_block_names_no_other_that_may_go_out)
{
    check_ends(swapped_rule(32 * MiB));
}

TEST(r110_the_end_of_a_managed_block_names_no_other)
{
    struct rule rule = swapped_rule(32 * MiB);

    rule.evict.backing = RULE_BACKING_MANAGED;
    check_ends(rule);
}

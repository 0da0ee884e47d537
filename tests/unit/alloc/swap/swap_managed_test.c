/* SPDX-License-Identifier: MIT */
/* covers: swap.c */
/* Blocks in managed memory that go out and come in: pages, order, the cap on the device's books, frees, and every driver call failing. */
#include "tests/unit/alloc/swapped.h"

#define BLOCK (16 * MiB)

static struct rule managed_rule(uint64_t cap)
{
    struct rule rule = swapped_rule(cap);

    rule.evict.backing = RULE_BACKING_MANAGED;
    return rule;
}

/* Blocks of one size under a cap of `room` of them. */
static struct swapped *blocks(int count, uint64_t room)
{
    struct rule rule = managed_rule(room * BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);

    for (int i = 0; i < count; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 0));
    return s;
}

static void play(struct swapped *s, uint64_t stream, const int *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        REQUIRE_EQ(swapped_use(s, stream, order[i]), 0);
}
#define PLAY(s, stream, order) play(s, stream, order, sizeof(order) / sizeof((order)[0]))

TEST(a_block_is_managed_memory_of_its_own_and_has_no_pages_at_first)
{
    struct swapped *s = blocks(3, 2);
    struct block_info info;

    CHECK_EQ(s->b->fake->managed, 3);
    CHECK_EQ(s->b->fake->held, 0);
    CHECK_EQ(s->b->fake->maps + s->b->fake->creates + s->b->fake->host, 0);
    CHECK_EQ(bench_stats(s->b).reserved, 0);
    CHECK_EQ(bench_stats(s->b).live_requested, 3 * BLOCK);
    REQUIRE_EQ(pool_find(s->b->pool, s->block[1] + 5, &info), 0);
    CHECK(info.mapped && info.managed);
    CHECK_EQ(info.size, BLOCK);
    CHECK_EQ(info.heap, HEAP_PRIVATE);
    BENCH_CHECK(s->b);
    REQUIRE_EQ(swapped_use(s, 1, 1), 0);
    CHECK_EQ(bench_stats(s->b).reserved, BLOCK);
    CHECK_EQ(bench_stats(s->b).stored, BLOCK);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->held, BLOCK);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(pages_move_in_the_order_of_streams_under_the_cap_and_the_host_waits_for_nothing)
{
    static const int order[] = {0, 1, 2, 0, 1, 2, 2, 1, 0};
    struct swapped *s = blocks(3, 2);

    s->b->fake->hangs = true;
    PLAY(s, 1, order);
    CHECK_EQ(s->b->fake->waits, 0);
    CHECK_EQ(s->b->fake->held, 0);
    CHECK(s->b->fake->outs > 0);
    CHECK_EQ(bench_stats(s->b).reserved_high, 2 * BLOCK);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->held_high, 2 * BLOCK);
    CHECK_EQ(s->b->fake->page_faults, 0);
    CHECK_EQ(s->b->fake->host_high, 0);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(the_figures_of_a_step_are_what_was_prefetched_whatever_was_written)
{
    static const int order[] = {0, 1, 2, 3, 2, 1};
    struct rule rule = managed_rule(2 * BLOCK);
    struct pool_evict_step step = {.step = 0};
    struct pool_evict_step paper = {.step = 0};

    rule.evict.clean = true;
    for (int shadow = 0; shadow < 2; shadow++) {
        struct swapped *s;
        uint64_t in = 0;
        uint64_t out = 0;

        rule.mode = shadow ? HINT_SHADOW : HINT_LIVE;
        s = swapped_new(4 * GiB, &rule);
        for (int i = 0; i < 4; i++) {
            REQUIRE(swapped_make(s, i, BLOCK, 0));
            REQUIRE_EQ(swapped_use(s, 1, i), 0);
        }
        for (int i = 0; i < 5; i++) {
            (void)swapped_step(s, shadow ? &paper : &step);
            if (!shadow && i > 0) {
                CHECK_EQ(step.moved_in, s->b->fake->in_bytes - in);
                CHECK_EQ(step.moved_out, s->b->fake->out_bytes - out);
                CHECK_EQ(step.dropped, 0);
            }
            in = s->b->fake->in_bytes;
            out = s->b->fake->out_bytes;
            for (size_t at = 0; at < 6; at++)
                REQUIRE_EQ(swapped_read(s, 1, order[at]), 0);
        }
        fake_drain(s->b->fake);
        swapped_end(s);
    }
    CHECK(step.moved_in > 0);
    CHECK_EQ(paper.moved_in, step.moved_in);
    CHECK_EQ(paper.moved_out, step.moved_out);
}

TEST(pages_go_only_behind_the_work_that_uses_them)
{
    static const int order[] = {1, 0};
    struct swapped *s = blocks(2, 1);

    REQUIRE_EQ(swapped_use(s, 3, 0), 0);
    s->b->fake->hangs = true;
    PLAY(s, 1, order);
    for (uint64_t queue = 0; queue < FAKE_QUEUES; queue++)
        while (queue != 3 && fake_step(s->b->fake, queue))
            ;
    CHECK(s->b->fake->held <= BLOCK); /* stream 3 has not come to its use */
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->held_high, BLOCK);
    CHECK_EQ(s->b->fake->page_faults, 0);
    swapped_end(s);
}

TEST(a_use_that_no_call_names_brings_its_pages_and_is_right)
{
    struct swapped *s = blocks(3, 1);
    static const int order[] = {0, 1, 2};

    PLAY(s, 1, order);
    fake_drain(s->b->fake);
    fake_check(s->b->fake, 1, s->block[0], s->value[0]);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->page_faults, 1);
    CHECK_EQ(s->b->fake->held, 2 * BLOCK); /* what the driver does is beyond the cap */
    CHECK_EQ(bench_stats(s->b).reserved, BLOCK);
    PLAY(s, 1, order);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->held, BLOCK);
    swapped_end(s);
}

/* How often this was told of blocks that stay in. */
static unsigned kept(struct swapped *s)
{
    struct outcome news[32];
    unsigned n = 0;
    size_t count;

    REQUIRE_EQ(pool_poll(s->b->pool, true, news, 32, &count), 0);
    for (size_t i = 0; i < count; i++)
        n += news[i].kind == OUTCOME_KEPT;
    return n;
}

TEST(nothing_stays_in_for_what_no_call_names)
{
    static const int order[] = {0, 1, 2};
    struct swapped *s = blocks(4, 2);

    PLAY(s, 1, order);
    pool_evict_keep(s->b->pool, s->block[2], POOL_KEPT_POINTER);
    pool_evict_keep(s->b->pool, 0, POOL_KEPT_UNTOLD);
    for (int step = 0; step < 4; step++) {
        (void)swapped_step(s, NULL);
        PLAY(s, 1, order);
    }
    CHECK_EQ(kept(s), 0);
    CHECK(s->b->fake->outs > 4);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(r80_what_is_pinned_stays_in)
{
    struct swapped *s = blocks(4, 2);
    struct pool_pinned pinned;
    struct pool_hit hit;

    REQUIRE_EQ(swapped_use(s, 1, 0), 0);
    REQUIRE_EQ(pool_pin(s->b->pool, s->block[0], 8, POOL_PIN_LIVE, &pinned, &hit), 0);
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(swapped_use(s, 1, 1 + i % 3), 0);
    fake_drain(s->b->fake);
    fake_check(s->b->fake, 1, s->block[0], s->value[0]);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->page_faults, 0);
    pool_unpin(s->b->pool, pinned.base, pinned.alloc_seq, POOL_PIN_LIVE);
    swapped_end(s);
}

TEST(a_freed_block_goes_back_to_the_driver_behind_the_work_that_was_given_before)
{
    static const int order[] = {0, 1, 2, 3, 0, 1};

    for (int stop = 0; stop <= 6; stop++) {
        for (int free_on = 0; free_on < 2; free_on++) {
            struct swapped *s = blocks(4, 2);

            play(s, 1, order, (size_t)stop);
            (void)fake_submit(s->b->fake, 4, s->block[0], BLOCK); /* that no call names */
            s->b->fake->hangs = true;
            for (int n = 0; n < 4; n++)
                REQUIRE_EQ(bench_free_on(s->b, s->block[n], (uint64_t)free_on), 0);
            REQUIRE_EQ(kept(s), 0);
            BENCH_CHECK(s->b);
            CHECK_EQ(s->b->fake->managed, 4);
            s->b->fake->hangs = false;
            fake_drain(s->b->fake);
            REQUIRE_EQ(kept(s), 0);
            REQUIRE_EQ(kept(s), 0);
            CHECK_EQ(s->b->fake->managed, 0);
            CHECK_EQ(bench_stats(s->b).reserved, 0);
            CHECK_EQ(bench_stats(s->b).pending, 0);
            BENCH_CHECK(s->b);
            swapped_end(s);
        }
    }
}

TEST(without_managed_memory_blocks_are_backed_by_memory_of_the_host)
{
    static const int order[] = {0, 1, 2, 0, 1};
    struct rule rule = managed_rule(2 * BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);
    uint64_t calls;

    s->b->fake->no_managed = true;
    REQUIRE(swapped_make(s, 0, BLOCK, 0));
    calls = s->b->fake->calls;
    REQUIRE(swapped_make(s, 1, BLOCK, 0));
    CHECK_EQ(s->b->fake->calls, calls); /* it is not asked again */
    REQUIRE(swapped_make(s, 2, BLOCK, 0));
    PLAY(s, 1, order);
    CHECK(s->b->fake->host_high > 0);
    CHECK_EQ(s->b->fake->held_high, 2 * BLOCK);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(memory_that_begins_beside_a_granule_is_asked_for_with_one_more)
{
    struct rule rule = managed_rule(2 * BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);

    s->b->fake->skew = 65536;
    for (int i = 0; i < 3; i++) {
        REQUIRE(swapped_make(s, i, BLOCK, 0));
        CHECK_EQ(s->block[i] % (2 * MiB), 0);
        REQUIRE_EQ(swapped_use(s, 1, i), 0);
    }
    CHECK_EQ(s->b->fake->managed, 3);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(on_the_stream_api_a_block_goes_with_the_context_that_it_is_in)
{
    static const int order[] = {0, 1, 2, 3, 0};
    struct rule rule = managed_rule(2 * BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);

    for (int i = 0; i < 4; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 2));
    PLAY(s, 2, order);
    fake_drain(s->b->fake);
    BENCH_CHECK(s->b);
    CHECK_EQ(bench_free_on(s->b, s->block[0], 2), 0);
    pool_context_gone(s->b->pool, FAKE_CONTEXT);
    fake_context_gone(s->b->fake, FAKE_CONTEXT);
    BENCH_CHECK(s->b);
    CHECK_EQ(bench_stats(s->b).reserved, 0);
    CHECK_EQ(bench_stats(s->b).live_count, 0);
    swapped_end(s);
}

TEST(blocks_of_a_context_that_ends_are_forgotten_wherever_they_are)
{
    static const int order[] = {0, 1, 2, 3, 0};
    struct swapped *s = blocks(4, 2);

    PLAY(s, 1, order);
    fake_drain(s->b->fake);
    swapped_free(s, 3);
    pool_context_gone(s->b->pool, BENCH_CONTEXT);
    fake_context_gone(s->b->fake, BENCH_CONTEXT);
    BENCH_CHECK(s->b);
    CHECK_EQ(bench_stats(s->b).reserved, 0);
    swapped_end(s);
}

TEST(a_pool_that_ends_gives_its_managed_memory_back_behind_its_work)
{
    static const int order[] = {0, 1, 2};
    struct rule rule = managed_rule(1 * BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);

    for (int i = 0; i < 3; i++)
        REQUIRE(swapped_make(s, i, BLOCK, 2));
    PLAY(s, 2, order);
    s->b->fake->hangs = true;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(bench_free_on(s->b, s->block[i], 2), 0);
    (void)pool_heap_gone(s->b->pool, BENCH_POOL);
    CHECK_EQ(s->b->fake->managed, 3);
    s->b->fake->hangs = false;
    fake_drain(s->b->fake);
    REQUIRE_EQ(kept(s), 0);
    REQUIRE_EQ(kept(s), 0);
    CHECK_EQ(s->b->fake->managed, 0);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(a_cap_of_the_pool_holds_for_pages)
{
    struct rule rule = managed_rule(8 * BLOCK);
    struct swapped s = {.rule = rule};
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.cap = 2 * BLOCK;
    s.b = bench_new_with(4 * GiB, &opts);
    bench_rules(s.b, &s.rule, 1);
    for (int i = 0; i < 4; i++)
        REQUIRE(swapped_make(&s, i, BLOCK, 0));
    for (int i = 0; i < 8; i++)
        REQUIRE_EQ(swapped_use(&s, 1, i % 4), 0);
    fake_drain(s.b->fake);
    CHECK_EQ(s.b->fake->held_high, 2 * BLOCK);
    CHECK_EQ(s.b->fake->wrong, 0);
    BENCH_CHECK(s.b);
    bench_end(s.b);
}

/* Every driver call fails once: contents are whole, or the call is refused. */
static void play_with_failure(int at, int code, bool *ret_fired)
{
    static const int order[] = {0, 1, 2, 3, 2, 1, 0, 3};
    struct rule rule = managed_rule(2 * BLOCK);
    struct outcome news[32];
    struct swapped *s;
    size_t count;

    rule.evict.prefetch = 2;
    s = swapped_new(4 * GiB, &rule);
    s->b->fake->fail_code = code;
    s->b->fake->fail_at = at;
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
    for (int i = 0; i < 4; i++)
        if (s->block[i])
            swapped_free(s, i);
    fake_drain(s->b->fake);
    (void)pool_poll(s->b->pool, true, news, 32, &count);
    *ret_fired = s->b->fake->fired;
    s->b->fake->fail_at = 0;
    if (s->b->fake->wrong || s->b->fake->faults)
        printf("    call %d failed with %d\n", at, code);
    CHECK_EQ(s->b->fake->wrong, 0);
    CHECK_EQ(s->b->fake->faults, 0);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

TEST(each_driver_call_may_fail_and_no_content_is_lost)
{
    static const int codes[] = {DRIVER_OUT_OF_MEMORY, DRIVER_NOT_SUPPORTED, FAKE_FAILURE, -EBUSY};

    for (size_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
        bool fired = true;

        for (int at = 1; fired && atomic_load(&check_state.failures) == 0; at++)
            play_with_failure(at, codes[c], &fired);
    }
}

TEST(a_call_may_need_the_room_of_any_number_of_blocks)
{
    struct rule rule = managed_rule(8 * BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);

    for (int i = 0; i < 8; i++) {
        REQUIRE(swapped_make(s, i, BLOCK, 0));
        REQUIRE_EQ(swapped_use(s, 1, i), 0);
    }
    REQUIRE(swapped_make(s, 8, 8 * BLOCK, 0));
    REQUIRE_EQ(swapped_use(s, 1, 8), 0);
    CHECK_EQ(s->b->fake->outs, 8);
    fake_drain(s->b->fake);
    CHECK_EQ(s->b->fake->held, 8 * BLOCK);
    BENCH_CHECK(s->b);
    swapped_end(s);
}

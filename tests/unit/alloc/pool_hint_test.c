/* SPDX-License-Identifier: MIT */
/* covers: pool_hint.c */
/* Hints in shadow, trap and live: placement, the way of the storage, the guard, the figures, the proof on the device. */
#include "tests/unit/alloc/hinted.h"

static size_t poll_husks(struct bench *b)
{
    struct outcome told[8];
    size_t count = 0;
    size_t all = 0;

    do {
        REQUIRE_EQ(pool_poll(b->pool, true, told, 8, &count), 0);
        for (size_t i = 0; i < count; i++)
            CHECK_EQ(told[i].kind, OUTCOME_HUSK);
        all += count;
    } while (count == 8);
    return all;
}

TEST(a_hinted_block_stands_on_a_handle_of_its_own)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 3 * MiB);
    struct block_info info;

    CHECK_NE(a, 0);
    CHECK_EQ(b->last.heap, HEAP_PRIVATE);
    CHECK(b->last.how & OUTCOME_HINTED);
    CHECK_EQ(b->last.mode, HINT_LIVE);
    CHECK_EQ(b->last.rule, 0);
    CHECK_EQ(b->last.rounded, 4 * MiB);
    CHECK_EQ(a % (2 * MiB), 0);
    CHECK_EQ(b->fake->handles, 1);
    REQUIRE_EQ(pool_find(b->pool, a + 1, &info), 0);
    CHECK(info.mapped);
    CHECK_EQ(info.segment_base, a);
    CHECK_EQ(info.segment_size, 4 * MiB);
    CHECK_EQ(info.rule, 0);
    CHECK_NE(hinted_on(b, 3 * MiB, 1), 0);
    CHECK_EQ(b->last.heap, HEAP_MAPPED); /* on the stream API, in its pool's heap */
    CHECK_EQ(b->fake->handles, 2);
    bench_end(b);
}

TEST(r57_at_the_edge_the_storage_goes_and_the_address_stays)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 3 * MiB);
    devptr_t c;

    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_RELEASE);
    CHECK_EQ(b->last.ptr, a);
    CHECK_EQ(b->last.size, 3 * MiB);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK); /* nothing was under way */
    CHECK(!fake_is_accessible(b->fake, a, 1));
    CHECK_EQ(b->fake->mappings, 0);
    CHECK_EQ(poll_husks(b), 1);
    CHECK_EQ(poll_husks(b), 0);
    CHECK_EQ(pass_edge(b), 0); /* once */
    c = hinted(b, 3 * MiB);
    CHECK_NE(c, a);                     /* the program holds the first */
    CHECK_EQ(bench_stats(b).remaps, 1); /* but its storage is used again */
    CHECK_EQ(b->fake->handles, 1);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, a), -EINVAL); /* once */
    bench_end(b);
}

TEST(the_address_comes_back_after_the_free_and_a_fence)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c;

    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    fake_submit(b->fake, 2, 0, 0); /* something that may still name the address */
    CHECK_EQ(bench_free(b, a), 0);
    b->fake->hangs = true;
    c = hinted(b, 4 * MiB);
    CHECK_NE(c, a);
    fake_drain(b->fake);
    CHECK_EQ(poll_husks(b), 1);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    CHECK_NE(bench_alloc(b, 64 * MiB), 0); /* a miss closes the epoch */
    CHECK_EQ(hinted(b, 4 * MiB), a);
    bench_end(b);
}

TEST(r57_limbo_lasts_until_the_device_is_past_the_last_use)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 3 * MiB);
    struct pool_stats stats;

    fake_submit(b->fake, 2, a, 3 * MiB);
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    CHECK_EQ(poll_husks(b), 0);
    stats = bench_stats(b);
    CHECK_EQ(stats.limbo, 4 * MiB);
    CHECK_EQ(stats.stored, 0);
    CHECK_EQ(stats.husk, 0);
    fake_drain(b->fake);
    CHECK_EQ(poll_husks(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    stats = bench_stats(b);
    CHECK_EQ(stats.limbo, 0);
    CHECK_EQ(stats.husk, 4 * MiB);
    CHECK_EQ(stats.released_count, 1);
    CHECK_EQ(stats.released_bytes, 3 * MiB);
    bench_end(b);
}

TEST(r66_a_submission_between_its_guard_and_the_driver_is_waited_for)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 3 * MiB);

    fake_reader_enter(b->fake, 4); /* has seen that the range is fine */
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_DEAD);
    CHECK_EQ(poll_husks(b), 0);
    fake_reader_enter(b->fake, 5); /* began after the mark: does not matter */
    fake_submit(b->fake, 3, a, 3 * MiB);
    fake_reader_leave(b->fake, 4);
    CHECK_EQ(poll_husks(b), 0);
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    fake_drain(b->fake); /* bench_end: no fault */
    CHECK_EQ(poll_husks(b), 1);
    fake_reader_leave(b->fake, 5);
    bench_end(b);
}

TEST(r66_what_a_call_names_that_is_still_to_be_made_waits_for_it_and_nothing_else_does)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t other = hinted(b, 4 * MiB);
    struct pool_collected twice[2], stale;

    CHECK(!pool_collect(b->pool, bench_alloc(b, 4 * MiB), true, &stale)); /* no hint's */
    CHECK(pool_collect(b->pool, a + 512, true, &twice[0]));
    CHECK(pool_collect(b->pool, a, true, &twice[1]));
    CHECK_EQ(pass_edge(b), 2);
    CHECK(!pool_waits_for_readers(b->pool)); /* the grace of `other` is over */
    fake_drain(b->fake);
    CHECK_EQ(poll_husks(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_DEAD);
    CHECK_EQ(state_of(b, other), HOLDER_HUSK);
    CHECK_EQ(bench_free(b, a), 0); /* noted */
    pool_call_made(b->pool, &twice[0]);
    CHECK(!pool_waits_for_readers(b->pool));
    stale = twice[1];
    stale.alloc_seq++;
    pool_call_made(b->pool, &stale); /* of a block that was there before */
    fake_submit(b->fake, 3, a, 4 * MiB);
    CHECK(!pool_waits_for_readers(b->pool));
    pool_call_made(b->pool, &twice[1]);
    CHECK(pool_waits_for_readers(b->pool));
    (void)poll_husks(b);
    CHECK_EQ(bench_stats(b).limbo, 4 * MiB); /* the device is not past the call */
    fake_drain(b->fake);
    (void)poll_husks(b);
    CHECK_EQ(bench_stats(b).limbo, 0);
    bench_end(b);
}

/* The work that a call becomes names the block, on any thread: that is not stopped, and its submission is waited for. */
TEST(r66_what_a_call_under_way_names_is_not_touched_and_its_submission_is_waited_for)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t other = hinted(b, 4 * MiB);
    struct pool_collected named, released;
    struct outcome kept;
    struct pool_hit hit;

    CHECK(pool_collect(b->pool, a, true, &named));
    CHECK(pool_collect(b->pool, other, false, &released));
    CHECK(!pool_waits_for_call(b->pool, &named, &kept));
    CHECK_EQ(pass_edge(b), 2);
    CHECK(pool_waits_for_call(b->pool, &named, &kept));
    CHECK_EQ(kept.ptr, a);
    CHECK_EQ(pool_touch(b->pool, a, 512, &hit), 0);
    CHECK_EQ(pool_touch(b->pool, other, 512, &hit), 1);
    CHECK(!pool_waits_for_readers(b->pool));
    fake_reader_enter(b->fake, 5); /* finds it named */
    pool_call_made(b->pool, &named);
    CHECK_EQ(pool_touch(b->pool, a, 512, &hit), 1);
    fake_reader_enter(b->fake, 6); /* does not matter */
    CHECK_EQ(poll_husks(b), 0);
    CHECK_EQ(state_of(b, a), HOLDER_DEAD);
    fake_reader_leave(b->fake, 5);
    fake_drain(b->fake);
    CHECK_EQ(poll_husks(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    fake_reader_leave(b->fake, 6);
    pool_call_made(b->pool, &released);
    CHECK_EQ(poll_husks(b), 1);
    bench_end(b);
}

TEST(r30_a_context_may_end_before_the_call_that_its_block_waits_for)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    struct pool_collected collected;
    devptr_t a = hinted(b, 4 * MiB);

    CHECK(pool_collect(b->pool, a, true, &collected));
    CHECK_EQ(pass_edge(b), 1);
    CHECK(!pool_waits_for_readers(b->pool));
    pool_context_gone(b->pool, BENCH_CONTEXT);
    pool_call_made(b->pool, &collected);
    (void)poll_husks(b);
    CHECK(!pool_waits_for_readers(b->pool));
    bench_end(b);
}

TEST(r58_the_programs_free_may_come_at_any_moment)
{
    for (int moment = 0; moment < 4; moment++) {
        struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
        devptr_t a = hinted(b, 4 * MiB);
        devptr_t c;

        fake_submit(b->fake, 2, a, 4 * MiB);
        if (moment == 1)
            fake_reader_enter(b->fake, 0);
        if (moment > 0)
            CHECK_EQ(pass_edge(b), 1);
        if (moment == 3)
            fake_drain(b->fake);
        if (moment == 3)
            CHECK_EQ(poll_husks(b), 1);
        CHECK_EQ(state_of(b, a), (enum holder_state)moment); /* LIVE DEAD LIMBO HUSK */
        CHECK_EQ(bench_free(b, a), 0);
        CHECK_EQ(b->last.rule, 0);
        CHECK_EQ(b->last.size, 4 * MiB);
        CHECK_EQ(bench_free(b, a), -EINVAL);
        CHECK_EQ(bench_stats(b).live_requested, 0);
        BENCH_CHECK(b);
        CHECK_EQ(pass_edge(b), 0);
        b->fake->hangs = true;
        c = hinted(b, 4 * MiB);
        if (moment < 3)
            CHECK_NE(c, a);
        CHECK_EQ(bench_free(b, c), 0);
        fake_reader_leave(b->fake, 0);
        b->fake->hangs = false;
        fake_drain(b->fake);
        for (int i = 0; i < 4; i++)
            (void)pool_trim_device(b->pool, 0, true);
        CHECK_EQ(b->fake->held, 0);
        CHECK_EQ(bench_stats(b).limbo + bench_stats(b).husk + bench_stats(b).pending, 0);
        bench_end(b);
    }
}

TEST(a_block_freed_before_its_edge_keeps_its_storage_for_the_next)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    uint64_t maps;

    CHECK_EQ(bench_free(b, a), 0);
    maps = b->fake->maps;
    CHECK_EQ(hinted(b, 4 * MiB), a);
    CHECK_EQ(b->fake->maps, maps);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_NE(hinted(b, 2 * MiB), 0); /* only the very size */
    CHECK_EQ(b->last.rounded, 2 * MiB);
    CHECK_EQ(b->fake->maps, maps + 1);
    bench_end(b);
}

TEST(a_trap_keeps_the_storage_and_takes_the_access)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_TRAP);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c;

    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.mode, HINT_TRAP);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    CHECK_EQ(b->fake->mappings, 1);
    CHECK(!fake_is_accessible(b->fake, a, 1));
    CHECK_EQ(bench_free(b, a), 0);
    c = hinted(b, 4 * MiB); /* the address may come back, with access again */
    CHECK(fake_is_accessible(b->fake, c, 4 * MiB));
    bench_end(b);
}

TEST(r57_work_on_a_trapped_range_faults_on_the_device)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_TRAP);
    devptr_t a = hinted(b, 4 * MiB);

    CHECK_EQ(pass_edge(b), 1);
    fake_submit(b->fake, 1, a + 4096, 4); /* a wrong hint */
    fake_drain(b->fake);
    CHECK_EQ(b->fake->faults, 1);
    b->fake->faults = 0;
    bench_end(b);
}

TEST(r55_shadow_changes_nothing_but_the_report)
{
    struct bench *with = hinted_bench(1 * GiB, HINT_SHADOW);
    struct bench *without = bench_new(1 * GiB);
    devptr_t a[10], c[10];

    for (int i = 0; i < 10; i++) {
        a[i] = hinted(with, (uint64_t)(i + 1) * 700 * KiB);
        c[i] = bench_alloc(without, (uint64_t)(i + 1) * 700 * KiB);
        CHECK_EQ(a[i], c[i]);
    }
    CHECK_EQ(pass_edge(with), 8); /* 2 are below min_size */
    CHECK_EQ(with->last.kind, OUTCOME_SHADOW);
    CHECK_EQ(with->last.mode, HINT_SHADOW);
    CHECK_EQ(pass_edge(with), 0);
    for (int i = 0; i < 10; i++) {
        CHECK(fake_is_accessible(with->fake, a[i], 1));
        CHECK_EQ(bench_free(with, a[i]), 0);
        CHECK_EQ(bench_free(without, c[i]), 0);
    }
    CHECK_EQ(hinted(with, 5 * MiB), bench_alloc(without, 5 * MiB));
    CHECK_EQ(with->fake->calls, without->fake->calls);
    CHECK_EQ(bench_stats(with).shadow_count, 8);
    CHECK_EQ(bench_stats(with).released_count, 0);
    CHECK_EQ(bench_stats(with).small_count, 2);
    bench_end(with);
    bench_end(without);
}

TEST(blocks_below_min_size_are_counted_and_left_alone)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);

    CHECK_NE(hinted(b, 1 * MiB), 0);
    CHECK_EQ(b->last.heap, HEAP_PLAIN);
    CHECK(b->last.how & OUTCOME_SMALL);
    CHECK_EQ(b->last.mode, HINT_OFF);
    CHECK_EQ(b->last.rule, 0);
    CHECK_EQ(pass_edge(b), 0);
    CHECK_EQ(bench_stats(b).small_count, 1);
    CHECK_EQ(bench_stats(b).small_bytes, 1 * MiB);
    bench_end(b);
}

/* A hint above the one that releases takes 3 MiB and 1 MiB blocks. */
static struct bench *spared_bench(enum action action, enum hint_mode mode)
{
    static struct rule rules[2];
    struct bench *b = bench_new(1 * GiB);

    rules[1] = (struct rule){
            .action = ACTION_RELEASE,
            .mode = mode,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_EXIT},
    };
    rules[0] = (struct rule){.action = action, .mode = mode, .min_size = 2 * MiB};
    rules[0].pick = rules[1].pick;
    rules[0].pick.size_hi = 3 * MiB;
    bench_rules(b, rules, 2);
    return b;
}

TEST(a_pin_and_an_ignore_keep_blocks_from_the_hints_after_them_in_every_mode)
{
    for (int mode = HINT_SHADOW; mode < HINT_MODE_COUNT; mode++)
        for (int i = 0; i < 2; i++) {
            enum action action = i ? ACTION_PIN : ACTION_IGNORE;
            struct bench *b = spared_bench(action, (enum hint_mode)mode);
            devptr_t a = hinted(b, 3 * MiB);
            uint64_t seq = b->last.alloc_seq;
            devptr_t small;

            CHECK_EQ(b->last.rule, 0);
            CHECK_EQ(b->last.heap, HEAP_PLAIN);
            CHECK(!(b->last.how & (OUTCOME_HINTED | OUTCOME_SMALL)));
            small = hinted(b, 1 * MiB);
            CHECK_EQ(b->last.rule, 0);
            CHECK(!(b->last.how & OUTCOME_SMALL)); /* sizes are those of `pick` alone */
            CHECK_NE(hinted(b, 4 * MiB), 0);
            CHECK_EQ(b->last.rule, 1);
            CHECK_EQ(pass_edge(b), 1);
            CHECK_EQ(b->last.rule, 1);
            CHECK(fake_is_accessible(b->fake, a, 3 * MiB));
            /* One more pin stands only on a block that has one. */
            CHECK_EQ(pool_repin(b->pool, a, seq, POOL_PIN_LIVE), i ? 0 : -ENOENT);
            BENCH_CHECK(b);
            CHECK_EQ(bench_free(b, a), 0);
            CHECK_EQ(bench_free(b, small), 0);
            CHECK_EQ(bench_stats(b).quarantined, 0); /* as any block from here on */
            CHECK_EQ(pool_repin(b->pool, a, seq, POOL_PIN_LIVE), -ENOENT);
            bench_end(b);
        }
}

TEST(r80_the_first_of_the_programs_pins_is_told_where_a_hint_pins_too)
{
    struct bench *b = spared_bench(ACTION_PIN, HINT_LIVE);
    devptr_t a = hinted(b, 3 * MiB);
    struct pool_pinned pinned;
    struct pool_hit hit;

    for (int i = 0; i < 2; i++) {
        REQUIRE_EQ(pool_pin(b->pool, a, 1, POOL_PIN_LIVE, &pinned, &hit), 0);
        CHECK_EQ(pinned.first, i == 0); /* by which it is on record as shared */
    }
    for (int i = 0; i < 3; i++)
        pool_unpin(b->pool, a, pinned.alloc_seq, POOL_PIN_LIVE);
    CHECK_EQ(pool_repin(b->pool, a, pinned.alloc_seq, POOL_PIN_LIVE), 0); /* the hint's stays */
    BENCH_CHECK(b);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_stats(b).quarantined, 0);
    bench_end(b);
}

TEST(another_instance_of_the_anchor_does_not_release)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    struct edge edge = exit_edge;
    struct outcome told[2];
    size_t count;

    CHECK_NE(hinted(b, 3 * MiB), 0);
    edge.anchor = 2;
    CHECK_EQ(pool_edge(b->pool, &edge, told, 2, &count), 0);
    CHECK_EQ(count, 0);
    edge = exit_edge;
    edge.kind = EDGE_ENTER;
    CHECK_EQ(pool_edge(b->pool, &edge, told, 2, &count), 0);
    CHECK_EQ(count, 0);
    CHECK_EQ(pass_edge(b), 1);
    bench_end(b);
}

TEST(many_due_at_once_are_told_in_portions)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);

    for (int i = 0; i < 60; i++)
        CHECK_NE(hinted(b, 2 * MiB), 0);
    CHECK_EQ(pass_edge(b), 60);
    CHECK_EQ(poll_husks(b), 60);
    CHECK_EQ(bench_stats(b).husk, 120 * MiB);
    bench_end(b);
}

/* ── the guard ── */

TEST(a_touch_of_a_released_range_is_found)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 3 * MiB);
    uint64_t seq = b->last.seq;
    devptr_t c;
    struct pool_hit hit;

    CHECK(pool_is_armed(b->pool));
    CHECK_EQ(pool_touch(b->pool, a, 1, &hit), 0);
    c = hinted(b, 3 * MiB);
    CHECK_EQ(pass_edge(b), 2);
    REQUIRE_EQ(pool_touch(b->pool, a + 3 * MiB - 1, 1, &hit), 1);
    CHECK_EQ(hit.base, a);
    CHECK_EQ(hit.size, 3 * MiB);
    CHECK_EQ(hit.rule, 0);
    CHECK_EQ(hit.mode, HINT_LIVE);
    CHECK_EQ(hit.state, HOLDER_HUSK);
    CHECK_EQ(hit.alloc_seq, seq);
    CHECK_EQ(pool_touch(b->pool, a + 3 * MiB, 1, &hit), 0); /* the slack was never the program's */
    CHECK_EQ(pool_touch(b->pool, a - 1, 1, &hit), 0);
    CHECK_EQ(pool_touch(b->pool, a - 1, 2, &hit), 1);
    CHECK_EQ(pool_touch(b->pool, a - 1, 64 * GiB, &hit), 1);
    CHECK_EQ(hit.base, a < c ? a : c);
    CHECK_EQ(pool_touch(b->pool, a, 0, &hit), 0);
    CHECK_EQ(pool_touch(b->pool, UINT64_MAX - 5, 100, &hit), 0);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(pool_touch(b->pool, a, 1, &hit), 0);
    CHECK_EQ(pool_touch(b->pool, c, 1, &hit), 1);
    CHECK_EQ(bench_free(b, c), 0);
    bench_end(b);
}

TEST(a_touch_is_found_while_dead_and_in_limbo)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 3 * MiB);
    struct pool_hit hit;

    fake_submit(b->fake, 1, a, 1);
    fake_reader_enter(b->fake, 0);
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(pool_touch(b->pool, a, 1, &hit), 1);
    CHECK_EQ(hit.state, HOLDER_DEAD);
    fake_reader_leave(b->fake, 0);
    CHECK_EQ(poll_husks(b), 0);
    CHECK_EQ(pool_touch(b->pool, a, 1, &hit), 1);
    CHECK_EQ(hit.state, HOLDER_LIMBO);
    bench_end(b);
}

TEST(a_touch_in_shadow_names_the_hint_and_spares_the_neighbours)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_SHADOW);
    devptr_t a = hinted(b, 3 * MiB);
    devptr_t next = bench_alloc(b, 600 * KiB);
    struct pool_hit hit;

    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(pool_touch(b->pool, a + 5, 1, &hit), 1);
    CHECK_EQ(hit.mode, HINT_SHADOW);
    CHECK_EQ(hit.rule, 0);
    CHECK_EQ(pool_touch(b->pool, a + 3 * MiB, 100 * KiB, &hit), 0);
    CHECK_EQ(pool_touch(b->pool, next, 600 * KiB, &hit), 0);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(pool_touch(b->pool, a, 3 * MiB, &hit), 0);
    bench_end(b);
}

TEST(without_a_hint_nothing_is_armed)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    struct edge edge = exit_edge;
    struct outcome told[1];
    struct pool_hit hit;
    size_t count;

    CHECK(!pool_is_armed(b->pool));
    CHECK_NE(bench_alloc(b, 3 * MiB), 0);
    CHECK(!pool_is_armed(b->pool));
    CHECK(!pool_has_news(b->pool));
    CHECK_EQ(pool_edge(b->pool, &edge, told, 1, &count), 0);
    CHECK_EQ(count, 0);
    CHECK_EQ(pool_touch(b->pool, b->last.ptr, 1, &hit), 0);
    CHECK_EQ(pool_set_hints(b->pool, b->hints), -EEXIST);
    bench_end(b);
}

/* ── figures and the proof ── */

TEST(r84_no_answer_to_the_program_depends_on_hints)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted_on(b, 3 * MiB, 1);
    struct pool_stats stats;

    CHECK_EQ(pass_edge(b), 1);
    REQUIRE_EQ(pool_heap_stats(b->pool, HEAP_MAPPED, BENCH_POOL, &stats), 0);
    CHECK_EQ(stats.used, 3 * MiB);
    CHECK_EQ(stats.live_requested, 3 * MiB);
    CHECK_EQ(stats.live_count, 1);
    CHECK_EQ(stats.husk, 4 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    REQUIRE_EQ(pool_heap_stats(b->pool, HEAP_MAPPED, BENCH_POOL, &stats), 0);
    CHECK_EQ(stats.used, 0);
    CHECK_EQ(stats.husk, 0);
    bench_end(b);
}

/* A program whose every step keeps a tensor of 16 MiB to the end of the run though it is dead at the step's. */
static bool run_steps(struct bench *b, bool with_hints, int behind)
{
    devptr_t kept[8] = {0};
    bool ok = true;

    for (int step = 0; step < 8 && ok; step++) {
        devptr_t work = bench_alloc(b, 8 * MiB);

        kept[step] = with_hints ? hinted(b, 16 * MiB) : bench_alloc(b, 16 * MiB);
        ok = kept[step] && work;
        if (!ok)
            break;
        fake_submit(b->fake, 1, work, 8 * MiB);
        fake_submit(b->fake, 2, kept[step], 16 * MiB);
        CHECK_EQ(bench_free(b, work), 0);
        if (with_hints)
            CHECK_EQ(pass_edge(b), 1);
        if (!behind)
            fake_drain(b->fake);
    }
    return ok;
}

TEST(r88_on_a_device_between_the_two_peaks_only_the_hinted_form_finishes)
{
    for (int behind = 0; behind < 2; behind++) {
        struct bench *bad = bench_new(64 * MiB); /* needs 8 * 16 + 8 */
        struct bench *good = hinted_bench(64 * MiB, HINT_LIVE);

        CHECK(!run_steps(bad, false, behind));
        CHECK_EQ(bad->r, DRIVER_OUT_OF_MEMORY);
        CHECK(run_steps(good, true, behind));
        CHECK_LE(good->fake->held_high, 64 * MiB);
        printf("held at most %llu MiB of 64, limbo waited for %llu times\n",
                (unsigned long long)(good->fake->held_high / MiB),
                (unsigned long long)bench_stats(good).host_waits);
        if (behind)
            CHECK_GT(bench_stats(good).host_waits, 0);
        fake_drain(bad->fake);
        bench_end(bad);
        bench_end(good);
    }
}

TEST(what_cannot_be_placed_as_hinted_is_served_ordinarily)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a;

    b->fake->no_vmm = true;
    a = hinted(b, 3 * MiB);
    CHECK_NE(a, 0);
    CHECK_EQ(b->last.heap, HEAP_PLAIN);
    CHECK_EQ(b->last.mode, HINT_SHADOW); /* the report still says what it would have saved */
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_SHADOW);
    CHECK(fake_is_accessible(b->fake, a, 3 * MiB));
    bench_end(b);

    b = hinted_bench(8 * MiB, HINT_LIVE);
    a = bench_alloc(b, 6 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_NE(bench_alloc(b, 2 * MiB), 0);
    b->fake->fail_name = "handle_create";
    b->fake->fail_at = 1;
    CHECK_NE(hinted(b, 3 * MiB), 0);
    CHECK_EQ(b->last.heap, HEAP_PLAIN);
    bench_end(b);
}

/* Whatever number a driver table fails with: what could not be mapped is no idle block. */
TEST(a_hinted_block_whose_mapping_fails_is_not_kept_for_later)
{
    static const char *const calls[] = {"handle_create", "map", "set_access"};
    static const int codes[] = {-EAGAIN, -EBUSY, -ECANCELED, -ENOSPC, DRIVER_OUT_OF_MEMORY};

    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls) * (sizeof(codes) / sizeof(*codes)); i++) {
        struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
        devptr_t a;

        CHECK_NE(hinted(b, 2 * MiB), 0); /* the ranges are there */
        b->fake->fail_name = calls[i % 3];
        b->fake->fail_code = codes[i / 3];
        b->fake->fail_at = 1;
        (void)hinted(b, 4 * MiB);
        CHECK(b->fake->fired);
        BENCH_CHECK(b);
        a = hinted(b, 4 * MiB);
        CHECK_EQ(b->last.mode, HINT_LIVE);
        CHECK(fake_is_accessible(b->fake, a, 4 * MiB));
        bench_end(b);
    }
}

static size_t poll_refused(struct bench *b)
{
    struct outcome told[8];
    size_t count = 0;

    REQUIRE_EQ(pool_poll(b->pool, true, told, 8, &count), 0);
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(told[i].kind, OUTCOME_REFUSED);
    if (count)
        b->last = told[0];
    return count;
}

/* The release is undone: the block is the program's as without a hint, and its free goes the way of all others. */
TEST(a_removal_that_the_driver_refuses_harms_nothing)
{
    static const enum hint_mode modes[] = {HINT_LIVE, HINT_TRAP};
    static const char *const calls[] = {"unmap", "set_access"};

    for (size_t i = 0; i < 2; i++) {
        const struct pool_memory memory = {
                .driver_free = 1 * GiB - 4 * MiB, .total = 1 * GiB, .may_wait = true};
        struct bench *b = hinted_bench(1 * GiB, modes[i]);
        devptr_t a = hinted(b, 4 * MiB);
        struct pool_hit hit;

        b->fake->fail_name = calls[i];
        b->fake->fail_at = 1;
        CHECK_EQ(pass_edge(b), 1);
        CHECK(b->fake->fired);
        CHECK_EQ(poll_refused(b), 1);
        CHECK_EQ(b->last.ptr, a);
        CHECK_EQ(b->last.rule, 0);
        CHECK_EQ(b->last.mode, modes[i]);
        CHECK_EQ(poll_refused(b), 0);
        CHECK_EQ(state_of(b, a), HOLDER_LIVE); /* the storage stays */
        CHECK_EQ(pool_touch(b->pool, a, 1, &hit), 0);
        CHECK(fake_is_accessible(b->fake, a, 4 * MiB));
        CHECK_EQ(bench_stats(b).limbo, 0);
        CHECK_EQ(bench_stats(b).stored, 4 * MiB);
        BENCH_CHECK(b);
        CHECK_EQ(bench_free(b, a), 0);
        CHECK_EQ(bench_free(b, a), -EINVAL);
        BENCH_CHECK(b);
        CHECK_EQ(pool_available(b->pool, 0, &memory), 1 * GiB);
        bench_pass(b);
        CHECK_EQ(pool_trim_device(b->pool, 0, true), 4 * MiB); /* what is said to be free is */
        CHECK_EQ(b->fake->held, 0);
        BENCH_CHECK(b);
        bench_end(b);
    }
}

/* Neither taken nor given back: whether all of the device and its peers have access, nobody knows. The guard says it has gone. */
TEST(access_that_the_driver_neither_takes_nor_gives_counts_as_taken)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_TRAP);
    devptr_t a = hinted(b, 4 * MiB);
    struct pool_hit hit;

    b->fake->fail_name = "set_access";
    b->fake->fail_at = 1;
    b->fake->fail_all = true;
    CHECK_EQ(pass_edge(b), 1);
    CHECK(b->fake->fired);
    b->fake->fail_all = false;
    b->fake->fail_at = 0;
    CHECK_EQ(poll_husks(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    CHECK_EQ(pool_touch(b->pool, a, 1, &hit), 1);
    CHECK_EQ(bench_free(b, a), 0);
    fake_drain(b->fake);
    CHECK_EQ(pool_trim_device(b->pool, 0, true), 4 * MiB);
    CHECK_EQ(b->fake->held, 0);
    BENCH_CHECK(b);
    bench_end(b);
}

/* Freed while it was on its way, and the driver refuses: it serves again, as what is freed without a hint does. */
TEST(a_removal_that_the_driver_refuses_after_the_free_loses_nothing)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);

    fake_submit(b->fake, 2, a, 4 * MiB);
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    CHECK_EQ(bench_free(b, a), 0);
    b->fake->fail_name = "unmap";
    b->fake->fail_at = 1;
    bench_pass(b);
    CHECK(b->fake->fired);
    CHECK_EQ(bench_stats(b).limbo, 0);
    BENCH_CHECK(b);
    CHECK_NE(bench_alloc(b, 64 * MiB), 0); /* a miss closes the epoch */
    CHECK_EQ(hinted(b, 4 * MiB), a);
    CHECK(fake_is_accessible(b->fake, a, 4 * MiB));
    bench_end(b);
}

TEST(r30_a_dead_context_takes_its_hinted_blocks_along)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t live = hinted(b, 4 * MiB);
    devptr_t limbo;
    struct pool_hit hit;

    CHECK_EQ(pass_edge(b), 1);
    limbo = hinted(b, 6 * MiB);
    fake_submit(b->fake, 1, limbo, 1);
    CHECK_EQ(pass_edge(b), 1);
    CHECK_NE(hinted(b, 8 * MiB), 0);
    fake_drain(b->fake);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK_EQ(bench_free(b, live), -ENOENT);
    CHECK_EQ(bench_free(b, limbo), -ENOENT);
    CHECK_EQ(pool_touch(b->pool, limbo, 1, &hit), 0);
    CHECK_EQ(b->fake->held, 0); /* it does not go with the context by itself */
    CHECK_EQ(b->fake->ranges, 0);
    CHECK_EQ(bench_stats(b).limbo + bench_stats(b).husk + bench_stats(b).reserved, 0);
    bench_end(b);
}

TEST(r10_r38_an_edge_makes_no_driver_call)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    struct edge edge = exit_edge;
    struct outcome told[8];
    uint64_t before;
    size_t count;

    before = b->fake->calls;
    CHECK_EQ(pool_edge(b->pool, &edge, told, 8, &count), 0);
    CHECK_EQ(count, 1);
    CHECK_EQ(b->fake->calls, before);
    CHECK_EQ(state_of(b, a), HOLDER_DEAD);
    CHECK_EQ(poll_husks(b), 1); /* where calls are allowed it goes on */
    bench_end(b);
}

TEST(an_edge_in_a_capture_only_marks)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    struct pool_hit hit;

    b->fake->capturing = true; /* the driver's side says no to every fence */
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    CHECK_EQ(pool_touch(b->pool, a, 1, &hit), 1);
    CHECK_EQ(b->fake->mappings, 1);
    b->fake->capturing = false;
    CHECK_EQ(poll_husks(b), 1);
    bench_end(b);
}

/* ── what a run has learnt against a rule ── */

TEST(r85_a_rule_that_is_off_places_and_releases_nothing_more)
{
    struct bench *b = hinted_bench(256 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c;

    CHECK(hint_learn(b->hints, 0, HINT_LEARNT_OFF));
    CHECK(!hint_learn(b->hints, 0, HINT_LEARNT_OFF)); /* told once */
    CHECK(!hint_learn(b->hints, 7, HINT_LEARNT_OFF));
    c = hinted(b, 4 * MiB);
    CHECK(!(b->last.how & OUTCOME_HINTED));
    CHECK_EQ(b->last.rule, -1);
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_REFUSED);
    CHECK_EQ(state_of(b, a), HOLDER_LIVE);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, c), 0);
    bench_end(b);
}

TEST(r86_live_that_is_refused_is_shadow)
{
    struct bench *b = hinted_bench(256 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    devptr_t c;

    CHECK(hint_refuse_live(b->hints));
    CHECK(!hint_refuse_live(b->hints));
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_REFUSED);
    c = hinted(b, 4 * MiB);
    CHECK_EQ(b->last.mode, HINT_SHADOW);
    CHECK(!(b->last.how & OUTCOME_HINTED));
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_SHADOW);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, c), 0);
    bench_end(b);
}

TEST(r86_trap_is_not_touched_by_the_refusal_of_live)
{
    struct bench *b = hinted_bench(256 * MiB, HINT_TRAP);
    devptr_t a = hinted(b, 4 * MiB);

    CHECK(hint_refuse_live(b->hints));
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_RELEASE);
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

static void check_nobodys(struct bench *b, devptr_t ptr)
{
    struct pool_pinned pinned;
    struct pool_hit hit;

    CHECK(is_nobodys(b, ptr));
    CHECK(!pool_touch(b->pool, ptr, 1, &hit));
    CHECK_EQ(pool_pin(b->pool, ptr, 1, POOL_PIN_GRAPH, &pinned, &hit), -ENOENT);
}

TEST(r110_one_past_a_hinted_block_is_nobodys)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_LIVE);
    devptr_t p[6];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 6; i++)
            p[i] = hinted(b, (uint64_t)(round + i % 2 + 1) * 2 * MiB);
        CHECK_EQ(pass_edge(b), 6);
        for (int i = 0; i < 6; i++) {
            check_nobodys(b, p[i] - 1);
            check_nobodys(b, p[i] + (uint64_t)(round + i % 2 + 1) * 2 * MiB);
        }
        BENCH_CHECK(b);
        for (int i = 0; i < 6; i++) /* with holes first */
            CHECK_EQ(bench_free(b, p[(i * 2 + i / 3) % 6]), 0);
        fake_drain(b->fake);
        (void)bench_alloc(b, 512);
    }
    bench_end(b);
}

TEST(r110_what_stands_before_and_behind_the_range_of_hints_is_no_hinted_block)
{
    struct bench *b = hinted_bench(16 * MiB, HINT_LIVE);
    devptr_t lowest = UINT64_MAX;
    devptr_t highest = 0;
    devptr_t p;

    for (int i = 0; i < 64; i++) {
        p = hinted(b, 2 * MiB);
        if (!p || !(b->last.how & OUTCOME_HINTED))
            break;
        lowest = p < lowest ? p : lowest;
        highest = p > highest ? p : highest;
        (void)pass_edge(b);
    }
    CHECK_GT(highest, lowest);
    CHECK(fake_is_reserved(b->fake, lowest - 1));
    CHECK(fake_is_reserved(b->fake, highest + 2 * MiB));
    bench_end(b);
}

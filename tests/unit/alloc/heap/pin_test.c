/* SPDX-License-Identifier: MIT */
/* covers: pin.c */
/* Pins (R80): no release while one stands, and what becomes of a block that is freed under one. */
#include "tests/unit/alloc/hinted.h"

static struct pool_pinned pin(struct bench *b, devptr_t ptr, enum pool_pin kind)
{
    struct pool_pinned pinned = {.base = 0};
    struct pool_hit hit;

    CHECK_EQ(pool_pin(b->pool, ptr, 1, kind, &pinned, &hit), 0);
    return pinned;
}

static void unpin(struct bench *b, const struct pool_pinned *pinned, enum pool_pin kind)
{
    pool_unpin(b->pool, pinned->base, pinned->alloc_seq, kind);
}

/* What the edge tells of the only block that is due. */
static struct outcome told_at_edge(struct bench *b)
{
    b->last = (struct outcome){.kind = OUTCOME_NONE};
    CHECK_LE(pass_edge(b), 1);
    return b->last;
}

TEST(r80_a_pinned_block_is_not_released)
{
    static const enum pool_pin kinds[] = {POOL_PIN_LIVE, POOL_PIN_GRAPH, POOL_PIN_SHOWN};
    static const enum hint_mode modes[] = {HINT_SHADOW, HINT_TRAP, HINT_LIVE, HINT_POISON};

    for (size_t k = 0; k < 3; k++)
        for (size_t m = 0; m < sizeof(modes) / sizeof(*modes); m++) {
            struct bench *b = hinted_bench(256 * MiB, modes[m]);
            devptr_t a = hinted(b, 4 * MiB);
            struct pool_pinned pinned = pin(b, a + 100, kinds[k]);
            struct outcome told = told_at_edge(b);

            CHECK_EQ(pinned.base, a);
            CHECK_EQ(pinned.size, 4 * MiB);
            CHECK_EQ(pinned.rule, 0);
            CHECK_EQ(told.kind, OUTCOME_REFUSED);
            CHECK(told.how & OUTCOME_PINNED);
            CHECK_EQ(told.rule, 0);
            CHECK_EQ(state_of(b, a), HOLDER_LIVE);
            CHECK(fake_is_accessible(b->fake, a, 4 * MiB));
            CHECK_EQ(pool_touch(b->pool, a, 1, &(struct pool_hit){0}), 0);
            CHECK_EQ(told_at_edge(b).kind, OUTCOME_NONE); /* it was due once */
            BENCH_CHECK(b);
            unpin(b, &pinned, kinds[k]);
            CHECK_EQ(bench_free(b, a), 0);
            bench_end(b);
        }
}

TEST(r80_a_pin_tells_the_size_that_the_program_asked_for)
{
    static const uint64_t sizes[] = {1, 511, 512, 513, 3 * MiB + 1};
    struct bench *b = bench_new(64 * MiB);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        devptr_t ptr = bench_alloc(b, sizes[i]);
        struct pool_pinned pinned = pin(b, ptr, POOL_PIN_LIVE);

        CHECK_EQ(pinned.base, ptr);
        CHECK_EQ(pinned.size, sizes[i]);
        CHECK_EQ(pinned.end, ptr + (sizes[i] + 511) / 512 * 512);
        CHECK_EQ(pinned.rule, -1);
        unpin(b, &pinned, POOL_PIN_LIVE);
    }
    bench_end(b);
}

TEST(r80_after_the_last_pin_hints_act_again)
{
    struct bench *b = hinted_bench(256 * MiB, HINT_LIVE);
    devptr_t a = hinted(b, 4 * MiB);
    struct pool_pinned pinned = pin(b, a, POOL_PIN_LIVE);

    (void)pin(b, a, POOL_PIN_GRAPH);
    unpin(b, &pinned, POOL_PIN_LIVE);
    unpin(b, &pinned, POOL_PIN_LIVE); /* one too many is nobody's */
    BENCH_CHECK(b);
    unpin(b, &pinned, POOL_PIN_GRAPH);
    CHECK_EQ(told_at_edge(b).kind, OUTCOME_RELEASE);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

TEST(r80_released_storage_cannot_be_pinned)
{
    struct bench *b = hinted_bench(256 * MiB, HINT_TRAP);
    devptr_t a = hinted(b, 4 * MiB);
    struct pool_pinned pinned;
    struct pool_hit hit;

    CHECK_EQ(told_at_edge(b).kind, OUTCOME_RELEASE);
    CHECK_EQ(pool_pin(b->pool, a + 5, 1, POOL_PIN_SHOWN, &pinned, &hit), -EBUSY);
    CHECK_EQ(hit.base, a);
    CHECK_EQ(hit.mode, HINT_TRAP);
    CHECK_EQ(pool_pin(b->pool, a + 8 * MiB, 1, POOL_PIN_SHOWN, &pinned, &hit), -ENOENT);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(pool_pin(b->pool, a, 1, POOL_PIN_SHOWN, &pinned, &hit), -ENOENT); /* nobody's */
    bench_end(b);
}

TEST(r80_every_block_of_a_range_can_be_pinned_in_turn)
{
    struct bench *b = bench_new(256 * MiB);
    devptr_t a = bench_alloc_on(b, 1 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 1 * MiB, 1);
    devptr_t lo = a < c ? a : c;
    struct pool_pinned first, second;
    struct pool_hit hit;

    REQUIRE_EQ(lo + 1 * MiB, a < c ? c : a);
    REQUIRE_EQ(pool_pin(b->pool, lo + 512, 1 * MiB, POOL_PIN_LIVE, &first, &hit), 0);
    CHECK_EQ(first.base, lo);
    CHECK_EQ(first.end, lo + 1 * MiB);
    REQUIRE_EQ(pool_pin(b->pool, first.end, 512, POOL_PIN_LIVE, &second, &hit), 0);
    CHECK_EQ(second.base, lo + 1 * MiB);
    CHECK_EQ(second.rule, -1);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    BENCH_CHECK(b);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    bench_end(b);
}

/* Both allocation APIs. */
static void freed_under(enum pool_pin kind, uint64_t stream, bool returns)
{
    struct bench *b = bench_new(256 * MiB);
    devptr_t a = bench_alloc_on(b, 4 * MiB, stream);
    struct pool_pinned pinned = pin(b, a, kind);

    CHECK_EQ(bench_free_on(b, a, stream), 0);
    CHECK_EQ(bench_free_on(b, a, stream), -EINVAL); /* once, as ever */
    CHECK_EQ(bench_stats(b).quarantined, returns ? 0 : 4 * MiB);
    CHECK_EQ(bench_stats(b).live_requested, 0); /* the program's figures do not show it (R84) */
    BENCH_CHECK(b);
    if (!returns) {
        fake_drain(b->fake);
        (void)pool_trim_device(b->pool, 0, true);
        CHECK_EQ(b->fake->held, 4 * MiB); /* the device keeps it */
        for (int i = 0; i < 4; i++) {
            devptr_t other = bench_alloc_on(b, 4 * MiB, stream);

            CHECK_NE(other, 0);
            CHECK_NE(other, a);
            CHECK_EQ(bench_free_on(b, other, stream), 0);
        }
        unpin(b, &pinned, kind);
        CHECK_EQ(bench_stats(b).quarantined, 0);
    }
    unpin(b, &pinned, kind); /* of a block that is gone */
    BENCH_CHECK(b);
    fake_drain(b->fake);
    (void)pool_trim_device(b->pool, 0, true);
    CHECK_EQ(b->fake->held, 0); /* it went like any freed block */
    bench_end(b);
}

TEST(r24_r80_what_was_shown_is_kept_after_its_free_until_it_is_taken_back)
{
    freed_under(POOL_PIN_SHOWN, 0, false);
    freed_under(POOL_PIN_SHOWN, 1, false);
}

TEST(r12_r80_what_a_graph_uses_is_kept_after_its_free_until_the_graph_is_gone)
{
    freed_under(POOL_PIN_GRAPH, 0, false);
    freed_under(POOL_PIN_GRAPH, 1, false);
}

TEST(r80_a_descriptor_does_not_outlive_its_block)
{
    freed_under(POOL_PIN_LIVE, 0, true);
    freed_under(POOL_PIN_LIVE, 1, true);
}

TEST(r80_a_kept_block_comes_back_only_behind_a_fence)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc(b, 40 * MiB);
    struct pool_pinned pinned = pin(b, a, POOL_PIN_SHOWN);

    CHECK_EQ(bench_free(b, a), 0);
    fake_submit(b->fake, 2, a, 1 * MiB); /* the last launch of what relied on it */
    unpin(b, &pinned, POOL_PIN_SHOWN);
    CHECK_NE(bench_alloc(b, 40 * MiB), 0); /* waits, or the fake device sees the reuse as a fault */
    CHECK(b->last.how & OUTCOME_WAITED);
    bench_end(b);
}

/* Natively a freed block is gone, whatever graph names it: kedge may not end in an OOM for it. */
TEST(r80_on_a_full_device_graphs_give_up_what_the_program_freed)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc(b, 24 * MiB);
    devptr_t c = bench_alloc(b, 24 * MiB);

    (void)pin(b, a, POOL_PIN_GRAPH);
    (void)pin(b, c, POOL_PIN_SHOWN);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, c), 0);
    CHECK_EQ(bench_alloc(b, 24 * MiB), a);
    BENCH_CHECK(b);
    CHECK_EQ(bench_alloc(b, 24 * MiB), 0); /* what others look at is not given up */
    CHECK_EQ(b->r, DRIVER_OUT_OF_MEMORY);
    bench_end(b);
}

TEST(r80_pins_go_with_the_context_of_their_block)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    devptr_t c = bench_alloc(b, 4 * MiB);
    struct pool_pinned pinned = pin(b, a, POOL_PIN_SHOWN);

    (void)pin(b, c, POOL_PIN_GRAPH);
    CHECK_EQ(bench_free(b, a), 0);
    fake_context_gone(b->fake, BENCH_CONTEXT);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    BENCH_CHECK(b);
    unpin(b, &pinned, POOL_PIN_SHOWN);
    BENCH_CHECK(b);
    bench_end(b);
}

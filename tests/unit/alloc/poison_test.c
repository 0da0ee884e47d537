/* SPDX-License-Identifier: MIT */
/* covers: pool.c hint.c */
/* Hints in poison: the content goes behind the work before the edge, and is looked at behind the program's free. */
#include "tests/unit/alloc/hinted.h"

static devptr_t poisoned(struct bench *b, uint64_t size)
{
    devptr_t a = hinted(b, size);

    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    fake_drain(b->fake);
    return a;
}

TEST(what_nobody_writes_is_clean_and_serves_again)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
    devptr_t a = hinted(b, 3 * MiB);

    CHECK_EQ(b->last.mode, HINT_POISON);
    CHECK(b->last.how & OUTCOME_HINTED); /* placed as in trap and live */
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_RELEASE);
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
    CHECK_EQ(b->fake->poisons, 1);
    CHECK_EQ(b->fake->unmaps, 0);
    CHECK_EQ(bench_stats(b).husk, 4 * MiB);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(b->last.rule, 0);
    CHECK_EQ(bench_stats(b).husk, 0);
    CHECK_EQ(count_told(b, OUTCOME_CLEAN), 0); /* the poison itself is under way still */
    CHECK_EQ(b->fake->poison_reads, 0);
    b->fake->hangs = true;
    CHECK_NE(hinted(b, 3 * MiB), a);
    b->fake->hangs = false;
    fake_drain(b->fake);
    CHECK_EQ(count_told(b, OUTCOME_CLEAN), 1);
    CHECK_EQ(b->last.ptr, a);
    CHECK_EQ(b->last.size, 3 * MiB);
    CHECK_EQ(b->last.rule, 0);
    CHECK_EQ(b->last.mode, HINT_POISON);
    CHECK_EQ(bench_free(b, a), -EINVAL);
    CHECK_EQ(hinted(b, 3 * MiB), a);
    CHECK(fake_is_accessible(b->fake, a, 3 * MiB));
    bench_end(b);
}

TEST(a_late_write_is_told_with_its_first_byte)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
    devptr_t a = poisoned(b, 3 * MiB);

    fake_submit(b->fake, 2, a + 2 * MiB, 512);
    fake_submit(b->fake, 2, a + 1 * MiB, 512);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(count_told(b, OUTCOME_WRITTEN), 0); /* the kernels are queued still */
    fake_drain(b->fake);
    CHECK_EQ(count_told(b, OUTCOME_WRITTEN), 1);
    CHECK_EQ(b->last.ptr, a);
    CHECK_EQ(b->last.size, 3 * MiB);
    CHECK_EQ(b->last.rounded, 1 * MiB);
    CHECK_EQ(b->last.rule, 0);
    CHECK_EQ(hinted(b, 3 * MiB), a);
    bench_end(b);
}

TEST(a_write_behind_what_was_requested_is_none_of_the_blocks)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
    devptr_t a = poisoned(b, 3 * MiB);

    fake_submit(b->fake, 2, a + 3 * MiB, 512);
    CHECK_EQ(bench_free(b, a), 0);
    fake_drain(b->fake);
    CHECK_EQ(count_told(b, OUTCOME_CLEAN), 1);
    bench_end(b);
}

TEST(a_write_from_before_the_edge_is_not_late_however_late_it_runs)
{
    for (int reader = 0; reader < 2; reader++) {
        struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
        devptr_t a = hinted(b, 4 * MiB);

        if (reader) /* it has passed the guard and is not with the driver yet */
            fake_reader_enter(b->fake, 1);
        else
            fake_submit(b->fake, 2, a, 4 * MiB);
        CHECK_EQ(pass_edge(b), 1);
        CHECK_EQ(count_told(b, OUTCOME_HUSK), reader ? 0 : 1);
        if (reader) {
            fake_submit(b->fake, 2, a, 4 * MiB);
            fake_reader_leave(b->fake, 1);
            CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
        }
        CHECK(!fake_step(b->fake, 0)); /* it waits */
        fake_drain(b->fake);
        CHECK_EQ(bench_free(b, a), 0);
        fake_drain(b->fake);
        CHECK_EQ(count_told(b, OUTCOME_CLEAN), 1);
        bench_end(b);
    }
}

TEST(on_the_stream_api_the_look_comes_behind_the_free_on_its_stream)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
    devptr_t a = hinted_on(b, 4 * MiB, 3);

    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
    fake_drain(b->fake);
    fake_submit(b->fake, 3, a + 512, 512); /* before the free in the order of the stream */
    CHECK_EQ(bench_free_on(b, a, 3), 0);
    CHECK_EQ(count_told(b, OUTCOME_WRITTEN), 0);
    b->fake->hangs = true;
    CHECK_NE(hinted_on(b, 4 * MiB, 3), a);
    b->fake->hangs = false;
    fake_drain(b->fake);
    CHECK_EQ(count_told(b, OUTCOME_WRITTEN), 1);
    CHECK_EQ(b->last.rounded, 512);
    CHECK_EQ(hinted_on(b, 4 * MiB, 3), a);
    bench_end(b);
}

TEST(the_programs_free_may_come_at_any_moment)
{
    for (int moment = 0; moment < 4; moment++) {
        struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
        devptr_t a = hinted(b, 4 * MiB);

        b->fake->capturing = moment == 2; /* no fence: it is on its way and gets no further */
        if (moment == 1)
            fake_reader_enter(b->fake, 0);
        if (moment > 0)
            CHECK_EQ(pass_edge(b), 1);
        CHECK_EQ(state_of(b, a), (enum holder_state)moment); /* LIVE DEAD LIMBO HUSK */
        CHECK_EQ(bench_free(b, a), 0);
        CHECK_EQ(bench_free(b, a), -EINVAL);
        BENCH_CHECK(b);
        b->fake->capturing = false;
        fake_reader_leave(b->fake, 0);
        for (int i = 0; i < 4; i++) {
            fake_drain(b->fake);
            CHECK_EQ(count_told(b, OUTCOME_CLEAN), moment == 3 && i == 0 ? 1 : 0);
        }
        (void)bench_alloc(b, 64 * MiB);                  /* a miss closes the epoch */
        CHECK_EQ(b->fake->poisons, moment == 3 ? 1 : 0); /* what is freed already needs none */
        CHECK_EQ(hinted(b, 4 * MiB), a);
        bench_end(b);
    }
}

TEST(what_stays_for_others_is_not_looked_at)
{
    static const enum pool_pin kinds[] = {POOL_PIN_GRAPH, POOL_PIN_SHOWN};

    for (int i = 0; i < 2; i++) {
        struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
        devptr_t a = poisoned(b, 4 * MiB);
        struct pool_pinned told_pin;
        struct pool_hit hit;

        /* poison stops nobody */
        CHECK_EQ(pool_pin(b->pool, a, 512, kinds[i], &told_pin, &hit), 0);
        CHECK_EQ(bench_free(b, a), 0);
        fake_drain(b->fake);
        CHECK_EQ(count_told(b, OUTCOME_CLEAN), 0);
        CHECK_EQ(b->fake->poison_reads, 0);
        CHECK_NE(hinted(b, 4 * MiB), a);
        BENCH_CHECK(b);
        bench_end(b);
    }
}

TEST(in_a_capture_it_waits_and_other_blocks_do_not_wait_for_it)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
    devptr_t a = hinted(b, 4 * MiB);

    b->fake->capturing = true;
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 0);
    CHECK_EQ(state_of(b, a), HOLDER_LIMBO);
    b->fake->capturing = false;
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
    CHECK_EQ(bench_free(b, a), 0);
    fake_drain(b->fake);
    b->fake->fail_name = "poison_read";
    b->fake->fail_code = -EBUSY;
    b->fake->fail_at = 1;
    CHECK_EQ(count_told(b, OUTCOME_CLEAN), 0);
    CHECK_EQ(count_told(b, OUTCOME_CLEAN), 1);
    bench_end(b);
}

/* Whatever call of it fails: nobody is told of a write, and the block serves again. */
TEST(r36_a_call_that_fails_leaves_a_block_that_was_not_looked_at)
{
    static const char *const calls[] = {"fence_record", "poison", "poison_read"};
    static const int codes[] = {FAKE_FAILURE, -ENOMEM, -ENOENT, -ECANCELED};

    for (unsigned i = 0; i < 12; i++) {
        struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
        devptr_t a = hinted(b, 4 * MiB);

        b->fake->fail_name = calls[i % 3];
        b->fake->fail_code = codes[i / 3];
        b->fake->fail_at = 1;
        CHECK_EQ(pass_edge(b), 1);
        CHECK_EQ(count_told(b, OUTCOME_HUSK), i % 3 == 2 ? 1 : 0);
        CHECK_EQ(state_of(b, a), HOLDER_HUSK);
        BENCH_CHECK(b);
        fake_drain(b->fake);
        fake_submit(b->fake, 1, a, 512);
        CHECK_EQ(bench_free(b, a), 0);
        fake_drain(b->fake);
        CHECK_EQ(count_told(b, OUTCOME_WRITTEN), 0);
        (void)bench_alloc(b, 64 * MiB);
        CHECK(b->fake->fired);
        CHECK_EQ(hinted(b, 4 * MiB), a);
        bench_end(b);
    }
}

TEST(a_context_that_ends_takes_what_is_poisoned_along)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
    devptr_t freed = poisoned(b, 4 * MiB);

    CHECK_NE(poisoned(b, 6 * MiB), 0);
    CHECK_EQ(bench_free(b, freed), 0);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    fake_drain(b->fake);
    CHECK_EQ(count_told(b, OUTCOME_CLEAN), 0);
    CHECK_EQ(b->fake->held, 0);
    CHECK_EQ(bench_stats(b).husk + bench_stats(b).pending, 0);
    bench_end(b);
}

TEST(a_hint_that_was_stopped_poisons_nothing)
{
    struct bench *b = hinted_bench(1 * GiB, HINT_POISON);
    devptr_t a = hinted(b, 4 * MiB);

    CHECK(hint_learn(b->hints, 0, HINT_LEARNT_STOPPED));
    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(b->last.kind, OUTCOME_REFUSED);
    CHECK_EQ(b->fake->poisons, 0);
    CHECK_EQ(bench_free(b, a), 0);
    bench_end(b);
}

/* SPDX-License-Identifier: MIT */
/* covers: alias.c */
/* backend: alias. Small hinted blocks share handles, each at an address of its own; what is released there faults there. */
#include "alloc/storage/reclaim.h"
#include "tests/unit/alloc/hinted.h"

#define UNIT (2 * MiB)
#define MANY 48

static struct rule sharing;

static void share(struct bench *b, enum hint_mode mode)
{
    sharing = (struct rule){
            .action = ACTION_RELEASE,
            .mode = mode,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_EXIT},
            .min_size = 64 * KiB,
            .backend = RULE_ALIAS,
    };
    bench_rules(b, &sharing, 1);
}

static struct bench *sharing_bench(enum hint_mode mode)
{
    struct bench *b = bench_new(1 * GiB);

    share(b, mode);
    return b;
}

/* All that is free goes back to the driver. */
static void give_back(struct bench *b)
{
    fake_drain(b->fake);
    for (int i = 0; i < 4; i++)
        (void)pool_trim_device(b->pool, 0, true);
    BENCH_CHECK(b);
}

TEST(small_blocks_share_a_handle_at_addresses_of_their_own)
{
    struct bench *b = sharing_bench(HINT_LIVE);
    devptr_t p[4];
    struct block_info info;

    for (int i = 0; i < 4; i++) {
        p[i] = hinted(b, 500 * KiB);
        REQUIRE(p[i] != 0);
        CHECK_EQ(b->last.rounded, 512 * KiB);
        CHECK(b->last.how & OUTCOME_HINTED);
        CHECK_EQ(b->last.mode, HINT_LIVE);
        CHECK_EQ(p[i] % 512, 0);
        CHECK(fake_is_accessible(b->fake, p[i], 500 * KiB));
        CHECK_EQ(fake_storage(b->fake, p[i]) % UNIT, (uint64_t)i * 512 * KiB);
        for (int j = 0; j < i; j++)
            CHECK_NE(p[i] / UNIT, p[j] / UNIT);
        BENCH_CHECK(b);
    }
    CHECK_EQ(b->fake->handles, 1);
    CHECK_EQ(b->fake->mappings, 4);
    CHECK_EQ(bench_stats(b).reserved, UNIT);
    CHECK_EQ(bench_stats(b).live_requested, 4 * 500 * KiB);
    REQUIRE_EQ(pool_find(b->pool, p[3] + 1, &info), 0);
    CHECK_EQ(info.base, p[3]);
    CHECK_EQ(info.size, 500 * KiB);
    CHECK_EQ(info.segment_base, p[3] & ~(UNIT - 1));
    CHECK_EQ(info.segment_size, UNIT);
    CHECK_EQ(bench_free(b, p[3] - 512 * KiB), -EINVAL); /* beside it is nobody */
    CHECK_NE(hinted(b, 64 * KiB), 0);
    CHECK_EQ(b->fake->handles, 2);
    bench_end(b);
}

TEST(what_is_as_large_as_a_handle_or_below_min_size_is_as_without_alias)
{
    struct bench *b = sharing_bench(HINT_LIVE);

    CHECK_NE(hinted(b, UNIT), 0);
    CHECK_EQ(b->last.rounded, UNIT);
    CHECK_NE(hinted(b, UNIT - 1), 0); /* all parts of a handle */
    CHECK_EQ(b->last.rounded, UNIT);
    CHECK_NE(hinted(b, 3 * MiB), 0);
    CHECK_EQ(b->last.rounded, 4 * MiB);
    CHECK_EQ(b->fake->mappings, 3);
    CHECK_NE(hinted(b, 63 * KiB), 0);
    CHECK(b->last.how & OUTCOME_SMALL);
    CHECK_EQ(b->fake->mappings, 3);
    CHECK_NE(hinted(b, UNIT - 64 * KiB), 0);
    CHECK_EQ(b->last.rounded, UNIT - 64 * KiB);
    CHECK_NE(hinted(b, 64 * KiB), 0);
    CHECK_EQ(b->fake->handles, 4);
    BENCH_CHECK(b);
    bench_end(b);
}

TEST(r57_a_released_block_faults_while_its_parts_are_the_next_blocks)
{
    struct bench *b = sharing_bench(HINT_LIVE);
    devptr_t a = hinted(b, 512 * KiB);
    uint64_t storage = fake_storage(b->fake, a);
    struct pool_hit hit;
    devptr_t other, next;

    CHECK_EQ(pass_edge(b), 1);
    other = hinted(b, 512 * KiB); /* holds the handle */
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
    CHECK_EQ(state_of(b, a), HOLDER_HUSK);
    CHECK(!fake_is_accessible(b->fake, a, 1));
    CHECK(fake_is_accessible(b->fake, other, 512 * KiB));
    CHECK_EQ(bench_stats(b).husk, 512 * KiB);
    CHECK_EQ(bench_stats(b).stored, 512 * KiB);
    next = hinted(b, 512 * KiB);
    CHECK(storage == fake_storage(b->fake, next) || storage == fake_storage(b->fake, other));
    CHECK_EQ(b->fake->handles, 1);
    CHECK_NE(next / UNIT, a / UNIT);
    CHECK_EQ(pool_touch(b->pool, a + 5, 1, &hit),
            1); /* a use of the old address is told from one of the new */
    CHECK_EQ(hit.base, a);
    CHECK_EQ(pool_touch(b->pool, next, 512 * KiB, &hit), 0);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, a), -EINVAL);
    CHECK(fake_is_accessible(b->fake, next, 512 * KiB)); /* the owner's free is not the tenant's */
    CHECK_EQ(bench_free(b, next), 0);
    CHECK_EQ(bench_free(b, next), -EINVAL);
    CHECK_EQ(bench_free(b, other), 0);
    give_back(b);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

TEST(r57_parts_are_nobodys_before_all_streams_are_past_the_release_or_the_free)
{
    for (int freed = 0; freed < 2; freed++) {
        struct bench *b = sharing_bench(HINT_LIVE);
        devptr_t a = hinted_on(b, 1 * MiB, 1);
        uint64_t storage = fake_storage(b->fake, a);
        devptr_t next;

        fake_submit(b->fake, 2, a, 1 * MiB); /* on another stream than the allocation's */
        if (freed)
            CHECK_EQ(bench_free_on(b, a, 1), 0);
        else
            CHECK_EQ(pass_edge(b), 1);
        b->fake->hangs = true;
        CHECK_NE(hinted_on(b, 1 * MiB, 1), 0); /* the other half */
        next = hinted_on(b, 1 * MiB, 1);
        CHECK_EQ(b->fake->handles, 2);
        CHECK_NE(fake_storage(b->fake, next), storage);
        b->fake->hangs = false;
        fake_drain(b->fake); /* bench_end: no fault */
        (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
        CHECK_NE(hinted_on(b, 1 * MiB, 3), 0); /* whatever the stream */
        CHECK_NE(hinted_on(b, 1 * MiB, 3), 0);
        CHECK_EQ(b->fake->handles, 2);
        BENCH_CHECK(b);
        bench_end(b);
    }
}

TEST(r58_owner_and_tenant_are_freed_in_any_order_at_any_moment)
{
    for (int moment = 0; moment < 4; moment++)
        for (int first = 0; first < 2; first++) {
            struct bench *b = sharing_bench(HINT_LIVE);
            devptr_t p[2];

            p[0] = hinted(b, 300 * KiB);
            fake_submit(b->fake, 2, p[0], 300 * KiB);
            if (moment == 1)
                fake_reader_enter(b->fake, 0);
            if (moment > 0)
                CHECK_EQ(pass_edge(b), 1);
            if (moment == 3) {
                fake_drain(b->fake);
                CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
            }
            CHECK_EQ(state_of(b, p[0]), (enum holder_state)moment); /* LIVE DEAD LIMBO HUSK */
            p[1] = hinted(b, 300 * KiB);
            BENCH_CHECK(b);
            CHECK_EQ(bench_free(b, p[first]), 0);
            CHECK_EQ(bench_free(b, p[first]), -EINVAL);
            BENCH_CHECK(b);
            if (first == 0)
                CHECK(fake_is_accessible(b->fake, p[1], 300 * KiB));
            CHECK_EQ(bench_free(b, p[!first]), 0);
            CHECK_EQ(bench_free(b, p[!first]), -EINVAL);
            CHECK_EQ(bench_stats(b).live_requested, 0);
            fake_reader_leave(b->fake, 0);
            give_back(b);
            CHECK_EQ(b->fake->held, 0);
            CHECK_EQ(b->fake->mappings, 0);
            CHECK_EQ(bench_stats(b).limbo + bench_stats(b).husk + bench_stats(b).pending, 0);
            bench_end(b);
        }
}

TEST(r57_a_trap_takes_the_access_of_one_block_alone)
{
    struct bench *b = sharing_bench(HINT_TRAP);
    devptr_t a = hinted(b, 512 * KiB);
    devptr_t other;
    uint64_t storage = fake_storage(b->fake, a);

    CHECK_EQ(pass_edge(b), 1);
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
    other = hinted(b, 512 * KiB);
    CHECK_EQ(b->fake->handles, 1);
    CHECK_NE(fake_storage(b->fake, other), storage); /* it is kept */
    CHECK(!fake_is_accessible(b->fake, a, 1));
    CHECK(fake_is_accessible(b->fake, other, 512 * KiB));
    CHECK_EQ(bench_free(b, a), 0);
    give_back(b);
    CHECK_EQ(b->fake->mappings, 1);
    CHECK_EQ(fake_storage(b->fake, hinted(b, 512 * KiB)), storage);
    bench_end(b);
}

TEST(a_removal_that_the_driver_refuses_leaves_the_block_its_parts)
{
    static const enum hint_mode modes[] = {HINT_LIVE, HINT_TRAP};
    static const char *const calls[] = {"unmap", "set_access"};

    for (size_t i = 0; i < 2; i++) {
        struct bench *b = sharing_bench(modes[i]);
        devptr_t a = hinted(b, 512 * KiB);
        devptr_t other;
        uint64_t storage = fake_storage(b->fake, a);

        b->fake->fail_name = calls[i];
        b->fake->fail_at = 1;
        CHECK_EQ(pass_edge(b), 1);
        CHECK(b->fake->fired);
        CHECK_EQ(count_told(b, OUTCOME_REFUSED), 1);
        CHECK_EQ(b->last.ptr, a);
        CHECK(fake_is_accessible(b->fake, a, 512 * KiB));
        CHECK_EQ(bench_stats(b).limbo, 0);
        other = hinted(b, 512 * KiB);
        CHECK_NE(fake_storage(b->fake, other), storage);
        BENCH_CHECK(b);
        CHECK_EQ(bench_free(b, a), 0);
        give_back(b);
        CHECK_EQ(b->fake->mappings, 1);
        CHECK_EQ(fake_storage(b->fake, hinted(b, 512 * KiB)), storage);
        CHECK_EQ(bench_free(b, other), 0);
        bench_end(b);
    }
}

TEST(r31_on_a_full_device_parts_serve_after_the_first_epoch_that_frees_them)
{
    struct bench *b = bench_new(8 * UNIT);
    struct pool_ladder ladder = {0};
    struct tag tag = {.size = 512 * KiB, .anchor = 1, .path = "step"};
    struct pool_request request = bench_request(tag.size, 0);
    struct plan plan;
    devptr_t p[4], idle;
    uint64_t storage;

    share(b, HINT_LIVE);
    for (int i = 0; i < 4; i++)
        p[i] = hinted(b, 512 * KiB);
    storage = fake_storage(b->fake, p[0]);
    idle = bench_alloc(b, 3 * UNIT);
    REQUIRE(bench_alloc(b, b->fake->memory - b->fake->held) != 0);
    CHECK_EQ(bench_free(b, idle), 0); /* there is something to be trimmed */
    fake_drain(b->fake);
    REQUIRE_EQ(reclaim_poll(b->pool, -1, true), 0);
    for (unsigned i = 0; i < 2; i++) {
        fake_submit(b->fake, 1 + i, p[i], 512 * KiB);
        CHECK_EQ(bench_free(b, p[i]), 0);
        REQUIRE_EQ(reclaim_poll(b->pool, -1, true), 0); /* an epoch for each */
    }
    hint_plan(b->hints, &tag, &plan);
    request.plan = &plan;
    request.ladder = &ladder;
    CHECK_EQ(fake_storage(b->fake, bench_ask(b, &request)), storage);
    CHECK_EQ(ladder.waits, 1);
    CHECK_EQ(ladder.trims, 0);
    CHECK_EQ(b->fake->handles, 1);
    BENCH_CHECK(b);
    bench_end(b);
}

TEST(poison_is_put_into_one_block_alone)
{
    for (int written = 0; written < 2; written++) {
        struct bench *b = sharing_bench(HINT_POISON);
        devptr_t first = hinted(b, 512 * KiB);
        devptr_t a;

        CHECK_EQ(bench_free(b, first), 0);
        first = hinted(b, 512 * KiB); /* an offset for the next */
        a = hinted(b, 400 * KiB);
        CHECK_EQ(pass_edge(b), 2);
        CHECK_EQ(count_told(b, OUTCOME_HUSK), 2);
        fake_drain(b->fake);
        if (written)
            fake_submit(b->fake, 2, a + 100 * KiB, 512);
        CHECK_EQ(bench_free(b, a), 0);
        fake_drain(b->fake);
        CHECK_EQ(count_told(b, written ? OUTCOME_WRITTEN : OUTCOME_CLEAN), 1);
        CHECK_EQ(b->last.ptr, a);
        if (written)
            CHECK_EQ(b->last.rounded, 100 * KiB);
        CHECK_EQ(bench_free(b, first), 0);
        give_back(b);
        CHECK_EQ(count_told(b, OUTCOME_CLEAN), 1);
        CHECK_EQ(b->fake->held, 0);
        bench_end(b);
    }
}

TEST(a_handle_goes_back_with_its_last_block_and_not_before)
{
    struct bench *b = sharing_bench(HINT_LIVE);
    devptr_t p[4];

    for (int i = 0; i < 4; i++)
        p[i] = hinted(b, 512 * KiB);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(b->fake->held, UNIT);
        CHECK_EQ(bench_free(b, p[i]), 0);
        give_back(b);
    }
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

TEST(r84_no_answer_depends_on_what_is_released)
{
    const struct pool_memory memory = {
            .driver_free = 1 * GiB - UNIT, .total = 1 * GiB, .may_wait = true};
    struct bench *b = sharing_bench(HINT_LIVE);
    devptr_t p[4];
    uint64_t before;
    struct pool_stats stats;

    for (int i = 0; i < 4; i++)
        p[i] = hinted(b, 512 * KiB);
    before = pool_available(b->pool, 0, &memory);
    stats = bench_stats(b);
    CHECK_EQ(pass_edge(b), 4);
    CHECK_EQ(count_told(b, OUTCOME_HUSK), 4);
    CHECK_EQ(pool_available(b->pool, 0, &memory),
            before); /* the shelf would give it back: not free */
    CHECK_EQ(bench_stats(b).live_requested, stats.live_requested);
    CHECK_EQ(bench_stats(b).used, stats.used);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(bench_free(b, p[i]), 0);
    CHECK_EQ(pool_available(b->pool, 0, &memory), before + UNIT);
    for (int i = 0; i < 4; i++)
        p[i] = hinted(b, 512 * KiB);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(bench_free(b, p[i]), 0);
    CHECK_EQ(pool_available(b->pool, 0, &memory), before);
    CHECK_EQ(bench_free(b, p[3]), 0);
    CHECK_EQ(pool_available(b->pool, 0, &memory), before + UNIT);
    bench_end(b);
}

TEST(r88_many_small_dead_blocks_fit_a_device_that_could_not_hold_them)
{
    enum {
        STEPS = 16
    }; /* of 2 MiB of addresses: those of a heap are twice the memory */
    struct bench *b = bench_new(16 * MiB);
    uint64_t sum = 0;

    share(b, HINT_LIVE);
    for (int i = 0; i < STEPS; i++) { /* the program keeps all of them */
        devptr_t p = hinted(b, 1536 * KiB);

        REQUIRE(p != 0);
        CHECK(b->last.how & OUTCOME_HINTED);
        CHECK(fake_is_accessible(b->fake, p, 1536 * KiB));
        CHECK_EQ(pass_edge(b), 1);
        sum += 1536 * KiB;
    }
    CHECK_EQ(bench_stats(b).live_requested, sum); /* 24 MiB, as it sees it */
    CHECK_EQ(b->fake->held_high, UNIT);
    bench_end(b);
}

static void die(struct bench *b)
{
    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK_EQ(b->fake->held, 0);
    CHECK_EQ(b->fake->ranges, 0);
}

TEST(r30_a_dead_context_takes_shared_handles_along)
{
    for (int moment = 0; moment < 4; moment++) {
        struct bench *b = sharing_bench(HINT_LIVE);
        devptr_t a = hinted(b, 512 * KiB);

        CHECK_NE(hinted(b, 256 * KiB), 0);
        fake_submit(b->fake, 1, a, 1);
        if (moment > 0)
            CHECK_EQ(pass_edge(b), 2);
        if (moment > 1)
            CHECK_EQ(bench_free(b, a), 0);
        fake_drain(b->fake);
        if (moment == 3)
            CHECK_EQ(count_told(b, OUTCOME_HUSK), 1);
        die(b);
        CHECK_EQ(bench_free(b, a), -ENOENT);
        CHECK_EQ(bench_stats(b).limbo + bench_stats(b).husk + bench_stats(b).reserved, 0);
        BENCH_CHECK(b);
        bench_end(b);
    }
}

/* One round of what a program does; every result is possible, since a call of the driver fails somewhere. */
static void live_through(struct bench *b)
{
    devptr_t p[6];

    for (int i = 0; i < 6; i++) {
        p[i] = hinted(b, (uint64_t)(i + 1) * 200 * KiB);
        BENCH_CHECK(b);
        if (p[i])
            CHECK(fake_is_accessible(b->fake, p[i], (uint64_t)(i + 1) * 200 * KiB));
        if (i == 2)
            (void)pass_edge(b);
    }
    for (int i = 0; i < 6; i += 2)
        if (p[i])
            CHECK_EQ(bench_free(b, p[i]), 0);
    BENCH_CHECK(b);
    (void)pass_edge(b);
    (void)pool_poll(b->pool, true, NULL, 0, &(size_t){0});
    for (int i = 1; i < 6; i += 2)
        if (p[i])
            CHECK_EQ(bench_free(b, p[i]), 0);
    for (int i = 0; i < 6; i++)
        if (p[i])
            CHECK_NE(bench_free(b, p[i]), 0);
    give_back(b);
}

TEST(every_driver_call_may_fail)
{
    static const enum hint_mode modes[] = {HINT_LIVE, HINT_TRAP, HINT_POISON};

    for (int mode = 0; mode < 3; mode++)
        for (int code = 0; code < 2; code++)
            for (int n = 1;; n++) {
                struct bench *b = sharing_bench(modes[mode]);
                bool fired;

                b->fake->fail_at = n;
                b->fake->fail_code = code ? DRIVER_OUT_OF_MEMORY : FAKE_FAILURE;
                live_through(b);
                fired = b->fake->fired;
                b->fake->fail_at = 0;
                /* an access that is not taken away leaves its block as it is, as one on a handle of its own */
                if (!b->fake->lost && modes[mode] != HINT_TRAP)
                    CHECK_EQ(b->fake->held, 0);
                CHECK_EQ(bench_stats(b).live_requested, 0);
                bench_end(b);
                if (!fired)
                    break;
            }
}

struct own {
    devptr_t ptr;
    uint64_t size;
    uint64_t storage; /* 0 = released */
};

static bool is_disjoint(const struct own *own, const struct own *than)
{
    return !own->storage || !than->storage || own->storage + own->size <= than->storage
            || than->storage + than->size <= own->storage;
}

/* What is live and not released stands on bytes of its own, whatever came before, and at an address of its own. */
TEST(no_two_blocks_ever_have_the_same_bytes)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct bench *b = sharing_bench(HINT_LIVE);
        struct own own[MANY] = {{0}};
        uint64_t state = seed;

        for (int turn = 0; turn < 400; turn++) {
            struct own *at = &own[bench_random(&state, MANY)];

            if (bench_random(&state, 12) == 0) {
                (void)pass_edge(b);
                for (int i = 0; i < MANY; i++)
                    own[i].storage = 0;
            }
            if (bench_random(&state, 5) == 0)
                (void)fake_step(b->fake, 1 + bench_random(&state, 4));
            if (at->ptr) {
                if (at->storage)
                    fake_submit(b->fake, 1 + bench_random(&state, 4), at->ptr, at->size);
                else
                    CHECK_EQ(bench_free(b, at->ptr), 0);
                if (!at->storage)
                    at->ptr = 0;
                continue;
            }
            at->size = (1 + bench_random(&state, 30)) * 64 * KiB;
            at->ptr = hinted_on(b, at->size, bench_random(&state, 4));
            REQUIRE(at->ptr != 0);
            at->storage = fake_storage(b->fake, at->ptr);
            for (int i = 0; i < MANY; i++)
                CHECK(&own[i] == at || is_disjoint(&own[i], at));
            if (turn % 50 == 0)
                BENCH_CHECK(b);
        }
        for (int i = 0; i < MANY; i++)
            if (own[i].ptr)
                CHECK_EQ(bench_free(b, own[i].ptr), 0);
        give_back(b);
        CHECK_EQ(b->fake->held, 0);
        bench_end(b);
    }
}

TEST(r110_one_past_a_small_block_is_nobodys)
{
    struct bench *b = sharing_bench(HINT_LIVE);
    devptr_t p[16];

    for (int i = 0; i < 16; i++) /* at all places of handles, the last ones as well */
        p[i] = hinted(b, (uint64_t)(i % 3 + 1) * 256 * KiB);
    for (int i = 0; i < 16; i++) {
        CHECK(is_nobodys(b, p[i] - 1));
        CHECK(is_nobodys(b, p[i] + (uint64_t)(i % 3 + 1) * 256 * KiB));
    }
    for (int i = 0; i < 16; i++)
        CHECK_EQ(bench_free(b, p[i * 3 % 16]), 0);
    give_back(b);
    bench_end(b);
}

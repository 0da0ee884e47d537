/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
#include "tests/check.h"
#include "tests/unit/alloc/hinted.h"
#include "tests/unit/alloc/ordered.h"
#include "tests/unit/alloc/pool_model.h"
#include "tests/unit/alloc/swapped.h"

#include "alloc/base/mutation.h"

uint64_t pool_mutations;

/* The protections one by one: without any of them the same programs must be seen to break (R4, R70, R66). */
static void check_mutation(uint64_t mutations)
{
    struct model_floors floors = {0};

    pool_mutations = mutations;
    for (uint64_t seed = 1; seed <= 120 && floors.violations == 0; seed++)
        model_run_seed(seed, true, &floors);
    model_print(&floors);
    CHECK_GT(floors.violations, 0);
}

TEST(without_fences_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_FENCE);
}

TEST(without_the_grace_period_the_device_faults)
{
    check_mutation(POOL_MUTATE_GRACE);
}

TEST(without_one_point_of_a_set_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_DROP);
}

TEST(without_the_wait_what_others_have_freed_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_ADOPT);
}

TEST(with_one_wait_for_all_that_comes_later_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_BEHIND);
}

TEST(with_an_event_for_what_is_freed_behind_it_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_SPLIT);
}

TEST(with_the_lesser_point_of_joined_blocks_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_LEAST);
}

TEST(with_no_point_for_what_is_cut_off_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_CUT);
}

TEST(with_the_old_point_for_what_a_stream_has_taken_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_TAKEN);
}

/* wait: event: storage goes while the call that was the event still uses it. */
TEST(without_the_fence_of_an_event_the_device_faults)
{
    static const struct edge use = {.kind = EDGE_CALL, .call = 1, .path = ""};
    struct rule rule = {.action = ACTION_RELEASE,
            .mode = HINT_LIVE,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1, .use.call = 1},
            .when = {.kind = EDGE_CALL, .call = 2, .count = 1, .from = RULE_FROM_USE},
            .wait = RULE_WAIT_EVENT};

    for (int fenced = 0; fenced < 2; fenced++) {
        struct edge event = {.kind = EDGE_CALL, .call = 2, .path = "", .stream = 3};
        struct bench *b = bench_new(1 * GiB);
        struct outcome told;
        devptr_t block;
        size_t count;

        pool_mutations = fenced ? 0 : POOL_MUTATE_FENCE;
        bench_rules(b, &rule, 1);
        block = hinted(b, 4 * MiB);
        CHECK(pool_use(b->pool, block, &use, 0, &told));
        fake_submit(b->fake, 3, block, 4 * MiB);
        REQUIRE_EQ(pool_edge(b->pool, &event, &told, 1, &count), 0);
        CHECK_EQ(count, 1);
        (void)pool_poll(b->pool, true, &told, 0, &count);
        fake_drain(b->fake);
        CHECK_EQ(b->fake->faults, fenced ? 0 : 1);
        b->fake->faults = 0;
        pool_mutations = 0;
        bench_end(b);
    }
}

/* do: hold: what the edge lets go is handed out while the call that is the edge is still on its way. */
TEST(without_the_grace_period_what_is_let_go_is_another_tenants_at_once)
{
    struct rule rule = {.action = ACTION_HOLD,
            .mode = HINT_LIVE,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_EXIT}};

    for (int graced = 0; graced < 2; graced++) {
        struct bench *b = bench_new(64 * MiB);
        devptr_t block;

        pool_mutations = graced ? 0 : POOL_MUTATE_GRACE;
        bench_rules(b, &rule, 1);
        block = hinted(b, 40 * MiB);
        CHECK_EQ(bench_free(b, block), 0);
        fake_reader_enter(b->fake, 4);
        CHECK_EQ(pass_edge(b), 1);
        CHECK_EQ(bench_alloc(b, 40 * MiB), graced ? 0 : block);
        fake_reader_leave(b->fake, 4);
        pool_mutations = 0;
        bench_end(b);
    }
}

/* ---- blocks that go out and come in ---- */

#define BLOCK (16 * MiB)

/* Two blocks of which one may be in; each has content. */
static struct swapped *two_blocks(void)
{
    struct rule rule = swapped_rule(BLOCK);
    struct swapped *s = swapped_new(4 * GiB, &rule);

    for (int n = 1; n >= 0; n--) {
        REQUIRE(swapped_make(s, n, BLOCK, 0));
        REQUIRE_EQ(swapped_use(s, 1, n), 0);
    }
    fake_drain(s->b->fake);
    return s;
}

/* The one that is in is written late, and goes out. */
static void write_late(struct swapped *s)
{
    for (int i = 0; i < 8; i++)
        (void)fake_submit(s->b->fake, 3, 0, 0); /* other work before it */
    REQUIRE_EQ(swapped_use(s, 3, 0), 0);
    REQUIRE_EQ(swapped_use(s, 1, 1), 0);
}

/* It goes out while nothing uses it, and is read again. */
static void come_back(struct swapped *s)
{
    REQUIRE_EQ(swapped_use(s, 1, 1), 0);
    fake_drain(s->b->fake);
    REQUIRE_EQ(swapped_read(s, 1, 0), 0);
}

/* The stream that reads what has come in is faster than the copy. */
static void read_early(struct swapped *s)
{
    REQUIRE_EQ(swapped_use(s, 1, 1), 0);
    fake_drain(s->b->fake);
    REQUIRE_EQ(swapped_read(s, 2, 0), 0);
    while (fake_step(s->b->fake, 2))
        ;
}

/* Another call needs the room while a call is on its way. */
static void stand_before_the_driver(struct swapped *s)
{
    static const int first = 0;
    struct pool_call call = {.stream = 2};

    REQUIRE_EQ(swapped_begin(s, &call, &first, 1, false), 0);
    (void)swapped_use(s, 1, 1);
    fake_check(s->b->fake, 2, s->block[0], s->value[0]);
    swapped_end_call(s, &call);
    fake_drain(s->b->fake);
    REQUIRE_EQ(swapped_use(s, 1, 1), 0);
}

/* With the mutation something is seen to break; without it nothing is, and blocks have moved. */
static void check_eviction(uint32_t mutations, void (*scenario)(struct swapped *s))
{
    for (int whole = 0; whole < 2; whole++) {
        struct swapped *s = two_blocks();
        struct fake_driver *fake = s->b->fake;

        pool_mutations = whole ? 0 : mutations;
        scenario(s);
        fake_drain(fake);
        printf("%s: outs %llu ins %llu waits %llu: faults %llu wrong %llu\n",
                whole ? "whole" : "without", (unsigned long long)fake->outs,
                (unsigned long long)fake->ins,
                (unsigned long long)(fake->waits + fake->stream_waits),
                (unsigned long long)fake->faults, (unsigned long long)fake->wrong);
        CHECK_EQ(fake->faults + fake->wrong > 0, !whole);
        CHECK(fake->outs > 0 && fake->ins > 0 && fake->waits + fake->stream_waits > 0);
        fake->faults = fake->wrong = 0;
        pool_mutations = 0;
        swapped_end(s);
    }
}

TEST(without_the_fences_of_its_streams_a_block_goes_out_under_them)
{
    check_eviction(POOL_MUTATE_USES, write_late);
}

TEST(without_the_wait_for_its_copy_storage_goes_with_the_content)
{
    check_eviction(POOL_MUTATE_COPY, come_back);
}

TEST(without_the_wait_for_what_comes_in_a_stream_reads_what_was_there_before)
{
    check_eviction(POOL_MUTATE_ARRIVE, read_early);
}

TEST(without_a_hold_a_block_goes_out_while_its_call_is_on_its_way)
{
    check_eviction(POOL_MUTATE_STAY, stand_before_the_driver);
}

/* ---- storage that moves before the device has left it ---- */

/* With the mutation something is seen to break on the device; without it nothing is, and storage has moved. */
static void check_aliases(uint32_t mutations)
{
    for (int whole = 0; whole < 2; whole++) {
        uint64_t aliased = 0;
        uint64_t wrong = 0;

        for (uint64_t seed = 1; seed <= 20 && (whole || !wrong); seed++) {
            struct bench *b = ordered_bench(1 * GiB, POOL_REMAP_EAGER, 0, true);
            struct ordered o;

            pool_mutations = whole ? 0 : mutations;
            ordered_init(&o, b, seed);
            ordered_run(&o, 300, 2);
            wrong += ordered_finish(&o);
            aliased += bench_stats(b).granules_aliased;
            pool_mutations = 0;
            fake_free(
                    b->fake); /* what is left of the pool is not looked at: its books are as wrong as its memory */
            free(b);
        }
        printf("%s: aliased %llu: wrong %llu\n", whole ? "whole" : "without",
                (unsigned long long)aliased, (unsigned long long)wrong);
        CHECK_EQ(wrong > 0, !whole);
        CHECK_GT(aliased, 0);
    }
}

TEST(without_order_two_tenants_have_one_storage_at_once)
{
    check_aliases(POOL_MUTATE_ALIAS);
}

TEST(with_its_old_address_used_at_once_storage_has_two_tenants)
{
    check_aliases(POOL_MUTATE_VACATE);
}

TEST(without_the_fence_an_old_address_goes_under_the_device)
{
    check_aliases(POOL_MUTATE_UNMAP);
}

TEST(without_gaps_the_end_of_a_block_is_another_one)
{
    for (int whole = 0; whole < 2; whole++) {
        struct bench *b;
        devptr_t first;

        pool_mutations = whole ? 0 : POOL_MUTATE_GAP;
        b = hinted_bench(1 * GiB, HINT_LIVE);
        first = hinted(b, 4 * MiB);
        (void)hinted(b, 4 * MiB);
        CHECK_EQ(is_nobodys(b, first + 4 * MiB), whole);
        bench_end(b);
    }
}

/* SPDX-License-Identifier: MIT */
/* covers: vacate.c */
/* Storage is mapped at a new place before the device has left the old one, and nothing gets there too early. */
#include "tests/unit/alloc/layout.h"
#include "tests/unit/alloc/ordered.h"

#include "alloc/storage/vacate.h"

#define SLOT ORDERED_SLOT

/* Pairs of blocks on stream 1, of which the first are freed while the device has not begun: each 4 slots. */
struct holes {
    struct ordered o;
    struct ordered_block gone[3], stay[3], big;
    devptr_t lo[3];
};

static void dig(struct holes *h, struct bench *b)
{
    ordered_init(&h->o, b, 1);
    for (int i = 0; i < 3; i++) {
        ordered_take(&h->o, &h->gone[i], 4, 1);
        ordered_take(&h->o, &h->stay[i], 1, 1);
        h->lo[i] = h->gone[i].ptr;
    }
    for (int i = 0; i < 3; i++)
        ordered_give(&h->o, &h->gone[i]);
}

static bool is_in_hole(const struct holes *h, devptr_t ptr)
{
    for (int i = 0; i < 3; i++) {
        if (ptr - h->lo[i] < 4 * SLOT)
            return true;
    }
    return false;
}

static void fill(struct holes *h)
{
    struct bench *b = h->o.b;

    ordered_give(&h->o, &h->big);
    for (int i = 0; i < 3; i++)
        ordered_give(&h->o, &h->stay[i]);
    CHECK_EQ(ordered_finish(&h->o), 0);
    BENCH_CHECK(b);
    bench_end(b);
}

static struct bench *eager(void)
{
    return ordered_bench(1 * GiB, POOL_REMAP_EAGER, 0, true);
}

TEST(r95_storage_moves_before_the_device_has_left_it)
{
    struct bench *b = eager();
    struct holes h = {0};
    uint64_t held;

    dig(&h, b);
    held = b->fake->held;
    ordered_take(&h.o, &h.big, 12, 1);
    CHECK_NE(h.big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_aliased, 12);
    CHECK_EQ(bench_stats(b).granules_moved, 12);
    CHECK_EQ(bench_stats(b).host_waits, 0); /* R73 */
    CHECK_EQ(b->fake->held, held);
    CHECK_EQ(bench_stats(b).reserved, held);
    CHECK_EQ(b->fake->unmaps, 0);
    CHECK_EQ(b->fake->mappings, held / SLOT + 12);
    BENCH_CHECK(b);
    fill(&h);
}

TEST(r95_a_lazy_heap_stays_in_its_budget_on_a_late_device)
{
    struct holes h = {0};
    struct bench *b = ordered_bench(1 * GiB, POOL_REMAP_LAZY, 15 * SLOT, true);

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    CHECK_EQ(b->fake->held_high, 15 * SLOT);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    fill(&h);
}

TEST(r95_on_a_full_device_too)
{
    struct holes h = {0};
    struct bench *b = ordered_bench(15 * SLOT, POOL_REMAP_LAZY, 1 * GiB, true);

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    CHECK_NE(h.big.ptr, 0);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    fill(&h);
}

/* A handle does not go back while a vacated slot maps it: what only waits for that is waited for before a request is refused. */
TEST(r73_r95_a_full_device_waits_for_vacated_slots)
{
    struct bench *b = ordered_bench(15 * SLOT, POOL_REMAP_LAZY, 1 * GiB, true);
    struct holes h = {0};
    devptr_t big;

    dig(&h, b);
    big = bench_alloc_on(b, 12 * SLOT, 1);
    CHECK_EQ(bench_stats(b).granules_aliased, 12);
    CHECK_EQ(bench_free_on(b, big, 2), 0); /* nothing is pending there */
    b->fake->hangs = false;
    big = bench_alloc(b, 12 * SLOT);
    CHECK_NE(big, 0);
    CHECK_EQ(b->fake->held, 15 * SLOT);
    CHECK_EQ(b->fake->mappings, 3);
    CHECK_EQ(bench_free(b, big), 0);
    fill(&h);
}

TEST(r95_nothing_is_placed_at_the_old_address_before_the_device_has_left_it)
{
    struct bench *b = eager();
    struct ordered_block next[6];
    struct holes h = {0};

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    for (int i = 0; i < 6; i++) {
        ordered_take(&h.o, &next[i], 2, 1 + (uint64_t)i % 3);
        CHECK(next[i].ptr && !is_in_hole(&h, next[i].ptr));
    }
    CHECK_EQ(b->fake->unmaps, 0);
    fake_drain(b->fake);
    for (int i = 0; i < 6; i++)
        ordered_give(&h.o, &next[i]);
    fake_drain(b->fake);
    ordered_take(&h.o, &next[0], 16, 2); /* the pool looks at what has passed */
    CHECK_GE(b->fake->unmaps, 12);
    CHECK_EQ(b->fake->mappings * SLOT, b->fake->held);
    ordered_give(&h.o, &next[0]);
    fake_drain(b->fake);
    ordered_take(&h.o, &next[0], 4, 1);
    fill(&h);
}

/* Within the budget no stream is made to wait for it, whatever the mode. */
TEST(r72_another_stream_does_not_get_it_while_the_budget_has_room)
{
    struct bench *b = ordered_bench(1 * GiB, POOL_REMAP_EAGER, 1 * GiB, true);
    struct holes h = {0};

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 2);
    CHECK_NE(h.big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->stream_waits, 0);
    fill(&h);
}

TEST(r72_another_stream_gets_it_behind_one_wait)
{
    struct bench *b = ordered_bench(1 * GiB, POOL_REMAP_LAZY, 15 * SLOT, true);
    struct holes h = {0};

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 2);
    CHECK_NE(h.big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_aliased, 12);
    CHECK(b->last.how & OUTCOME_ORDERED);
    CHECK_EQ(bench_stats(b).inserted_waits, 1);
    CHECK_EQ(b->fake->stream_waits, 1);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    CHECK_EQ(b->fake->held, 15 * SLOT);
    while (fake_step(b->fake, 2))
        ;
    CHECK_EQ(b->fake->wrong, 0); /* nothing of it has run */
    fill(&h);
}

/* What the request leaves of a slot is free behind the wait, not at once. */
TEST(r70_what_is_left_of_such_a_slot_is_behind_the_wait_too)
{
    struct bench *b = ordered_bench(1 * GiB, POOL_REMAP_LAZY, 15 * SLOT, true);
    struct holes h = {0};
    struct pool_request request = bench_request(11 * SLOT + SLOT / 2, 2);
    devptr_t most;

    dig(&h, b);
    most = bench_ask(b, &request);
    CHECK_NE(most, 0);
    CHECK_EQ(b->fake->stream_waits, 1);
    /* its own stream has that for nothing, a third one behind a wait of its own */
    CHECK_EQ(bench_alloc_on(b, SLOT / 4, 2) - most, 11 * SLOT + SLOT / 2);
    CHECK_EQ(b->fake->stream_waits, 1);
    CHECK_EQ(bench_alloc_on(b, SLOT / 4, 3) - most, 11 * SLOT + 3 * SLOT / 4);
    CHECK_EQ(b->fake->stream_waits, 2);
    CHECK(fake_is_ordered(b->fake, 1, fake_clock(b->fake).at[1], 3));
    fill(&h);
}

TEST(r72_no_wait_is_inserted_where_the_program_forbids_it)
{
    struct bench *b = ordered_bench(1 * GiB, POOL_REMAP_LAZY, 15 * SLOT, true);
    struct pool_heap_attrs attrs = {.reuse_opportunistic = true};
    struct holes h = {0};

    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 2);
    CHECK_NE(h.big.ptr, 0);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->stream_waits, 0);
    fill(&h);
}

TEST(with_alias_off_storage_waits_for_the_device)
{
    struct bench *b = ordered_bench(1 * GiB, POOL_REMAP_EAGER, 0, false);
    struct holes h = {0};

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(b->fake->aliases, 0);
    fill(&h);
}

TEST(a_device_that_refuses_a_second_mapping_is_asked_once)
{
    struct bench *b = eager();
    struct holes h = {0};

    dig(&h, b);
    b->fake->no_aliases = true;
    ordered_take(&h.o, &h.big, 12, 1);
    CHECK_NE(h.big.ptr, 0);
    CHECK_EQ(b->fake->refused, 1);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    CHECK_EQ(bench_stats(b).free, 12 * SLOT); /* what was tried is free again */
    BENCH_CHECK(b);
    ordered_give(&h.o, &h.big);
    ordered_take(&h.o, &h.big, 25, 1);
    CHECK_NE(h.big.ptr, 0);
    CHECK_EQ(b->fake->refused, 1);
    fill(&h);
}

/* What was mapped by alias and freed again moves on, while its first address is still the device's. */
TEST(r95_storage_moves_on_from_alias_to_alias)
{
    struct bench *b = eager();
    struct holes h = {0};
    struct ordered_block wall;

    dig(&h, b);
    for (uint64_t slots = 12; slots < 16; slots++) {
        ordered_take(&h.o, &h.big, slots, 1);
        ordered_take(&h.o, &wall, 1, 1);
        ordered_give(&h.o, &h.big);
        BENCH_CHECK(b);
    }
    CHECK_EQ(bench_stats(b).granules_aliased, 12 + 12 + 13 + 14);
    CHECK_EQ(bench_stats(b).host_waits, 0);
    fake_drain(b->fake);
    fill(&h);
}

TEST(r78_after_a_wait_of_the_program_all_of_it_goes_back)
{
    struct bench *b = eager();
    struct holes h = {0};

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    ordered_give(&h.o, &h.big);
    b->fake->hangs = false;
    fake_drain(b->fake);
    pool_synchronised(b->pool);
    CHECK_EQ(b->fake->held, 3 * SLOT);
    CHECK_EQ(b->fake->mappings, 3);
    fill(&h);
}

/* Its points never come, so it waits for an epoch. */
TEST(r05_old_addresses_of_a_stream_that_is_lost_wait_for_all)
{
    struct bench *b = eager();
    struct holes h = {0};
    struct outcome told;
    size_t count;

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    pool_stream_lost(b->pool, 1);
    BENCH_CHECK(b);
    (void)pool_poll(b->pool, true, &told, 0, &count);
    CHECK_EQ(b->fake->unmaps, 0);
    (void)bench_alloc_on(b, SLOT, 2); /* closes an epoch */
    CHECK_EQ(b->fake->unmaps, 0);
    fake_drain(b->fake);
    (void)bench_alloc_on(b, SLOT, 2);
    CHECK_EQ(b->fake->unmaps, 12);
    BENCH_CHECK(b);
    fill(&h);
}

/* Three holes of four slots have given theirs. */
static void check_calls(bool singly, uint64_t calls)
{
    struct bench *b = eager();
    struct holes h = {0};

    dig(&h, b);
    b->fake->no_runs = singly;
    ordered_take(&h.o, &h.big, 12, 1);
    fake_drain(b->fake);
    (void)bench_alloc_on(b, SLOT, 2);
    CHECK_EQ(b->fake->unmaps, 12);
    CHECK_EQ(b->fake->unmap_calls, calls);
    lock_take(&b->pool->lock); /* the last request has one of them, the others are to be had */
    CHECK_EQ(layout_heap(b->pool)->decommitted.bytes, 11 * SLOT);
    lock_drop(&b->pool->lock);
    BENCH_CHECK(b);
    fill(&h);
}

TEST(old_addresses_side_by_side_go_in_one_call)
{
    check_calls(false, 3);
    check_calls(true, 15);
}

TEST(r76_a_heap_that_leaves_waits_for_the_old_addresses)
{
    struct bench *b = eager();
    struct holes h = {0};
    struct outcome told;
    size_t count;

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    for (int i = 0; i < 3; i++)
        ordered_give(&h.o, &h.stay[i]);
    ordered_give(&h.o, &h.big);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(b->fake->unmaps, 0);
    BENCH_CHECK(b);
    fake_drain(b->fake);
    for (int i = 0; i < 3; i++)
        (void)pool_poll(b->pool, true, &told, 0, &count);
    CHECK_EQ(b->fake->mappings, 0);
    CHECK_EQ(b->fake->held, 0);
    fill(&h);
}

TEST(r66_no_address_goes_under_a_submission)
{
    struct bench *b = eager();
    struct holes h = {0};
    struct ordered_block next;

    dig(&h, b);
    ordered_take(&h.o, &h.big, 12, 1);
    fake_drain(b->fake);
    fake_reader_enter(b->fake, 3);
    ordered_take(&h.o, &next, 20, 1);
    CHECK_EQ(b->fake->unmaps, 0);
    fake_reader_leave(b->fake, 3);
    ordered_give(&h.o, &next);
    ordered_take(&h.o, &next, 30, 1);
    CHECK_GE(b->fake->unmaps, 12);
    ordered_give(&h.o, &next);
    fill(&h);
}

TEST(r82_nothing_moves_by_alias_where_no_driver_call_may_be_made)
{
    struct bench *b = eager();
    struct pool_request request = bench_request(12 * SLOT, 1);
    struct holes h = {0};
    uint64_t calls;

    dig(&h, b);
    calls = b->fake->calls;
    request.may_call = request.may_fence = request.may_wait = false;
    CHECK_EQ(bench_ask(b, &request), 0);
    CHECK_EQ(b->fake->calls, calls);
    fill(&h);
}

static void check_pinned(enum pool_pin kind)
{
    struct bench *b = eager();
    struct pool_pinned pinned;
    struct pool_hit touched;
    struct holes h = {0};
    struct ordered_block shown;

    ordered_init(&h.o, b, 1);
    ordered_take(&h.o, &shown, 4, 1);
    REQUIRE_EQ(pool_pin(b->pool, shown.ptr, SLOT, kind, &pinned, &touched), 0);
    ordered_give(&h.o, &shown);
    ordered_take(&h.o, &h.big, 12, 1);
    CHECK_EQ(bench_stats(b).granules_moved, 0);
    fill(&h);
}

TEST(r80_storage_of_what_was_shown_does_not_move_by_alias)
{
    check_pinned(POOL_PIN_SHOWN);
}

TEST(r80_storage_of_what_a_graph_names_does_not_move_by_alias)
{
    check_pinned(POOL_PIN_GRAPH);
}

/* ── random programs ── */

struct floors {
    uint64_t aliased, moved, unmapped, most_waiting, waits, refused;
};

static void play(struct bench *b, uint64_t seed, struct floors *floors)
{
    struct ordered o;

    ordered_init(&o, b, seed);
    for (int part = 0; part < 8; part++) {
        ordered_run(&o, 60, seed % 4);
        BENCH_CHECK(b);
        floors->most_waiting =
                max_of(floors->most_waiting, b->fake->mappings - b->fake->held / SLOT);
    }
    CHECK_EQ(ordered_finish(&o), 0);
    floors->aliased += bench_stats(b).granules_aliased;
    floors->moved += bench_stats(b).granules_moved;
    floors->unmapped += b->fake->unmaps;
    floors->waits += bench_stats(b).inserted_waits;
    floors->refused += o.refused;
}

TEST(r95_random_programs_on_three_streams_keep_their_data)
{
    struct floors floors = {0};

    for (uint64_t seed = 1; seed <= 60 && !atomic_load(&check_state.failures); seed++) {
        struct bench *b = ordered_bench(1 * GiB, seed % 2 ? POOL_REMAP_EAGER : POOL_REMAP_LAZY,
                seed % 2 ? 0 : 32 * SLOT, true);

        play(b, seed, &floors);
        bench_end(b);
        if (atomic_load(&check_state.failures))
            printf("    seed %llu\n", (unsigned long long)seed);
    }
    printf("aliased %llu moved %llu unmapped %llu, waits inserted %llu, at most %llu old addresses "
           "at "
           "once\n",
            (unsigned long long)floors.aliased, (unsigned long long)floors.moved,
            (unsigned long long)floors.unmapped, (unsigned long long)floors.waits,
            (unsigned long long)floors.most_waiting);
    CHECK_EQ(floors.refused, 0);
    CHECK_GT(floors.aliased, 3000);
    CHECK_GT(floors.moved, floors.aliased);
    CHECK_GT(floors.waits, 300);
    CHECK_GT(floors.most_waiting, 20);
}

/* ── failures ── */

/* The n-th call of a name fails, for every n; NULL = of any name. `singly`: the driver unmaps one mapping at a time. */
static void fail_each(const char *name, int code, uint64_t lag, bool singly)
{
    uint64_t aliased = 0;
    int calls = 0;

    FAIL_NTH(n, fired)
    {
        struct bench *b = eager();
        struct ordered o;

        b->fake->no_runs = singly;
        b->fake->fail_name = name;
        b->fake->fail_code = code;
        b->fake->fail_at = n;
        ordered_init(&o, b, 5);
        ordered_run(&o, 70, lag);
        fired = b->fake->fired;
        b->fake->fail_at = 0;
        BENCH_CHECK(b);
        CHECK_EQ(ordered_finish(&o), 0);
        aliased += bench_stats(b).granules_aliased;
        bench_end(b);
        calls = n;
        if (atomic_load(&check_state.failures)) {
            printf("    call %d of %s with %d\n", n, name ? name : "any", code);
            return;
        }
    }
    printf("%s: %d calls, %llu granules by alias\n", name ? name : "any", calls - 1,
            (unsigned long long)aliased);
    CHECK_GT(calls, 1);
    CHECK_GT(aliased, 0);
}

TEST(r95_no_byte_is_lost_when_a_map_fails)
{
    fail_each("map", FAKE_FAILURE, 1, false);
    fail_each("map", DRIVER_OUT_OF_MEMORY, 1, false);
    fail_each("map", -EBUSY, 1, false);
}

TEST(r95_no_byte_is_lost_when_an_unmap_fails)
{
    fail_each("unmap", FAKE_FAILURE, 5, false);
    fail_each("unmap", -ECANCELED, 5, false);
    fail_each("unmap", FAKE_FAILURE, 5, true);
}

TEST(r95_no_byte_is_lost_when_a_set_access_fails)
{
    fail_each("set_access", FAKE_FAILURE, 1, false);
}

TEST(r95_no_byte_is_lost_when_any_call_fails)
{
    fail_each(NULL, FAKE_FAILURE, 1, false);
    fail_each(NULL, DRIVER_OUT_OF_MEMORY, 1, false);
    fail_each(NULL, -EBUSY, 1, false);
}

/* SPDX-License-Identifier: MIT */
/* covers: trim.c */
/* What goes back to the driver, in which order and in which pieces. */
#include "alloc/heap/handles.h"
#include "alloc/storage/grow.h"
#include "alloc/storage/trim.h"
#include "tests/unit/alloc/layout.h"

static struct {
    struct bench *bench;
    unsigned seen; /* frees of segments during which the address was still looked up as ours */
    unsigned frees;
    int (*real)(void *self, devptr_t ptr, uint64_t size);
} late;

static int free_and_look(void *self, devptr_t ptr, uint64_t size)
{
    struct block_info info;

    late.frees++;
    late.seen += pool_find(late.bench->pool, ptr, &info) == 0;
    return late.real(self, ptr, size);
}

/* Once the driver has an address back, somebody else may have it: it is forgotten before, whoever gives it back. */
TEST(r26_addresses_are_forgotten_before_the_driver_has_them_back)
{
    struct fake_driver *fake = fake_new(1 * GiB);
    struct bench *b;
    devptr_t ptr;

    late.real = fake->driver.address_free;
    fake->driver.address_free = free_and_look;
    b = bench_over(fake, NULL);
    late.bench = b;
    ptr = bench_alloc_on(b, 8 * MiB, 1);
    CHECK_EQ(bench_free_on(b, ptr, 1), 0);
    fake_drain(b->fake);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(late.frees, 1);
    CHECK_EQ(late.seen, 0);
    bench_end(b);
}

/* ── how much ── */

TEST(at_least_so_much_goes_or_strictly_at_most)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct layout layout = layout_new(seed, 1 * GiB, NULL, false);
        struct bench *b = layout.b;
        struct pool *pool = layout.pool;
        uint64_t slot = 2 * MiB;

        layout_ask(&layout);
        for (uint64_t bytes = 1 * MiB; bytes <= 9 * MiB; bytes += 1 * MiB) {
            bool strictly = bytes % slot == 0 || seed % 2;
            uint64_t held = b->fake->held;
            struct heap *heap;
            uint64_t there, given;

            lock_take(&pool->lock);
            heap = layout_heap(pool);
            there = layout_clean_slots(pool, heap);
            lock_drop(&pool->lock);
            given = strictly ? trim_heap(pool, heap, bytes) : trim_at_wait(pool, heap, bytes);
            CHECK_EQ(given, min_of(there, strictly ? bytes & ~(slot - 1) : round_up(bytes, slot)));
            CHECK_EQ(b->fake->held, held - given);
            BENCH_CHECK(b);
        }
        for (int i = 0; i < LAYOUT_BLOCKS; i++)
            CHECK(!layout.blocks[i].ptr || fake_is_accessible(b->fake, layout.blocks[i].ptr, 512));
        layout_end(&layout);
    }
}

TEST(slots_side_by_side_go_in_one_call)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc_on(b, 8 * MiB, 1);

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(pool_trim_device(b->pool, 0, true), 8 * MiB);
    CHECK_EQ(b->fake->unmap_calls, 1);
    CHECK_EQ(b->fake->unmaps, 4);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

/* ── what the driver refuses ── */

/* The block that it is a slot of stays where it is for good, counted; the next trim takes the other blocks. */
TEST(a_slot_that_cannot_be_unmapped_is_kept_and_counted)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc_on(b, 8 * MiB, 1);
    devptr_t c;

    CHECK_NE(bench_alloc_on(b, 2 * MiB, 1), 0);
    c = bench_alloc_on(b, 4 * MiB, 1);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    b->fake->no_runs = true;
    b->fake->fail_name = "unmap";
    b->fake->fail_at = 2; /* of both, of the first */
    b->fake->fail_code = FAKE_FAILURE;
    (void)pool_trim_device(b->pool, 0, true);
    CHECK(b->fake->fired);
    CHECK_EQ(bench_stats(b).quarantined, 4 * MiB); /* the highest is the first to go */
    BENCH_CHECK(b);
    (void)pool_trim_device(b->pool, 0, true);
    CHECK_EQ(bench_stats(b).free, 0);
    CHECK_EQ(b->fake->held, 6 * MiB);
    CHECK_EQ(bench_stats(b).reserved, b->fake->held);
    bench_end(b);
}

/* What was unmapped before the driver refused goes back at once: on a full device nobody trims again. */
TEST(r31_no_handle_stays_on_the_shelf_where_the_next_cannot_be_unmapped)
{
    struct bench *b = bench_new(64 * MiB);
    devptr_t a = bench_alloc_on(b, 8 * MiB, 1);

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    b->fake->no_runs = true;
    b->fake->fail_name = "unmap";
    b->fake->fail_at = 4; /* of all four, of the first, of the second, of the third */
    b->fake->fail_code = FAKE_FAILURE;
    CHECK_EQ(pool_trim_device(b->pool, 0, true), 4 * MiB);
    CHECK(b->fake->fired);
    CHECK_EQ(bench_heap_stats(b).cached, 0);
    CHECK_EQ(b->fake->held, 4 * MiB);
    CHECK_EQ(bench_stats(b).quarantined, 8 * MiB);
    bench_end(b);
}

/* The heap's own slots are moved instead; what others hold goes. */
TEST(a_request_keeps_the_slots_of_its_heap)
{
    struct bench *b = bench_with_budget(64 * MiB, 64 * MiB);
    struct pool *pool = b->pool;
    struct pool_request other = bench_request(6 * MiB, 1);
    struct heap *heap;

    other.owner = BENCH_POOL + 1;
    CHECK_NE(bench_ask(b, &other), 0);
    CHECK_EQ(bench_free_on(b, b->last.ptr, 1), 0);
    CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 8 * MiB, 1), 1), 0);
    CHECK_EQ(bench_free(b, bench_alloc(b, 10 * MiB)), 0);
    CHECK_EQ(reclaim_poll(pool, -1, true), 0);
    CHECK_EQ(reclaim_device_points(pool, 0), 0);
    lock_take(&pool->lock);
    heap = layout_heap(pool);
    lock_drop(&pool->lock);
    CHECK_EQ(trim_for(pool, heap, UINT64_MAX), 16 * MiB);
    CHECK_EQ(b->fake->held, 8 * MiB);
    CHECK_EQ(bench_heap_stats(b).cached, 0); /* and stay where they are */
    CHECK_EQ(trim_device(pool, 0, UINT64_MAX), 8 * MiB);
    CHECK_EQ(trim_device(pool, POOL_DEVICES_MAX, UINT64_MAX), 0);
    bench_end(b);
}

/* The driver would not have the memory of a handle back that is still mapped elsewhere; that of the others it has. */
TEST(a_handle_of_a_vacated_slot_does_not_hold_up_the_others)
{
    struct bench *b = bench_new(64 * MiB);
    struct pool *pool = b->pool;
    struct vacated *vacated;
    struct heap *heap;
    uint64_t handle;

    CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 2 * MiB, 1), 1), 0);
    fake_drain(b->fake);
    lock_take(&pool->lock);
    heap = layout_heap(pool);
    lock_drop(&pool->lock);
    for (int i = 0; i < 3; i++) {
        REQUIRE_EQ(grow_handle(pool, heap, 2 * MiB, &handle), 0);
        trim_put_handle(pool, heap, 2 * MiB, handle);
    }
    lock_take(&pool->lock); /* the one that would be taken next */
    vacated = table_add(&heap->vacated_handles, handle);
    lock_drop(&pool->lock);
    REQUIRE(vacated != NULL);
    CHECK_EQ(trim_shelves(pool, heap, 64 * MiB), 4 * MiB);
    lock_take(&pool->lock);
    CHECK_EQ(handles_count(heap, 2 * MiB), 1);
    (void)table_remove(&heap->vacated_handles, table_find(&heap->vacated_handles, handle));
    lock_drop(&pool->lock);
    CHECK_EQ(trim_shelves(pool, heap, 64 * MiB), 2 * MiB);
    bench_end(b);
}

/* Not one byte more than is asked for, and none of the size that a request of the heap is about to use. */
TEST(handles_stay_on_the_shelf_that_are_too_large_or_wanted)
{
    static const uint64_t sizes[] = {2 * MiB, 6 * MiB, 2 * MiB, 6 * MiB};
    struct bench *b = bench_new(64 * MiB);
    struct pool *pool = b->pool;
    struct heap *heap;
    uint64_t handle;

    CHECK_NE(bench_alloc_on(b, 2 * MiB, 1), 0);
    lock_take(&pool->lock);
    heap = layout_heap(pool);
    lock_drop(&pool->lock);
    for (int i = 0; i < 4; i++) {
        REQUIRE_EQ(grow_handle(pool, heap, sizes[i], &handle), 0);
        trim_put_handle(pool, heap, sizes[i], handle);
    }
    CHECK_EQ(trim_heap(pool, heap, 2 * MiB + 512), 2 * MiB);
    CHECK_EQ(trim_for(pool, heap, 5 * MiB), 6 * MiB);
    CHECK_EQ(trim_for(pool, heap, UINT64_MAX), 6 * MiB);
    CHECK_EQ(trim_for(pool, heap, UINT64_MAX), 0);
    REQUIRE_EQ(grow_handle(pool, heap, 6 * MiB, &handle), 0);
    trim_put_handle(pool, heap, 6 * MiB, handle);
    CHECK_EQ(trim_heap(pool, heap, 6 * MiB - 512), 2 * MiB);
    CHECK_EQ(trim_heap(pool, heap, 6 * MiB), 6 * MiB);
    bench_end(b);
}

/* Two slots, or more: one call of the driver. */
TEST(slots_of_a_heap_that_ends_go_in_one_call)
{
    for (uint64_t slots = 1; slots <= 3; slots++) {
        struct pool_opts opts;
        struct bench *b;

        pool_opts_init(&opts);
        opts.sync_mapped = true;
        b = bench_new_with(64 * MiB, &opts);
        CHECK_NE(bench_alloc(b, slots * 2 * MiB), 0);
        CHECK_EQ(b->fake->unmap_calls, 0);
        pool_context_gone(b->pool, BENCH_CONTEXT);
        CHECK_EQ(b->fake->unmap_calls, 1);
        CHECK_EQ(b->fake->unmaps, slots);
        CHECK_EQ(b->fake->held, 0);
        bench_end(b);
    }
}

/* The error of the device ends the look at its heaps, and holds none of them. */
TEST(a_look_at_points_that_fails_holds_no_heap)
{
    struct bench *b = bench_new(64 * MiB);
    struct pool_request request = bench_request(4 * MiB, 1);

    for (uint64_t i = 0; i < 2; i++) {
        request.owner = BENCH_POOL + i;
        REQUIRE(bench_ask(b, &request) != 0);
        CHECK_EQ(bench_free_on(b, b->last.ptr, 1), 0);
    }
    b->fake->query_result = FAKE_FAILURE;
    CHECK_EQ(reclaim_device_points(b->pool, 0), FAKE_FAILURE);
    b->fake->query_result = 0;
    fake_drain(b->fake);
    for (uint64_t i = 0; i < 2; i++)
        CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL + i), 0);
    CHECK_EQ(b->fake->held, 0);
    bench_end(b);
}

/* A heap begins to leave while it is trimmed, as a call of another thread's would make it. */
static struct {
    struct bench *bench;
    int (*real)(void *self, uint64_t handle);
} leaver;

static int release_and_leave(void *self, uint64_t handle)
{
    struct bench *b = leaver.bench;

    leaver.bench = NULL;
    if (b)
        CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    return leaver.real(self, handle);
}

TEST(r81_a_trim_goes_on_where_a_heap_begins_to_leave)
{
    struct fake_driver *fake = fake_new(64 * MiB);
    struct bench *b;

    leaver.real = fake->driver.handle_release;
    fake->driver.handle_release = release_and_leave;
    b = bench_over(fake, NULL);
    for (uint64_t owner = BENCH_POOL + 2; owner >= BENCH_POOL; owner--) {
        struct pool_request request = bench_request(8 * MiB, 1);
        devptr_t ptr;

        request.owner = owner;
        ptr = bench_ask(b, &request);
        CHECK_NE(bench_ask(b, &request), 0); /* so it cannot go at once */
        CHECK_EQ(bench_free_on(b, ptr, 1), 0);
    }
    fake_drain(fake);
    leaver.bench = b;
    CHECK_EQ(pool_trim_device(b->pool, 0, true), 24 * MiB);
    CHECK(leaver.bench == NULL);
    CHECK_EQ(fake->held, 24 * MiB);
    bench_end(b);
}

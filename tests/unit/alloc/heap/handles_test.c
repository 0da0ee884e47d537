/* SPDX-License-Identifier: MIT */
/* covers: handles.c */
#include "alloc/heap/handles.h"
#include "tests/unit/alloc/parts.h"

enum {
    SIZES = 5,
    MOST = 40,
};

TEST(handles_are_taken_by_size_and_each_once)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint64_t shelf[SIZES][MOST];
    uint32_t count[SIZES] = {0};
    uint64_t next = 1, bytes = 0;

    lock_take(&pool->lock);
    for (int step = 0; step < 5000; step++) {
        uint64_t s = parts_random(&parts, SIZES);
        uint64_t size = (s + 1) * 2 * MiB;

        if (count[s] < MOST && parts_random(&parts, 2)) {
            REQUIRE_EQ(handles_put(parts.heap, size, next), 0);
            shelf[s][count[s]++] = next++;
            bytes += size;
        } else if (count[s]) { /* the last one first: its memory is warm */
            CHECK_EQ(handles_take(parts.heap, size), shelf[s][--count[s]]);
            bytes -= size;
        } else {
            CHECK_EQ(handles_take(parts.heap, size), 0);
        }
        CHECK_EQ(handles_count(parts.heap, size), count[s]);
        CHECK_EQ(parts.heap->tally.cached, bytes);
    }
    CHECK_EQ(handles_count(parts.heap, 512), 0);
    for (uint64_t s = 0; s < SIZES; s++) /* no driver gave them */
        while (handles_take(parts.heap, (s + 1) * 2 * MiB))
            ;
    CHECK_EQ(parts.heap->tally.cached, 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(spare_handles_are_apart_from_those_that_are_held)
{
    struct parts parts = parts_begin();
    struct heap *heap = parts.heap;

    lock_take(&parts.pool->lock);
    REQUIRE_EQ(handles_put_spare(heap, 4 * MiB, 1), 0);
    REQUIRE_EQ(handles_put_spare(heap, 2 * MiB, 2), 0);
    REQUIRE_EQ(handles_put(heap, 4 * MiB, 3), 0);
    CHECK_EQ(heap->tally.spare, 6 * MiB);
    CHECK_EQ(heap->device->spare, 6 * MiB);
    CHECK_EQ(heap->tally.cached, 4 * MiB);
    CHECK_EQ(handles_count(heap, 4 * MiB), 1);
    CHECK_EQ(handles_take_spare(heap, 4 * MiB), 1);
    CHECK_EQ(handles_take_spare(heap, 4 * MiB), 0);
    CHECK_EQ(handles_take(heap, 4 * MiB), 3);
    CHECK_EQ(handles_take_spare(heap, 2 * MiB), 2);
    CHECK_EQ(heap->tally.spare, 0);
    CHECK_EQ(heap->device->spare, 0);
    lock_drop(&parts.pool->lock);
    parts_end(&parts);
}

TEST(without_memory_a_handle_is_not_taken_in_and_the_others_stay)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    int refused = 0;

    lock_take(&pool->lock);
    for (uint64_t handle = 1; handle <= 100; handle++) {
        parts_fail = 1;
        if (handles_put(parts.heap, 2 * MiB, handle) == 0)
            continue;
        refused++;
        CHECK_EQ(handles_count(parts.heap, 2 * MiB), handle - 1);
        CHECK_EQ(parts.heap->tally.cached, (handle - 1) * 2 * MiB);
        REQUIRE_EQ(handles_put(parts.heap, 2 * MiB, handle), 0);
    }
    parts_fail = 0;
    CHECK_GT(refused, 2);
    for (uint64_t handle = 100; handle > 0; handle--)
        CHECK_EQ(handles_take(parts.heap, 2 * MiB), handle);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

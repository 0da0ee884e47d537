/* SPDX-License-Identifier: MIT */
/* covers: heap.c */
#include "tests/unit/alloc/parts.h"

TEST(a_heap_is_known_by_kind_and_owner_and_made_for_a_device_only)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct heap *heaps[HEAP_KIND_COUNT][8];

    lock_take(&pool->lock);
    CHECK(!heap_get(pool, HEAP_MAPPED, 100, -1));
    CHECK(!heap_get(pool, HEAP_MAPPED, 100, POOL_DEVICES_MAX));
    for (int kind = 0; kind < HEAP_KIND_COUNT; kind++)
        for (uint64_t owner = 0; owner < 8; owner++) {
            heaps[kind][owner] = heap_get(pool, (enum heap_kind)kind, 100 + owner, (int)owner % 3);
            REQUIRE(heaps[kind][owner]);
            CHECK_EQ(heaps[kind][owner]->device->number, owner % 3);
        }
    for (int step = 0; step < 500; step++) {
        uint64_t kind = parts_random(&parts, HEAP_KIND_COUNT), owner = parts_random(&parts, 8);

        CHECK(heap_get(pool, (enum heap_kind)kind, 100 + owner, -1) == heaps[kind][owner]);
        CHECK_EQ(heaps[kind][owner]->kind, kind);
        CHECK_EQ(heaps[kind][owner]->owner, 100 + owner);
    }
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(a_heap_that_retires_is_unknown_and_its_owner_gets_another)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct heap *heap, *other;

    lock_take(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, 9, 0);
    REQUIRE(heap);
    heap->allocs = 5;
    heap_retire(pool, heap);
    CHECK(heap->leaving);
    CHECK(pool->leaving == heap);
    CHECK(!heap_get(pool, HEAP_MAPPED, 9, -1));
    other = heap_get(pool, HEAP_MAPPED, 9, 0);
    CHECK(other && other != heap);
    pool->leaving = heap->next;
    heap_free(pool, heap);
    CHECK_EQ(pool->counters.allocs, 5); /* what it counted stays */
    CHECK(heap_get(pool, HEAP_MAPPED, 9, -1) == other);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

/* A walk over a list meets the heaps of the device that are in it, the newest first, though some leave it meanwhile. */
TEST(a_walk_meets_the_heaps_of_a_list)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct heap *heaps[12], *heap;
    int left = 12;

    lock_take(&pool->lock);
    for (int i = 0; i < 12; i++) {
        heaps[i] = heap_get(pool, HEAP_MAPPED, 100 + (uint64_t)i, i % 2);
        REQUIRE(heaps[i]);
        if (i % 3)
            heap_list(heaps[i], HEAPS_GIVING);
    }
    heaps[4]->dropped = true;
    lock_drop(&pool->lock);
    CHECK(!heap_walk_list(pool, NULL, 0, HEAPS_WAITING));
    for (heap = heap_walk_list(pool, NULL, 0, HEAPS_GIVING); heap;
            heap = heap_walk_list(pool, heap, 0, HEAPS_GIVING)) {
        do
            left--;
        while (left % 2 || left % 3 == 0 || left == 4);
        CHECK(heap == heaps[left]);
        CHECK_EQ(heap->busy, 1);
        heap_delist(heap, HEAPS_GIVING);
    }
    CHECK_EQ(left, 2);
    CHECK_EQ(heaps[2]->busy, 0);
    lock_take(&pool->lock);
    heaps[4]->dropped = false;
    CHECK(heaps[4]->is_listed[HEAPS_GIVING] && !heaps[2]->is_listed[HEAPS_GIVING]);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(without_memory_there_is_no_heap_and_no_class)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct heap *heap = NULL;
    uint32_t stream;
    int failures = 0;

    lock_take(&pool->lock);
    for (int n = 1; n < 20 && !heap; n++) {
        parts_fail = n;
        heap = heap_get(pool, HEAP_PRIVATE, 77, 0);
        if (!heap) {
            failures++;
            CHECK(!heap_get(pool, HEAP_PRIVATE, 77, -1));
        }
    }
    parts_fail = 0;
    CHECK_GT(failures, 1); /* the record, and its place in the table */
    REQUIRE(heap);
    stream = streams_get(pool, 3);
    parts_fail = 1;
    CHECK(!heap_prepare_class(pool, heap, stream));
    CHECK(!heap_class(heap, stream));
    CHECK_EQ(heap->stream_count, 0);
    CHECK(heap_prepare_class(pool, heap, stream));
    CHECK_EQ(heap_class(heap, stream)->key, 3);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(r69_streams_are_forgotten_when_they_are_gone_and_nobody_names_them)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t first, named, unnamed, here;

    lock_take(&pool->lock);
    named = streams_get(pool, 1);
    unnamed = streams_get(pool, 2);
    here = streams_get(pool, 3);
    for (uint32_t stream = 1; stream <= here; stream++)
        REQUIRE(heap_prepare_class(pool, parts.heap, stream));
    first = segment_at(pool, parts.segment)->first;
    block_name_stream(pool, block_at(pool, first), named);
    for (uint32_t stream = named; stream <= unnamed; stream++) { /* as pool_stream_gone has it */
        streams_leave(pool, streams_at(pool, stream));
        (void)table_remove(
                &pool->stream_of, table_find(&pool->stream_of, streams_at(pool, stream)->key));
    }
    pool->last_stream = NULL;
    heap_forget_streams(pool);
    CHECK_EQ(pool->streams_gone, 1);
    CHECK(heap_class(parts.heap, named) && !heap_class(parts.heap, unnamed));
    CHECK(heap_class(parts.heap, here));
    block_name_stream(pool, block_at(pool, first), 0);
    heap_forget_streams(pool);
    CHECK_EQ(pool->streams_gone, 0);
    CHECK(!heap_class(parts.heap, named));
    CHECK_EQ(streams_find(pool, 3), here);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

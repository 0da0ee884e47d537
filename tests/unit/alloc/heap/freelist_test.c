/* SPDX-License-Identifier: MIT */
/* covers: freelist.c */
/*
 * Free blocks against a row of units, each taken or free in a class: what is free must be the longest runs of one class.
 */
#include "alloc/heap/census.h"
#include "tests/unit/alloc/parts.h"

enum {
    TAKEN = -1,
    CLASSES = 3, /* clean, and two streams */
};

static void compare(struct parts *parts, struct pool *pool, const int *class_of,
        const uint32_t *stream) POOL_LOCKED
{
    uint32_t count[CLASSES] = {0};
    uint64_t bytes[CLASSES] = {0};

    for (uint64_t unit = 0, end; unit < PARTS_UNITS; unit = end) {
        uint32_t index = block_find(pool, PARTS_BASE + unit * PARTS_UNIT);
        const struct block *block = block_at(pool, index);

        end = unit + 1;
        if (class_of[unit] == TAKEN) {
            REQUIRE_EQ(block->state, BLOCK_BUSY);
            continue;
        }
        while (end < PARTS_UNITS && class_of[end] == class_of[unit])
            end++;
        REQUIRE_EQ(block->state, BLOCK_FREE);
        REQUIRE_EQ(block->node.base, PARTS_BASE + unit * PARTS_UNIT);
        REQUIRE_EQ(block->node.size, (end - unit) * PARTS_UNIT);
        REQUIRE_EQ(block->stream, stream[class_of[unit]]);
        count[class_of[unit]]++;
        bytes[class_of[unit]] += block->node.size;
    }
    CHECK_EQ(parts->heap->clean.count, count[0]);
    CHECK_EQ(parts->heap->clean.bytes, bytes[0]);
    for (int i = 1; i < CLASSES; i++) {
        CHECK_EQ(heap_class(parts->heap, stream[i])->fit.count, count[i]);
        CHECK_EQ(heap_class(parts->heap, stream[i])->fit.bytes, bytes[i]);
    }
}

/* Takes [unit, unit + units) out of the free block that it lies in; true if it lies in one. */
static bool take(struct pool *pool, int *class_of, uint64_t unit, uint64_t units) POOL_LOCKED
{
    devptr_t base = PARTS_BASE + unit * PARTS_UNIT;
    uint32_t index = block_find(pool, base);
    const struct block *block = block_at(pool, index);

    if (block->state != BLOCK_FREE
            || base + units * PARTS_UNIT > block->node.base + block->node.size)
        return false;
    REQUIRE_EQ(slab_prepare(&pool->blocks, 2), 0);
    freelist_pull(pool, index);
    index = freelist_carve(pool, index, base - block->node.base, units * PARTS_UNIT);
    REQUIRE_EQ(block_at(pool, index)->node.base, base);
    REQUIRE_EQ(block_at(pool, index)->node.size, units * PARTS_UNIT);
    for (uint64_t i = 0; i < units; i++)
        class_of[unit + i] = TAKEN;
    return true;
}

TEST(free_neighbours_of_a_class_are_one_block_and_of_two_are_not)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    int class_of[PARTS_UNITS];
    uint32_t stream[CLASSES] = {0};
    uint64_t taken = 0, put = 0;

    lock_take(&pool->lock);
    for (uint32_t i = 1; i < CLASSES; i++) {
        stream[i] = streams_get(pool, i);
        REQUIRE(heap_prepare_class(pool, parts.heap, stream[i]));
    }
    (void)freelist_put(pool, segment_at(pool, parts.segment)->first, 0, 0);
    memset(class_of, 0, sizeof(class_of));
    for (int step = 0; step < 20000; step++) {
        uint64_t unit = parts_random(&parts, PARTS_UNITS);
        uint64_t units = 1 + parts_random(&parts, 6);
        uint32_t index = block_find(pool, PARTS_BASE + unit * PARTS_UNIT);
        const struct block *block = block_at(pool, index);

        if (unit + units <= PARTS_UNITS && take(pool, class_of, unit, units)) {
            taken++;
        } else if (block->state == BLOCK_BUSY) {
            uint64_t first = (block->node.base - PARTS_BASE) / PARTS_UNIT;
            uint64_t end = first + block->node.size / PARTS_UNIT;
            int class = (int)parts_random(&parts, CLASSES);

            /* mostly the newest point, or that of a block that was taken some time ago */
            (void)freelist_put(pool, index, stream[class],
                    class ? 1 + (uint64_t)step - parts_random(&parts, 1 + (uint64_t)step % 100)
                          : 0);
            while (first < end)
                class_of[first++] = class;
            put++;
        }
        if (step % 512 == 0)
            CHECK(!census_check(pool));
        if (step % 32 == 0)
            compare(&parts, pool, class_of, stream);
    }
    compare(&parts, pool, class_of, stream);
    CHECK_GT(taken, 1000);
    CHECK_GT(put, 1000);
    lock_drop(&pool->lock);
    BENCH_CHECK(parts.b); /* busy blocks are nobody's, and are not looked for */
    parts_end(&parts);
}

TEST(while_one_stream_frees_its_blocks_are_one_with_clean_ones)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t stream, first, rest;

    lock_take(&pool->lock);
    stream = streams_get(pool, 1);
    REQUIRE(heap_prepare_class(pool, parts.heap, stream));
    first = segment_at(pool, parts.segment)->first;
    rest = block_cut(pool, first, PARTS_UNIT);
    (void)freelist_put(pool, first, 0, 0);
    CHECK_EQ(freelist_put(pool, rest, stream, 4), first);
    CHECK_EQ(block_at(pool, first)->node.size, PARTS_SIZE);
    CHECK_EQ(block_at(pool, first)->stream, stream);
    CHECK_EQ(block_at(pool, first)->seq, 4);
    CHECK_EQ(parts.heap->clean.count, 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(r70_a_block_whose_point_has_passed_is_clean)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t stream, first;

    lock_take(&pool->lock);
    stream = streams_get(pool, 1);
    REQUIRE(heap_prepare_class(pool, parts.heap, stream));
    streams_at(pool, stream)->timeline.passed = 7;
    first = segment_at(pool, parts.segment)->first;
    (void)freelist_put(pool, first, stream, 7);
    CHECK_EQ(block_at(pool, first)->stream, 0);
    CHECK_EQ(block_at(pool, first)->seq, 0);
    freelist_pull(pool, first);
    (void)freelist_put(pool, first, stream, 8);
    CHECK_EQ(block_at(pool, first)->stream, stream);
    CHECK_EQ(block_at(pool, first)->seq, 8);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

/* The blocks of a class leave it by point, whatever was put and taken before. */
TEST(r70_the_block_that_waits_least_is_the_first)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t stream, other, index, rest;
    uint64_t point = 0;
    uint32_t count = 0;

    lock_take(&pool->lock);
    stream = streams_get(pool, 1);
    other = streams_get(pool, 2);
    REQUIRE(heap_prepare_class(pool, parts.heap, stream));
    REQUIRE(heap_prepare_class(pool, parts.heap, other));
    index = segment_at(pool, parts.segment)->first;
    for (uint64_t i = 0; i < PARTS_UNITS / 2 - 1; i++) { /* between them are BUSY blocks */
        uint32_t next = block_cut(pool, index, PARTS_UNIT);

        rest = block_cut(pool, next, PARTS_UNIT);
        (void)freelist_put(pool, index, stream, 1 + i * 37 % 50);
        index = rest;
    }
    CHECK_EQ(freelist_passed(pool, heap_class(parts.heap, stream), 0), 0);
    freelist_swap(heap_class(parts.heap, stream), heap_class(parts.heap, other));
    CHECK_EQ(heap_class_count(heap_class(parts.heap, stream)), 0);
    freelist_swap(heap_class(parts.heap, stream), heap_class(parts.heap, other));
    while ((index = freelist_passed(pool, heap_class(parts.heap, stream), 40)) != 0) {
        CHECK_GE(block_at(pool, index)->seq, point);
        point = block_at(pool, index)->seq;
        freelist_pull(pool, index);
        count++;
    }
    CHECK_EQ(point, 40);
    CHECK_GT(count, 40);
    CHECK_EQ(heap_class_count(heap_class(parts.heap, stream)), PARTS_UNITS / 2 - 1 - count);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

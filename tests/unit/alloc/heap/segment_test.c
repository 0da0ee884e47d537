/* SPDX-License-Identifier: MIT */
/* covers: segment.c */
#include "tests/unit/alloc/parts.h"

#define ARENA_BASE (PARTS_BASE * 2)

static struct segment arena(void)
{
    return (struct segment){
            .kind = SEGMENT_ARENA,
            .base = ARENA_BASE,
            .size = 64 * MiB,
            .raw_base = ARENA_BASE,
            .raw_size = 64 * MiB,
            .slot = 2 * MiB,
    };
}

TEST(addresses_find_their_segment_and_no_other_address_does)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t number[6] = {0};

    lock_take(&pool->lock);
    for (int step = 0; step < 400; step++) {
        uint64_t i = parts_random(&parts, 6);
        devptr_t base = ARENA_BASE + i * 2 * PARTS_SIZE; /* with as much between them */

        if (number[i]) {
            parts_remove(pool, number[i]);
            number[i] = 0;
        } else {
            REQUIRE_EQ(parts_add(pool, parts.heap, base, &number[i]), 0);
        }
        for (uint64_t j = 0; j < 6; j++) {
            base = ARENA_BASE + j * 2 * PARTS_SIZE;
            CHECK_EQ(granule_segment(&pool->granules, base), number[j]);
            CHECK_EQ(granule_segment(&pool->granules, base + PARTS_SIZE - 1), number[j]);
            CHECK_EQ(granule_segment(&pool->granules, base + PARTS_SIZE), 0);
            CHECK_EQ(block_find(pool, base + PARTS_SIZE / 2) != 0, number[j] != 0);
        }
    }
    for (uint64_t i = 0; i < 6; i++)
        if (number[i])
            parts_remove(pool, number[i]);
    CHECK_EQ(parts.heap->segments, parts.segment);
    CHECK_EQ(segment_at(pool, parts.segment)->next, 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(a_range_grows_from_its_bottom_to_its_end_and_what_is_decommitted_at_its_top_leaves_it)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct segment like = arena();
    uint32_t number, block, last = 0;

    lock_take(&pool->lock);
    REQUIRE_EQ(segment_add(pool, parts.heap, &like, &number), 0);
    CHECK_EQ(segment_at(pool, number)->first, 0);
    CHECK_EQ(block_find(pool, ARENA_BASE), 0);
    for (uint64_t top = 0; top < 64 * MiB; top += 8 * MiB) {
        block = segment_extend(pool, number, 8 * MiB);
        REQUIRE(block != 0);
        CHECK_EQ(block_at(pool, block)->node.base, ARENA_BASE + top);
        CHECK_EQ(block_at(pool, block)->prev, last);
        CHECK_EQ(block_find(pool, ARENA_BASE + top + 5), block);
        CHECK_EQ(segment_at(pool, number)->top, top + 8 * MiB);
        last = block;
    }
    CHECK_EQ(segment_extend(pool, number, 2 * MiB), 0); /* no addresses left */
    freelist_put_decommitted(pool, block_at(pool, last)->prev);
    CHECK_EQ(parts.heap->decommitted.count, 1);
    freelist_put_decommitted(pool, last); /* one with what is before it, and both leave */
    CHECK_EQ(parts.heap->decommitted.count, 0);
    CHECK_EQ(segment_at(pool, number)->top, 48 * MiB);
    CHECK_EQ(block_find(pool, ARENA_BASE + 48 * MiB), 0);
    segment_remove(pool, number);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(without_memory_nothing_is_added_and_nothing_grows)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct segment kinds[2] = {parts_segment(ARENA_BASE * 2), arena()};
    int failures[3] = {0};
    uint32_t number = 0, block = 0;

    lock_take(&pool->lock);
    for (int kind = 0; kind < 2; kind++) {
        int r = -ENOMEM;

        for (int n = 1; n < 20 && r != 0; n++) {
            uint32_t used = pool->segments.used, blocks = pool->blocks.used;

            parts_fail = n;
            r = segment_add(pool, parts.heap, &kinds[kind], &number);
            if (r != 0) {
                failures[kind]++;
                CHECK_EQ(r, -ENOMEM);
                CHECK_EQ(pool->segments.used, used);
                CHECK_EQ(pool->blocks.used, blocks);
                CHECK_EQ(block_find(pool, kinds[kind].base), 0);
                CHECK_EQ(parts.heap->segments, parts.segment);
            }
        }
        parts_fail = 0;
        REQUIRE_EQ(r, 0);
        if (kind == 0)
            segment_remove(pool, number);
    }
    for (int n = 1; n < 20 && !block; n++) {
        parts_fail = n;
        block = segment_extend(pool, number, 4 * MiB);
        if (!block) {
            failures[2]++;
            CHECK_EQ(segment_at(pool, number)->top, 0);
            CHECK_EQ(segment_at(pool, number)->first, 0);
            CHECK_EQ(block_find(pool, ARENA_BASE), 0);
        }
    }
    parts_fail = 0;
    CHECK(block != 0);
    for (int i = 0; i < 3; i++)
        CHECK_GT(failures[i], 1);
    segment_remove(pool, number);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

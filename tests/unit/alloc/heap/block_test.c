/* SPDX-License-Identifier: MIT */
/* covers: block.c */
/* Blocks against a row of units: begins[i] says that a block begins at unit i. */
#include "tests/unit/alloc/parts.h"

static uint32_t unit_block(struct pool *pool, uint64_t unit) POOL_LOCKED
{
    return block_find(pool, PARTS_BASE + unit * PARTS_UNIT + PARTS_UNIT - 1);
}

/* The list of the segment, forwards and backwards, and every look-up. */
static void compare(struct pool *pool, uint32_t number, const bool *begins) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, number);
    uint32_t at = segment->first;
    uint32_t before = 0;

    for (uint64_t unit = 0; unit < PARTS_UNITS; unit++) {
        if (begins[unit] && unit > 0)
            at = block_at(pool, at)->next;
        REQUIRE(at != 0);
        REQUIRE_EQ(unit_block(pool, unit), at);
        if (!begins[unit])
            continue;
        REQUIRE_EQ(block_at(pool, at)->node.base, PARTS_BASE + unit * PARTS_UNIT);
        REQUIRE_EQ(block_at(pool, at)->prev, before);
        before = at;
    }
    CHECK_EQ(segment->last, at);
    CHECK_EQ(block_at(pool, at)->next, 0);
}

TEST(cuts_and_joins_are_those_of_a_row)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    bool begins[PARTS_UNITS] = {true};

    lock_take(&pool->lock);
    for (int step = 0; step < 4000; step++) {
        uint64_t unit = parts_random(&parts, PARTS_UNITS);
        uint32_t index = unit_block(pool, unit);
        const struct block *block = block_at(pool, index);
        uint64_t first = (block->node.base - PARTS_BASE) / PARTS_UNIT;

        if (unit > first && parts_random(&parts, 2)) {
            REQUIRE_EQ(slab_prepare(&pool->blocks, 1), 0);
            (void)block_cut(pool, index, (unit - first) * PARTS_UNIT);
            begins[unit] = true;
        } else if (block->next) {
            begins[first + block->node.size / PARTS_UNIT] = false;
            block_join(pool, index);
        }
        if (step % 16 == 0)
            compare(pool, parts.segment, begins);
    }
    compare(pool, parts.segment, begins);
    CHECK_EQ(block_find(pool, PARTS_BASE - 1), 0);
    CHECK_EQ(block_find(pool, PARTS_BASE + PARTS_SIZE), 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(r70_a_cut_copies_the_point_and_a_join_keeps_the_later_one)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t first, rest, stream;

    lock_take(&pool->lock);
    stream = streams_get(pool, 5);
    first = segment_at(pool, parts.segment)->first;
    block_at(pool, first)->seq = 3;
    block_name_stream(pool, block_at(pool, first), stream);
    rest = block_cut(pool, first, PARTS_UNIT);
    CHECK_EQ(block_at(pool, rest)->seq, 3);
    CHECK_EQ(block_at(pool, rest)->stream, stream);
    CHECK_EQ(streams_at(pool, stream)->refs, 2);
    block_at(pool, rest)->seq = 9;
    block_join(pool, first);
    CHECK_EQ(block_at(pool, first)->seq, 9);
    CHECK_EQ(streams_at(pool, stream)->refs, 1);
    /* of a clean one and one of a stream the point is the stream's, whatever stood in the clean one */
    rest = block_cut(pool, first, PARTS_UNIT);
    block_name_stream(pool, block_at(pool, first), 0);
    block_at(pool, first)->seq = 20;
    block_join(pool, first);
    CHECK_EQ(block_at(pool, first)->seq, 9);
    CHECK_EQ(block_at(pool, first)->stream, stream);
    CHECK_EQ(streams_at(pool, stream)->refs, 1);
    block_name_stream(pool, block_at(pool, first), 0);
    CHECK_EQ(streams_at(pool, stream)->refs, 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(without_memory_a_segment_stays_as_it_is)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    bool begins[PARTS_UNITS] = {true};

    lock_take(&pool->lock);
    parts_fail = 1;
    CHECK_EQ(block_new(pool, parts.segment, 0, PARTS_BASE, PARTS_UNIT), 0);
    CHECK_EQ(parts_fail, 0);
    compare(pool, parts.segment, begins);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(chains_keep_order_count_and_bytes)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t index, at;
    uint64_t expected = PARTS_UNIT;

    lock_take(&pool->lock);
    index = segment_at(pool, parts.segment)->first;
    for (int i = 0; i < 5; i++) {
        uint32_t rest = block_cut(pool, index, PARTS_UNIT << i);

        block_push_open(pool, index);
        index = rest;
    }
    CHECK_EQ(parts.heap->device->open.count, 5);
    CHECK_EQ(parts.heap->device->open.bytes, 31 * PARTS_UNIT);
    CHECK_EQ(parts.heap->tally.pending, 31 * PARTS_UNIT);
    for (at = parts.heap->device->open.head; at; at = block_at(pool, at)->chain, expected *= 2) {
        CHECK_EQ(block_at(pool, at)->node.size, expected);
        CHECK_EQ(block_at(pool, at)->state, BLOCK_PENDING);
    }
    CHECK_EQ(expected, 32 * PARTS_UNIT);
    segment_kill(pool, parts.segment); /* a dead segment's blocks leave the chain */
    CHECK_EQ(parts.heap->device->open.count, 0);
    CHECK_EQ(parts.heap->tally.pending, 0);
    CHECK_EQ(block_find(pool, PARTS_BASE), 0);
    parts_remove(pool, parts.segment);
    parts.segment = 0;
    lock_drop(&pool->lock);
    parts_end(&parts);
}

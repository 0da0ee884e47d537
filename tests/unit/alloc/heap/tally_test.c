/* SPDX-License-Identifier: MIT */
/* covers: tally.c */
/* Sums and their marks against a list of what lives. */
#include "alloc/heap/tally.h"

#include "alloc/heap/holder.h"
#include "tests/unit/alloc/parts.h"

struct sums {
    uint64_t count, requested, rounded, used;
};

TEST(births_and_deaths_add_up_and_marks_stay)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct tally *tally = &parts.heap->tally;
    uint32_t block[PARTS_UNITS];
    bool lives[PARTS_UNITS] = {false};
    struct sums now = {0}, high = {0};

    lock_take(&pool->lock);
    block[0] = segment_at(pool, parts.segment)->first;
    for (uint64_t i = 1; i < PARTS_UNITS; i++) {
        REQUIRE_EQ(slab_prepare(&pool->blocks, 1), 0);
        block[i] = block_cut(pool, block[i - 1], PARTS_UNIT);
    }
    tally->native_used =
            3000; /* of the driver's own pool behind the heap: in the mark, not in the sum */
    for (int step = 0; step < 5000; step++) {
        uint64_t i = parts_random(&parts, PARTS_UNITS);
        struct block *at = block_at(pool, block[i]);
        uint64_t sign = lives[i] ? UINT64_MAX : 1;

        if (!lives[i])
            at->slack = (uint32_t)parts_random(&parts, PARTS_UNIT);
        now.count += sign;
        now.requested += sign * (PARTS_UNIT - at->slack);
        now.rounded += sign * PARTS_UNIT;
        now.used += sign * ((PARTS_UNIT - at->slack + 511) / 512 * 512);
        at->state = lives[i] ? BLOCK_BUSY : BLOCK_LIVE;
        if (lives[i])
            tally_death(pool, parts.heap, at, holder_is_stored(pool, at));
        else
            tally_birth(pool, parts.heap, at, at->node.size - at->slack, true);
        lives[i] = !lives[i];
        high.requested = now.requested > high.requested ? now.requested : high.requested;
        high.rounded = now.rounded > high.rounded ? now.rounded : high.rounded;
        high.used = now.used > high.used ? now.used : high.used;
        CHECK_EQ(tally->live_count, now.count);
        CHECK_EQ(tally->live_requested, now.requested);
        CHECK_EQ(tally->live_rounded, now.rounded);
        CHECK_EQ(tally->stored, now.rounded);
        CHECK_EQ(tally->used, now.used);
        CHECK_EQ(tally->used_high, high.used + 3000);
        CHECK_EQ(tally->stored_high, high.rounded);
        CHECK_EQ(parts.heap->device->live_requested, now.requested);
        CHECK_EQ(parts.heap->device->live_requested_high, high.requested);
        REQUIRE_EQ(parts.heap->device->stored_high, high.rounded);
    }
    for (uint64_t i = 0; i < PARTS_UNITS; i++)
        if (lives[i]) {
            tally_death(pool, parts.heap, block_at(pool, block[i]), true);
            block_at(pool, block[i])->state = BLOCK_BUSY;
        }
    CHECK_EQ(tally->live_count + tally->used + tally->stored, 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(what_is_held_has_a_mark_of_the_heap_and_of_its_device)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct heap *other;

    lock_take(&pool->lock);
    other = heap_get(pool, HEAP_PLAIN, BENCH_CONTEXT + 1, 0);
    REQUIRE(other);
    tally_reserved(other, 6 * MiB);
    tally_reserved(other, -(int64_t)(4 * MiB));
    tally_reserved(parts.heap, MiB);
    CHECK_EQ(other->tally.reserved, 2 * MiB);
    CHECK_EQ(other->tally.reserved_high, 6 * MiB);
    CHECK_EQ(other->device->reserved, PARTS_SIZE + 3 * MiB);
    CHECK_EQ(other->device->reserved_high, PARTS_SIZE + 6 * MiB);
    tally_reserved(other, -(int64_t)(2 * MiB));
    tally_reserved(parts.heap, -(int64_t)MiB);
    tally_kept(other, 512);
    tally_kept(other, -512);
    CHECK_EQ(other->tally.kept_high, 512);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

/* SPDX-License-Identifier: MIT */
/* covers: census.c */
/* What the census says of a pool whose records were changed behind its back: each change is found, and told by its name. */
#include "alloc/heap/census.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/handles.h"
#include "alloc/heap/tally.h"
#include "tests/unit/alloc/parts.h"

/* A live, a free and a recent block, a chain of one, a class and a handle in the cache. */
static void fill(struct parts *parts, struct pool *pool) POOL_LOCKED
{
    uint32_t at = segment_at(pool, parts->segment)->first;
    uint32_t rest;

    for (int i = 0; i < 4; i++) {
        REQUIRE_EQ(slab_prepare(&pool->blocks, 1), 0);
        rest = block_cut(pool, at, PARTS_UNIT);
        if (i == 0) {
            block_at(pool, at)->state = BLOCK_LIVE;
            tally_birth(pool, parts->heap, block_at(pool, at), PARTS_UNIT, true);
        } else if (i == 1) {
            (void)freelist_put(pool, at, 0, 0);
        } else if (i == 2) {
            block_push_open(pool, at);
        } else {
            freecache_put(pool, at, 0, 0);
        }
        at = rest;
    }
    block_at(pool, at)->state = BLOCK_LIVE;
    block_at(pool, at)->slack = 100;
    tally_birth(pool, parts->heap, block_at(pool, at), block_at(pool, at)->node.size - 100, true);
    REQUIRE_EQ(handles_put(parts->heap, 2 * MiB, 5), 0);
    tally_reserved(parts->heap, 2 * MiB);
}

struct change {
    void *at;
    size_t size;
    uint64_t value; /* added to what stands there */
    const char *says;
};

static void check_change(struct pool *pool, const struct change *change) POOL_LOCKED
{
    uint64_t before = 0, changed = 0;
    const char *what;

    memcpy(&before, change->at, change->size);
    changed = before + change->value;
    memcpy(change->at, &changed, change->size);
    what = census_check(pool);
    CHECK_STR_EQ(what ? what : "", change->says);
    memcpy(change->at, &before, change->size);
    CHECK(census_check(pool) == NULL);
}

TEST(each_change_of_the_records_is_found_and_named)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct heap *heap = parts.heap;
    struct block *live, *open, *recent;
    const char *what;

    lock_take(&pool->lock);
    fill(&parts, pool);
    what = census_check(pool);
    if (!check_that(what == NULL, __FILE__, __LINE__, "whole"))
        printf("    %s\n", what);
    live = block_at(pool, segment_at(pool, parts.segment)->first);
    open = block_at(pool, heap->device->open.head);
    recent = block_at(pool, open->next);
    {
#define CHANGE(at_, by_, says_)                     \
    {                                               \
        &(at_), sizeof(at_), (uint64_t)(by_), says_ \
    }
        const struct change changes[] = {
                CHANGE(live->segment, 1, "a block names another segment"),
                CHANGE(live->node.base, 512, "blocks do not follow each other"),
                CHANGE(live->node.size, 1, "a block has an odd size"),
                CHANGE(block_at(pool, live->next)->prev, 1,
                        "neighbours do not agree, or are free and not one"),
                CHANGE(segment_at(pool, parts.segment)->last, 1, "the last block is another"),
                CHANGE(segment_at(pool, parts.segment)->tenants, 1, "tenants are miscounted"),
                CHANGE(segment_at(pool, parts.segment)->top, 2 * MiB,
                        "blocks do not fill their segment"),
                CHANGE(live->state, BLOCK_STATE_COUNT, "a block has no state"),
                CHANGE(live->slack, 1, "live blocks are miscounted"),
                CHANGE(heap->tally.live_count, 1, "live blocks are miscounted"),
                CHANGE(heap->tally.used, 512, "live blocks are miscounted"),
                CHANGE(heap->tally.stored, -512, "stored bytes are miscounted"),
                CHANGE(heap->tally.limbo, 1, "limbo bytes are miscounted"),
                CHANGE(heap->tally.husk, 1, "husk bytes are miscounted"),
                CHANGE(heap->tally.pending, 1, "pending bytes are miscounted"),
                CHANGE(heap->tally.kept, 1, "quarantined bytes are miscounted"),
                CHANGE(heap->tally.reserved, 1, "held bytes are miscounted"),
                CHANGE(heap->tally.cached, 1, "the shelf is miscounted"),
                CHANGE(heap->device->reserved, 1,
                        "a device's held bytes are not those of its heaps"),
                CHANGE(heap->recent_count, 1, "free blocks are missing from their index"),
                CHANGE(heap->recent_bytes, 512, "recent blocks are miscounted"),
                CHANGE(recent->stream, 1, "recent blocks are miscounted"),
                CHANGE(recent->flags, -BLOCK_RECENT, "recent blocks are miscounted"),
                CHANGE(recent->state, BLOCK_IDLE - BLOCK_FREE, "recent blocks are miscounted"),
                CHANGE(heap->clean.count, 1, "an index of free blocks is broken"),
                CHANGE(heap->device->open.bytes, 512, "a chain is miscounted"),
                CHANGE(heap->device->open.count, 1, "a chain is miscounted"),
                CHANGE(open->state, BLOCK_KEPT - BLOCK_PENDING, "pending bytes are miscounted"),
                CHANGE(heap->device->epochs.bytes, 1, "epochs are miscounted"),
                CHANGE(pool->gate.released, 1, "released ranges are miscounted"),
        };

        for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++)
            check_change(pool, &changes[i]);
    }
    segment_kill(pool, parts.segment);
    parts_remove(pool, parts.segment);
    parts.segment = 0;
    CHECK_EQ(handles_take(heap, 2 * MiB), 5);
    tally_reserved(heap, -(int64_t)(2 * MiB));
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(the_figures_of_a_device_are_the_sums_of_its_heaps)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    struct heap *other, *elsewhere;
    struct pool_stats one, all, both;
    uint32_t segment[2];

    lock_take(&pool->lock);
    other = heap_get(pool, HEAP_PLAIN, BENCH_CONTEXT + 1, 0);
    elsewhere = heap_get(pool, HEAP_PLAIN, BENCH_CONTEXT + 2, 1);
    REQUIRE(other && elsewhere);
    REQUIRE_EQ(parts_add(pool, other, PARTS_BASE * 2, &segment[0]), 0);
    REQUIRE_EQ(parts_add(pool, elsewhere, PARTS_BASE * 3, &segment[1]), 0);
    census_heap(other, &one);
    census_device(pool, 0, &both);
    census_device(pool, -1, &all);
    CHECK_EQ(one.reserved, PARTS_SIZE);
    CHECK_EQ(both.reserved, 2 * PARTS_SIZE);
    CHECK_EQ(all.reserved, 3 * PARTS_SIZE);
    CHECK_EQ(both.reserved_high, 2 * PARTS_SIZE);
    CHECK_EQ(all.reserved_high, 3 * PARTS_SIZE);
    parts_remove(pool, segment[0]);
    parts_remove(pool, segment[1]);
    census_device(pool, -1, &all);
    CHECK_EQ(all.reserved, PARTS_SIZE);
    CHECK_EQ(all.reserved_high, 3 * PARTS_SIZE);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

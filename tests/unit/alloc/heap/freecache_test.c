/* SPDX-License-Identifier: MIT */
/* covers: freecache.c */
/* The free cache against a walk over all blocks of the segment, which sees what is flagged as recent. */
#include "alloc/heap/freecache.h"
#include "tests/unit/alloc/parts.h"

enum {
    CLASSES = 3, /* clean, and two streams */
    SIZES = 100,
};

struct seen {
    uint32_t count;
    uint64_t bytes;
    uint32_t alike; /* of the size and stream that were asked for */
};

static struct seen walk(
        struct pool *pool, uint32_t number, uint64_t size, uint32_t stream) POOL_LOCKED
{
    struct seen seen = {0};

    for (uint32_t at = segment_at(pool, number)->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);

        if (!(block->flags & BLOCK_RECENT))
            continue;
        REQUIRE_EQ(block->state, BLOCK_FREE);
        seen.count++;
        seen.bytes += block->node.size;
        seen.alike += block->node.size == size && block->stream == stream;
    }
    return seen;
}

/* A taken block of the segment, any; 0 = none is. */
static uint32_t some_taken(struct parts *parts, struct pool *pool) POOL_LOCKED
{
    for (int i = 0; i < 40; i++) {
        uint32_t index = block_find(pool, PARTS_BASE + parts_random(parts, PARTS_SIZE / 512) * 512);

        if (block_at(pool, index)->state == BLOCK_BUSY)
            return index;
    }
    return 0;
}

/* One taken block over the whole segment. */
static void take_all(struct parts *parts, struct pool *pool) POOL_LOCKED
{
    uint32_t first = segment_at(pool, parts->segment)->first;

    freecache_settle(pool, parts->heap);
    for (uint32_t at = first; at; at = block_at(pool, at)->next) {
        if (block_at(pool, at)->state == BLOCK_FREE)
            freelist_pull(pool, at);
        block_name_stream(pool, block_at(pool, at), 0);
    }
    while (block_at(pool, first)->next)
        block_join(pool, first);
    CHECK_EQ(block_at(pool, first)->node.size, PARTS_SIZE);
}

TEST(get_finds_a_block_of_the_size_and_class_exactly_if_one_is_recent)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t stream[CLASSES] = {0};
    uint64_t hits = 0, misses = 0, evicted = 0;

    lock_take(&pool->lock);
    for (uint32_t i = 1; i < CLASSES; i++) {
        stream[i] = streams_get(pool, i);
        REQUIRE(heap_prepare_class(pool, parts.heap, stream[i]));
    }
    for (int round = 0; round < 20; round++) {
        uint32_t last = segment_at(pool, parts.segment)->first;

        for (int i = 0; i < 200; i++) {
            REQUIRE_EQ(slab_prepare(&pool->blocks, 1), 0);
            last = block_cut(pool, last, 512 * (1 + parts_random(&parts, SIZES)));
        }
        for (int step = 0; step < 1000; step++) {
            uint32_t of = stream[parts_random(&parts, CLASSES)];
            uint64_t size = 512 * (1 + parts_random(&parts, SIZES));
            uint32_t index = parts_random(&parts, 2) ? some_taken(&parts, pool) : 0;
            struct seen before = walk(pool, parts.segment, size, of);
            struct seen after;

            if (index && block_at(pool, index)->node.size <= FREECACHE_MAX) {
                freecache_put(pool, index, of, of ? 1 + (uint64_t)step : 0);
                after = walk(pool, parts.segment, size, of);
                CHECK(block_at(pool, index)->flags & BLOCK_RECENT);
                evicted += before.count + 1 - after.count;
            } else {
                index = freecache_get(pool, parts.heap, of, false, size);
                after = walk(pool, parts.segment, size, of);
                REQUIRE_EQ(index != 0, before.alike != 0);
                if (index) {
                    CHECK_EQ(block_at(pool, index)->node.size, size);
                    CHECK_EQ(block_at(pool, index)->stream, of);
                    CHECK_EQ(block_at(pool, index)->state, BLOCK_BUSY);
                    CHECK_EQ(after.count, before.count - 1);
                }
                *(index ? &hits : &misses) += 1;
            }
            REQUIRE_EQ(parts.heap->recent_count, after.count);
            REQUIRE_EQ(parts.heap->recent_bytes, after.bytes);
        }
        take_all(&parts, pool);
        CHECK_EQ(parts.heap->recent_count, 0);
        CHECK_EQ(parts.heap->recent_bytes, 0);
    }
    printf("    hits %llu, misses %llu, evicted %llu\n", (unsigned long long)hits,
            (unsigned long long)misses, (unsigned long long)evicted);
    CHECK_GT(hits, 100);
    CHECK_GT(misses, 100);
    CHECK_GT(evicted, 100);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(the_block_that_was_put_last_is_got_first)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t first, second;

    lock_take(&pool->lock);
    first = segment_at(pool, parts.segment)->first;
    second = block_cut(pool, first, PARTS_UNIT);
    (void)block_cut(pool, second, PARTS_UNIT);
    freecache_put(pool, first, 0, 0);
    freecache_put(pool, second, 0, 0); /* neighbours, and not one as long as they are recent */
    CHECK_EQ(freecache_get(pool, parts.heap, 0, false, PARTS_UNIT), second);
    CHECK_EQ(freecache_get(pool, parts.heap, 0, false, PARTS_UNIT), first);
    CHECK_EQ(freecache_get(pool, parts.heap, 0, false, PARTS_UNIT), 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(what_is_larger_than_the_cache_holds_goes_where_best_fit_sees_it)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t first;

    lock_take(&pool->lock);
    first = segment_at(pool, parts.segment)->first;
    (void)block_cut(pool, first, FREECACHE_MAX + 512);
    freecache_put(pool, first, 0, 0);
    CHECK_EQ(parts.heap->recent_count, 0);
    CHECK_EQ(parts.heap->clean.count, 1);
    freelist_pull(pool, first);
    /* one of them may be held; a second one takes its place */
    freecache_hold(pool, parts.heap, block_at(pool, first), first, 0);
    CHECK_EQ(parts.heap->recent_bytes, FREECACHE_MAX + 512);
    freecache_hold(pool, parts.heap, block_at(pool, block_at(pool, first)->next),
            block_at(pool, first)->next, 0);
    CHECK_EQ(parts.heap->recent_count, 1);
    CHECK_EQ(parts.heap->clean.bytes, FREECACHE_MAX + 512);
    freecache_settle(pool, parts.heap);
    CHECK_EQ(parts.heap->clean.bytes, PARTS_SIZE);
    CHECK_EQ(parts.heap->clean.count, 1);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

/* SPDX-License-Identifier: MIT */
/*
 * layout.h - a pool in the middle of a program: blocks of random sizes that are live, free, waited for, and gaps.
 *
 * One seed is one layout. All of it is on the stream-ordered API unless `sync` says that a third is on the sync one. A block that
 * was freed on stream 1 is done on the device; what was freed on stream 2 is not, and `fake->hangs` keeps it so until the test
 * lets it go on. Where another block is, was or may be, is read from the pool's own blocks (records.h) under its lock.
 */
#ifndef KEDGE_TESTS_UNIT_LAYOUT_H
#define KEDGE_TESTS_UNIT_LAYOUT_H

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/segment.h"
#include "alloc/storage/reclaim.h"
#include "tests/unit/alloc/pool_bench.h"

enum {
    LAYOUT_BLOCKS = 48,
};

struct layout {
    struct bench *b;
    struct pool *pool;
    uint64_t random;
    struct {
        devptr_t ptr; /* 0 = it was freed */
        uint64_t stream;
    } blocks[LAYOUT_BLOCKS];
};

static inline void layout_free_some(struct layout *layout, uint64_t one_in)
{
    for (int i = 0; i < LAYOUT_BLOCKS; i++) {
        devptr_t *ptr = &layout->blocks[i].ptr;

        if (!*ptr || bench_random(&layout->random, one_in) != 0)
            continue;
        if (layout->blocks[i].stream == 2)
            fake_submit(layout->b->fake, 2, *ptr, 512);
        REQUIRE_EQ(bench_free_on(layout->b, *ptr, layout->blocks[i].stream), 0);
        *ptr = 0;
    }
}

static inline struct layout layout_over(struct bench *b, uint64_t seed, bool sync)
{
    struct layout layout = {.b = b, .random = seed};
    uint64_t bytes;

    layout.pool = b->pool;
    for (int i = 0; i < LAYOUT_BLOCKS; i++) {
        uint64_t size = (1 + bench_random(&layout.random, 16)) * 512 * KiB
                - bench_random(&layout.random, 3) * 100 * KiB;
        uint64_t stream = sync && i % 3 == 0 ? 0 : 1 + bench_random(&layout.random, 2);

        layout.blocks[i].stream = stream;
        layout.blocks[i].ptr = bench_alloc_on(b, size, stream);
        REQUIRE(layout.blocks[i].ptr != 0);
    }
    layout_free_some(&layout, 3);
    bench_pass(b);
    REQUIRE_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, bench_random(&layout.random, 64) * MiB,
                       &bytes),
            0);
    b->fake->hangs = true;
    layout_free_some(&layout, 2);
    while (fake_step(b->fake, 1))
        ;
    BENCH_CHECK(b);
    return layout;
}

/* On a device whose physical handles are of `granularity`. */
static inline struct layout layout_of_handles(
        uint64_t seed, uint64_t memory, uint64_t granularity, bool sync)
{
    struct fake_driver *fake = fake_new(memory);

    fake->granularity = granularity;
    return layout_over(bench_over(fake, NULL), seed, sync);
}

static inline struct layout layout_new(
        uint64_t seed, uint64_t memory, const struct pool_opts *opts, bool sync)
{
    return layout_over(bench_new_with(memory, opts), seed, sync);
}

static inline void layout_end(struct layout *layout)
{
    layout->b->fake->hangs = false;
    bench_end(layout->b);
}

/* The mapped heap, with no block in the free cache. */
static inline struct heap *layout_heap(struct pool *pool) POOL_LOCKED
{
    struct heap *heap = heap_get(pool, HEAP_MAPPED, BENCH_POOL, -1);

    REQUIRE(heap != NULL);
    freecache_settle(pool, heap);
    return heap;
}

/* Bytes of whole slots (of 2 MiB) inside clean free blocks of the arena. */
static inline uint64_t layout_clean_slots(struct pool *pool, const struct heap *heap) POOL_LOCKED
{
    uint64_t bytes = 0;

    for (uint32_t at = segment_at(pool, heap->arena)->first; at; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);
        devptr_t lo = round_up(block->node.base, GRANULE_SIZE);
        devptr_t hi = (block->node.base + block->node.size) & ~(GRANULE_SIZE - 1);

        if (block->state == BLOCK_FREE && !block->stream && hi > lo)
            bytes += hi - lo;
    }
    return bytes;
}

/* The pool asks which streams are done: what was freed on stream 1 is clean then. */
static inline void layout_ask(const struct layout *layout)
{
    struct pool *pool = layout->pool;
    struct heap *heap;

    lock_take(&pool->lock);
    heap = layout_heap(pool);
    lock_drop(&pool->lock);
    REQUIRE_EQ(reclaim_points(pool, heap, 0), 0);
}

#endif

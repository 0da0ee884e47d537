/* SPDX-License-Identifier: MIT */
/* covers: runs.c */
/* Runs of free neighbours: the shortest that fits is found, and a search looks at few blocks however many there are. */
#include "tests/unit/alloc/pool_bench.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/records.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/runs.h"

#include <errno.h>

#define STREAM  1
#define STREAMS 3

enum {
    BLOCKS = 400,
    LAYOUTS = 300,
};

static uint64_t looks(struct bench *b)
{
    return b->pool->run_looks;
}

/* Nothing that is held is free afterwards. */
static void take_the_rest(struct bench *b)
{
    uint64_t rest = bench_stats(b).free;

    if (rest)
        REQUIRE(bench_alloc_on(b, rest, STREAM) != 0);
    CHECK_EQ(bench_stats(b).free, 0);
}

static int compare_addresses(const void *a, const void *b)
{
    devptr_t left = *(const devptr_t *)a;
    devptr_t right = *(const devptr_t *)b;

    return (left > right) - (left < right);
}

/* `count` blocks of a page on the stream, of which each `nth` by address is freed; one request more that fits none of them. */
static uint64_t looks_of_a_miss(unsigned count, unsigned nth)
{
    struct bench *b;
    struct pool_opts opts;
    devptr_t *ptrs = calloc(count, sizeof(*ptrs));
    uint64_t before;

    pool_opts_init(&opts);
    opts.remap = POOL_REMAP_LAZY; /* a miss does not query the stream's own work */
    b = bench_new_with(4 * GiB, &opts);

    REQUIRE(ptrs != NULL);
    /* two streams: what is clean stays apart from what is of one */
    CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 4 * KiB, STREAM + 1), STREAM + 1), 0);
    for (unsigned i = 0; i < count; i++)
        REQUIRE((ptrs[i] = bench_alloc_on(b, 4 * KiB, STREAM)) != 0);
    take_the_rest(b);
    qsort(ptrs, count, sizeof(*ptrs), compare_addresses);
    for (unsigned i = 0; i < count; i += nth)
        CHECK_EQ(bench_free_on(b, ptrs[i], STREAM), 0);
    b->fake->hangs = true; /* so that nothing becomes clean */
    before = looks(b);
    CHECK_NE(bench_alloc_on(b, 8 * KiB, STREAM), 0);
    free(ptrs);
    before = looks(b) - before;
    b->fake->hangs = false;
    bench_end(b);
    printf("%u blocks, each %u. free: %llu looks\n", count, nth, (unsigned long long)before);
    return before;
}

TEST(live_blocks_do_not_count)
{
    uint64_t few = looks_of_a_miss(2000, 100);

    CHECK_GT(few, 0);
    CHECK_EQ(looks_of_a_miss(40000, 2000), few);
}

TEST(a_search_among_many_free_blocks_ends)
{
    CHECK_LE(looks_of_a_miss(40000, 2),
            2 * RUNS_LOOKS); /* one search for the stream's own, one for any */
}

/* ── the shortest ── */

static unsigned dice(unsigned *random, unsigned below)
{
    *random = *random * 1103515245u + 12345u;
    return *random / 65536 % below;
}

/* The bytes of the shortest run, by a look at each pair of blocks; 0 = none. */
static uint64_t shortest(
        struct pool *pool, const struct heap *heap, const struct want *want, bool any)
{
    uint64_t best = 0;

    for (uint32_t first = segment_at(pool, heap->arena)->first; first;
            first = block_at(pool, first)->next) {
        uint64_t bytes = 0;

        for (uint32_t at = first; at; at = block_at(pool, at)->next) {
            const struct block *block = block_at(pool, at);

            if (block->state != BLOCK_FREE
                    || !(any || !block->stream || block->stream == want->stream))
                break;
            bytes += block->node.size;
            if (bytes < want->size)
                continue;
            if (!best || bytes < best)
                best = bytes;
            break;
        }
    }
    return best;
}

static void compare_with_shortest(struct bench *b, struct heap *heap, uint64_t size, bool any)
{
    struct pool *pool = b->pool;
    struct want want = {.size = size, .align = 512};
    uint64_t bytes = 0;
    uint32_t first, last;
    int r;

    lock_take(&pool->lock);
    want.stream = streams_find(pool, STREAM);
    freecache_settle(pool, heap);
    r = runs_find(pool, heap, &want, any ? RUNS_ANY : RUNS_OWN, &first, &last);
    for (uint32_t at = first; r == 0; at = block_at(pool, at)->next) {
        bytes += block_at(pool, at)->node.size;
        if (at == last)
            break;
    }
    CHECK_EQ(bytes, shortest(pool, heap, &want, any));
    lock_drop(&pool->lock);
}

TEST(the_shortest_run_is_found)
{
    unsigned random = 1;

    for (int layout = 0; layout < LAYOUTS; layout++) {
        struct bench *b = bench_new(1 * GiB);
        devptr_t ptrs[BLOCKS];
        unsigned of[BLOCKS];

        for (unsigned i = 0; i < BLOCKS; i++) {
            of[i] = STREAM + dice(&random, STREAMS);
            REQUIRE((ptrs[i] = bench_alloc_on(b, (1 + dice(&random, 8)) * KiB, of[i])) != 0);
        }
        take_the_rest(b);
        b->fake->hangs = true;
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (dice(&random, 3))
                CHECK_EQ(bench_free_on(b, ptrs[i], of[i]), 0);
        }
        for (unsigned size = 9; size < 40; size += 3) {
            compare_with_shortest(b, b->pool->heaps, size * KiB, false);
            compare_with_shortest(b, b->pool->heaps, size * KiB, true);
        }
        b->fake->hangs = false;
        bench_end(b);
    }
}

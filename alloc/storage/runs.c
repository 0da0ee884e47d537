/* SPDX-License-Identifier: MIT */
#include "alloc/storage/runs.h"

#include "alloc/heap/block.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/stream_wait.h"
#include "alloc/heap/streams.h"
#include "alloc/storage/fit.h"

#include <errno.h>

static bool run_fits(const struct block *first, uint64_t bytes, const struct want *want)
{
    uint64_t skip = -first->node.base & (want->align - 1);

    return skip + want->size <= bytes;
}

/* Free neighbours in one segment. */
struct run {
    uint32_t first, last;
    uint64_t bytes;
};

/* One search. */
struct search {
    struct pool *pool;
    const struct want *want;
    struct run best;
    uint32_t looks; /* blocks that may still be examined */
    /* streams whose blocks may be used besides the own ones, and up to which point; NULL: all */
    const struct fence_set *told;
};

/* The point up to which a stream's free blocks may be part of the run. */
static uint64_t upto(const struct search *search, uint32_t stream)
{
    if (!search->told || stream == search->want->stream)
        return UINT64_MAX;
    return stream_wait_upto(search->told, stream);
}

static bool belongs(const struct search *search, const struct block *block)
{
    return block->state == BLOCK_FREE
            && (!block->stream || block->seq <= upto(search, block->stream));
}

/* Drops unneeded blocks from the left of a run. */
static void shorten_run(const struct pool *pool, const struct want *want, struct run *run)
{
    while (run->first != run->last) {
        const struct block *left = block_at(pool, run->first);

        if (!run_fits(block_at(pool, left->next), run->bytes - left->node.size, want))
            return;
        run->bytes -= left->node.size;
        run->first = left->next;
    }
}

/* Tries the runs among the free neighbours from block `first` on; of equal ones the lowest wins. */
static void runs_try_from(struct search *search, uint32_t first)
{
    const struct pool *pool = search->pool;
    struct run *best = &search->best;
    struct run run = {.first = first};

    for (uint32_t at = first; search->looks && belongs(search, block_at(pool, at));
            at = block_at(pool, at)->next) {
        search->looks--;
        run.last = at;
        run.bytes += block_at(pool, at)->node.size;
        shorten_run(pool, search->want, &run);
        if (!run_fits(block_at(pool, run.first), run.bytes, search->want))
            continue;
        if (run.bytes < best->bytes
                || (run.bytes == best->bytes
                        && block_at(pool, run.first)->node.base
                                < block_at(pool, best->first)->node.base))
            *best = run;
    }
}

/* The left end of the free neighbours around a stream's block; 0 if another stream's block has the
 * same left end. Idle neighbours form one block, so two steps suffice. */
static uint32_t left_end(const struct search *search, uint32_t index)
{
    const struct pool *pool = search->pool;
    const struct block *before = block_at(pool, block_at(pool, index)->prev);

    if (belongs(search, before) && !before->stream) {
        index = block_at(pool, index)->prev;
        before = block_at(pool, before->prev);
    }
    return belongs(search, before) ? 0 : index;
}

/* noinline: few blocks have free neighbours. */
static __attribute__((noinline)) bool try_run(struct search *search, uint32_t index)
{
    uint32_t first = left_end(search, index);

    if (first)
        runs_try_from(search, first);
    return true;
}

/* Tries the runs around a stream's block. Every run contains one: idle ones alone form one block,
 * which fit_take has checked. */
static bool try_block(void *self, uint32_t index)
{
    struct search *search = self;
    const struct block *block = block_at(search->pool, index);

    if (!search->looks)
        return false;
    search->looks--;
    if (block->node.size >= search->want->size
            || block_at(search->pool, block->prev)->state == BLOCK_FREE
            || block_at(search->pool, block->next)->state == BLOCK_FREE
            || (search->told && block->stream != search->want->stream))
        return try_run(search, index);
    search->looks -= search->looks > 0; /* a run by itself, and too short */
    return true;
}

/* The next class whose blocks may be used. */
static const struct heap_stream *runs_next_class(
        const struct search *search, struct heap *heap, const struct heap_stream *after)
{
    return search->told ? heap_next_of_set(heap, search->told, search->want->stream, after)
                        : heap_next_filled(heap, after);
}

int runs_find(struct pool *pool, struct heap *heap, const struct want *want, enum runs_whose whose,
        uint32_t *ret_first, uint32_t *ret_last)
{
    static const struct fence_set none;
    const struct heap_stream *at = NULL;
    struct search search = {pool, want, {.bytes = UINT64_MAX}, RUNS_LOOKS, NULL};

    if (whose == RUNS_OWN && heap->stream_count < 2)
        return -ENOENT; /* its own free neighbours and idle ones form one block then (freelist.c) */
    if (whose != RUNS_ANY)
        search.told = whose == RUNS_OWN ? &none : &streams_at(pool, want->stream)->told;
    freecache_settle(pool, heap);
    while ((at = runs_next_class(&search, heap, at)) != NULL) {
        bestfit_each(&at->fit, try_block, &search);
        bestfit_each(&at->fragments, try_block, &search);
    }
    pool->run_looks += RUNS_LOOKS - search.looks;
    if (search.best.bytes == UINT64_MAX)
        return -ENOENT;
    *ret_first = search.best.first;
    *ret_last = search.best.last;
    return 0;
}

uint32_t runs_join(struct pool *pool, uint32_t first, uint32_t last)
{
    struct block *block = block_at(pool, first);

    if (block->state == BLOCK_FREE)
        freelist_pull(pool, first);
    while (first != last) {
        uint32_t next = block->next;
        struct block *other = block_at(pool, next);

        if (other->state == BLOCK_FREE)
            freelist_pull(pool, next);
        if (block->stream && other->stream && block->stream != other->stream)
            pool->counters.point_merges++;
        if (next == last)
            last = first;
        block_join(pool, first);
    }
    return first;
}

/* SPDX-License-Identifier: MIT */
#include "alloc/heap/alias.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"

#include <errno.h>

/* The lowest run of `count` bits that are not in `used`, 0 = none. */
static uint64_t free_run(uint64_t used, uint64_t count)
{
    uint64_t starts = ~used;

    for (uint64_t i = 1; i < count; i++)
        starts &= ~used >> i;
    if (!starts)
        return 0;
    return (UINT64_MAX >> (ALIAS_PARTS - count)) << __builtin_ctzll(starts);
}

static struct alias_handle *next_handle(const struct heap *heap, const struct alias_handle *after)
{
    return table_next(&heap->alias_handles, after);
}

/* The fullest handle with enough free parts, so that other handles become empty. */
static struct alias_handle *find_handle(const struct heap *heap, uint64_t count)
{
    struct alias_handle *best = NULL;

    for (struct alias_handle *at = next_handle(heap, NULL); at; at = next_handle(heap, at)) {
        if (free_run(at->used, count) && (!best || alias_count(at->used) > alias_count(best->used)))
            best = at;
    }
    return best;
}

static void alias_take(struct alias *alias, struct alias_handle *from, uint64_t count)
{
    alias->handle = from->handle;
    alias->parts = free_run(from->used, count);
    from->used |= POOL_IS_WITHOUT(PARTS) ? 1 : alias->parts;
}

bool alias_fits(const struct heap *heap, uint64_t size, uint64_t unit)
{
    return find_handle(heap, size / alias_part(unit)) != NULL;
}

int alias_begin(struct heap *heap, devptr_t range, uint64_t size, uint64_t unit)
{
    uint64_t count = size / alias_part(unit);
    struct alias_handle *from = find_handle(heap, count);
    struct alias *alias = table_add(&heap->aliases, range);

    if (!alias)
        return -ENOMEM;
    if (!from)
        return -ENOENT;
    alias_take(alias, from, count);
    return 0;
}

int alias_open(struct heap *heap, devptr_t range, uint64_t size, uint64_t unit, uint64_t handle)
{
    struct alias_handle *from = table_add(&heap->alias_handles, handle);

    if (!from)
        return -ENOMEM;
    alias_take(table_find(&heap->aliases, range), from, size / alias_part(unit));
    return 0;
}

const struct alias *alias_find(const struct heap *heap, devptr_t range)
{
    const struct alias *alias = table_find(&heap->aliases, range);

    return alias && alias->handle ? alias : NULL;
}

void alias_mark(const struct heap *heap, const struct alias *alias)
{
    struct alias_handle *of = table_find(&heap->alias_handles, alias->handle);

    of->mark |= alias->parts;
}

uint64_t alias_end(struct heap *heap, devptr_t range)
{
    struct alias *alias = table_find(&heap->aliases, range);
    struct alias_handle *from;
    uint64_t handle;

    if (!alias)
        return 0;
    handle = alias->handle;
    from = table_find(&heap->alias_handles, handle);
    if (from)
        from->used &= ~alias->parts;
    (void)table_remove(&heap->aliases, alias);
    if (!from || from->used)
        return 0;
    (void)table_remove(&heap->alias_handles, from);
    return handle;
}

static void make_margin(struct pool *pool, uint32_t index) POOL_LOCKED
{
    block_at(pool, index)->state = BLOCK_MARGIN;
}

uint32_t alias_cut(struct pool *pool, uint32_t index, uint64_t size)
{
    const struct block *block = block_at(pool, index);
    const struct segment *segment = block_segment(pool, block);
    const struct alias *alias = alias_find(segment->heap, block->node.base);
    uint64_t skip = (uint64_t)__builtin_ctzll(alias->parts) * alias_part(segment->slot);

    if (skip) {
        make_margin(pool, index);
        index = block_cut(pool, index, skip);
        block_at(pool, index)->state = BLOCK_BUSY;
    }
    if (block_at(pool, index)->node.size > size)
        make_margin(pool, block_cut(pool, index, size));
    return index;
}

static bool is_margin(
        const struct pool *pool, uint32_t index, devptr_t range, uint64_t unit) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);

    return index && block->state == BLOCK_MARGIN && (block->node.base & ~(unit - 1)) == range;
}

uint32_t alias_join(struct pool *pool, uint32_t index)
{
    struct block *block = block_at(pool, index);
    const struct segment *segment = block_segment(pool, block);
    devptr_t range = alias_range(segment, block);

    if (is_margin(pool, block->prev, range, segment->slot)) {
        index = block->prev;
        block_name_stream(pool, block, 0);
        block_join(pool, index);
        block = block_at(pool, index);
    }
    if (is_margin(pool, block->next, range, segment->slot))
        block_join(pool, index);
    block->state = BLOCK_BUSY;
    return index;
}

/* SPDX-License-Identifier: MIT */
#include "tools/peer_heap.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

void peer_heap_init(struct peer_heap *heap, const struct peer_device *device)
{
    *heap = (struct peer_heap){.device = device};
    VEC_PUSH(heap->blocks, heap->block_count, heap->block_room) = (struct peer_block){0};
}

void peer_heap_done(struct peer_heap *heap)
{
    for (size_t i = 0; i < heap->set_count; i++)
        free(heap->lines[i].items);
    free(heap->lines);
    free(heap->roots);
    free(heap->blocks);
    free(heap->owners);
    keytable_done(&heap->sets);
    *heap = (struct peer_heap){0};
}

void *peer_open(const struct peer_device *device)
{
    struct peer_heap *heap = vec_new(1, sizeof(*heap));

    peer_heap_init(heap, device);
    return heap;
}

void peer_close(void *self)
{
    peer_heap_done(self);
    free(self);
}

uint32_t peer_grow(struct peer_heap *heap, uint64_t bytes, uint32_t set, uint32_t stream)
{
    const struct driver *driver = &heap->device->driver;
    devptr_t base;

    (void)driver->mem_alloc(driver->self, 0, 0, bytes, &base);
    uint32_t index = peer_segment(heap, base, bytes, set);
    peer_block(heap, index)->stream = stream;
    return index;
}

uint32_t peer_set(struct peer_heap *heap, uint32_t stream, uint32_t pool)
{
    uint32_t next = (uint32_t)heap->set_count;
    uint32_t set = *keytable_at(&heap->sets, (struct key){stream, pool, 0}, next);

    if (set == next) {
        heap->lines = vec_grow(heap->lines, set + 1, sizeof(*heap->lines), &heap->line_room);
        VEC_PUSH(heap->roots, heap->set_count, heap->set_room) = 0;
    }
    return set;
}

/* ── the treap ── */

static bool is_before(const struct peer_heap *heap, uint32_t a, uint32_t b)
{
    const struct peer_block *one = &heap->blocks[a];
    const struct peer_block *other = &heap->blocks[b];

    return one->size != other->size ? one->size < other->size : one->base < other->base;
}

/* Any number that has nothing to do with sizes and addresses, and is the same in each run. */
static uint32_t priority(uint32_t index)
{
    index = (index ^ (index >> 16)) * 0x45d9f3bu;
    index = (index ^ (index >> 16)) * 0x45d9f3bu;
    return index ^ (index >> 16);
}

/* Two trees of what is before `key` and what is not. */
static void split_tree(
        struct peer_heap *heap, uint32_t root, uint32_t key, uint32_t *ret_low, uint32_t *ret_high)
{
    while (root) {
        struct peer_block *block = &heap->blocks[root];
        if (is_before(heap, root, key)) {
            *ret_low = root;
            ret_low = &block->right;
            root = block->right;
        } else {
            *ret_high = root;
            ret_high = &block->left;
            root = block->left;
        }
    }
    *ret_low = 0;
    *ret_high = 0;
}

static uint32_t merge(struct peer_heap *heap, uint32_t low, uint32_t high)
{
    uint32_t root = 0;
    uint32_t *at = &root;

    while (low && high) {
        if (priority(low) > priority(high)) {
            *at = low;
            at = &heap->blocks[low].right;
            low = *at;
        } else {
            *at = high;
            at = &heap->blocks[high].left;
            high = *at;
        }
    }
    *at = low ? low : high;
    return root;
}

void peer_put(struct peer_heap *heap, uint32_t index)
{
    struct peer_block *block = &heap->blocks[index];
    uint32_t *at = &heap->roots[block->set];

    while (*at && priority(*at) > priority(index)) {
        struct peer_block *root = &heap->blocks[*at];
        at = is_before(heap, *at, index) ? &root->right : &root->left;
    }
    split_tree(heap, *at, index, &block->left, &block->right);
    *at = index;
    block->is_free = true;
}

void peer_pull(struct peer_heap *heap, uint32_t index)
{
    struct peer_block *block = &heap->blocks[index];
    uint32_t *at = &heap->roots[block->set];

    while (*at != index) {
        struct peer_block *root = &heap->blocks[*at];
        at = is_before(heap, *at, index) ? &root->right : &root->left;
    }
    *at = merge(heap, block->left, block->right);
    block->left = block->right = 0;
    block->is_free = false;
}

/* The first block that is (or comes after) a size and an address. */
static uint32_t lower_bound(
        const struct peer_heap *heap, uint32_t set, uint64_t size, devptr_t base)
{
    uint32_t found = 0;

    for (uint32_t at = heap->roots[set]; at;) {
        const struct peer_block *block = &heap->blocks[at];
        bool is_below = block->size != size ? block->size < size : block->base < base;
        if (!is_below)
            found = at;
        at = is_below ? block->right : block->left;
    }
    return found;
}

uint32_t peer_find(const struct peer_heap *heap, uint32_t set, uint64_t size)
{
    return lower_bound(heap, set, size, 0);
}

uint32_t peer_after(const struct peer_heap *heap, uint32_t index)
{
    const struct peer_block *block = &heap->blocks[index];

    return lower_bound(heap, block->set, block->size, block->base + 1);
}

/* ── blocks ── */

static uint32_t new_block(struct peer_heap *heap)
{
    uint32_t index = heap->spare;

    if (!index) {
        VEC_PUSH(heap->blocks, heap->block_count, heap->block_room) = (struct peer_block){0};
        return (uint32_t)heap->block_count - 1;
    }
    heap->spare = heap->blocks[index].next;
    heap->blocks[index] = (struct peer_block){0};
    return index;
}

uint32_t peer_segment(struct peer_heap *heap, devptr_t base, uint64_t size, uint32_t set)
{
    uint32_t index = new_block(heap);

    heap->blocks[index] = (struct peer_block){.size = size, .base = base, .set = set};
    return index;
}

uint32_t peer_cut(struct peer_heap *heap, uint32_t index, uint64_t size)
{
    uint32_t rest = new_block(heap);
    struct peer_block *block = &heap->blocks[index];

    heap->blocks[rest] = (struct peer_block){.size = block->size - size,
            .base = block->base + size,
            .prev = index,
            .next = block->next,
            .set = block->set,
            .stream = block->stream,
            .fence = block->fence};
    if (block->next)
        heap->blocks[block->next].prev = rest;
    block->next = rest;
    block->size = size;
    return rest;
}

void peer_join(struct peer_heap *heap, uint32_t index)
{
    struct peer_block *block = &heap->blocks[index];
    uint32_t next = block->next;

    block->size += heap->blocks[next].size;
    if (heap->blocks[next].fence > block->fence)
        block->fence = heap->blocks[next].fence;
    block->next = heap->blocks[next].next;
    if (block->next)
        heap->blocks[block->next].prev = index;
    heap->blocks[next] = (struct peer_block){.next = heap->spare};
    heap->spare = next;
}

uint32_t peer_extend(struct peer_heap *heap, uint32_t end, uint64_t size)
{
    uint32_t index = new_block(heap);
    struct peer_block *last = &heap->blocks[end];

    heap->blocks[index] = (struct peer_block){.size = size,
            .base = last->base,
            .prev = last->prev,
            .next = end,
            .set = last->set,
            .stream = last->stream};
    if (last->prev)
        heap->blocks[last->prev].next = index;
    last->prev = index;
    last->base += size;
    return index;
}

static bool is_free_in(const struct peer_heap *heap, uint32_t index, uint32_t set)
{
    return index && heap->blocks[index].is_free && heap->blocks[index].set == set;
}

void peer_free(struct peer_heap *heap, uint32_t index)
{
    uint32_t set = heap->blocks[index].set;
    uint32_t prev = heap->blocks[index].prev;

    if (is_free_in(heap, heap->blocks[index].next, set)) {
        peer_pull(heap, heap->blocks[index].next);
        peer_join(heap, index);
    }
    if (is_free_in(heap, prev, set)) {
        peer_pull(heap, prev);
        peer_join(heap, prev);
        index = prev;
    }
    peer_put(heap, index);
}

/* ── the caller's blocks ── */

void peer_own(struct peer_heap *heap, uint32_t number, uint32_t index)
{
    heap->owners =
            vec_grow(heap->owners, (size_t)number + 1, sizeof(*heap->owners), &heap->owner_room);
    heap->owners[number] = index;
}

uint32_t peer_disown(struct peer_heap *heap, uint32_t number)
{
    uint32_t index = heap->owners[number];

    heap->owners[number] = 0;
    return index;
}

/* ── waiting ── */

void peer_wait(struct peer_heap *heap, uint32_t set, uint32_t index, uint32_t stream)
{
    struct peer_line *line = &heap->lines[set];
    const struct driver *driver = &heap->device->driver;
    struct peer_waiting waiting = {.block = index};

    (void)driver->stream_record(driver->self, stream, &waiting.fence);
    if (line->first && line->count == line->room) {
        memmove(line->items, line->items + line->first,
                (line->count - line->first) * sizeof(*line->items));
        line->count -= line->first;
        line->first = 0;
    }
    VEC_PUSH(line->items, line->count, line->room) = waiting;
}

void peer_free_passed(struct peer_heap *heap, uint32_t set, bool all)
{
    struct peer_line *line = &heap->lines[set];
    const struct driver *driver = &heap->device->driver;
    size_t kept = line->first;

    for (size_t i = line->first; i < line->count; i++) {
        if (driver->fence_query(driver->self, line->items[i].fence) == 0) {
            (void)driver->fence_put(driver->self, line->items[i].fence);
            peer_free(heap, line->items[i].block);
            if (!all)
                kept = ++line->first;
        } else if (all) {
            line->items[kept++] = line->items[i];
        } else {
            return;
        }
    }
    line->count = all ? kept : line->count;
}

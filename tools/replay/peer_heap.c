/* SPDX-License-Identifier: MIT */
#include "tools/replay/peer_heap.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

void peer_heap_init(struct peer_heap *heap, const struct peer_device *device)
{
    *heap = (struct peer_heap){.device = device};
    VEC_PUSH(heap->blocks, heap->block_count, heap->block_room) = (struct peer_block){0};
}

void peer_heap_done(struct peer_heap *heap)
{
    for (size_t i = 0; i < heap->set_count; i++) {
        free(heap->lists[i].items);
        free(heap->lines[i].items);
    }
    free(heap->lists);
    free(heap->lines);
    free(heap->blocks);
    free(heap->owners);
    keytable_done(&heap->sets);
    *heap = (struct peer_heap){0};
}

void *peer_open(const struct peer *peer, const struct peer_device *device)
{
    struct peer_heap *heap = vec_new(1, peer->size);

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
    uint32_t set = keytable_number(&heap->sets, (struct key){stream, pool, 0});

    if (set == heap->set_count) {
        heap->lines = vec_grow(heap->lines, set + 1, sizeof(*heap->lines), &heap->line_room);
        VEC_PUSH(heap->lists, heap->set_count, heap->set_room) = (struct peer_list){0};
    }
    return set;
}

/* ── free blocks ── */

/* Index of the first free block at or after (size, base). */
static size_t peer_heap_place_of(
        const struct peer_heap *heap, uint32_t set, uint64_t size, devptr_t base)
{
    const struct peer_list *list = &heap->lists[set];
    size_t low = 0;

    for (size_t high = list->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        const struct peer_block *block = &heap->blocks[list->items[middle]];
        if (block->size != size ? block->size < size : block->base < base)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t peer_heap_block_at(const struct peer_heap *heap, uint32_t set, size_t place)
{
    const struct peer_list *list = &heap->lists[set];

    return place < list->count ? list->items[place] : 0;
}

void peer_put(struct peer_heap *heap, uint32_t index)
{
    struct peer_block *block = &heap->blocks[index];
    struct peer_list *list = &heap->lists[block->set];
    size_t place = peer_heap_place_of(heap, block->set, block->size, block->base);

    VEC_PUSH(list->items, list->count, list->room) = 0;
    memmove(list->items + place + 1, list->items + place,
            (list->count - 1 - place) * sizeof(*list->items));
    list->items[place] = index;
    block->is_free = true;
}

void peer_pull(struct peer_heap *heap, uint32_t index)
{
    struct peer_block *block = &heap->blocks[index];
    struct peer_list *list = &heap->lists[block->set];
    size_t place = peer_heap_place_of(heap, block->set, block->size, block->base);

    list->count--;
    memmove(list->items + place, list->items + place + 1,
            (list->count - place) * sizeof(*list->items));
    block->is_free = false;
}

uint32_t peer_find(const struct peer_heap *heap, uint32_t set, uint64_t size)
{
    return peer_heap_block_at(heap, set, peer_heap_place_of(heap, set, size, 0));
}

uint32_t peer_after(const struct peer_heap *heap, uint32_t index)
{
    const struct peer_block *block = &heap->blocks[index];

    return peer_heap_block_at(
            heap, block->set, peer_heap_place_of(heap, block->set, block->size, block->base + 1));
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

void peer_drop(struct peer_heap *heap, uint32_t index)
{
    heap->blocks[index] = (struct peer_block){.next = heap->spare};
    heap->spare = index;
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
    peer_drop(heap, next);
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

void peer_map(struct peer_heap *heap, devptr_t at, uint64_t bytes, uint64_t page)
{
    const struct driver *driver = &heap->device->driver;
    uint64_t handle;

    for (uint64_t done = 0; done < bytes; done += page) {
        (void)driver->handle_create(driver->self, 0, page, &handle);
        (void)driver->map(driver->self, at + done, page, handle);
    }
    (void)driver->set_access(driver->self, HEAP_MAPPED, 0, 0, at, bytes, DRIVER_ACCESS_RW);
}

uint32_t peer_stretch(struct peer_heap *heap, uint32_t end, uint64_t size, uint64_t page)
{
    uint32_t tail = peer_block(heap, end)->prev;
    uint64_t have = 0;

    if (tail && peer_block(heap, tail)->is_free) {
        have = peer_block(heap, tail)->size;
        peer_pull(heap, tail);
    }
    uint64_t bytes = (size - have + page - 1) / page * page;
    peer_map(heap, peer_block(heap, end)->base, bytes, page);
    uint32_t more = peer_extend(heap, end, bytes);
    if (!have)
        return more;
    peer_join(heap, tail);
    return tail;
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

uint32_t peer_passed(struct peer_heap *heap, uint32_t set)
{
    struct peer_line *line = &heap->lines[set];
    const struct driver *driver = &heap->device->driver;

    if (line->first == line->count
            || driver->fence_query(driver->self, line->items[line->first].fence) != 0)
        return 0;
    (void)driver->fence_put(driver->self, line->items[line->first].fence);
    return line->items[line->first++].block;
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

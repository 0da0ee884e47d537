/* SPDX-License-Identifier: MIT */
#include "alloc/heap/handles.h"

#include "alloc/base/meta.h"
#include "alloc/heap/heap.h"

#include <errno.h>
#include <string.h>

uint32_t handles_count(const struct heap *heap, uint64_t size)
{
    const struct shelf *shelf = table_find(&heap->shelves, size);

    return shelf ? shelf->count : 0;
}

static int handles_put_on_shelf(struct table *shelves, uint64_t size, uint64_t handle)
{
    struct shelf *shelf = table_add(shelves, size);

    if (!shelf)
        return -ENOMEM;
    if (shelf->count == shelf->room) {
        uint32_t room = shelf->room ? shelf->room * 2 : 8;
        uint64_t *handles = meta_get(room * sizeof(*handles));

        if (!handles)
            return -ENOMEM;
        if (shelf->room)
            memcpy(handles, shelf->handles, shelf->count * sizeof(*handles));
        meta_put(shelf->handles, shelf->room * sizeof(*handles));
        shelf->handles = handles;
        shelf->room = room;
    }
    shelf->handles[shelf->count++] = handle;
    return 0;
}

static uint64_t handles_take_from_shelf(const struct table *shelves, uint64_t size)
{
    struct shelf *shelf = table_find(shelves, size);

    return shelf && shelf->count ? shelf->handles[--shelf->count] : 0;
}

int handles_put(struct heap *heap, uint64_t size, uint64_t handle)
{
    int r = handles_put_on_shelf(&heap->shelves, size, handle);

    heap->tally.cached += r == 0 ? size : 0;
    heap_list(heap, HEAPS_GIVING);
    return r;
}

uint64_t handles_take(struct heap *heap, uint64_t size)
{
    uint64_t handle = handles_take_from_shelf(&heap->shelves, size);

    heap->tally.cached -= handle ? size : 0;
    return handle;
}

int handles_put_spare(struct heap *heap, uint64_t size, uint64_t handle)
{
    int r = handles_put_on_shelf(&heap->spares, size, handle);

    heap->tally.spare += r == 0 ? size : 0;
    heap->device->spare += r == 0 ? size : 0;
    heap_list(heap, HEAPS_GIVING);
    return r;
}

uint64_t handles_take_spare(struct heap *heap, uint64_t size)
{
    uint64_t handle = handles_take_from_shelf(&heap->spares, size);

    heap->tally.spare -= handle ? size : 0;
    heap->device->spare -= handle ? size : 0;
    return handle;
}

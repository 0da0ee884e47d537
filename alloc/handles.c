/* SPDX-License-Identifier: MIT */
#include "alloc/handles.h"

#include "alloc/meta.h"

#include <errno.h>
#include <string.h>

static struct shelf *shelf_of(const struct heap *heap, uint64_t size)
{
    return table_get(&heap->shelf_of, size);
}

static struct shelf *new_shelf(struct heap *heap, uint64_t size)
{
    struct shelf *shelf = meta_get(sizeof(*shelf));

    if (!shelf)
        return NULL;
    if (table_put(&heap->shelf_of, size, shelf) != 0) {
        meta_put(shelf, sizeof(*shelf));
        return NULL;
    }
    shelf->size = size;
    shelf->next = heap->shelves;
    heap->shelves = shelf;
    return shelf;
}

uint32_t handles_count(const struct heap *heap, uint64_t size)
{
    const struct shelf *shelf = shelf_of(heap, size);

    return shelf ? shelf->count : 0;
}

int handles_put(struct heap *heap, uint64_t size, uint64_t handle)
{
    struct shelf *shelf = shelf_of(heap, size);

    if (!shelf)
        shelf = new_shelf(heap, size);
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
    heap->tally.cached += size;
    return 0;
}

uint64_t handles_take(struct heap *heap, uint64_t size)
{
    struct shelf *shelf = shelf_of(heap, size);

    if (!shelf || !shelf->count)
        return 0;
    heap->tally.cached -= size;
    return shelf->handles[--shelf->count];
}

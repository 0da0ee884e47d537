/* SPDX-License-Identifier: MIT */
#include "alloc/handles.h"

#include "alloc/meta.h"

#include <errno.h>
#include <string.h>

uint32_t handles_count(const struct heap *heap, uint64_t size)
{
    const struct shelf *shelf = table_find(&heap->shelves, size);

    return shelf ? shelf->count : 0;
}

int handles_put(struct heap *heap, uint64_t size, uint64_t handle)
{
    struct shelf *shelf = table_add(&heap->shelves, size);

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
    struct shelf *shelf = table_find(&heap->shelves, size);

    if (!shelf || !shelf->count)
        return 0;
    heap->tally.cached -= size;
    return shelf->handles[--shelf->count];
}

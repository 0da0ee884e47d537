/* SPDX-License-Identifier: MIT */
#include "preload/addrmap.h"

#include "alloc/meta.h"

#include <stddef.h>

enum {
    ADDRMAP_FIRST = 128, /* one page */
};

static uint32_t home_of(const struct addrmap *map, uint64_t key)
{
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (map->capacity - 1);
}

/* The slot of a key, or the free one where it belongs. */
static struct addrmap_entry *slot_of(const struct addrmap *map, uint64_t key)
{
    uint32_t at = home_of(map, key);

    while (map->slots[at].key && map->slots[at].key != key)
        at = (at + 1) & (map->capacity - 1);
    return &map->slots[at];
}

struct addrmap_entry *addrmap_find(const struct addrmap *map, uint64_t key)
{
    struct addrmap_entry *slot = map->capacity && key ? slot_of(map, key) : NULL;

    return slot && slot->key ? slot : NULL;
}

static int grow(struct addrmap *map)
{
    struct addrmap larger = {.capacity = map->capacity ? 2 * map->capacity : ADDRMAP_FIRST};

    larger.slots = meta_map(larger.capacity * sizeof *larger.slots);
    if (!larger.slots)
        return -1;
    for (uint32_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key)
            *slot_of(&larger, map->slots[i].key) = map->slots[i];
    if (map->slots)
        meta_unmap(map->slots, map->capacity * sizeof *map->slots);
    map->slots = larger.slots;
    map->capacity = larger.capacity;
    return 0;
}

struct addrmap_entry *addrmap_add(struct addrmap *map, uint64_t key)
{
    struct addrmap_entry *slot = addrmap_find(map, key);

    if (slot || key == 0)
        return slot;
    if (2 * map->used >= map->capacity && grow(map) < 0)
        return NULL;
    slot = slot_of(map, key);
    *slot = (struct addrmap_entry){.key = key};
    map->used++;
    return slot;
}

void addrmap_remove(struct addrmap *map, struct addrmap_entry *entry)
{
    uint32_t mask = map->capacity - 1;
    uint32_t hole = (uint32_t)(entry - map->slots);
    uint32_t at = hole;

    map->used--;
    for (;;) {
        uint32_t home;

        map->slots[hole].key = 0;
        do {
            at = (at + 1) & mask;
            if (!map->slots[at].key)
                return;
            home = home_of(map, map->slots[at].key);
            /* it stays if its home lies behind the hole: probing still reaches it */
        } while (((at - home) & mask) < ((at - hole) & mask));
        map->slots[hole] = map->slots[at];
        hole = at;
    }
}

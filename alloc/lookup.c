/* SPDX-License-Identifier: MIT */
#include "alloc/lookup.h"

#include "alloc/meta.h"

#include <errno.h>

static uint32_t home_of(const struct lookup *lookup, uint64_t key)
{
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(key >> 32) & (lookup->room - 1);
}

/* The slot of a key, or the empty one where it would go. There is always an empty one. */
static uint32_t slot_of(const struct lookup *lookup, uint64_t key)
{
    uint32_t at = home_of(lookup, key);

    while (lookup->slots[at].value && lookup->slots[at].key != key)
        at = (at + 1) & (lookup->room - 1);
    return at;
}

void *lookup_find(const struct lookup *lookup, uint64_t key)
{
    return lookup->count ? lookup->slots[slot_of(lookup, key)].value : NULL;
}

static int grow(struct lookup *lookup)
{
    struct lookup larger = {.room = lookup->room ? lookup->room * 2 : 16, .count = lookup->count};

    larger.slots = meta_get(larger.room * sizeof(*larger.slots));
    if (!larger.slots)
        return -ENOMEM;
    for (uint32_t i = 0; i < lookup->room; i++) {
        if (lookup->slots[i].value)
            larger.slots[slot_of(&larger, lookup->slots[i].key)] = lookup->slots[i];
    }
    lookup_done(lookup);
    *lookup = larger;
    return 0;
}

int lookup_add(struct lookup *lookup, uint64_t key, void *value)
{
    uint32_t at;

    if (lookup->count + 1 > lookup->room / 4 * 3 && grow(lookup) != 0)
        return -ENOMEM;
    at = slot_of(lookup, key);
    lookup->slots[at].key = key;
    lookup->slots[at].value = value;
    lookup->count++;
    return 0;
}

void lookup_remove(struct lookup *lookup, uint64_t key)
{
    uint32_t mask = lookup->room - 1;
    uint32_t hole, at;

    if (!lookup_find(lookup, key))
        return;
    hole = slot_of(lookup, key);
    lookup->count--;
    /* What was pushed past the hole by probing moves back into it, so that no search ends too early. */
    for (at = (hole + 1) & mask; lookup->slots[at].value; at = (at + 1) & mask) {
        uint32_t home = home_of(lookup, lookup->slots[at].key);

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            lookup->slots[hole] = lookup->slots[at];
            hole = at;
        }
    }
    lookup->slots[hole].value = NULL;
}

void lookup_done(struct lookup *lookup)
{
    if (lookup->slots)
        meta_put(lookup->slots, lookup->room * sizeof(*lookup->slots));
    *lookup = (struct lookup){.slots = NULL};
}

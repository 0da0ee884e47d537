/* SPDX-License-Identifier: MIT */
#include "tools/keytable.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tools/vec.h"

struct keytable_slot {
    struct key key;
    uint32_t value;
    bool used;
};

/* A finaliser with full avalanche; the constants are odd and without structure. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

static struct keytable_slot *find_slot(const struct keytable *map, struct key key)
{
    size_t mask = map->room - 1;
    size_t i = (size_t)(mix(key.a ^ mix(key.b ^ mix(key.c)))) & mask;

    while (map->slots[i].used) {
        const struct key *k = &map->slots[i].key;
        if (k->a == key.a && k->b == key.b && k->c == key.c)
            break;
        i = (i + 1) & mask;
    }
    return &map->slots[i];
}

static void grow(struct keytable *map)
{
    struct keytable old = *map;

    map->room = old.room ? old.room * 2 : 64;
    map->slots = vec_new(map->room, sizeof(*map->slots));
    for (size_t i = 0; i < old.room; i++) {
        if (old.slots[i].used)
            *find_slot(map, old.slots[i].key) = old.slots[i];
    }
    free(old.slots);
}

uint32_t *keytable_at(struct keytable *map, struct key key, uint32_t initial)
{
    if ((map->count + 1) * 2 > map->room)
        grow(map);
    struct keytable_slot *slot = find_slot(map, key);
    if (!slot->used) {
        *slot = (struct keytable_slot){key, initial, true};
        map->count++;
    }
    return &slot->value;
}

uint32_t *keytable_find(const struct keytable *map, struct key key)
{
    if (map->room == 0)
        return NULL;
    struct keytable_slot *slot = find_slot(map, key);
    return slot->used ? &slot->value : NULL;
}

void keytable_done(struct keytable *map)
{
    free(map->slots);
    *map = (struct keytable){0};
}

struct key keytable_text(const char *text)
{
    uint64_t a = 0xcbf29ce484222325u; /* FNV-1a */
    uint64_t b = 0;
    size_t n;

    for (n = 0; text[n]; n++) {
        a = (a ^ (unsigned char)text[n]) * 0x100000001b3u;
        b = mix(b + (unsigned char)text[n] + 0x9e3779b97f4a7c15u);
    }
    return (struct key){a, b, n};
}

/* SPDX-License-Identifier: MIT */
#include "tools/keytable.h"

#include <stdlib.h>

#include "tools/vec.h"

#define uthash_fatal(message) vec_out_of_memory() /* its own answer is exit(-1), without a word */
#include <uthash.h>

struct keytable_entry {
    struct key key;
    uint32_t value;
    UT_hash_handle hh;
};

/* NOLINTBEGIN(readability-function-cognitive-complexity): the branches are those of uthash */
static struct keytable_entry *find(const struct keytable *map, struct key key)
{
    struct keytable_entry *entry;

    HASH_FIND(hh, map->head, &key, sizeof(key), entry);
    return entry;
}

uint32_t *keytable_at(struct keytable *map, struct key key, uint32_t initial)
{
    struct keytable_entry *entry = find(map, key);

    if (!entry) {
        entry = vec_new(1, sizeof(*entry));
        entry->key = key;
        entry->value = initial;
        HASH_ADD(hh, map->head, key, sizeof(entry->key), entry);
    }
    return &entry->value;
}

/* NOLINTEND(readability-function-cognitive-complexity) */

uint32_t *keytable_find(const struct keytable *map, struct key key)
{
    struct keytable_entry *entry = find(map, key);

    return entry ? &entry->value : NULL;
}

uint32_t keytable_number(struct keytable *map, struct key key)
{
    return *keytable_at(map, key, (uint32_t)keytable_count(map));
}

size_t keytable_count(const struct keytable *map)
{
    return HASH_COUNT(map->head);
}

void keytable_done(struct keytable *map)
{
    struct keytable_entry *entry = map->head;

    HASH_CLEAR(hh, map->head);
    while (entry) { /* they are a list beside the table */
        struct keytable_entry *next = entry->hh.next;

        free(entry);
        entry = next;
    }
}

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

/* SPDX-License-Identifier: MIT */
#include "tools/base/keytable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "tools/base/vec.h"

#define FIRST_PART 16u

struct keytable_entry {
    struct key key;
    uint32_t value;
    /* next in its chain, or in the list of removed entries; from 1, 0 = the last one */
    uint32_t next;
};

/* A finaliser with full avalanche; the constants are odd and without structure. */
static uint64_t keytable_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

/* 8 of the 16 random bytes that the kernel gives each process. */
static uint64_t seed(void)
{
    static uint64_t known;

    if (known == 0) {
        const void *random =
                (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
        if (random)
            memcpy(&known, random, sizeof(known));
    }
    return known;
}

static uint32_t *chain_of(const struct keytable *map, const struct key *key)
{
    uint64_t hash = keytable_mix(keytable_mix(keytable_mix(key->a ^ seed()) + key->b) + key->c);

    return &map->chain[hash & (map->chains - 1)];
}

/* Entries do not move: a part is filled before the next one exists. */
static struct keytable_entry *keytable_entry_at(const struct keytable *map, uint32_t number)
{
    uint64_t place = (uint64_t)number - 1 + FIRST_PART;
    unsigned part = 63u - (unsigned)__builtin_clzll(place / FIRST_PART);

    return &map->part[part][place - ((uint64_t)FIRST_PART << part)];
}

static bool is_of(const struct keytable_entry *entry, const struct key *key)
{
    return entry->key.a == key->a && entry->key.b == key->b && entry->key.c == key->c;
}

static struct keytable_entry *keytable_find_key(const struct keytable *map, const struct key *key)
{
    uint32_t number = map->chains ? *chain_of(map, key) : 0;

    while (number) {
        struct keytable_entry *entry = keytable_entry_at(map, number);

        if (is_of(entry, key))
            return entry;
        number = entry->next;
    }
    return NULL;
}

static void link_entry(struct keytable *map, uint32_t number)
{
    struct keytable_entry *entry = keytable_entry_at(map, number);
    uint32_t *chain = chain_of(map, &entry->key);

    entry->next = *chain;
    *chain = number;
}

/*
 * As many chains as entries, so that most have one entry or none. Removed entries are in no chain.
 */
static void keytable_grow(struct keytable *map)
{
    uint32_t *old = map->chain;
    uint32_t chains = map->chains;

    if (chains > UINT32_MAX / 4)
        vec_out_of_memory();
    map->chains = chains ? 2 * chains : FIRST_PART;
    map->chain = vec_new(map->chains, sizeof(*map->chain));
    for (uint32_t i = 0; i < chains; i++) {
        for (uint32_t number = old[i], next; number; number = next) {
            next = keytable_entry_at(map, number)->next;
            link_entry(map, number);
        }
    }
    free(old);
}

/* The number of a free entry. */
static uint32_t keytable_take_entry(struct keytable *map)
{
    uint32_t number = map->gone;
    unsigned part = 63u - (unsigned)__builtin_clzll((uint64_t)map->used / FIRST_PART + 1);

    if (number) {
        map->gone = keytable_entry_at(map, number)->next;
        return number;
    }
    if (part == KEYTABLE_PARTS)
        vec_out_of_memory();
    if (!map->part[part])
        map->part[part] = vec_new((size_t)FIRST_PART << part, sizeof(**map->part));
    return ++map->used;
}

uint32_t *keytable_at(struct keytable *map, struct key key, uint32_t initial)
{
    struct keytable_entry *entry = keytable_find_key(map, &key);

    if (!entry) {
        if (map->count == map->chains)
            keytable_grow(map);
        uint32_t number = keytable_take_entry(map);
        entry = keytable_entry_at(map, number);
        *entry = (struct keytable_entry){.key = key, .value = initial};
        link_entry(map, number);
        map->count++;
    }
    return &entry->value;
}

uint32_t *keytable_find(const struct keytable *map, struct key key)
{
    struct keytable_entry *entry = keytable_find_key(map, &key);

    return entry ? &entry->value : NULL;
}

uint32_t keytable_get(const struct keytable *map, struct key key, uint32_t without)
{
    const uint32_t *value = keytable_find(map, key);

    return value ? *value : without;
}

void keytable_remove(struct keytable *map, struct key key)
{
    uint32_t *link = map->chains ? chain_of(map, &key) : NULL;

    while (link && *link) {
        uint32_t number = *link;
        struct keytable_entry *entry = keytable_entry_at(map, number);

        if (is_of(entry, &key)) {
            *link = entry->next;
            entry->next = map->gone;
            map->gone = number;
            map->count--;
            return;
        }
        link = &entry->next;
    }
}

uint32_t keytable_number(struct keytable *map, struct key key)
{
    return *keytable_at(map, key, map->count);
}

uint32_t keytable_number_new(struct keytable *map, struct key key, bool *ret_is_new)
{
    uint32_t before = map->count;
    uint32_t number = keytable_number(map, key);

    *ret_is_new = number == before;
    return number;
}

size_t keytable_count(const struct keytable *map)
{
    return map->count;
}

void keytable_done(struct keytable *map)
{
    for (unsigned i = 0; i < KEYTABLE_PARTS; i++)
        free(map->part[i]);
    free(map->chain);
    *map = (struct keytable){0};
}

uint64_t *keytable_value(struct keytable_values *values, struct key key)
{
    uint32_t number = keytable_number(&values->numbers, key);

    if (number == values->count)
        VEC_PUSH(values->at, values->count, values->room) = 0;
    return &values->at[number];
}

void keytable_values_done(struct keytable_values *values)
{
    keytable_done(&values->numbers);
    free(values->at);
    *values = (struct keytable_values){.count = 0};
}

struct key keytable_longer(struct key key, char byte)
{
    key.a = (key.a ^ (unsigned char)byte) * 0x100000001b3u; /* FNV-1a */
    key.b = keytable_mix(key.b + (unsigned char)byte + 0x9e3779b97f4a7c15u);
    key.c++;
    return key;
}

struct key keytable_text(const char *text)
{
    struct key key = KEYTABLE_NO_TEXT;

    for (; *text; text++)
        key = keytable_longer(key, *text);
    return key;
}

/* SPDX-License-Identifier: MIT */
/*
 * keymap.h - addresses and handles to a few numbers: preload's one kind of table.
 *
 * Open addressing with linear probing, doubled at one half full, holes closed at removal, so that there are no tombstones.
 * Key 0 is nobody's. An entry's address is good until the next add or remove.
 * Threads: none of it is safe alone; the caller holds its lock. Memory: meta.h, never given back.
 */
#ifndef KEDGE_PRELOAD_KEYMAP_H
#define KEDGE_PRELOAD_KEYMAP_H

#include <stdint.h>

struct keymap_entry {
    uint64_t key;
    uint64_t value[3]; /* the owner of the map says what they are */
};

/* All zero is an empty map. */
struct keymap {
    struct keymap_entry *slots;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t used;
};

/* NULL = not there. */
struct keymap_entry *keymap_find(const struct keymap *map, uint64_t key);

/* The entry of a key, new ones zeroed; NULL = no memory, or key 0. */
struct keymap_entry *keymap_add(struct keymap *map, uint64_t key);

void keymap_remove(struct keymap *map, struct keymap_entry *entry);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * addrmap.h - addresses and handles to a few numbers: preload's one kind of table.
 *
 * Open addressing with linear probing, doubled at one half full, holes closed at removal, so that there are no tombstones.
 * Key 0 is nobody's. An entry's address is good until the next add or remove.
 * Threads: none of it is safe alone; the caller holds its lock. Memory: meta.h, never given back.
 */
#ifndef KEDGE_PRELOAD_ADDRMAP_H
#define KEDGE_PRELOAD_ADDRMAP_H

#include <stdint.h>

struct addrmap_entry {
    uint64_t key;
    uint64_t value[3]; /* the owner of the map says what they are */
};

/* All zero is an empty map. */
struct addrmap {
    struct addrmap_entry *slots;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t used;
};

/* NULL = not there. */
struct addrmap_entry *addrmap_find(const struct addrmap *map, uint64_t key);

/* The entry of a key, new ones zeroed; NULL = no memory, or key 0. */
struct addrmap_entry *addrmap_add(struct addrmap *map, uint64_t key);

void addrmap_remove(struct addrmap *map, struct addrmap_entry *entry);

#endif

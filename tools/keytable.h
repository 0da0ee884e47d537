/* SPDX-License-Identifier: MIT */
/*
 * keytable.h - a hash table from three numbers to one.
 *
 * Addresses, (anchor, site, size) triples and hashed names are looked up millions of times when a capture is read, and
 * nothing is ever removed: a caller that wants an entry gone overwrites its value. Open addressing, at most half full.
 *
 * Does not own what the numbers stand for. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_KEYTABLE_H
#define KEDGE_TOOLS_KEYTABLE_H

#include <stddef.h>
#include <stdint.h>

struct key {
    uint64_t a, b, c;
};

struct keytable {
    struct keytable_slot *slots;
    size_t count, room; /* room is a power of two, or 0 */
};

/* The value of `key`; a new entry starts with `initial`. Valid until the next keytable_at. */
uint32_t *keytable_at(struct keytable *map, struct key key, uint32_t initial);

/* The value of `key`, NULL if it was never put in. */
uint32_t *keytable_find(const struct keytable *map, struct key key);

void keytable_done(struct keytable *map);

/* A key for a text: two independent hashes and the length. */
struct key keytable_text(const char *text);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * keytable.h - a hash table from three numbers to one.
 *
 * uthash with entries of one kind, so that the readers of captures need not declare a struct for every index. Nothing is
 * ever removed: a caller that wants an entry gone overwrites its value.
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

/* {0} is an empty table. */
struct keytable {
    struct keytable_entry *head;
};

/* The value of `key`; a new entry starts with `initial`. Valid as long as the table. */
uint32_t *keytable_at(struct keytable *map, struct key key, uint32_t initial);

/* The value of `key`, NULL if it was never put in. */
uint32_t *keytable_find(const struct keytable *map, struct key key);

/* The number of `key`: 0 for the first one that was asked for, 1 for the next. Of a table of which nothing else is asked. */
uint32_t keytable_number(struct keytable *map, struct key key);

/* How many entries it has. */
size_t keytable_count(const struct keytable *map);

void keytable_done(struct keytable *map);

/* A key for a text: two independent hashes and the length. */
struct key keytable_text(const char *text);

#endif

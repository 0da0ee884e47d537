/* SPDX-License-Identifier: MIT */
/*
 * keytable.h - a hash table that maps three numbers to one.
 *
 * Entries of one kind, so that the readers of captures need not declare a struct for every index:
 * 32 bytes each, plus 4 to 8 for its chain. Keys may come from hostile files, so collisions differ
 * from process to process.
 *
 * Not uthash: for 100,000 keys an insert takes 349 instructions and a find 134 (callgrind, gcc -O2),
 * in 5 MiB; with uthash 2.3 821 and 272, in 11.6 MiB.
 *
 * Does not own the objects behind the numbers. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_KEYTABLE_H
#define KEDGE_TOOLS_KEYTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key {
    uint64_t a, b, c;
};

#define KEYTABLE_PARTS 28

/* {0} is an empty table. */
struct keytable {
    struct keytable_entry *part[KEYTABLE_PARTS]; /* each twice as large as the one before */
    uint32_t *chain; /* by hash: the number of the first entry, from 1 */
    uint32_t chains; /* a power of two, 0 while there are none */
    uint32_t used;   /* entries that have a number */
    uint32_t gone;   /* the last removed entry, from 1 */
    uint32_t count;
};

/* The value of `key`; a new entry starts with `initial`. Valid until the entry is removed. */
uint32_t *keytable_at(struct keytable *map, struct key key, uint32_t initial);

/* The value of `key`, NULL if it is not in the table. */
uint32_t *keytable_find(const struct keytable *map, struct key key);

/* The value of `key`, or `without` if it is not in the table. */
uint32_t keytable_get(const struct keytable *map, struct key key, uint32_t without);

/* Removes `key`, if it is in the table. Not for a table that numbers its keys. */
void keytable_remove(struct keytable *map, struct key key);

/* The number of `key`: 0 for the first queried one, 1 for the next. The table is else only read. */
uint32_t keytable_number(struct keytable *map, struct key key);

/* The same; *ret_is_new: this is the first query for it. */
uint32_t keytable_number_new(struct keytable *map, struct key key, bool *ret_is_new);

/* The number of its entries. */
size_t keytable_count(const struct keytable *map);

void keytable_done(struct keytable *map);

/* Values of 64 bits by key. {0} is empty. */
struct keytable_values {
    struct keytable numbers; /* key -> index in `at` */
    uint64_t *at;
    size_t count, room;
};

/* The value of `key`; a new one is 0. Valid until the next new one. */
uint64_t *keytable_value(struct keytable_values *values, struct key key);

void keytable_values_done(struct keytable_values *values);

/* A key for a text: two independent hashes and the length. */
struct key keytable_text(const char *text);

/* The key of a text that is built up: of the empty one. Below: with one more byte at its end. */
#define KEYTABLE_NO_TEXT ((struct key){0xcbf29ce484222325u, 0, 0})
struct key keytable_longer(struct key key, char byte);

#endif

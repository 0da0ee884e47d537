/* SPDX-License-Identifier: MIT */
/*
 * grow.h - arrays that grow, and memory that is there or the command ends.
 *
 * The tools read whole captures into arrays of plain structs. A command that cannot get memory has nothing left to do
 * but say so: grow_* print one line and end the process with exit code 2. (The libraries of this project never do that;
 * this file is for the programs under tools/ only.)
 *
 *     struct item *items = NULL; size_t count = 0, room = 0;
 *     GROW_PUSH(items, count, room) = (struct item){...};
 *
 * Threads: none. Memory: malloc.
 */
#ifndef KEDGE_TOOLS_GROW_H
#define KEDGE_TOOLS_GROW_H

#include <stddef.h>

/* Room for at least `need` elements of `size` bytes; `*room` is updated. New bytes are zero. */
void *grow_room(void *base, size_t need, size_t size, size_t *room);

/* Zeroed memory for `count` elements; never NULL. */
void *grow_array(size_t count, size_t size);

char *grow_text(const char *text);

/* printf into memory of its own. */
char *grow_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The next element of an array, as an lvalue. */
#define GROW_PUSH(base_, count_, room_)                                        \
    (*((base_) = grow_room((base_), (count_) + 1, sizeof(*(base_)), &(room_)), \
            &(base_)[(count_)++]))

#endif

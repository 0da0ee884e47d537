/* SPDX-License-Identifier: MIT */
/*
 * rowpick.h - selects and orders the rows of a table: --sort and --filter.
 *
 * A filter is a text that a row must contain, ignoring case: in a frame of its stack ("function
 * file:line", as titles write it, or the file's path), in its library, or in another name that the
 * table gives it.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_ROWPICK_H
#define KEDGE_TOOLS_ROWPICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/symbols/symbols.h"

/* A figure of a row, with its name for --sort: a uint64_t or a double at `offset`. */
struct rowpick_field {
    const char *name;
    size_t offset;
    bool is_real;
};

/* The fields that a table can be sorted by. */
struct rowpick_fields {
    const struct rowpick_field *at;
    size_t count;
};

/* clang-format off */
#define ROWPICK_UINT(name_, type_, member_) {name_, offsetof(type_, member_), false}
#define ROWPICK_REAL(name_, type_, member_) {name_, offsetof(type_, member_), true}
/* clang-format on */
#define ROWPICK_FIELDS(array_)                         \
    {                                                  \
        (array_), sizeof(array_) / sizeof((array_)[0]) \
    }

/* NULL: no such field. */
const struct rowpick_field *rowpick_find(const struct rowpick_fields *fields, const char *name);

/* Largest first; equal rows keep their order. With `field` NULL all rows do. */
void rowpick_sort(void *rows, size_t count, size_t size, const struct rowpick_field *field);

/*
 * A filter over the stacks of a trace; the answer for a stack is remembered. rowpick_done frees it.
 */
struct rowpick_filter;
struct rowpick_filter *rowpick_new(const char *text, struct symbols *symbols, size_t stack_count);
void rowpick_done(struct rowpick_filter *filter);

/* `filter` NULL: every text passes. A text of NULL never matches. */
bool rowpick_has_text(const struct rowpick_filter *filter, const char *text);
bool rowpick_has_stack(struct rowpick_filter *filter, uint32_t stack);

#endif

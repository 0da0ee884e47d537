/* SPDX-License-Identifier: MIT */
/*
 * export_names.h - numbers for texts and calls, since most formats write each of them once and then
 * its number.
 *
 * Numbers count from 0 in the order of the first query. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORT_NAMES_H
#define KEDGE_TOOLS_EXPORT_NAMES_H

#include <stdbool.h>

#include "tools/base/keytable.h"
#include "tools/symbols/symbols.h"

/* {0} is empty. */
struct export_names {
    struct keytable texts, calls;
};

/* *ret_is_new: this is the first query for it. */
uint32_t export_names_text(struct export_names *names, const char *text, bool *ret_is_new);

/* Calls with the same function, file and line are one. */
uint32_t export_names_call(
        struct export_names *names, const struct symbols_line *line, bool *ret_is_new);

void export_names_done(struct export_names *names);

/* The text with U+FFFD in place of invalid UTF-8. The caller frees it. */
char *export_names_utf8(const char *text);

#endif

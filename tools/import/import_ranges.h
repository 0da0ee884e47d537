/* SPDX-License-Identifier: MIT */
/*
 * import_ranges.h - the ranges that are open while another tool's record is read.
 *
 * The same rules as tracker/where/anchor.h has for a program: ranges of a thread nest, the path of
 * one is "outer/inner", and each path counts its entries. A thread without a range of its own is in
 * the one that any thread entered last.
 *
 * Bounds: IMPORT_RANGES_MAX ranges open at one time, names and paths as there. Ranges beyond them
 * are counted. Threads: none.
 */
#ifndef KEDGE_TOOLS_IMPORT_RANGES_H
#define KEDGE_TOOLS_IMPORT_RANGES_H

#include "tools/import/import_names.h"

#define IMPORT_RANGES_MAX 256u

struct import_range {
    uint32_t thread, group;
    uint32_t name, path; /* numbers of texts */
    uint32_t instance, anchor;
    char *text; /* the path */
};

struct import_ranges {
    struct import_range open[IMPORT_RANGES_MAX]; /* in the order of entering */
    size_t count;
    struct keytable paths; /* path -> number of entries */
    uint32_t last_anchor;
    uint64_t lost;
};

/* The new range, NULL beyond a bound. Valid until the next call. */
const struct import_range *import_ranges_enter(struct import_ranges *ranges,
        struct import_names *names, uint32_t thread, uint32_t group, struct import_text name);

/* Removes the group's innermost range of this name, 0 = any. False: none. *ret_range: no text. */
bool import_ranges_leave(struct import_ranges *ranges, uint32_t thread, uint32_t group,
        uint32_t name, struct import_range *ret_range);

/* The range that a thread is in, NULL = none. */
const struct import_range *import_ranges_here(const struct import_ranges *ranges, uint32_t thread);

void import_ranges_done(struct import_ranges *ranges);

#endif

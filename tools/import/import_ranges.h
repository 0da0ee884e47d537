/* SPDX-License-Identifier: MIT */
/*
 * import_ranges.h - the ranges that are open while another tool's record is read.
 *
 * As tracker/where/anchor.h has them in a program: ranges of a thread nest, the path of one is "outer/inner", and each path counts how
 * often it was entered. A thread with no range of its own is in the one that was entered last, whose ever it is.
 *
 * Bounds: IMPORT_RANGES_MAX ranges open at one time, names and paths as there. What exceeds them is counted. Threads: none.
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
    struct keytable paths; /* path -> how often it was entered */
    uint32_t last_anchor;
    uint64_t lost;
};

/* The new range, NULL beyond a bound. Valid until the next call. */
const struct import_range *import_ranges_enter(struct import_ranges *ranges,
        struct import_names *names, uint32_t thread, uint32_t group, struct import_text name);

/* Takes out the innermost range of the group, with this name unless it is 0. False: there is none. *ret_range has no text. */
bool import_ranges_leave(struct import_ranges *ranges, uint32_t thread, uint32_t group,
        uint32_t name, struct import_range *ret_range);

/* Where a thread is, NULL = nowhere. */
const struct import_range *import_ranges_here(const struct import_ranges *ranges, uint32_t thread);

void import_ranges_done(struct import_ranges *ranges);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * compare_coverage.h - how much of a run a search for late frees could look at, and what to do where that was little.
 *
 * "Nothing was freed late" is an answer only if there was something to look at. If a program states no anchors, if the anchors
 * of two runs have different names, or if a run stopped inside its only step, the search finds nothing, which proves nothing.
 * compare.h and suggest_lastuse.h count what they looked at and why they passed over the rest; compare_coverage.c prints it.
 *
 * Prints, decides nothing about hints. Threads: none.
 */
#ifndef KEDGE_TOOLS_COMPARE_COVERAGE_H
#define KEDGE_TOOLS_COMPARE_COVERAGE_H

#include <stdio.h>

#include "tools/base/render.h"
#include "tools/compare/compare.h"

/* Less than half of the run's allocations: then what was found is a part, and "nothing" is not known. */
bool compare_coverage_is_little(const struct compare *compare);

/* True if it was little, and nothing was found: whether there are late frees is not known. */
bool compare_coverage_is_unknown(const struct compare *compare);

/*
 * Nothing if enough was looked at. Else one line that says how much was, and one that says why and what to do. `good` is NULL
 * where one run was searched by its own uses.
 */
void compare_coverage_print(FILE *out, const struct compare *compare, const struct trace *good,
        const struct trace *bad);

/* The same as keys: allocations, allocated_bytes, looked_at ..., advice (null if enough was looked at). */
void compare_coverage_json(struct json *json, const struct compare *compare,
        const struct trace *good, const struct trace *bad);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * compare_coverage.h - the part of a run that a search for late frees could compare, with advice if
 * that was little.
 *
 * "Nothing was freed late" is an answer only if enough was compared. If a program states no
 * anchors, if the anchors of two runs have different names, or if a run stopped inside its only
 * step, the search finds nothing, which proves nothing. compare.h and suggest_lastuse.h count the
 * blocks that they compared and the reasons for the rest; compare_coverage.c prints that.
 *
 * Prints, decides nothing about hints. Threads: none.
 */
#ifndef KEDGE_TOOLS_COMPARE_COVERAGE_H
#define KEDGE_TOOLS_COMPARE_COVERAGE_H

#include <stdio.h>

#include "tools/base/render.h"
#include "tools/compare/compare.h"

/* Less than half of the allocations were compared: findings are partial, "nothing" is unknown. */
bool compare_coverage_is_little(const struct compare *compare);

/* True if little was compared and nothing was found: whether there are late frees is unknown. */
bool compare_coverage_is_unknown(const struct compare *compare);

/*
 * Prints nothing if enough was compared. Else one line with the part that was, and one with the
 * reason and advice. `good` is NULL if one run was searched by its own uses.
 */
void compare_coverage_print(FILE *out, const struct compare *compare, const struct trace *good,
        const struct trace *bad);

/* As keys: allocations, allocated_bytes, looked_at ..., advice (null if enough was compared). */
void compare_coverage_json(struct json *json, const struct compare *compare,
        const struct trace *good, const struct trace *bad);

#endif

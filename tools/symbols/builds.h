/* SPDX-License-Identifier: MIT */
/*
 * builds.h - libraries whose builds differ between two runs.
 *
 * The key of a call site is made of builds and offsets, so a rebuild of a library changes the keys
 * of all call sites whose stacks go through it: allocations of the two runs are then paired by size
 * alone, and hints of one run match nothing in the other. The figures do not show that, so a note
 * says it once for each library. A library at another path counts as the same.
 *
 * Only modules in stacks are compared. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_BUILDS_H
#define KEDGE_TOOLS_BUILDS_H

#include "tools/base/render.h"
#include "tools/trace/trace.h"

/* A note's names for the two runs, and the consequence that it states. */
struct builds_words {
    const char *good, *bad, *consequence;
};

/* "note: PATH is another build in BAD (...) than in GOOD (...): CONSEQUENCE" */
void builds_print_as(FILE *out, const struct trace *good, const struct trace *bad,
        const struct builds_words *words);

/* The same for a good and a bad run. Below: "rebuilt": [{path, good, bad}]. */
void builds_print(FILE *out, const struct trace *good, const struct trace *bad);
void builds_json(struct json *json, const struct trace *good, const struct trace *bad);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * builds.h - libraries that are another build in one of two runs.
 *
 * The key of an allocation's place is made of builds and offsets, so that a rebuild of a library changes the keys of all
 * places that go through it: allocations of two runs are then paired by size alone, and hints of one match nothing in the
 * other. Nobody can see that from the figures, so it is said, once for each library. A library that merely moved is the same.
 *
 * Only modules that stand in stacks are looked at. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_BUILDS_H
#define KEDGE_TOOLS_BUILDS_H

#include "tools/render.h"
#include "tools/trace.h"

/* What one library is in the two runs. Texts are 16 digits of the build-id or fingerprint. */
struct builds_change {
    const char *path; /* in the second run; the trace's */
    char first[20], second[20];
};

/* Sorted by path; the caller frees the array. */
struct builds_change *builds_compare(
        const struct trace *first, const struct trace *second, size_t *ret_count);

/* "note: PATH is another build in bad ...", and "rebuilt": [{path, good, bad}]. */
void builds_print(FILE *out, const struct trace *good, const struct trace *bad);
void builds_json(struct json *json, const struct trace *good, const struct trace *bad);

#endif

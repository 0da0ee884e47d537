/* SPDX-License-Identifier: MIT */
/*
 * fitsites.h - which blocks of a run may go out to the host, and by which call sites and sizes a hint picks them exactly.
 *
 *     begins of steps:   |        |        |        |
 *     lasting         ──────────────────────────                lives through a whole step, and is used in its first such one
 *     passing              ──                                   made and freed around steps; all its uses were seen
 *
 * Blocks whose uses may not all have been seen are never picked (patterns.h), nor are those of a call site that shares one (R85),
 * those that a whole step does not name, and small ones. A pick is exact if all that it matches, of what is large enough, may
 * go out. Of the exact picks few are taken that have all blocks that are wanted (cover.h), the widest and most readable first.
 *
 * Pure apart from memory. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_FITSITES_H
#define KEDGE_TOOLS_FITSITES_H

#include "tools/symbols/sitekey.h"
#include "tools/trace/trace.h"

enum fitsites_class {
    FITSITES_LASTING,
    FITSITES_PASSING,
    FITSITES_NEUTRAL, /* passing, before the first step or in the last: it may be picked with others */
    /* the others stay, because they are */
    FITSITES_SMALL,
    FITSITES_DRIVER,   /* made by the driver itself */
    FITSITES_UNPLACED, /* without a call site */
    FITSITES_SHARED,   /* at a call site that shares blocks */
    FITSITES_UNSEEN,   /* used by what is not told, perhaps */
    FITSITES_UNUSED,   /* not named in a whole step */
    FITSITES_CLASSES
};

struct fitsites_job {
    const struct trace *trace;
    const uint32_t *begins; /* of the steps: event indices, rising */
    size_t begin_count;
    uint64_t min_size;
    bool with_passing; /* what lives within a step and is used more than once is wanted, too */
};

struct fitsites_pick {
    struct sitekey key;
    uint64_t size_lo, size_hi;
    uint32_t stack;       /* of its first wanted block */
    struct trace_sum sum; /* wanted blocks */
};

struct fitsites {
    uint8_t *class_of;           /* per block: enum fitsites_class */
    struct fitsites_pick *picks; /* most bytes first */
    size_t pick_count;
    /* of those that stay: what lives through a whole step */
    struct trace_sum left[FITSITES_CLASSES];
};

void fitsites_find(const struct fitsites_job *job, struct fitsites *ret_sites);
void fitsites_done(struct fitsites *sites);

/* May a hint that is made by this job match it? */
bool fitsites_may_match(
        const struct fitsites_job *job, const struct fitsites *sites, uint32_t block);

#endif

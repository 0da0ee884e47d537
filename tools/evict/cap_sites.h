/* SPDX-License-Identifier: MIT */
/*
 * cap_sites.h - which blocks of a run may go out to the host, and by which call sites and sizes a hint picks them exactly.
 *
 *     begins of steps:   |        |        |        |
 *     lasting         ──────────────────────────                lives through a whole step, and is used in its first such one
 *     passing              ──                                   made and freed around steps; all its uses were seen
 *
 * Blocks whose uses may not all have been seen are never picked (patterns.h), nor are those of a call site that shares one (R85),
 * those that a whole step does not name, and small ones. A pick is exact if all that it matches, of what is large enough, may
 * go out. Of the exact picks few are taken that have all blocks that are wanted (suggest_cover.h), the widest and most readable first.
 *
 * Pure apart from memory. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_CAP_SITES_H
#define KEDGE_TOOLS_CAP_SITES_H

#include "tools/symbols/sitekey.h"
#include "tools/trace/trace.h"

enum cap_sites_class {
    CAP_SITES_LASTING,
    CAP_SITES_PASSING,
    CAP_SITES_NEUTRAL, /* passing, before the first step or in the last: it may be picked with others */
    /* the others stay, because they are */
    CAP_SITES_SMALL,
    CAP_SITES_DRIVER,   /* made by the driver itself */
    CAP_SITES_UNPLACED, /* without a call site */
    CAP_SITES_SHARED,   /* at a call site that shares blocks */
    CAP_SITES_UNSEEN,   /* used by what is not told, perhaps */
    CAP_SITES_UNUSED,   /* not named in a whole step */
    CAP_SITES_CLASSES
};

struct cap_sites_job {
    const struct trace *trace;
    const uint32_t *begins; /* of the steps: event indices, rising */
    size_t begin_count;
    uint64_t min_size;
    bool with_passing; /* what lives within a step and is used more than once is wanted, too */
};

struct cap_sites_pick {
    struct sitekey key;
    uint64_t size_lo, size_hi;
    uint32_t stack;       /* of its first wanted block */
    struct trace_sum sum; /* wanted blocks */
};

struct cap_sites {
    uint8_t *class_of;            /* per block: enum cap_sites_class */
    struct cap_sites_pick *picks; /* most bytes first */
    size_t pick_count;
    /* of those that stay: what lives through a whole step */
    struct trace_sum left[CAP_SITES_CLASSES];
};

void cap_sites_find(const struct cap_sites_job *job, struct cap_sites *ret_sites);
void cap_sites_done(struct cap_sites *sites);

/* May a hint that is made by this job match it? */
bool cap_sites_may_match(
        const struct cap_sites_job *job, const struct cap_sites *sites, uint32_t block);

#endif

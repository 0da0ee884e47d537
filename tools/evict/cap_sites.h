/* SPDX-License-Identifier: MIT */
/*
 * cap_sites.h - the blocks of a run that may be evicted to the host, and the call sites and sizes
 * that pick them exactly.
 *
 *     begins of steps:   |        |        |        |
 *     lasting         ──────────────────────────         lives through a step, used in the first
 *     passing              ──                           made and freed around steps; all uses seen
 *
 * Blocks whose uses may not all have been seen are never picked (patterns.h), nor are those of a
 * call site that shares one (R85, fitness of hints), those that a whole step does not name, and
 * small ones. A pick is exact if all large enough blocks that it matches may be evicted. Of the
 * exact picks few are taken that contain all wanted blocks (suggest_cover.h), the widest and most
 * readable first.
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
    /* passing, before the first step or in the last: may be picked along with others */
    CAP_SITES_NEUTRAL,
    /* the other classes stay: this one is small, */
    CAP_SITES_SMALL,
    CAP_SITES_DRIVER,   /* allocated by the driver itself */
    CAP_SITES_UNPLACED, /* without a call site */
    CAP_SITES_SHARED,   /* at a call site that shares blocks */
    CAP_SITES_UNSEEN,   /* perhaps used without a record */
    CAP_SITES_UNUSED,   /* not named in a whole step */
    CAP_SITES_CLASSES
};

struct cap_sites_job {
    const struct trace *trace;
    const uint32_t *begins; /* begins of the steps: event indices, ascending */
    size_t begin_count;
    uint64_t min_size;
    /* blocks that live within a step and are used more than once are wanted, too */
    bool with_passing;
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
    /* for classes that stay: blocks that live through a whole step */
    struct trace_sum left[CAP_SITES_CLASSES];
};

void cap_sites_find(const struct cap_sites_job *job, struct cap_sites *ret_sites);
void cap_sites_done(struct cap_sites *sites);

/* Whether a hint made by this job may match the block. */
bool cap_sites_may_match(
        const struct cap_sites_job *job, const struct cap_sites *sites, uint32_t block);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * evict_check.h - what evict hints have moved in a run, beside what the simulator (swapsim.h) says of the very same run.
 *
 *     the run's order of uses + its hints ─► swapsim ─► bytes in and out of each step ─┐
 *     the steps that the run has told (FORMAT_DEF_EVICT) ───────────────────────────────┴─► those that differ
 *
 * In trap a hint moves as with policy: cpu. A cap that depends on the device is the one that the run has told for the step. Blocks that the
 * run has kept in stay in here from the beginning.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EVICT_CHECK_H
#define KEDGE_TOOLS_EVICT_CHECK_H

#include "tools/load/load.h"

struct evict_check_step {
    const struct read_evict *told; /* the capture's */
    uint64_t in, out;              /* predicted, bytes */
};

struct evict_check {
    const char *trouble;            /* why nothing can be predicted; NULL = it was */
    uint64_t in, out;               /* predicted of all steps that were told */
    struct evict_check_step *wrong; /* those that differ */
    size_t wrong_count, wrong_room;
    size_t untold; /* sets that the run should have had, and told nothing of */
};

/* Rules are those of the run's hints, by number. 0, or -errno; evict_check_done in any case. */
int evict_check_compare(const struct load *load, const struct rule *rules, size_t count,
        struct evict_check *ret_moved);
void evict_check_done(struct evict_check *moved);

#endif

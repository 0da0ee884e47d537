/* SPDX-License-Identifier: MIT */
/*
 * evict_check.h - compares the bytes that evict hints moved in a run with the simulator's figures
 * (swapsim.h) for the same run.
 *
 *     the run's order of uses + its hints ─► swapsim ─► bytes in and out per step ─┐
 *     the steps that the run recorded (FORMAT_DEF_EVICT) ──────────────────────────┴─► differences
 *
 * In trap a hint moves as with policy: cpu. A cap that depends on the device is the one that the
 * run recorded for the step. Blocks that the run kept in stay in from the beginning.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EVICT_CHECK_H
#define KEDGE_TOOLS_EVICT_CHECK_H

#include "tools/load/load.h"

struct evict_check_step {
    const struct read_evict *told; /* from the capture */
    uint64_t in, out;              /* predicted, bytes */
};

struct evict_check {
    const char *trouble;            /* why there is no prediction; NULL = there is one */
    uint64_t in, out;               /* predicted for all recorded steps */
    struct evict_check_step *wrong; /* those that differ */
    size_t wrong_count, wrong_room;
    size_t untold; /* sets that the run should have had, but did not record */
};

/* `rules` are the run's hints, by number. 0, or -errno; call evict_check_done in any case. */
int evict_check_compare(const struct load *load, const struct rule *rules, size_t count,
        struct evict_check *ret_moved);
void evict_check_done(struct evict_check *moved);

#endif

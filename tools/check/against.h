/* SPDX-License-Identifier: MIT */
/*
 * against.h - the values of a claim (claim.h) that come from the comparison with another run.
 *
 *     late             blocks of both runs that this one frees later, or never
 *     extra            blocks that only this run allocates and that are live at the end
 *     more_remaining   bytes that this run has live at the end beyond those of the other one
 *
 * "The end" is the end of the run or of its compared window. A value is not known exactly if events
 * are missing; if a run was cut off, because it would have freed more; if too few allocations have
 * a partner (then most would count as made by one run only); or, for late, if too few were compared
 * (compare_coverage.h). Blocks found late by their partner are late in any case.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_AGAINST_H
#define KEDGE_TOOLS_AGAINST_H

#include "tools/check/claim.h"
#include "tools/compare/compare.h"

/* The comparison, with other facts about the runs: "good" is the other one, "bad" this one. */
struct against {
    const struct compare *compare;
    const char *lacks; /* load_lacks, if events are missing in the compared part; else NULL */
    bool good_ended, bad_ended; /* compare_has_end */
    uint64_t pairs;             /* percent of the allocations that must have a partner */
};

/*
 * The range of CLAIM_LATE, CLAIM_EXTRA or CLAIM_MORE_REMAINING. *ret_why: why it is not exact,
 * which the caller frees; NULL: it is exact.
 */
struct claim_range against_range(
        const struct against *against, enum claim_figure figure, char **ret_why);

#endif

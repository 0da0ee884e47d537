/* SPDX-License-Identifier: MIT */
/*
 * against.h - what the comparison with another run says of a claim (claim.h).
 *
 *     late             blocks of both runs that this one frees later, or never
 *     extra            blocks that only this run allocates and that are live at the end
 *     more_remaining   bytes that this run has live at the end beyond those of the other one
 *
 * "The end" is the end of what is compared: of the run, or of its window. None of them is known
 * exactly where events are missing, or a run was cut off, because it would have freed more, or
 * where too few allocations have a partner (then most would count as made by one run only) or, of
 * late, were looked at (compare_coverage.h). What is late by its partner is so all the same.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_AGAINST_H
#define KEDGE_TOOLS_AGAINST_H

#include "tools/check/claim.h"
#include "tools/compare/compare.h"

/* The comparison, and what is known of the runs besides: "good" is the other one, "bad" this one. */
struct against {
    const struct compare *compare;
    const char *lacks; /* load_lacks, if events are missing in what is compared; else NULL */
    bool good_ended, bad_ended; /* compare_has_end */
    uint64_t pairs;             /* percent of the allocations that must have a partner */
};

/*
 * What is known of CLAIM_LATE, CLAIM_EXTRA or CLAIM_MORE_REMAINING. *ret_why: why it is not known
 * exactly, which the caller frees; NULL: it is.
 */
struct claim_range against_range(
        const struct against *against, enum claim_figure figure, char **ret_why);

#endif

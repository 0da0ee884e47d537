/* SPDX-License-Identifier: MIT */
/*
 * explain_pairs.h - which block of bad does in bad what a block of good does in good, whatever its
 * size.
 *
 * compare.h pairs blocks of equal size, to prove what is late. With another batch most sizes
 * differ, and an equal one is chance. So blocks are paired here by their line: anchor instance,
 * call site and Python stack.
 *
 * 1. As in compare.h, where the call sites are equal.
 * 2. If both runs make as many blocks at a line and some of them have no partner there, the n-th
 *    of one is paired with the n-th of the other instead.
 * 3. What is left of a line is paired in order, then what is left of an anchor and call site.
 * 4. As in compare.h, if both are left: a rebuilt library has other call sites.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPLAIN_PAIRS_H
#define KEDGE_TOOLS_EXPLAIN_PAIRS_H

#include "tools/compare/compare.h"

struct explain_pairs_side {
    const struct trace *trace;
    struct model_window window; /* only blocks born in it are paired */
    const uint64_t *python;     /* trace_python of each stack */
    uint32_t *partner;          /* is set: block -> block of the other run, ALIGN_NONE */
};

/* `compare` is of the same runs. */
void explain_pairs(const struct explain_pairs_side *good, const struct explain_pairs_side *bad,
        const struct compare *compare);

#endif

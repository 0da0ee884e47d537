/* SPDX-License-Identifier: MIT */
/*
 * pileup.h - may something pile up over the steps of a run, although no place holds more after each
 * of them?
 *
 *     stepview.h: rows, growers ─┐
 *     load.h: blocks, hints ─────┴─► what is kept beyond a step, by place ─► more than before?
 *
 * What leaks once in an epoch, or with one request of many, no place gains in each step. It is kept
 * from one step's end to the next, and so are a cache and what is replaced now and then. What a
 * place keeps so is no pile if it was as much all through the second half of the run, or fell from
 * that much again and again. All else may be one, and so may one block more after the last step.
 *
 * Hints make a difference between what the program frees and what is stored. What a live hint
 * released grows no more; what one holds after the free grows unseen.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PILEUP_H
#define KEDGE_TOOLS_PILEUP_H

#include "tools/load/load.h"
#include "tools/steps/stepview.h"

struct pileup {
    uint64_t more; /* bytes that places may have piled up; of no grower */
    uint64_t most; /* of them, those of one place: */
    uint32_t stack;
    uint64_t size; /* without stacks, else 0 */

    uint64_t held;   /* bytes that hints hold more than before, of blocks that the program freed */
    uint64_t stored; /* of what growers gained, the bytes that live hints have not released */
};

/* Of the finished steps of the view, which are STEPVIEW_GROW_ROWS at least. */
void pileup_find(const struct load *load, const struct stepview *view, struct pileup *ret);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * pileup.h - finds memory that may pile up over the steps of a run although no place holds more
 * after each step.
 *
 *     stepview.h: rows, growers ─┐
 *     load.h: blocks, hints ─────┴─► what is kept beyond a step, by place ─► more than before?
 *
 * A leak once in an epoch, or with one request of many, does not show as growth of a place in each
 * step. Its blocks are kept from one step's end to the next, as are those of a cache and blocks
 * that are replaced now and then. The kept bytes of a place are no pile if they were as high
 * throughout the second half of the run, or fell from that height several times. All others may be
 * one, and so may one more block after the last step.
 *
 * With hints the program's frees and the stored bytes differ. Blocks that a live hint released do
 * not grow any more; blocks that a hint holds after the free grow unseen.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PILEUP_H
#define KEDGE_TOOLS_PILEUP_H

#include "tools/load/load.h"
#include "tools/steps/stepview.h"

struct pileup {
    uint64_t more; /* bytes that places may have piled up, growers excluded */
    uint64_t most; /* of them, those of one place: */
    uint32_t stack;
    uint64_t size; /* if there are no stacks, else 0 */

    uint64_t held;   /* bytes that hints hold more than before, of blocks that the program freed */
    uint64_t stored; /* of the growers' gain, the bytes that live hints have not released */
};

/* On the finished steps of the view, which are at least STEPVIEW_GROW_ROWS. */
void pileup_find(const struct load *load, const struct stepview *view, struct pileup *ret);

#endif

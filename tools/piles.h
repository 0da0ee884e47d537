/* SPDX-License-Identifier: MIT */
/*
 * piles.h - which block stands above which in a placement.
 *
 * In one section all blocks that live there have an order by offset; neighbours in it are a pair. What is above a block in any
 * section is then found by going from pair to pair. Sections may be left out: what meets in these only has no order.
 *
 * Threads: none. Memory: vec.h. Pure apart from memory.
 */
#ifndef KEDGE_TOOLS_PILES_H
#define KEDGE_TOOLS_PILES_H

#include "tools/sections.h"

/* The spans right above span i are above[begin[i]] up to, not with, above[begin[i + 1]], each once. */
struct piles {
    uint32_t *begin; /* count of spans + 1 */
    uint32_t *above; /* numbers of spans */
    uint64_t *tail;  /* by span: bytes of the highest pile upon it */
};

/* Of the present offsets, which must not overlap. `left_out`: by section. */
void piles_make(const struct sections *sections, const bool *left_out, struct piles *ret_piles);
void piles_done(struct piles *piles);

#endif

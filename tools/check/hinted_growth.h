/* SPDX-License-Identifier: MIT */
/*
 * hinted_growth.h - what grows in a run with hints, where frees and stored bytes differ.
 *
 * Blocks that a live hint released do not grow any more; blocks that a hint holds after the free
 * grow unseen.
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_HINTED_GROWTH_H
#define KEDGE_TOOLS_HINTED_GROWTH_H

#include "tools/steps/growth.h"

/* Bytes that hints hold at the end of the last round, beyond the least after an earlier one. */
uint64_t hinted_growth_held(const struct load *load, const struct growth *growth);

/* Of the bytes that sites gained that grow, those that live hints have not released. */
uint64_t hinted_growth_stored(const struct load *load, const struct growth *growth);

#endif

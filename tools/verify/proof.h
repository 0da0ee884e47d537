/* SPDX-License-Identifier: MIT */
/*
 * proof.h - the programs and devices of the trial runs, as lines of the receipt (R108, evidence per
 * program).
 *
 *     captures of all runs and processes ─► proof_add ─┬─ settings "ran.KEY" (ran.h), GPUs
 *                                                      ├─ Python files of stacks, packages,
 *                                                      │  own modules of the script
 *                                                      └─ libraries of the stacks
 *
 * Each line occurs once. A receipt must name what ran: `lacks` says what cannot be named. Threads:
 * none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PROOF_H
#define KEDGE_TOOLS_PROOF_H

#include "tools/load/load.h"
#include "tracker/hints/receipt.h"

struct proof {
    struct receipt_line *line; /* its keys and values belong to it */
    size_t count, room;
    unsigned *runs; /* per line: bits of the runs in which a process had it */
    size_t run_count, run_room;
    char *lacks; /* NULL = nothing */
};

/* Adds a capture of run `run`, 0 to 31. */
void proof_add(struct proof *proof, const struct load *load, unsigned run);

/* After all runs: a command or a rank must have been in each of these (bits), or is not tried. */
void proof_end(struct proof *proof, unsigned runs);
void proof_free(struct proof *proof);

#endif

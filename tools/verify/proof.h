/* SPDX-License-Identifier: MIT */
/*
 * proof.h - what ran in the trial runs, and where, as lines of the receipt (R108).
 *
 *     captures of all runs and processes ─► proof_add ─┬─ what each says of itself (settings "ran.KEY", tracker/stacks/ran.h), its GPUs
 *                                                      ├─ Python files of its stacks, the packages that they belong to, and
 *                                                      │  the modules of its own that its script imports (framework.h)
 *                                                      └─ libraries of its stacks
 *
 * Each line once. A receipt has to name what ran: `lacks` says what cannot be named. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PROOF_H
#define KEDGE_TOOLS_PROOF_H

#include "tools/load/load.h"
#include "tracker/hints/receipt.h"

struct proof {
    struct receipt_line *line; /* keys and values belong to it */
    size_t count, room;
    unsigned *runs; /* of each line: bits of the runs in which a process said so */
    size_t run_count, run_room;
    char *lacks; /* NULL = nothing */
};

/* A capture of run `run`, 0 to 31. */
void proof_add(struct proof *proof, const struct load *load, unsigned run);

/* After all runs: a command and a rank must have been in each of these (bits), or it has not been tried. */
void proof_end(struct proof *proof, unsigned runs);
void proof_free(struct proof *proof);

#endif

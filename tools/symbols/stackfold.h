/* SPDX-License-Identifier: MIT */
/*
 * stackfold.h - which lines of a stack a reader needs, and what the others are.
 *
 * The program's own lines (framekind.h) are kept, innermost first; all others are a count with the
 * names of whose they are. A stack without own lines keeps those of the best kind that it has.
 *
 *     attend, at::addmm, Linear.forward, _call_impl, Block.forward, step, _start
 *     ─► attend, Block.forward, step, "+ 4 frames of libtorch_cuda, torch, libc"
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_STACKFOLD_H
#define KEDGE_TOOLS_STACKFOLD_H

#include "tools/symbols/symbols.h"

struct stackfold {
    const struct symbols_line **kept; /* valid as long as the symbols */
    size_t count;
    char *others; /* NULL: there are none */
};

/* `all`: every line is kept. stackfold_done frees it. */
struct stackfold stackfold_of(struct symbols *symbols, uint32_t stack, bool all);
void stackfold_done(struct stackfold *fold);

#endif

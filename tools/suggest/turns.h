/* SPDX-License-Identifier: MIT */
/*
 * turns.h - what several threads ask for in one place (R109).
 *
 * A hint's nth counts the blocks of one call site and size in an instance of an anchor, whichever thread asks. Where several threads ask
 * there, which comes first is a matter of scheduling, so no run says what a number means.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_TURNS_H
#define KEDGE_TOOLS_TURNS_H

#include "tools/base/keytable.h"
#include "tools/trace/trace.h"

/* Adds the (site, size) of blocks that several threads asked for in one instance; but for blocks without an origin, where that is told. */
void turns_find(struct keytable *turns, const struct trace *trace, const uint32_t *origin);

/* Is the block one of those? */
bool turns_has(const struct keytable *turns, const struct trace_block *block);

#endif

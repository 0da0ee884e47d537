/* SPDX-License-Identifier: MIT */
/*
 * turns.h - blocks that several threads ask for in one place (R109, judged per instance).
 *
 * A hint's nth counts the blocks of one call site and size in an instance of an anchor, whichever
 * thread asks. If several threads ask there, their order depends on scheduling, so a number means
 * nothing.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_TURNS_H
#define KEDGE_TOOLS_TURNS_H

#include "tools/base/keytable.h"
#include "tools/trace/trace.h"

/*
 * Adds the (site, size) of blocks that several threads asked for in one instance; if `origin` is
 * given, without blocks that have no origin.
 */
void turns_find(struct keytable *turns, const struct trace *trace, const uint32_t *origin);

/* Whether the block is one of those. */
bool turns_has(const struct keytable *turns, const struct trace_block *block);

#endif

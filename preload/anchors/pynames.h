/* SPDX-License-Identifier: MIT */
/*
 * pynames.h - names of modules inside a forward, as `named_modules` has them.
 *
 *     GPT() ─► blocks (a list, never called) ─► 3 is called ─► qkv is called
 *               anchors: step/forward ─► step/forward/blocks.3 ─► step/forward/blocks.3/qkv
 *
 * A name is looked for below the modules that the thread is calling, the innermost first, and is
 * kept as the way from there: the keys of `_modules`. At the next call that way is gone again, some
 * 100 ns, and the name counts if it ends at the module. Where a module is below none of them, that
 * is kept as long as the module is the same (its set of names of non-persistent buffers is).
 *
 * Threads: those that hold the GIL of the main interpreter. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_PYNAMES_H
#define KEDGE_PRELOAD_PYNAMES_H

#include "preload/anchors/pyhost.h"
#include "tracker/where/anchor.h"

#include <stdbool.h>

/*
 * The name of the module that is called, below one of those around it. False: it is below none. For
 * pyhost_parts.inner.
 */
bool pynames_below(const struct pyhost_inner *call, char name[static ANCHOR_NAME_MAX + 1]);

/* The interpreter has ended. */
void pynames_forget(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * pynamed.h - the Python call sites of a stack that hints name, looked up once per stack.
 *
 *     hints at load ─► pynamed_start
 *     tag.pystack ─► this stack before? ─ yes ─────────────────────────► tag.pysites ─► hint_plan
 *                      └ no ─► its frames, from the outermost known one inwards: ──┘
 *                             keys (pysite.h), named? (hint_pysite)
 *
 * A stack is a node of pycode.h's tree, and its sites are those of its parent and of its own frame.
 * So each frame is looked up once, however many stacks end above it.
 *
 * An ambient stack (FORMAT_PYSTACK_AMBIENT) has no sites: it is another thread's, and which one it
 * is depends on timing. A stack without memory for its state has no sites either.
 *
 * Threads: pynamed_start once, before requests are looked at; the rest any, no kedge lock may be
 * held. Not used in the child of a fork (life.h). Memory: meta.h, one span that grows with the
 * stacks and is never freed; none without such hints. No malloc.
 */
#ifndef KEDGE_PRELOAD_PYNAMED_H
#define KEDGE_PRELOAD_PYNAMED_H

#include "alloc/hints/hint.h"

/* fixed by pynamed_start; NULL: no hint names a Python call site */
extern const struct hints *pynamed_hints __attribute__((visibility("hidden")));

/*
 * Uses these hints from now on. They must stay valid for the life of the process. `saw` gets the
 * file of each frame that a hint names, before the request continues, with no lock held; NULL = no
 * call.
 */
void pynamed_start(const struct hints *hints, void (*saw)(const char *file));

/* The slow path of pynamed_of. */
const struct pysite *pynamed_find(uint32_t pystack);

/*
 * For tag.pysites: the sites of a tag.pystack that hints name; NULL = none. One load if no hint
 * names any.
 */
static inline const struct pysite *pynamed_of(uint32_t pystack)
{
    return pynamed_hints ? pynamed_find(pystack) : NULL;
}

#endif

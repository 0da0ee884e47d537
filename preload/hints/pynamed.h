/* SPDX-License-Identifier: MIT */
/*
 * pynamed.h - which Python call sites of a stack hints name, found out once per stack.
 *
 *     hints at load ─► pynamed_start
 *     tag.pystack ─► this stack before? ─ yes ──────────────────────────────────────────────────────► tag.pysites ─► hint_plan
 *                      └ no ─► its frames, from the outermost known one inwards: keys (pysite.h), named? (hint_pysite) ─┘
 *
 * A stack is a node of pycode.h's tree, and what is known of it is what is known of its parent and of its own frame. So each
 * frame is looked at once, however many stacks end above it.
 *
 * An ambient stack (FORMAT_PYSTACK_AMBIENT) names nothing: it is another thread's, and which one it is depends on time. A stack for
 * which there is no memory names nothing either.
 *
 * Threads: pynamed_start once, before requests are looked at; the rest any, no kedge lock may be held. The child of a fork asks
 * nothing (life.h). Memory: meta.h, one stretch that grows with the stacks, never given back; none of it without such hints. No
 * malloc.
 */
#ifndef KEDGE_PRELOAD_PYNAMED_H
#define KEDGE_PRELOAD_PYNAMED_H

#include "alloc/hints/hint.h"

/* fixed by pynamed_start; NULL: no hint names a Python call site */
extern const struct hints *pynamed_hints __attribute__((visibility("hidden")));

/*
 * From now on these hints are asked. They stay for the life of the process. `saw` is told of the file of each frame that one of them
 * names, before the request is looked at; no lock is held. NULL = nobody is.
 */
void pynamed_start(const struct hints *hints, void (*saw)(const char *file));

/* For pynamed_of. */
const struct pysite *pynamed_find(uint32_t pystack);

/* For tag.pysites: what of a tag.pystack hints name; NULL = nothing. One load where no hint names any. */
static inline const struct pysite *pynamed_of(uint32_t pystack)
{
    return pynamed_hints ? pynamed_find(pystack) : NULL;
}

#endif

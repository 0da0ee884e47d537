/* SPDX-License-Identifier: MIT */
/*
 * anchor.h - the program's position in its own ranges.
 *
 * Ranges that the program opens and closes (NVTX, kedge.h) are anchors. Each thread has a stack of
 * open ranges; the path of a range is "outer/inner" with the program's names (`SOT_CALL_0`, not
 * `SOT_CALL_#`), and each path counts its entries, so that "the 17th SOT_CALL_0" has a name: (path,
 * instance 16).
 *
 *     thread 1:  step ── step/forward ──┐ push, pop                     path      instance  anchor
 *     thread 2:  (nothing open) ────────┴─► inherits the phase ─────►  step/forward  16     4711
 *
 * The phase is the range that was entered last, by any thread, among the open ones. A thread
 * without open ranges (autograd's workers) inherits it. Ranges that are started and ended by id may
 * end on another thread; they are on no thread's stack, are nested in nothing, and count for the
 * phase.
 *
 * Running numbers that a framework appends are not part of a name, or no two instances would have
 * one path: PyTorch's emit_nvtx (torch/csrc/profiler/util.cpp, getNvtxStr) writes `aten::mm, seq =
 * 7, op_id = 31, sizes = [[2, 3], []], input_op_ids = [(30,0)]` for `aten::mm`. Only these four are
 * removed, in any order, where nothing else follows.
 *
 * A range of a domain other than the default is written `domain:name`. A pop closes the innermost
 * open range of its domain in this thread. A thread's end closes its open ranges, without edges.
 *
 * Does not act on edges (preload/request/dispatch.c) and does not record them (capture.h).
 * Threads: any. One short lock per push and pop, no malloc. Bounds below; pushes beyond them are
 * counted and have no edge, nor have their pops.
 */
#ifndef KEDGE_TRACKER_ANCHOR_H
#define KEDGE_TRACKER_ANCHOR_H

#include "alloc/base/types.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANCHOR_DEPTH_MAX 64u        /* open pushed ranges per thread */
#define ANCHOR_NAME_MAX  255u       /* bytes of "domain:name"; longer ones are cut */
#define ANCHOR_PATH_MAX  1023u      /* bytes of a path; deeper ones have no edge */
#define ANCHOR_PATHS_MAX (1u << 18) /* distinct paths */
#define ANCHOR_OPEN_MAX  (1u << 14) /* ranges open at one time, all threads together */

/* The position of a thread. `path` is never NULL and lives as long as the process. */
struct anchor_place {
    uint32_t anchor;   /* instance id, 0 = nowhere */
    uint32_t instance; /* number of earlier entries of the path */
    const char *path;  /* "" when nowhere */
    bool inherited;    /* the phase, not a range of this thread */
};

/* Opens a range in this thread. `domain` NULL or "" = the default one. Fills *ret_edge (EDGE_ENTER)
 * and returns 0; -EINVAL without a name; -ENOBUFS beyond a bound: counted, so that its pop is
 * ignored, and no edge. */
int anchor_push(const char *domain, const char *name, struct edge *ret_edge);

/* Closes the innermost open range of `domain` in this thread. 0 with *ret_edge (EDGE_EXIT, same
 * anchor, instance and path as its enter); -ENOBUFS for a push that had no edge; -ENOENT if nothing
 * is open. */
int anchor_pop(const char *domain, struct edge *ret_edge);

/* A point without extent, nested in this thread's innermost range. 0 with *ret_edge (EDGE_MARK),
 * else as push. */
int anchor_mark(const char *domain, const char *name, struct edge *ret_edge);

/*
 * Ranges of a group: like a domain's, but the group is not part of the path. For patterns of log
 * lines, each of which has its own ranges beside those of NVTX. `group` below ANCHOR_GROUPS.
 *
 * A program that prints "START x" and pushes "x", in either order, opens one range: the later of
 * the two has no edge (-EALREADY), and the range ends with the push's pop.
 */
#define ANCHOR_GROUPS 64u
int anchor_push_group(uint32_t group, const char *name, struct edge *ret_edge);

/* The group of ranges of a Python program (preload/anchors/pyloop.h). It duplicates no line and no
 * range: equal names are two ranges. */
#define ANCHOR_GROUP_PYTHON (ANCHOR_GROUPS - 1)

/* The same for a range nested in nothing, whatever is open: a step, which may begin and end inside
 * successive ranges of the program. Nested in each other, the paths of both would grow with each
 * step. */
int anchor_push_outermost(uint32_t group, const char *name, struct edge *ret_edge);

/* `name` NULL: the innermost range; else only if the innermost has this name, -ENOENT otherwise. */
int anchor_pop_group(uint32_t group, const char *name, struct edge *ret_edge);

/* Opens a range by id. 0 with *ret_edge; pass its `anchor` to anchor_end. -EINVAL, -ENOBUFS as
 * push. */
int anchor_start(const char *domain, const char *name, struct edge *ret_edge);

/* Closes a range by its id, from any thread. 0 with *ret_edge (EDGE_EXIT), or -ENOENT. */
int anchor_end(uint32_t anchor, struct edge *ret_edge);

/* The newest open range of the process, 0 = none. A thread sees at least its own. */
extern _Atomic uint32_t anchor_newest __attribute__((visibility("hidden")));
void anchor_look(struct anchor_place *ret_place); /* anchor_here if there are ranges */

/* The innermost open range of this thread, else the phase, else nowhere. No lock if the thread has
 * a range, or no thread has one. */
static inline void anchor_here(struct anchor_place *ret_place)
{
    if (atomic_load_explicit(&anchor_newest, memory_order_relaxed) != 0)
        anchor_look(ret_place);
    else
        *ret_place = (struct anchor_place){.path = ""};
}

/* Writes the open ranges of the whole process, in the order of entering, as their enter edges;
 * returns their number (may exceed max). Each has the number of its thread. For the capture, which
 * may open after ranges did, and for tables that drop closed ones. */
size_t anchor_open_ranges(struct edge *ret_edges, size_t max);

/* Pushes and starts beyond a bound, of this file or of intern.h. */
uint64_t anchor_lost(void);

/* In the child of a fork: the ranges of the remaining thread stay open, those of the others are
 * removed. */
void anchor_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * compare_groups.h - groups blocks of one run by call site, or by Python stack.
 *
 * A site (call site) is the innermost native frames; hints select by it too. (The name of the
 * innermost frame alone would put everything together that a framework allocates through one
 * function.) If Python allocates through a framework, the whole model has one site: each group then
 * lists its Python stacks, or, with COMPARE_GROUPS_PYTHON, each Python stack is a group. The whole
 * stack counts, because its innermost line is often a helper. Blocks without Python are grouped by
 * site, and so are blocks of threads that only have another thread's Python frames (a backward
 * pass).
 *
 * Prints nothing. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_COMPARE_GROUPS_H
#define KEDGE_TOOLS_COMPARE_GROUPS_H

#include "tools/base/keytable.h"
#include "tools/symbols/symbols.h"
#include "tools/symbols/title.h"
#include "tools/trace/model.h"
#include "tools/trace/trace.h"

enum compare_groups_by {
    COMPARE_GROUPS_SITE,
    COMPARE_GROUPS_PYTHON,
};

struct group {
    /* distinguishes the group from the others (title.h); valid after compare_groups_finish */
    char *title;
    const char *site; /* of the first block; owned by the symbols object */
    uint32_t stack;   /* of the first block */
    uint64_t count, bytes;
    uint64_t *sizes; /* distinct, ascending */
    size_t size_count, size_room;
    uint64_t *anchors; /* distinct instances, in order */
    size_t anchor_count, anchor_room;
    /*
     * Bytes of each Python stack, most bytes first; `stack` is the first of them. One entry without
     * Python frames stands for all stacks without any.
     */
    struct model_live *stacks;
    size_t stack_count, stack_room;
};

/* {.trace, .symbols, .by} is an empty list. */
struct compare_groups {
    const struct trace *trace;
    struct symbols *symbols;
    enum compare_groups_by by;
    struct group *rows; /* most bytes first, after compare_groups_finish */
    size_t count, room;
    struct keytable index, stack_index;
};

/* The key of a block's group, equal in every trace. `python`: trace_python of its stack. */
struct key compare_groups_key(const struct trace *trace, enum compare_groups_by by,
        const struct trace_block *block, uint64_t python);

void compare_groups_add(struct compare_groups *groups, uint32_t number); /* number of a block */

/* After the last block. */
void compare_groups_finish(struct compare_groups *groups);
void compare_groups_done(struct compare_groups *groups);

#endif

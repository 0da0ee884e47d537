/* SPDX-License-Identifier: MIT */
/*
 * stacks.h - converts the stacks of a capture for a trace.
 *
 *     (native leaf, Python leaf) ─► frames with modules, Python functions with lines ─► number
 *
 * Each pair becomes one stack of the trace, when it is first asked for. Threads: none. Memory:
 * vec.h; the trace points to texts of the capture, which must outlive it.
 */
#ifndef KEDGE_TOOLS_STACKS_H
#define KEDGE_TOOLS_STACKS_H

#include "tools/base/keytable.h"
#include "tools/trace/trace.h"
#include "tracker/reader/read.h"

/* The caller sets the first two. */
struct stacks {
    const struct read_capture *capture;
    struct trace *trace;
    struct keytable modules; /* module number -> the trace's */
    struct keytable known;   /* (leaf, Python leaf) -> the trace's */
    uint64_t *sites; /* per stack of the trace but the empty one; all must be made by this module */
    size_t site_count, site_room;
};

/* The native stack with the Python stack of the same moment; 0 = neither exists. */
uint32_t stacks_number(struct stacks *stacks, uint32_t leaf, uint32_t pystack);

/* The site of a stack that stacks_number returned. */
uint64_t stacks_site(const struct stacks *stacks, uint32_t number);

/* Adds a module of a capture to a trace; returns its number there. */
uint32_t stacks_add_module(struct trace *trace, const struct read_module *module);

void stacks_done(struct stacks *stacks);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * pycode.h - Python code objects and stacks as small numbers, kept for the life of the process.
 *
 * A code object dies with its function or module, and another one may get its address; so this
 * module copies what a report needs (name, qualified name, file, first line, the bytes of the line
 * table), numbered by content. The stamp of pyframe.h finds the number again without reading all of
 * that. A line is decoded only on demand.
 *
 *     struct pyframe ─ stamp ─► known? ─ no ─► copy ─ content ─► code number ┐
 *     outer frames ─────────────────────────────────────────────► parent ────┴─► node ─► leaf
 *                                                                      (parent, code, lasti)
 *
 * Numbers are dense and start at 1 (0 = none), and a parent's number is smaller than its child's:
 * as in intern.h. A lookup takes no lock; adding takes one, but not while the interpreter's memory
 * is read or a string interned. Bounded; refused additions are counted. Memory: meta.h, never
 * freed. Any thread.
 */
#ifndef KEDGE_TRACKER_PYCODE_H
#define KEDGE_TRACKER_PYCODE_H

#include "tracker/python/pyframe.h"

#include <stdbool.h>
#include <stdint.h>

#define PYCODE_CODES_MAX  (1u << 18)   /* distinct code objects */
#define PYCODE_STAMPS_MAX (1u << 20)   /* stamps that are kept */
#define PYCODE_NODES_MAX  (1u << 22)   /* distinct (parent, code, lasti) */
#define PYCODE_LINES_MAX  (128u << 20) /* bytes of all line tables */

/* A code object. Immutable once it has a number. */
struct pycode {
    uint32_t name, qualname, file; /* string numbers of intern.h */
    int32_t first_line;
    uint16_t table;  /* enum format_pytable */
    uint16_t is_cut; /* its line table was longer than FORMAT_PYLINES_MAX */
    uint32_t lines_bytes;
    uint64_t lines; /* offset of its line table in the common table */
};

struct pycode_node {
    uint32_t parent, code;
    int32_t lasti;
    uint32_t is_entry;
};

/* Numbers given so far; entries up to them are complete. */
struct pycode_counts {
    uint32_t codes, nodes;
    uint64_t refused; /* additions that a bound refused */
};

/* The leaf of a stack, frames innermost first; 0 = no frames, a bound was hit, or these are no code
 * objects. */
uint32_t pycode_stack(const struct pyframe *frames, unsigned count);

/* Entries by number, false for an unused one. *ret_lines: code->lines_bytes bytes, valid for the
 * process's life. */
bool pycode_at(uint32_t number, struct pycode *ret_code, const char **ret_lines);
bool pycode_node_at(uint32_t number, struct pycode_node *ret_node);

/* A frame as text, valid for the process's life. `function` is the qualified name where the
 * interpreter has one. */
struct pycode_frame {
    const char *function, *file;
    unsigned line; /* 0 = unknown */
};
bool pycode_frame_at(uint32_t node, struct pycode_frame *ret_frame);

void pycode_counts(struct pycode_counts *ret_counts);

/* In the child of a fork: resets the lock, entries stay. */
void pycode_fork_child(void);

#endif

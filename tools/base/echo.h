/* SPDX-License-Identifier: MIT */
/*
 * echo.h - what a program prints, passed on while it prints and kept.
 *
 *     echo_begin ─► fork ─┬─ child:  echo_child ─► the program: its standard output and error are pipes
 *                         └─ parent: echo_parent ─► a thread passes on what comes ─► echo_end, when the program has ended
 *
 * Passed on even where nobody reads: the program must not notice. Of each stream ECHO_KEPT bytes are kept.
 *
 * Threads: begin, parent and end by one; the thread between them is echo's own. Memory: vec.h, and malloc in the thread.
 */
#ifndef KEDGE_TOOLS_ECHO_H
#define KEDGE_TOOLS_ECHO_H

#include <stdbool.h>
#include <stddef.h>

#define ECHO_KEPT ((size_t)64 << 20)

enum echo_stream {
    ECHO_OUT,
    ECHO_ERR,
    ECHO_STREAMS,
};

struct echo_text {
    char *text; /* malloc's; NULL = nothing came */
    size_t length;
};

struct echo;

/* With `to_stderr` standard output goes to ours for errors. NULL: no pipes or no thread, errno says why. */
struct echo *echo_begin(bool to_stderr);

/* In the child, before the program. */
void echo_child(struct echo *echo);

/* In the parent, after the fork. */
void echo_parent(struct echo *echo);

/* Once no process of the program is left: what came of each stream, for the caller to free. Gives `echo` back. */
void echo_end(struct echo *echo, struct echo_text ret_text[static ECHO_STREAMS]);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * echo.h - passes a program's output on while it runs, and keeps it.
 *
 *     echo_begin ─► fork ─┬─ child:  echo_child ─► the program, whose output goes to pipes
 *                         └─ parent: echo_parent ─► a thread copies output ─► echo_end
 *
 * The pipes are read even if the destination has no reader, so that the program does not notice. Of
 * each stream ECHO_KEPT bytes are kept.
 *
 * Threads: begin, parent and end by one; the thread is echo's own. Memory: vec.h, and malloc in the
 * thread.
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
    char *text; /* from malloc; NULL = no output */
    size_t length;
};

struct echo;

/* With `to_stderr` standard output goes to kedge's stderr. NULL with errno: no pipes, no thread. */
struct echo *echo_begin(bool to_stderr);

/* In the child, before the program. */
void echo_child(struct echo *echo);

/* In the parent, after the fork. */
void echo_parent(struct echo *echo);

/* Once the program's processes are gone: frees `echo`; the caller frees each stream's output. */
void echo_end(struct echo *echo, struct echo_text ret_text[static ECHO_STREAMS]);

#endif

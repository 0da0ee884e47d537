/* SPDX-License-Identifier: MIT */
/*
 * output.h - joins the program's standard output and error into lines, and matches them
 * (loglines.h).
 *
 *     write, fwrite, puts, printf ... (export_output.c)
 *        └─ real call, then the bytes written ─► output_seen ─► pieces (thread, fd) ─► line
 *                                                                           │ matches
 *                                source_enter_group, _leave_group ◄───┘
 *
 * A line ends at \n or \r. Pieces are put together per thread and per descriptor, for 1 and 2, so
 * that lines of several threads do not mix. Lines longer than LOGLINES_LINE_MAX are ignored.
 *
 * Output is watched from the start in a program that may use CUDA: one that is linked with it, or
 * that links dlopen (which the static runtime needs); in others from the first dlopen on. Until
 * then, and without patterns, each export costs one load and a branch.
 *
 * May be called in a signal handler: no malloc, and no lock unless a line matches or it is the
 * thread's first text (threadmem.h). Text is ignored if the handler interrupted this thread in this
 * module or inside kedge; matching lines are ignored if the thread holds a lock of kedge. Whether a
 * line comes from a handler is not known, so no line makes a driver call (source.h). Lines from an
 * alternate signal stack, which may be small, are ignored. After a fork the child continues with
 * the pieces that its thread had.
 */
#ifndef KEDGE_PRELOAD_OUTPUT_H
#define KEDGE_PRELOAD_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct config;

extern atomic_bool output_watched;

/* Whether the text of a call must be passed in at all. */
static inline bool output_is_watched(void)
{
    return __builtin_expect(atomic_load_explicit(&output_watched, memory_order_relaxed), 0);
}

/* In the constructor: reads the patterns. `uses_cuda`: the program is linked with CUDA. */
void output_start(const struct config *config, bool uses_cuda);

/* A library is about to be opened. */
void output_library_comes(void);

/* One line for each invalid pattern, once CUDA is used. */
void output_complain(void);

/* This thread wrote `length` bytes of text to descriptor fd. Errno is kept. */
void output_seen(int fd, const char *text, size_t length);

/*
 * This thread wrote bytes that kedge cannot read; `line_ended`: the last of them is known to be a
 * newline.
 */
void output_unseen(int fd, bool line_ended);

#endif

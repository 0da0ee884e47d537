/* SPDX-License-Identifier: MIT */
/*
 * output.h - the program's standard output and error, put together into lines, and what they say (loglines.h).
 *
 *     write, fwrite, puts, printf ... (export_output.c)
 *        └─ real call, then what of it was written ─► output_seen ─► pieces of this thread and descriptor ─► line
 *                                                                                 │ matches a pattern
 *                                                                                 └─► source_enter_group, _leave_group
 *
 * A line ends at \n or \r. Pieces are put together per thread and per descriptor, for 1 and 2, so that lines of several
 * threads do not mix. Longer lines than LOGLINES_LINE_MAX are passed over.
 *
 * Watched from the beginning in a program that may come to use CUDA: one that is linked with it, or that wants dlopen (which
 * the static runtime needs); in others from its first dlopen on. Until then, and where no pattern is wanted, all exports cost one
 * load and a branch.
 *
 * May be called in a signal handler: no malloc, and no lock unless a line matches or it is the thread's first text (threadmem.h).
 * Text is ignored if the handler interrupted this thread in here or inside kedge; matching lines are ignored if the thread holds a lock of kedge. It is not
 * known whether a line comes from a handler, so no line makes a driver call (source.h). Lines from an alternate signal
 * stack, which may be small, are ignored.
 * After a fork the child goes on with the pieces that its thread had.
 */
#ifndef KEDGE_PRELOAD_OUTPUT_H
#define KEDGE_PRELOAD_OUTPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct config;

extern atomic_bool output_watched;

/* Whether the text of a call is to be shown at all. */
static inline bool output_is_watched(void)
{
    return __builtin_expect(atomic_load_explicit(&output_watched, memory_order_relaxed), 0);
}

/* In the constructor: patterns. `uses_cuda`: it is linked with CUDA. */
void output_start(const struct config *config, bool uses_cuda);

/* A library is about to be opened. */
void output_library_comes(void);

/* One line for each pattern that is none; once CUDA is used. */
void output_complain(void);

/* `length` bytes of text were written to descriptor fd by this thread. Errno is kept. */
void output_seen(int fd, const char *text, size_t length);

/* Bytes were written that nobody knows; `line_ended`: the last of them is known to be a newline. */
void output_unseen(int fd, bool line_ended);

#endif

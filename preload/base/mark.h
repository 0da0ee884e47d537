/* SPDX-License-Identifier: MIT */
/*
 * mark.h - notes for `kedge run` how far the process got (tracker/base/runmark.h).
 *
 * Without such a file (no `kedge run`, or a container) the functions do nothing. No descriptor
 * stays open, and each note is one addition in shared memory that cannot shrink. Async-signal-safe,
 * any thread; in a child of fork the notes are as its parent's.
 */
#ifndef KEDGE_PRELOAD_MARK_H
#define KEDGE_PRELOAD_MARK_H

#include <stdbool.h>

/* Opens the mark file and notes that the library is loaded. Once, in the constructor. */
void mark_loaded(void);

/*
 * The process that the library was loaded into exits. At most once, and never in a child of fork or
 * vfork.
 */
void mark_ended(void);

void mark_driver(bool is_apart); /* a driver was loaded; is_apart: in a namespace of its own */
void mark_init(int result);      /* the result of cuInit */
void mark_started(void);

#endif

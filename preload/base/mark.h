/* SPDX-License-Identifier: MIT */
/*
 * mark.h - tells the `kedge run` that began this run how far the process came (tracker/base/runmark.h).
 *
 * Where there is no such file, as without `kedge run` or in a container, nothing is done. No
 * descriptor stays open, and each note is one addition in shared memory that cannot shrink.
 * Async-signal-safe, any thread; in a child of fork the notes are as its parent's.
 */
#ifndef KEDGE_PRELOAD_MARK_H
#define KEDGE_PRELOAD_MARK_H

#include <stdbool.h>

/* Opens it, and notes that the library is loaded. Once, in the constructor. */
void mark_loaded(void);

/* The process that the library was loaded into ends by itself. Once at most, and never in a child
 * of fork or vfork. */
void mark_ended(void);

void mark_driver(bool is_apart); /* a driver was loaded; apart: in a namespace of its own */
void mark_init(int result);      /* what cuInit answered */
void mark_started(void);

#endif

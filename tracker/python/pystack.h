/* SPDX-License-Identifier: MIT */
/*
 * pystack.h - the Python stack of an allocation as one number for its tag.
 *
 *     pyframe_hash ─► this thread's cache ─► pyframe_walk, pycode_stack ─► leaf ─► tag.pystack
 *        no frames ─► the last stack of the main thread ─► leaf | FORMAT_PYSTACK_AMBIENT
 *
 * Threads of C++ libraries (the workers of a backward pass) have no Python frames, but a Python
 * thread is waiting for them. Each thread with frames stores its last stack. A thread without
 * frames gets the stack of the main thread, or, if the main thread is not in Python, that of the
 * last Python thread that asked. The flag says that the stack is not the thread's own: it shows
 * what the program was doing, not the caller.
 *
 * Threads: any, not in a signal handler; no kedge lock may be held. No malloc.
 */
#ifndef KEDGE_TRACKER_PYSTACK_H
#define KEDGE_TRACKER_PYSTACK_H

#include "tracker/stacks/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thread;

/* Called once, before there are other threads: searches for a loaded interpreter. */
void pystack_init(const struct unwind_ops *loader);

/* The Python stack of this thread, 0 = none. Only while pyframe_is_wanted. */
uint32_t pystack_here(struct thread *thread);

/* A stack as one frame of text, "norm model.py:12": the innermost frame outside installed packages,
 * else the innermost. False: none, and *ret_text is "". */
bool pystack_text(uint32_t pystack, char *ret_text, size_t size);

/* In the child of a fork. */
void pystack_fork_child(void);

#endif

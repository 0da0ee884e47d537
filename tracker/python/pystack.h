/* SPDX-License-Identifier: MIT */
/*
 * pystack.h - the Python stack of an allocation as one number for its tag.
 *
 *     pyframe_hash ─► this thread's memo ─► pyframe_walk, pycode_stack ─► leaf ─► tag.pystack
 *        no frames ─► the stack that the main thread had last ─► leaf | FORMAT_PYSTACK_AMBIENT
 *
 * Threads of C++ libraries (the workers of a backward pass) have no Python frames, but a Python thread is waiting for them.
 * Each thread with frames stores its last stack. A thread without frames gets the stack of the main thread, or, if the main
 * thread is not in Python, that of the Python thread that asked last. The flag says that the stack is not the thread's own:
 * it tells what the program was doing, not who called.
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

/* Once, before other threads: looks for an interpreter that is there already. */
void pystack_init(const struct unwind_ops *loader);

/* This thread's, 0 = none. Only while pyframe_is_wanted. */
uint32_t pystack_here(struct thread *thread);

/*
 * A stack as one frame for a line of text, "norm model.py:12": the innermost that lies in no installed package, else the innermost.
 * False: there is none, and *ret_text is "".
 */
bool pystack_text(uint32_t pystack, char *ret_text, size_t size);

/* In the child of a fork. */
void pystack_fork_child(void);

#endif

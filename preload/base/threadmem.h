/* SPDX-License-Identifier: MIT */
/*
 * threadmem.h - memory of a thread, for what is too large for thread-local memory.
 *
 * Thread-local memory of libkedge.so is initial-exec, because a later form calls malloc at the first use. All libraries of a
 * process share 1,664 bytes of it where the loader has begun before it knows them (LD_AUDIT), and it refuses to start
 * a program that needs more. So a thread has one word here for each of these memories, and the memory comes with the first use.
 *
 * Threads: any. In a signal handler, too: takes a lock of alloc/base/meta.h, unless this thread holds one of kedge's, no malloc.
 */
#ifndef KEDGE_PRELOAD_THREADMEM_H
#define KEDGE_PRELOAD_THREADMEM_H

#include <stddef.h>

/*
 * Makes *slot, a thread-local word of this thread, point to `size` bytes of zeroes until the thread ends; then it has its old
 * value again. Returns the memory; NULL: there is none now, and *slot is as it was.
 */
void *threadmem_make(void *slot, size_t size);

/* Once, early: as thread_prepare (tracker/stacks/thread.h). */
void threadmem_prepare(void);

#endif

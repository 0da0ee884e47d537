/* SPDX-License-Identifier: MIT */
/*
 * threadmem.h - per-thread memory for data too large for thread-local storage.
 *
 * Thread-local memory of libkedge.so is initial-exec, because a later form calls malloc at the
 * first use. Under LD_AUDIT all libraries of a process share 1,664 bytes of it, because the loader
 * starts before it knows them, and the loader refuses to start a program that needs more. So each
 * user has one thread-local word, and its memory is allocated at the first use.
 *
 * Threads: any, in signal handlers too. No malloc. Takes a lock of alloc/base/meta.h, unless this
 * thread holds a lock of kedge.
 */
#ifndef KEDGE_PRELOAD_THREADMEM_H
#define KEDGE_PRELOAD_THREADMEM_H

#include <stddef.h>

/*
 * Makes *slot, a thread-local word of this thread, point to `size` zeroed bytes until the thread
 * ends; then *slot has its old value again. Returns the memory; NULL: no memory now, and *slot is
 * unchanged.
 */
void *threadmem_make(void *slot, size_t size);

/* Once, early, like thread_prepare (tracker/stacks/thread.h). */
void threadmem_prepare(void);

#endif

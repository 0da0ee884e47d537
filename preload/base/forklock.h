/* SPDX-License-Identifier: MIT */
/*
 * forklock.h - the locks of preload/, which are initialised anew in the child of a fork: a thread
 * that the child does not have may have held one.
 *
 * FORKLOCK defines a lock in its file and lists it in a section of the library, which
 * forklock_child walks.
 */
#ifndef KEDGE_PRELOAD_FORKLOCK_H
#define KEDGE_PRELOAD_FORKLOCK_H

#include "alloc/base/lock.h"

#define FORKLOCK(name)                                      \
    static struct lock name = LOCK_INIT(LOCK_RANK_PRELOAD); \
    static struct lock *const name##_in_child __attribute__((used, section("forklocks"))) = &name

/* Symbols that the linker makes for that section. */
extern struct lock *const __start_forklocks[] __attribute__((visibility("hidden")));
extern struct lock *const __stop_forklocks[] __attribute__((visibility("hidden")));

static inline void forklock_child(void)
{
    for (struct lock *const *at = __start_forklocks; at < __stop_forklocks; at++)
        lock_init(*at, LOCK_RANK_PRELOAD);
}

#endif

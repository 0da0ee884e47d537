/* SPDX-License-Identifier: MIT */
/*
 * drive.h - calls through struct driver, each with two checks: no lock is held, and the pool is not
 * frozen.
 *
 * Every driver call of alloc/ is made here, so that the rule "no lock across a driver call" (R36)
 * is asserted in one place and the calls are counted. After pool_freeze or pool_forget the driver
 * is not called any more (R34, sticky errors; R39, forked child; R40, process exit): the functions
 * return -ECANCELED, also in the middle of an operation.
 * Threads: any, with no lock held.
 */
#ifndef KEDGE_ALLOC_DRIVE_H
#define KEDGE_ALLOC_DRIVE_H

#include "alloc/heap/records.h"

#include <errno.h>

static inline int drive_begin(struct pool *pool, const char *what)
{
    (void)lock_assert_none(what);
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return -ECANCELED;
    atomic_fetch_add_explicit(&pool->driver_calls, 1, memory_order_relaxed);
    return 0;
}

/* Calls `name` of the driver table; -ECANCELED if the pool is frozen. */
#define DRIVE(pool, name, ...)                    \
    (drive_begin((pool), #name) != 0 ? -ECANCELED \
                                     : (pool)->driver.name((pool)->driver.self, __VA_ARGS__))

static inline int drive_set_access(struct pool *pool, const struct heap *heap, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    return DRIVE(
            pool, set_access, heap->kind, heap->owner, heap->device->number, ptr, size, access);
}

static inline void drive_fence_put(struct pool *pool, uint64_t fence)
{
    if (drive_begin(pool, "fence_put") == 0)
        pool->driver.fence_put(pool->driver.self, fence);
}

/* The two calls about reader sections are not driver calls and are not counted. */
static inline uint64_t drive_readers_snapshot(struct pool *pool)
{
    (void)lock_assert_none("readers_snapshot");
    return pool->driver.readers_snapshot(pool->driver.self);
}

static inline int drive_readers_passed(struct pool *pool, uint64_t snapshot)
{
    (void)lock_assert_none("readers_passed");
    return pool->driver.readers_passed(pool->driver.self, snapshot);
}

#endif

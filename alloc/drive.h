/* SPDX-License-Identifier: MIT */
/*
 * drive.h - the calls through struct driver, each with its two checks: no lock is held, and the pool is not frozen.
 *
 * Every driver call of alloc/ is made through here, so that the rule "no lock across a driver call" (R36) is asserted in
 * one place and the calls are counted. After pool_freeze or pool_forget nothing is called any more (R34, R39, R40): the
 * functions say -ECANCELED, also to a thread that was in the middle of something.
 * Threads: any, with no lock held.
 */
#ifndef KEDGE_ALLOC_DRIVE_H
#define KEDGE_ALLOC_DRIVE_H

#include "alloc/records.h"

#include <errno.h>

static inline int drive_begin(struct pool *pool, const char *what)
{
    (void)lock_assert_none(what);
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return -ECANCELED;
    atomic_fetch_add_explicit(&pool->driver_calls, 1, memory_order_relaxed);
    return 0;
}

#define DRIVE(name, ...) \
    (drive_begin(pool, #name) != 0 ? -ECANCELED : pool->driver.name(pool->driver.self, __VA_ARGS__))

static inline int drive_mem_alloc(
        struct pool *pool, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    return DRIVE(mem_alloc, context, device, size, ret_ptr);
}

static inline int drive_mem_free(struct pool *pool, uint64_t context, devptr_t ptr)
{
    return DRIVE(mem_free, context, ptr);
}

static inline int drive_granularity(struct pool *pool, int device, uint64_t *ret_size)
{
    return DRIVE(granularity, device, ret_size);
}

static inline int drive_memory(
        struct pool *pool, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    return DRIVE(memory, device, ret_total, ret_free);
}

static inline int drive_address_reserve(
        struct pool *pool, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    return DRIVE(address_reserve, device, size, align, ret_ptr);
}

static inline int drive_address_free(struct pool *pool, devptr_t ptr, uint64_t size)
{
    return DRIVE(address_free, ptr, size);
}

static inline int drive_handle_create(
        struct pool *pool, int device, uint64_t size, uint64_t *ret_handle)
{
    return DRIVE(handle_create, device, size, ret_handle);
}

static inline int drive_handle_release(struct pool *pool, uint64_t handle)
{
    return DRIVE(handle_release, handle);
}

static inline int drive_map(struct pool *pool, devptr_t ptr, uint64_t size, uint64_t handle)
{
    return DRIVE(map, ptr, size, handle);
}

static inline int drive_unmap(struct pool *pool, devptr_t ptr, uint64_t size)
{
    return DRIVE(unmap, ptr, size);
}

static inline int drive_set_access(struct pool *pool, const struct heap *heap, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    return DRIVE(set_access, heap->kind, heap->owner, heap->device->number, ptr, size, access);
}

static inline int drive_fence_record(struct pool *pool, uint64_t *ret_fence)
{
    return DRIVE(fence_record, ret_fence);
}

static inline int drive_stream_record(struct pool *pool, uint64_t stream, uint64_t *ret_fence)
{
    return DRIVE(stream_record, stream, ret_fence);
}

static inline int drive_fence_query(struct pool *pool, uint64_t fence)
{
    return DRIVE(fence_query, fence);
}

static inline int drive_fence_wait(struct pool *pool, uint64_t fence)
{
    return DRIVE(fence_wait, fence, pool->opts.fence_timeout_ms);
}

static inline int drive_stream_wait_fence(struct pool *pool, uint64_t stream, uint64_t fence)
{
    return DRIVE(stream_wait_fence, stream, fence);
}

static inline void drive_fence_put(struct pool *pool, uint64_t fence)
{
    if (drive_begin(pool, "fence_put") == 0)
        pool->driver.fence_put(pool->driver.self, fence);
}

/* The two of the reader sections are not driver calls and are not counted as such. */
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

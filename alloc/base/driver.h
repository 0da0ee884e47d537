/* SPDX-License-Identifier: MIT */
/*
 * driver.h - everything that alloc/ wants from a CUDA driver, as one table of functions.
 *
 * alloc/ includes no CUDA header. preload/ fills this table with the real driver, the unit tests with a fake that fails
 * the n-th call, holds fences back and looks whether a lock is held. Handles, fences and streams are opaque numbers.
 *
 * Results of every call: 0, or the driver's CUresult (> 0), or -errno if the implementation itself could not go on.
 * `ret_` parameters are written only on 0. Each call may block for long (on the device, on the driver's own locks, on a
 * host callback), so the pool holds none of its locks across any of them (R36), and each call may come from any thread,
 * several at once.
 *
 * The implementation keeps the program's state untouched: the current context and its stack (R27), the capture mode of
 * the thread (R13), the runtime's last error (R33).
 *
 * Owner keys: `owner` is the key of the heap that the call is made for, as the request named it: a context generation
 * for HEAP_PLAIN and HEAP_PRIVATE, a memory pool id for HEAP_MAPPED.
 */
#ifndef KEDGE_ALLOC_DRIVER_H
#define KEDGE_ALLOC_DRIVER_H

#include "alloc/base/types.h"

/* Codes of the driver that the pool has to tell apart. */
enum driver_code {
    DRIVER_OK = 0,
    DRIVER_OUT_OF_MEMORY = 2, /* CUDA_ERROR_OUT_OF_MEMORY */
    /* CUDA_ERROR_NOT_SUPPORTED; from address_reserve: no VMM here, so no mapped heap */
    DRIVER_NOT_SUPPORTED = 801,
};

/* What a mapping allows. */
enum driver_access {
    DRIVER_ACCESS_NONE,
    DRIVER_ACCESS_RW, /* for the device itself and for every peer that the program gave access to (R30, R77) */
};

/* A byte of poison: four, or two, or eight of them are no number in any format of floating point. */
#define DRIVER_POISON 0xffu

/* Which way content goes. */
enum driver_way {
    DRIVER_OUT, /* from the device to the host */
    DRIVER_IN,
};

struct driver {
    void *self; /* first argument of every call */

    /* Plain segments, in the context of generation `context` (cuMemAlloc, cuMemFree). */
    int (*mem_alloc)(void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr);
    int (*mem_free)(void *self, uint64_t context, devptr_t ptr);
    /* mem_free waits for all work of the context, which the program's call may not (R104). 0: there is none, or it has ended within
     * timeout_ms; -EAGAIN: not yet; -EBUSY: not now, as with fence_record; -ENOENT: the context is gone. NULL: mem_free never waits. */
    int (*context_quiet)(void *self, uint64_t context, uint32_t timeout_ms);

    /* Managed memory (cuMemAllocManaged), whose pages are where they are used or prefetched to, in a context that the heap's memory
     * belongs to, or of the device; mem_free gives it back there. DRIVER_NOT_SUPPORTED where the device does not use it beside the
     * host. */
    int (*managed_alloc)(void *self, enum heap_kind heap, uint64_t owner, int device, uint64_t size,
            devptr_t *ret_ptr, uint64_t *ret_context);

    /* Smallest physical handle of the device and the multiple of all sizes, a power of two (usually 2 MiB). */
    int (*granularity)(void *self, int device, uint64_t *ret_size);
    /* Bytes of memory that the device has, and that the driver says are free. Only asked when a range is reserved,
     * on growth of mapped memory by many handles, or on any growth when pool_opts.reserve is set. */
    int (*memory)(void *self, int device, uint64_t *ret_total, uint64_t *ret_free);

    /* Address ranges, aligned to `align` (a power of two, a multiple of the granularity). DRIVER_NOT_SUPPORTED where
     * there is no VMM. */
    int (*address_reserve)(
            void *self, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr);
    int (*address_free)(void *self, devptr_t ptr, uint64_t size);

    /* Physical handles. `handle` is opaque and not 0. */
    int (*handle_create)(void *self, int device, uint64_t size, uint64_t *ret_handle);
    int (*handle_release)(void *self, uint64_t handle);

    /* Mapping of one whole handle. unmap gets exactly a (ptr, size) that map got, or of several neighbours all at once: then
     * all of them go, or none. A driver that refuses that is asked for each. Mappings start without access. */
    int (*map)(void *self, devptr_t ptr, uint64_t size, uint64_t handle);
    int (*unmap)(void *self, devptr_t ptr, uint64_t size);
    int (*set_access)(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
            uint64_t size, enum driver_access access);

    /*
     * A fence: passes when all work is done that was submitted before this call on any stream of any live context that may reach memory
     * of the device (R1): those of the device itself, and all others that have or had a way to it. How (cuCtxRecordEvent, one
     * synchronise, events: R3, R68) is the implementation's choice, and so is the capture gate (R67): -EBUSY means "not now, a
     * capture is about to begin or running", upon which the pool goes on without.
     * Work of contexts that have died counts as done (R76); while one of these is being ended, -EBUSY.
     */
    int (*fence_record)(void *self, int device, uint64_t *ret_fence);

    /*
     * The same, but for contexts that are being ended, whose work is under way still. `endings`: so many ends the caller knows of that matter
     * to the device (pool_ending); -EBUSY also if another one has begun. May be NULL where pool_ending is never called.
     */
    int (*fence_record_beside)(void *self, int device, uint64_t endings, uint64_t *ret_fence);

    /* The same, for what was submitted to one stream so far (R70, R71). -ENOENT: the stream is gone; the pool then uses
     * a full fence instead. */
    int (*stream_record)(void *self, uint64_t stream, uint64_t *ret_fence);
    /* The same, beside captures of other streams, too. It is no more than what the program's own call is that gives the stream an operation.
     * NULL: stream_record does. */
    int (*stream_record_beside)(void *self, uint64_t stream, uint64_t *ret_fence);

    /* 0 = passed, -EAGAIN = not yet, -EBUSY = may not be asked now (capture), > 0 = an error of the device's own. */
    int (*fence_query)(void *self, uint64_t fence);
    /* Waits on the host for at most timeout_ms; results as fence_query. */
    int (*fence_wait)(void *self, uint64_t fence, uint32_t timeout_ms);
    /* Makes all later work on `stream` wait for the fence; the host does not wait. */
    int (*stream_wait_fence)(void *self, uint64_t stream, uint64_t fence);
    /* The fence is not used any more. Every fence is put exactly once. */
    void (*fence_put)(void *self, uint64_t fence);

    /*
     * Fills mapped memory with DRIVER_POISON behind a fence (0: at once), and does not wait for it; a fence that is recorded later passes
     * behind the filling. `fence` stays the caller's. -EBUSY: not now, as with fence_record.
     */
    int (*poison)(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
            uint64_t size, uint64_t fence);
    /* Reads memory back that the device has finished with: *ret_intact = bytes up to the first that is not DRIVER_POISON, `size` = all
     * are. Waits for the reading alone. -EBUSY: not now. */
    int (*poison_read)(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
            uint64_t size, uint64_t *ret_intact);

    /*
     * Where the content of blocks is while their storage is somebody else's: memory of the host, whole pages. `pinned`: devices
     * read and write it by themselves, so that copies run beside the host. It outlives every context.
     */
    int (*host_take)(void *self, uint64_t size, bool pinned, void **ret_host);
    void (*host_give)(void *self, void *host, uint64_t size, bool pinned);

    /*
     * Copies content between mapped memory and the host, on a stream of ours for each way and device, behind the `count` fences
     * `after`, which stay the caller's. Does not wait. *ret_fence passes behind the copy. -EBUSY: not now, as with fence_record.
     * `host` NULL: the memory is managed, and its pages go to the host or to the device (cuMemPrefetchAsync).
     */
    int (*content)(void *self, enum heap_kind heap, uint64_t owner, int device, enum driver_way way,
            devptr_t ptr, void *host, uint64_t size, const uint64_t *after, uint32_t count,
            uint64_t *ret_fence);

    /* Nanoseconds of a clock that does not go back, from any beginning. */
    uint64_t (*clock_ns)(void *self);

    /*
     * Reader sections (R66). The snapshot names all submissions that are between their guard and the driver's return
     * now; it begins with a full memory barrier, so that a section that begins later sees every range that was marked
     * dead before. readers_passed: 0 = all of those have ended, -EAGAIN = not yet. Neither blocks.
     */
    uint64_t (*readers_snapshot)(void *self);
    int (*readers_passed)(void *self, uint64_t snapshot);
};

#endif

/* SPDX-License-Identifier: MIT */
/*
 * driver.h - the CUDA driver calls that alloc/ uses, as one table of functions.
 *
 * alloc/ includes no CUDA header. preload/ fills this table with the real driver, the unit tests
 * with a fake that fails the n-th call, delays fences and checks whether a lock is held. Handles,
 * fences and streams are opaque numbers.
 *
 * Results of every call: 0, or the driver's CUresult (> 0), or -errno if the implementation itself
 * failed. `ret_` parameters are written only on 0. Each call may block for long (on the device, on
 * the driver's own locks, on a host callback), so the pool holds none of its locks across any of
 * them (R36, no lock in driver calls), and calls may come from any thread, several at once.
 *
 * The implementation preserves the program's state: the current context and its stack (R27, current
 * context kept), the capture mode of the thread (R13, relaxed capture mode), the runtime's last
 * error (R33).
 *
 * Owner keys: `owner` is the key of the heap that the call is made for, as in the request: a
 * context generation for HEAP_PLAIN and HEAP_PRIVATE, a memory pool id for HEAP_MAPPED.
 */
#ifndef KEDGE_ALLOC_DRIVER_H
#define KEDGE_ALLOC_DRIVER_H

#include "alloc/base/types.h"

/* Driver codes that the pool distinguishes. */
enum driver_code {
    DRIVER_OK = 0,
    DRIVER_OUT_OF_MEMORY = 2, /* CUDA_ERROR_OUT_OF_MEMORY */
    /* CUDA_ERROR_NOT_SUPPORTED; from address_reserve: no VMM here, so no mapped heap */
    DRIVER_NOT_SUPPORTED = 801,
};

/* Access of a mapping. */
enum driver_access {
    DRIVER_ACCESS_NONE,
    /* for the device itself and for every peer to which the program gave access (R30; R77, pools
     * served) */
    DRIVER_ACCESS_RW,
};

/* A byte of poison: four, two, or eight of them are NaN in every floating-point format. */
#define DRIVER_POISON 0xffu

/* Direction of a copy. */
enum driver_way {
    DRIVER_OUT, /* from the device to the host */
    DRIVER_IN,
};

struct driver {
    void *self; /* first argument of every call */

    /* Plain segments, in the context of generation `context` (cuMemAlloc, cuMemFree). */
    int (*mem_alloc)(void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr);
    int (*mem_free)(void *self, uint64_t context, devptr_t ptr);
    /* mem_free waits for all work of the context, which the program's call may not do (R104, no
     * useless waits). 0: there is none, or it has completed within timeout_ms; -EAGAIN: not yet;
     * -EBUSY: not now, as with fence_record; -ENOENT: the context has ended. NULL: mem_free never
     * waits. */
    int (*context_quiet)(void *self, uint64_t context, uint32_t timeout_ms);

    /* Managed memory (cuMemAllocManaged), whose pages are where they are used or prefetched to, in
     * a context of the heap's memory, or of the device; mem_free returns it there.
     * DRIVER_NOT_SUPPORTED where the device does not use it concurrently with the host. */
    int (*managed_alloc)(void *self, enum heap_kind heap, uint64_t owner, int device, uint64_t size,
            devptr_t *ret_ptr, uint64_t *ret_context);

    /* The smallest physical handle of the device, and the unit of all sizes; a power of two
     * (usually 2 MiB). */
    int (*granularity)(void *self, int device, uint64_t *ret_size);
    /* The device's total and free memory in bytes, as the driver reports it. Called only when a
     * range is reserved, on growth of mapped memory by many handles, or on any growth when
     * pool_opts.reserve is set. */
    int (*memory)(void *self, int device, uint64_t *ret_total, uint64_t *ret_free);

    /* Address ranges, aligned to `align` (a power of two, a multiple of the granularity).
     * DRIVER_NOT_SUPPORTED without VMM. */
    int (*address_reserve)(
            void *self, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr);
    int (*address_free)(void *self, devptr_t ptr, uint64_t size);

    /* Physical handles. `handle` is opaque and not 0. */
    int (*handle_create)(void *self, int device, uint64_t size, uint64_t *ret_handle);
    int (*handle_release)(void *self, uint64_t handle);

    /* Maps one whole handle. unmap gets exactly a (ptr, size) of a map call, or of several adjacent
     * ones at once: then all of them are unmapped, or none. If the driver refuses that, each is
     * unmapped separately. Mappings start without access. */
    int (*map)(void *self, devptr_t ptr, uint64_t size, uint64_t handle);
    int (*unmap)(void *self, devptr_t ptr, uint64_t size);
    int (*set_access)(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
            uint64_t size, enum driver_access access);

    /* A fence: passes when all work has completed that was submitted before this call on any stream
     * of any live context that may reach memory of the device (R1, reuse after use): contexts of
     * the device itself, and all others that have or had access to it. The implementation chooses
     * the means (cuCtxRecordEvent, one synchronise, events: R3, R68), and the capture gate (R67):
     * -EBUSY means "not now, a capture is about to begin or running"; the pool goes on without the
     * fence. Work of ended contexts counts as completed (R76, heap owners); while one of these is
     * being ended, -EBUSY. */
    int (*fence_record)(void *self, int device, uint64_t *ret_fence);

    /* The same, except for contexts that are being ended and still have work. `endings`: the number
     * of ends relevant to the device that the caller knows (pool_ending); -EBUSY also if another
     * one has begun. May be NULL where pool_ending is never called. */
    int (*fence_record_beside)(void *self, int device, uint64_t endings, uint64_t *ret_fence);

    /* The same for work submitted to one stream so far (R70, point sets; R71, event of a free).
     * -ENOENT: the stream was destroyed; the pool then uses a full fence instead. */
    int (*stream_record)(void *self, uint64_t stream, uint64_t *ret_fence);
    /* The same, also while other streams are captured. It does no more than the program's own call,
     * which gives the stream an operation. NULL: use stream_record. */
    int (*stream_record_beside)(void *self, uint64_t stream, uint64_t *ret_fence);

    /* 0 = passed, -EAGAIN = not yet, -EBUSY = may not be queried now (capture), > 0 = an error of
     * the device itself. */
    int (*fence_query)(void *self, uint64_t fence);
    /* Waits on the host for at most timeout_ms; results as fence_query. */
    int (*fence_wait)(void *self, uint64_t fence, uint32_t timeout_ms);
    /* Makes all later work on `stream` wait for the fence; the host does not wait. */
    int (*stream_wait_fence)(void *self, uint64_t stream, uint64_t fence);
    /* Destroys a fence; called exactly once for each. */
    void (*fence_put)(void *self, uint64_t fence);

    /* Fills mapped memory with DRIVER_POISON after a fence (0: at once), and does not wait for it;
     * a fence recorded later passes after the fill. The caller keeps `fence`. -EBUSY: not now, as
     * with fence_record. */
    int (*poison)(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
            uint64_t size, uint64_t fence);
    /* Reads back memory that the device has finished with: *ret_intact = bytes up to the first that
     * is not DRIVER_POISON; `size` = all are. Waits only for the read. -EBUSY: not now. */
    int (*poison_read)(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
            uint64_t size, uint64_t *ret_intact);

    /* Host memory for the content of evicted blocks, whole pages. `pinned`: devices access it
     * directly, so that copies run concurrently with the host. It outlives every context. */
    int (*host_take)(void *self, uint64_t size, bool pinned, void **ret_host);
    void (*host_give)(void *self, void *host, uint64_t size, bool pinned);

    /* Copies content between mapped memory and the host, on a kedge stream for each direction and
     * device, after the `count` fences `after`, which the caller keeps. Does not wait. *ret_fence
     * passes after the copy. -EBUSY: not now, as with fence_record. `host` NULL: the memory is
     * managed, and its pages are moved to the host or to the device (cuMemPrefetchAsync). */
    int (*content)(void *self, enum heap_kind heap, uint64_t owner, int device, enum driver_way way,
            devptr_t ptr, void *host, uint64_t size, const uint64_t *after, uint32_t count,
            uint64_t *ret_fence);

    /* Nanoseconds of a monotonic clock. */
    uint64_t (*clock_ns)(void *self);
    /* What moving a handle of `size` bytes takes, in ns: a map, and its share of an unmap and of a
     * set_access, as the calls of this process have taken so far; 0 = none was made. NULL: not
     * known. */
    uint64_t (*move_ns)(void *self, uint64_t size);

    /* Reader sections (R66). The snapshot names all submissions that are now
     * between their guard and the driver's return; it begins with a full memory barrier, so that a
     * section that begins later sees every range that was marked dead before. readers_passed: 0 =
     * all of those have ended, -EAGAIN = not yet. Neither blocks. */
    uint64_t (*readers_snapshot)(void *self);
    int (*readers_passed)(void *self, uint64_t snapshot);
};

#endif

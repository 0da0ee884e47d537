/* SPDX-License-Identifier: MIT */
/*
 * mempools.h - the program's memory pools; some of them kedge serves from a heap of its own.
 *
 * kedge serves pools whose memory cannot leave the process: the default pool of a device, and pools
 * that were created for a device with no handle type, no size limit and no usage flag (R77, pools
 * served). All others are forwarded. The driver's pool exists in each case: it checks arguments,
 * keeps the settings, and serves what kedge cannot.
 *
 *     CUmemoryPool ─► struct mempool { id } ─► heap (HEAP_MAPPED, id) of alloc/pool.h
 *
 * Handles recycle, ids do not: a destroyed pool whose blocks live on keeps its heap under its id.
 * Access that the program gives to other devices is kept here, for granules that are mapped later
 * (R77).
 *
 * Makes driver calls only in mempool_current and mempool_learn_defaults, with no lock held. Any
 * thread. Memory: meta.h.
 * Prefixes: mempool_.
 */
#ifndef KEDGE_PRELOAD_MEMPOOLS_H
#define KEDGE_PRELOAD_MEMPOOLS_H

#include "preload/base/cuda_abi.h"
#include "preload/driver/contexts.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEMPOOL_ACCESS_MAX = 64,
};

struct mempool {
    uint64_t id; /* owner key of its heap, never reused */
    CUmemoryPool handle;
    int device;
    bool served;
    bool on_host;
    bool dying; /* between mempool_destroy_begin and _end: no handle names it */
};

/* Notes a pool that the program created, with its `props`. */
void mempool_created(CUmemoryPool handle, const CUmemPoolProps *props);

/*
 * Around the destruction of a pool. begin: forgets the handle, since the driver may reuse it for
 * another pool before the call returns; returns the pool's id, 0 = not known. end: the pool was
 * destroyed (true), or the driver refused and the handle is valid again; *ret_pool is the pool.
 */
uint64_t mempool_destroy_begin(CUmemoryPool handle);
void mempool_destroy_end(uint64_t id, bool gone, struct mempool *ret_pool);

/* Whether a pool that the program created allocates host memory. */
bool mempool_is_host(CUmemoryPool handle);

/* Finds a pool by handle: known and served. Default pools become known when they are asked for. */
bool mempool_find(CUmemoryPool handle, struct mempool *ret_pool);
bool mempool_of_id(uint64_t id, struct mempool *ret_pool);

/*
 * Asks once for the default pools of all devices: a program may name one before it allocates there.
 */
void mempool_learn_defaults(void);

/*
 * The pool that cuMemAllocAsync uses on a device now. 0 (served), -ENOENT (not served by kedge), or
 * the driver's code.
 */
int mempool_current(int device, struct mempool *ret_pool);

/*
 * Whether the program would still get this pool; NULL = the device's current pool. No driver call.
 */
bool mempool_is_still(CUmemoryPool handle, int device, uint64_t id);

/*
 * cuDeviceSetMemPool was called: the current pool of the device is asked for again. device -1: of
 * all devices.
 */
void mempool_changed(int device);

/* Access for a location, for memory that is mapped from now on. */
void mempool_set_access(uint64_t id, const CUmemAccessDesc *descs, size_t count);

/* Set once the program has given a device access to another device's pool. */
extern atomic_bool mempool_has_access;

/*
 * Access of one context to another context's memory, which cuCtxEnablePeerAccess gives (R30, access
 * of peers). Mappings have access by device: a device has access to another one's private heaps as
 * long as any of its contexts has. False: nothing has changed for the two devices.
 */
bool mempool_set_peer(const struct context *from, const struct context *to, bool enabled);

/* A context has ended, and its access with it. */
void mempool_context_gone(uint64_t generation);

/*
 * Access descriptors for a new mapping: the device itself, then those that the program set. id 0: a
 * private heap.
 */
size_t mempool_access(uint64_t id, int device, CUmemAccessDesc *ret_descs, size_t max);

#endif

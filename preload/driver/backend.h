/* SPDX-License-Identifier: MIT */
/*
 * backend.h - the real driver behind alloc/base/driver.h, and the questions around it that preload has itself.
 *
 *     pool.c ─ struct driver ─► driver.c ─ [relaxed capture mode, right context, capture gate] ─► REAL(...)
 *
 * A fence is one cuCtxRecordEvent per context that is alive (driver 12.5 and later), else one cuCtxSynchronize each
 * (R68), outside of the gate (R96). Fence calls pass the capture gate; any other call runs in relaxed capture mode, so that a capture which begins
 * in another thread is not spoilt (R13). The current context is what it was before (R27). Events are kept for the next
 * fence and left to the driver at exit (R40).
 *
 * A sticky error, or a driver that is shutting down, is told to life.c, which freezes the pool (R34, R40).
 * Threads: any. No lock across driver calls. Memory: meta.h. Rules: R1 R3 R10 R13 R14 R26 R27 R30 R34 R66-R69 R76 R77.
 */
#ifndef KEDGE_PRELOAD_BACKEND_H
#define KEDGE_PRELOAD_BACKEND_H

#include "alloc/base/driver.h"
#include "preload/base/cuda_abi.h"
#include "preload/driver/contexts.h"

#include <stdbool.h>
#include <stddef.h>

/* The table for pool_new. */
extern const struct driver backend_driver;

/* Physical handles can be shown to other processes where the device has that (ipc.h). Fixed when life starts. */
extern bool backend_shares_handles;

/* Waits until all work of a context is done (R61), beside captures too. 0, the driver's code, or -errno. */
int backend_synchronise(uint64_t generation);

/*
 * What says whether a stream of the device may be waiting for what the program does once its call is back ([driver], no lock held). Then kedge
 * makes no call that waits for all work of a context where the program's call does not (R104). Set once, when life starts.
 */
void backend_on_wait(bool (*is_held_up)(int device));

/* Whether all that was submitted to a context so far is done. False also if it cannot be asked now. */
bool backend_is_idle(uint64_t generation);

/*
 * Gives a stream that the calling thread has named an operation that does nothing: natively the program's call is one there (stream_owes).
 * 0, the driver's code, or -errno. No fence, and not kept apart from captures: it is on the program's stream, where the program's call
 * would have been as much of an operation, and no capture begins or is spoilt by the one that would not be by the other.
 */
int backend_operate(const struct stream *stream);

/* The program changed who may access a memory pool's memory: what is mapped now gets it too (R77). */
int backend_apply_access(uint64_t mempool, const CUmemAccessDesc *descs, size_t count);

/* The same for the private heaps of a device, after a context has got access to another one's memory, or has given it up (R30). */
struct context;
void backend_apply_peer(const struct context *from, const struct context *to, bool enabled);

/* The context is dead: its events are not to be asked any more. */
void backend_context_gone(uint64_t context);

#endif

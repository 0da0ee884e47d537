/* SPDX-License-Identifier: MIT */
/*
 * backend.h - the real driver behind alloc/base/driver.h, and the driver calls that preload itself
 * needs.
 *
 *     pool.c ─ struct driver ─► driver.c ─ [relaxed mode, right context, capture gate] ─► REAL(...)
 *
 * A fence is one cuCtxRecordEvent per context that is alive (driver 12.5 and later), else one
 * cuCtxSynchronize each (R68, fences below 12.5), outside of the gate (R96, unbounded waits
 * outside). Fence calls pass the capture gate; any other call runs in relaxed capture mode, so that
 * it does not invalidate a capture that begins in another thread (R13, relaxed capture mode). The
 * current context is restored (R27, any current context). Events are kept for the next fence and
 * left to the driver at exit (R40, process exit).
 *
 * A sticky error, or a driver that is shutting down, is reported to life.c, which freezes the pool
 * (R34, sticky errors; R40).
 * Threads: any. No lock across driver calls. Memory: meta.h. Rules: R1 R3 R10 R13 R14 R26 R27 R30
 * R34 R66-R69 R76 R77.
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

/*
 * Whether the device's physical handles can be exported to other processes (ipc.h). Fixed when life
 * starts.
 */
extern bool backend_shares_handles;

/*
 * Waits until all work of a context is done (R61, free as barrier), also while captures run. 0, the
 * driver's code, or -errno.
 */
int backend_synchronise(uint64_t generation);

/*
 * Sets the function that says whether a stream of the device may be waiting for something that the
 * program does after its current call ([driver], no lock held). While it says so, kedge makes no
 * call that waits for all work of a context unless the program's own call does (R104, bounded
 * waits). Once, when life starts.
 */
void backend_on_wait(bool (*is_held_up)(int device));

/*
 * Whether all work submitted to a context so far is done. False also if the driver cannot be asked
 * now.
 */
bool backend_is_idle(uint64_t generation);

/*
 * Gives a stream that the calling thread has named an empty operation, because natively the
 * program's call is an operation there (stream_owes). 0, the driver's code, or -errno. This is no
 * fence and does not pass the capture gate: it is on the program's stream, where the program's own
 * call would have had the same effect on a capture.
 */
int backend_operate(const struct stream *stream);

/*
 * The program changed the access to a memory pool's memory: sets it for what is mapped now (R77,
 * pools served).
 */
int backend_apply_access(uint64_t mempool, const CUmemAccessDesc *descs, size_t count);

/*
 * The same for the private heaps of a device, after a context has gained or given up access to
 * another context's memory (R30, access of peers).
 */
struct context;
void backend_apply_peer(const struct context *from, const struct context *to, bool enabled);

/* The context is dead: its events must not be queried any more. */
void backend_context_gone(uint64_t context);

#endif

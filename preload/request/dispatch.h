/* SPDX-License-Identifier: MIT */
/*
 * dispatch.h - the steps taken when the program allocates, frees, passes an anchor or uses memory.
 *
 *     alloc  where_am_i ─► hint_plan ─► pool_alloc ─► capture_alloc
 *     free                              pool_free ──► capture_free (driver's own: once it agreed)
 *     edge   anchor_* ────────────────► pool_edge ──► capture_hint
 *                                        (limbo is polled here, or with the next request)
 *     touch                             pool_touch ─► capture_hint, and the call is not made
 *
 * alloc/ decides, tracker/ records, and only this module combines the two. The hooks translate
 * CUDA's arguments into these calls and the results back.
 *
 * Results: 0 done; > 0 the driver's CUresult, for the program; < 0 ours: the hook makes the real
 * call, then passes its result to dispatch_forwarded. In KEDGE_MODE=track every request is answered
 * < 0. Threads: any, inside life_enter (dispatch_edge too). No lock is held. Rules: R17 R20 R30-R36
 * R38 R55 R57 R58 R61 R75 R81 R82 R84 R86 R87.
 */
#ifndef KEDGE_PRELOAD_DISPATCH_H
#define KEDGE_PRELOAD_DISPATCH_H

#include "alloc/base/types.h"
#include "alloc/pool.h"
#include "preload/caller/bypass.h"
#include "preload/driver/contexts.h"
#include "preload/driver/session.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts pool, hints and capture, once, when life starts. 0 or -errno (then life degrades). */
int dispatch_start(void);

/* ---- memory --------------------------------------------------------------------------------- */

/* A request, from the hook's arguments to the record. */
struct dispatch_request {
    uint64_t size;
    enum api api;
    struct context context;    /* of the calling thread */
    struct stream stream;      /* stream-ordered API */
    uint64_t mempool;          /* stream-ordered API: id of the serving pool, 0 = forward */
    CUmemoryPool named;        /* memory pool that the program named, NULL = none */
    const void *caller;        /* return address of the hook */
    enum memclass memclass;    /* if the driver serves it; MEMCLASS_POOLED = find out */
    bool forward;              /* never pooled: managed, pitched, imported, exportable ... */
    bool capturing;            /* its stream is being captured */
    const struct tag *counted; /* tag, if quick.h has counted it; NULL = not yet */
    /* filled by dispatch_alloc, read by dispatch_forwarded: */
    struct tag tag;
    struct plan plan;
    struct pool_ladder ladder; /* retries made for it, recorded if it fails */
};

static inline int dispatch_device_of(const struct dispatch_request *request)
{
    return request->api == API_STREAM ? request->stream.device : request->context.device;
}

/* 0: *ret_ptr is the program's. > 0: the driver's refusal. < 0: make the real call, then
 * dispatch_forwarded. */
int dispatch_alloc(struct dispatch_request *request, devptr_t *ret_ptr);
/*
 * The driver had no memory for a request of the sync API during a capture, when the driver is asked
 * first (R11, forwarded during captures): a free block of the pool serves it if that takes no
 * driver call (R82, calls during captures).
 */
bool dispatch_beside_capture(struct dispatch_request *request, int result, devptr_t *ret_ptr);

/* Takes the real call's result: records a success, and an OOM once no retry is left. */
void dispatch_forwarded(struct dispatch_request *request, int result, devptr_t ptr, uint64_t size);

/*
 * After an OOM of a forwarded call: gives back unused storage of the device's heaps, then evicts
 * blocks. `size` 0: the call names none. True = retry the call (R81, shared OOM retry). *ladder is
 * added to, for dispatch_refused or dispatch_forwarded.
 */
bool dispatch_make_room(int result, uint64_t size, int device, struct pool_ladder *ladder);

/*
 * The same for any call that the driver had no memory for, from the device's heaps alone: evicts
 * nothing.
 */
bool dispatch_more_room(struct pool_ladder *ladder);

/*
 * Takes the final result of such a call where there is no request: records an OOM. `size` 0: the
 * call names none.
 */
void dispatch_refused(int result, uint64_t size, int device, const struct pool_ladder *ladder);

/*
 * The end of memory that the driver serves. The order number is taken before the call that ends it,
 * and the record is written once the driver has agreed. By then another thread may own the address,
 * with a higher number in its record (caplive.h).
 */
struct dispatch_end {
    uint64_t key; /* 0 = write nothing */
    uint64_t seq;
    uint64_t stream; /* as stream_told returns it */
    enum api api;
};

/*
 * Called before and after the call that ends the memory recorded under `key`; `result` is its
 * CUresult.
 */
struct dispatch_end dispatch_end(uint64_t key);
void dispatch_ended(const struct dispatch_end *end, int result);

/* Does a live block of ours begin at ptr? */
bool dispatch_is_live(devptr_t ptr, struct block_info *ret_info);

/*
 * Frees ptr. 0: done, return success. > 0: the code for the program. -ENOENT: not ours; make the
 * real call, then dispatch_ended with *ret_end, which is written in that case only.
 */
int dispatch_free(
        devptr_t ptr, enum api api, const struct stream *stream, struct dispatch_end *ret_end);

/*
 * Is a free through the sync API known not to wait (R75, host barrier)? Says nothing about frees
 * during captures.
 */
static inline bool dispatch_frees_without_wait(void)
{
    return session_sync_free == 1 || (session_sync_free == 0 && bypass_framework_known());
}

/*
 * In a forked child, or after degrading: is ptr a block of ours? Its free then does nothing and
 * succeeds.
 */
bool dispatch_free_passive(devptr_t ptr);

/* ---- anchors and uses ----------------------------------------------------------------------- */

/*
 * Records an edge, and marks the blocks that hints release at it. `may_call` false: the edge may
 * come from a signal handler that has interrupted the driver, so the driver is not called;
 * dispatch_go_on continues the release.
 */
void dispatch_edge(const struct edge *edge, bool may_call);

/*
 * Another event that hints wait for (hints_run_waits), and the buffers passed to it, which count as
 * uses. The driver is not called. Inside the reader section of a call that follows, storage that it
 * releases or no longer holds waits for the end of that call. `each_dead`, if any, gets each block
 * that it releases or no longer holds.
 */
void dispatch_event(const struct edge *event, const devptr_t *used, uint32_t count,
        void (*each_dead)(devptr_t ptr));

/*
 * Continues releases that such an edge has left. Called before a request and before a submission,
 * where there are hints.
 */
void dispatch_go_on(void);

/* Records an edge that no hint waits for. */
void dispatch_label(const struct edge *edge);

/* ---- the rest of the world ------------------------------------------------------------------ */

/*
 * Memory that only the driver knows begins or ends. `key` is its address, or dispatch_key of its
 * handle. Memory that is not device memory of this process is recorded with its stack, and is not
 * counted for nth.
 */
void dispatch_made(enum memclass memclass, uint64_t key, uint64_t size, int device);
void dispatch_gone(uint64_t key);

/* Maps memory recorded under a handle at an address, so that uses find it; size 0: unmaps it. */
void dispatch_mapped(uint64_t key, devptr_t ptr, uint64_t size);

/* Handles of several kinds and addresses share one space of numbers. */
static inline uint64_t dispatch_key(enum memclass memclass, uint64_t handle)
{
    return ((uint64_t)memclass + 1) << 56 | (handle & ((UINT64_C(1) << 56) - 1));
}

/* The calling thread's device, -1 if it has none or may not ask. */
int dispatch_device(void);

/* The program waited for the device. */
void dispatch_synchronised(void);
/*
 * A capture is about to begin: this finds out first what the device has finished, since no question
 * is asked during one (R10, no calls during captures).
 */
void dispatch_settle(void);

/* In the child of a fork. */
void dispatch_fork_child(void);

#endif

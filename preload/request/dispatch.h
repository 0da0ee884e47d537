/* SPDX-License-Identifier: MIT */
/*
 * dispatch.h - the steps that are taken when the program asks for memory, gives it back, passes an anchor, or uses it.
 *
 *     alloc  where_am_i ─► hint_plan ─► pool_alloc ─► capture_alloc
 *     free                              pool_free ──► capture_free        (the driver's own: once it has agreed)
 *     edge   anchor_* ────────────────► pool_edge ──► capture_hint        limbo is polled on the way, or with the next request
 *     touch                             pool_touch ─► capture_hint, and the call is not made
 *
 * Deciding is alloc's, knowing is tracker's, combining is done here and nowhere else. The hooks translate CUDA's
 * arguments into these calls and the results back.
 *
 * Results: 0 done; > 0 the driver's CUresult, for the program; < 0 ours: the hook makes the real call, and then tells
 * dispatch_forwarded what came of it. In KEDGE_MODE=track every request is answered < 0.
 * Threads: any, inside life_enter (dispatch_edge too). No lock is held. Rules: R17 R20 R30-R36 R38 R55 R57 R58 R61 R75
 * R81 R82 R84 R86 R87.
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

/* Once, when life starts: pool, hints, capture. 0 or -errno (then life degrades). */
int dispatch_start(void);

/* ---- memory --------------------------------------------------------------------------------- */

/* One request, from the hook's arguments to the record. */
struct dispatch_request {
    uint64_t size;
    enum api api;
    struct context context;    /* of the calling thread */
    struct stream stream;      /* stream-ordered API */
    uint64_t mempool;          /* stream-ordered API: id of the pool that serves it, 0 = forward */
    CUmemoryPool named;        /* the one that the program named, NULL = none */
    const void *caller;        /* return address of the hook */
    enum memclass memclass;    /* if the driver serves it: MEMCLASS_POOLED = find out */
    bool forward;              /* never pooled: managed, pitched, imported, exportable ... */
    bool capturing;            /* its stream is being captured */
    const struct tag *counted; /* its place, where the short way has counted it; NULL = not yet */
    /* filled by dispatch_alloc, read by dispatch_forwarded: */
    struct tag tag;
    struct plan plan;
    struct pool_ladder ladder; /* what was done for it, should it fail */
};

static inline int dispatch_device_of(const struct dispatch_request *request)
{
    return request->api == API_STREAM ? request->stream.device : request->context.device;
}

/* 0: *ret_ptr is the program's. > 0: the driver's refusal. < 0: make the real call, then dispatch_forwarded. */
int dispatch_alloc(struct dispatch_request *request, devptr_t *ret_ptr);
/* The driver had no memory for a request of the sync API beside a capture, where it has the first word (R11): what the pool has free serves
 * if that takes no driver call (R82). */
bool dispatch_beside_capture(struct dispatch_request *request, int result, devptr_t *ret_ptr);

/* What the real call said: records a success, an OOM after which nothing is left to try. */
void dispatch_forwarded(struct dispatch_request *request, int result, devptr_t ptr, uint64_t size);

/* An OOM of a call that we forwarded: gives back what the device's heaps can spare, and then what may go out. `size` 0: the call
 * names none. True = try once more (R81). *ladder is added to, for dispatch_refused or dispatch_forwarded. */
bool dispatch_make_room(int result, uint64_t size, int device, struct pool_ladder *ladder);

/* The same, of the device's heaps alone, for any call that the driver had no memory for: nothing goes out for it. */
bool dispatch_more_room(struct pool_ladder *ladder);

/* What such a call came to in the end, where there is no request: an OOM is recorded. `size` 0: the call names none. */
void dispatch_refused(int result, uint64_t size, int device, const struct pool_ladder *ladder);

/*
 * The end of something that the driver serves. The number of the order is taken before the call that ends it, and the record is
 * written when the driver has agreed. By then the address may be another thread's, whose record has a higher number (caplive.h).
 */
struct dispatch_end {
    uint64_t key; /* 0 = nothing is to be written */
    uint64_t seq;
    uint64_t stream; /* as stream_told says it */
    enum api api;
};

/* Before the call that ends what is on record under `key`; and after it, with the CUresult. */
struct dispatch_end dispatch_end(uint64_t key);
void dispatch_ended(const struct dispatch_end *end, int result);

/* Whether a block of ours that the program holds begins there. */
bool dispatch_is_live(devptr_t ptr, struct block_info *ret_info);

/* A free. 0: done, return success. > 0: the code for the program. -ENOENT: not ours; make the real call, then dispatch_ended
 * with *ret_end, which is written in that case only. */
int dispatch_free(
        devptr_t ptr, enum api api, const struct stream *stream, struct dispatch_end *ret_end);

/* Whether a free through the sync API is known to wait for nothing (R75). Where captures run it is another question. */
static inline bool dispatch_frees_without_wait(void)
{
    return session_sync_free == 1 || (session_sync_free == 0 && bypass_framework_known());
}

/* In a forked child, or after degrading: whether ptr is a block of ours, whose free then does nothing and succeeds. */
bool dispatch_free_passive(devptr_t ptr);

/* ---- anchors and uses ----------------------------------------------------------------------- */

/*
 * An edge: written down, and what hints release at it is marked. `may_call` false: it may come in a signal handler, so the
 * driver, which may be what the handler has interrupted, is not called; the release goes on with dispatch_go_on.
 */
void dispatch_edge(const struct edge *edge, bool may_call);

/*
 * Something else that hints wait for (hints_run_waits), and the buffers that it is given: uses of them. The driver is not called.
 * Made inside the reader section of a call that follows, it lets storage wait for the end of that call, and what was held.
 * `each_dead`, if any, is told of each block that it releases or lets go.
 */
void dispatch_event(const struct edge *event, const devptr_t *used, uint32_t count,
        void (*each_dead)(devptr_t ptr));

/* Goes on with what such an edge has left to do. Before a request and before a submission, where there are hints. */
void dispatch_go_on(void);

/* An edge that is written down, and that no hint waits for. */
void dispatch_label(const struct edge *edge);

/* ---- the rest of the world ------------------------------------------------------------------ */

/*
 * Memory that only the driver knows: made, or gone. `key` is its address, or dispatch_key of its handle. What is not device
 * memory of this process is recorded with its stack, and takes no part in the counting by which hints name allocations.
 */
void dispatch_made(enum memclass memclass, uint64_t key, uint64_t size, int device);
void dispatch_gone(uint64_t key);

/* Memory that is recorded under a handle is at an address, size 0: there no more. Uses find it. */
void dispatch_mapped(uint64_t key, devptr_t ptr, uint64_t size);

/* Handles of several kinds and addresses in one space of numbers. */
static inline uint64_t dispatch_key(enum memclass memclass, uint64_t handle)
{
    return ((uint64_t)memclass + 1) << 56 | (handle & ((UINT64_C(1) << 56) - 1));
}

/* The calling thread's device, -1 if it has none or may not ask. */
int dispatch_device(void);

/* The program waited for the device. */
void dispatch_synchronised(void);
/* A capture is about to begin: what the device is done with must be known by then, since nothing is asked beside one (R10). */
void dispatch_settle(void);

/* In the child of a fork. */
void dispatch_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * conduct.h - the script: what happens when the program asks for memory, gives it back, passes an anchor, or uses it.
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
 * conduct_forwarded what came of it. In KEDGE_MODE=track every request is answered < 0.
 * Threads: any, inside life_enter (conduct_edge too). No lock is held. Rules: R17 R20 R30-R36 R38 R55 R57 R58 R61 R75
 * R81 R82 R84 R86 R87.
 */
#ifndef KEDGE_PRELOAD_CONDUCT_H
#define KEDGE_PRELOAD_CONDUCT_H

#include "alloc/pool.h"
#include "alloc/types.h"
#include "preload/bypass.h"
#include "preload/contexts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Once, when life starts: pool, hints, capture. 0 or -errno (then life degrades). */
int conduct_start(void);

/* ---- memory --------------------------------------------------------------------------------- */

/* One request, from the hook's arguments to the record. */
struct conduct_request {
    uint64_t size;
    enum entrance entrance;
    struct context context; /* of the calling thread */
    struct stream stream;   /* stream entrance */
    uint64_t mempool;       /* stream entrance: id of the pool that serves it, 0 = forward */
    CUmemoryPool named;     /* the one that the program named, NULL = none */
    const void *caller;     /* return address of the hook */
    enum memclass memclass; /* if the driver serves it: MEMCLASS_POOLED = find out */
    bool forward;           /* never pooled: managed, pitched, imported, exportable ... */
    bool capturing;         /* its stream is being captured */
    /* filled by conduct_alloc, read by conduct_forwarded: */
    struct tag tag;
    struct plan plan;
    struct pool_ladder ladder; /* what was done for it, should it fail */
};

/* 0: *ret_ptr is the program's. > 0: the driver's refusal. < 0: make the real call, then conduct_forwarded. */
int conduct_alloc(struct conduct_request *request, devptr_t *ret_ptr);

/* What the real call said: records a success, an OOM after which nothing is left to try. */
void conduct_forwarded(struct conduct_request *request, int result, devptr_t ptr, uint64_t size);

/* An OOM of a call that we forwarded: gives back what the device's heaps can spare. True = try once more (R81). *ladder
 * is added to, for conduct_refused or conduct_forwarded. */
bool conduct_make_room(int result, int device, struct pool_ladder *ladder);

/* What such a call came to in the end, where there is no request: an OOM is recorded. `size` 0: the call names none. */
void conduct_refused(int result, uint64_t size, int device, const struct pool_ladder *ladder);

/*
 * The end of something that the driver serves. The number of the order is taken before the call that ends it, and the record is
 * written when the driver has agreed. By then the address may be another thread's, whose record has a higher number (caplive.h).
 */
struct conduct_end {
    uint64_t key; /* 0 = nothing is to be written */
    uint64_t seq;
    uint64_t stream; /* the program's handle */
    enum entrance entrance;
};

/* Before the call that ends what is on record under `key`; and after it, with the CUresult. */
struct conduct_end conduct_end(uint64_t key);
void conduct_ended(const struct conduct_end *end, int result);

/* A free. 0: done, return success. > 0: the code for the program. -ENOENT: not ours; make the real call, then conduct_ended
 * with *ret_end, which is written in that case only. */
int conduct_free(devptr_t ptr, enum entrance entrance, const struct stream *stream,
        struct conduct_end *ret_end);

/* Whether a free on the sync entrance is known to wait for nothing (R75). Where captures run it is another question. */
extern unsigned conduct_sync_free; /* KEDGE_SYNC_FREE: auto|0|1, fixed by conduct_start */
static inline bool conduct_frees_without_wait(void)
{
    return conduct_sync_free == 1 || (conduct_sync_free == 0 && bypass_framework_known());
}

/* In a forked child, or after degrading: whether ptr is a block of ours, whose free then does nothing and succeeds. */
bool conduct_free_passive(devptr_t ptr);

/* ---- anchors and uses ----------------------------------------------------------------------- */

/*
 * An edge: written down, and what hints release at it is marked. `may_call` false: it may come in a signal handler, so the
 * driver, which may be what the handler has interrupted, is not called; the release goes on with conduct_go_on.
 */
void conduct_edge(const struct edge *edge, bool may_call);

/* Goes on with what such an edge has left to do. Before a request and before a submission, where there are hints. */
void conduct_go_on(void);

/* An edge that is written down, and that no hint waits for. */
void conduct_label(const struct edge *edge);

/* How a range came to be looked at. */
enum touch {
    TOUCH_POINTER, /* an argument that is a pointer */
    TOUCH_INSIDE,  /* eight bytes inside a larger parameter: stops in trap mode only (R86) */
};

/*
 * Inside a reader section: true if [ptr, ptr + size) lies in storage that a hint released, and the call `what` must not
 * be made. In shadow the use is noted and the answer is false. On a captured stream the blocks are pinned (submit.h), else
 * the use is recorded, if that is wanted (KEDGE_TRACE=uses=).
 */
bool conduct_touch(devptr_t ptr, uint64_t size, enum touch how, const char *what);

/* The call, or the node of a graph, names memory that we are not told of: what lives now is not to be judged by its uses. */
void conduct_unseen(void);

/*
 * A copy between device addresses whose one side is a hinted block that another device or context's device has no access to,
 * though natively it would be plain memory that every copy reaches: true, and the contexts to copy between (R85).
 */
bool conduct_peers(devptr_t dst, devptr_t src, CUcontext *ret_dst, CUcontext *ret_src);

/* What conduct_touch does with a hit: tells it, and says whether the call must not be made. */
bool conduct_hit(const struct pool_hit *hit, devptr_t ptr, enum touch how, const char *what);

/* Something happened that hints cannot cope with: they release nothing more in this run, one line. */
void conduct_stop_hints(const char *why);

/* One rule acts no more in this run, since the program shared a block of it: one line (R85). */
void conduct_hint_off(int rule, const char *call);

/* A block was shared with somebody: the capture is told (R85). */
void conduct_shared(devptr_t base, uint64_t size, int device);

/* The driver does not say what a launch carries: live hints are shadow from now on, one line (R86). */
void conduct_unknown_layout(const char *call);

/* ---- the rest of the world ------------------------------------------------------------------ */

/* The pool; NULL unless KEDGE_MODE=pool. */
struct pool *conduct_pool(void);

/* The next number of the order of events; and trouble of the capture's own, told once. For the parts of conduct. */
uint64_t conduct_seq(void);
void conduct_told(int r);

/* After a stack was taken: an interpreter was found whose frames are read, or why they are not. Once. */
void conduct_tell_python(void);

/* May the driver be asked to do something for kedge's own sake now? (R10, R38) */
bool conduct_may_fence(void);

/*
 * Memory that only the driver knows: made, or gone. `key` is its address, or conduct_key of its handle. What is not device
 * memory of this process is recorded with its stack, and takes no part in the counting by which hints name allocations.
 */
void conduct_made(enum memclass memclass, uint64_t key, uint64_t size, int device);
void conduct_gone(uint64_t key);

/* Memory that is recorded under a handle is at an address, and is there no more: uses find it. */
void conduct_mapped(uint64_t key, devptr_t ptr, uint64_t size);
void conduct_unmapped(uint64_t key, devptr_t ptr);

/* Handles of several kinds and addresses in one space of numbers. */
static inline uint64_t conduct_key(enum memclass memclass, uint64_t handle)
{
    return ((uint64_t)memclass + 1) << 56 | (handle & ((UINT64_C(1) << 56) - 1));
}

/* The calling thread's device, -1 if it has none or may not ask. */
int conduct_device(void);

/* What the driver says about a device now, for the record; conduct_looked: the program has just asked that itself. */
void conduct_look(int device);
void conduct_looked(int device, uint64_t free_bytes, uint64_t total_bytes);

/* The program waited for the device. */
void conduct_synchronised(void);

/* A context is about to die: nothing of it is handed out or named any more. And: it is dead, its mapped memory can go. */
void conduct_context_hide(uint64_t generation, bool hidden);
void conduct_context_going(uint64_t generation);
void conduct_context_gone(uint64_t generation);

/* Bytes held from the driver on a device, after something else than a request changed them. */
void conduct_note_reserved(int device);

/* Whether hints have a say in requests, and whether requests are recorded. Fixed by conduct_start. */
bool conduct_decides(void);
bool conduct_records(void);

/* KEDGE_POOL=meminfo=driver. */
bool conduct_meminfo_raw(void);

/* In the child of a fork. */
void conduct_fork_child(void);

#endif

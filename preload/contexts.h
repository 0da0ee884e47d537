/* SPDX-License-Identifier: MIT */
/*
 * contexts.h - CUDA's recycled handles, made into names that are used once.
 *
 * A CUcontext and a CUstream may come back with the same value for another object. Everything that outlives a call is
 * therefore keyed by a generation (of a context) or an identity (of a stream), numbers that are never used twice.
 *
 *     CUcontext ─ cuCtxGetId, or a count of our own below 12.0 ─► generation ─► device, events (driver.c)
 *     CUstream  ─ cuStreamGetId in the calling thread ──────────► identity ───► handle, generation, owner thread
 *
 * Handles 0, 1 and 2 are normalised first: 0 is the legacy stream in a plain call and the thread's own in a _ptsz call.
 * Two threads' per-thread streams are two streams, and only the owner can record on its own (R69). They end with their
 * thread, which nobody tells: a key destructor of ours does, or a program that starts threads again and again would fill
 * the table.
 *
 * Contexts are noted when they are created, retained or allocated from, so that a fence covers them all (R1). Does not
 * create contexts and does not change which one is current, apart from context_enter/leave, which undo each other (R27).
 * Threads: any. One lock, not held across driver calls. Memory: static, bounded. Rules: R26 R27 R28 R69 R76.
 */
#ifndef KEDGE_PRELOAD_CONTEXTS_H
#define KEDGE_PRELOAD_CONTEXTS_H

#include "preload/cuda_abi.h"
#include "preload/resolve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for streams, of which half may be seen at one time; a test makes it small. */
#ifndef STREAMS_ROOM
#    define STREAMS_ROOM (1 << 14)
#endif

enum {
    CONTEXTS_MAX = 256, /* alive at one time */
    STREAMS_MAX = STREAMS_ROOM,
    DEVICES_MAX = 64,
};

/* A context that is alive. */
struct context {
    CUcontext handle;
    uint64_t generation;
    int device;
};

/* The calling thread's current context, noted if it is new. 0, or the driver's code, or -ENOENT if there is none. */
int context_here(struct context *ret_context);

/* A context that somebody created or retained. No driver call is left undone if it is known already. */
void context_note(CUcontext handle);

/* The one with this handle or generation, without asking the driver; false if it is not known. */
bool context_of_handle(CUcontext handle, struct context *ret_context);
bool context_of_generation(uint64_t generation, struct context *ret_context);

/* All that are alive, at most max; returns how many were written. */
size_t context_list(struct context *ret_contexts, size_t max);

/* Whether any context is known. No call, no lock. */
bool context_any(void);

/* A context is dead or about to die: it is known no more, and its streams neither. Waits for calls of ours that name it.
 * Returns its generation, 0 = unknown. */
uint64_t context_forget(CUcontext handle);

/* Around the call that ends a context: until it is back, work of a context that is not known any more is not over, so no
 * fence that would have to cover it counts as passed or can be recorded (R1, R26). */
void context_end_begin(void);
void context_end_done(void);
bool context_is_ending(void);

/* The primary context of a device, if it is known; which one is primary is learned from cuDevicePrimaryCtxRetain. */
void context_note_primary(CUdevice device, CUcontext handle);
CUcontext context_primary(CUdevice device);

/* Handles may mean something else now (a context was detached, reset, libraries came ...): what threads remember is not
 * trusted any more. */
void context_changed(void);

/* A call of ours that names a context. {0} = none. */
struct context_use {
    unsigned slot; /* of the table, from 1 */
    bool pushed;
};

/* Makes a context current for calls of ours: until context_leave it is not destroyed, since the driver may give its handle
 * and its addresses to somebody else at once. 0, -ENOENT, or the driver's code; leave it in any case. */
int context_enter(uint64_t generation, struct context_use *ret_use);
void context_leave(struct context_use *use);

/* A stream as the program named it in this call. */
struct stream {
    uint64_t identity; /* for the pool; 0 = unknown */
    CUstream handle;   /* CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a real handle */
    uint64_t context;  /* generation */
    int device;
    bool per_thread; /* nobody else can record on it */
};

/* ---- what a thread remembers ---- */

enum {
    STREAM_MEMOS = 4,
    CALLER_MEMOS = 4,
};

/* The default stream of a context. A stream's number never comes back, so this stays true as long as the context lives. */
struct stream_memo {
    uint64_t identity; /* 0 = nothing is known */
    int device;
    bool meets; /* a free there must be an operation there (stream_must_record) */
};

/* Good while context_epoch has the same value. The second half is quick.c's. */
struct context_memo {
    unsigned epoch;
    unsigned slot; /* of the context's record */
    struct context context;
    struct stream_memo legacy;
    /* others: by handle, with a check by number */
    CUstream handle[STREAM_MEMOS];
    uint64_t identity[STREAM_MEMOS];
    int device_of[STREAM_MEMOS];
    unsigned left;                           /* short allocations until the next long one */
    int device;                              /* of the memory pool that was used last */
    const void *caller[CALLER_MEMOS];        /* whoever calls from there is served */
    CUmemoryPool mempool;                    /* NULL: the current one of the device */
    uint64_t mempool_id;                     /* 0 = not known */
};

extern __thread struct context_memo context_memo __attribute__((tls_model("initial-exec")));
/* Rises when something that threads remember may have changed: a handle's meaning, a device's current memory pool, the
 * libraries of the process. */
extern atomic_uint context_epoch;

static inline unsigned stream_memo_at(CUstream handle)
{
    return (uintptr_t)handle / 16 % STREAM_MEMOS;
}

/* Finds out which stream that is; `per_thread_call` = the entry was a _ptsz one. 0, or the driver's code, or -errno. */
int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream);

/* What an identity stands for, for one call of ours that names its handle: until stream_leave the stream is not destroyed.
 * false: gone, or another thread's own stream; then there is nothing to leave. */
bool stream_enter(uint64_t identity, struct stream *ret_stream);
void stream_leave(uint64_t identity);

/* The identity of a real handle if it was seen, else 0. */
uint64_t stream_identity(CUstream handle);

/* The stream is about to be destroyed: it is known no more. Waits for calls of ours that name it. */
void stream_forget(uint64_t identity);

/*
 * At the end of a thread that used its own default stream, once for each such stream that is known no more (R69): `gone` is
 * told its identity. No driver call is made, and none may be made in `gone`. Set once, when life starts.
 */
void stream_on_thread_end(void (*gone)(uint64_t identity));

/* In the child of a fork. */
void context_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * contexts.h - CUDA's recycled handles, made into names that are used once.
 *
 * A CUcontext and a CUstream may come back with the same value for another object. Everything that outlives a call is
 * therefore keyed by a generation (of a context) or an identity (of a stream), numbers that are never used twice.
 *
 *     CUcontext ─ cuCtxGetId, or a count of our own below 12.0 ─► generation ─► device, events (driver.c)
 *     CUstream  ─ cuStreamGetId in the calling thread ──────────► identity ───► handle, generation, owner thread
 *     0, 1, 2   ─ the current context, and the calling thread ──► identity
 *
 * The driver's numbers of default streams may count within a context (as CUPTI's do), so the identity of a default stream is made of
 * its context and, if it is a thread's own, of the thread. Where two streams that are alive have one number, so is that of the
 * second one made of its context and the number.
 *
 * Handles 0, 1 and 2 are normalised first: 0 is the legacy stream in a plain call and the thread's own in a _ptsz call.
 * Two threads' per-thread streams are two streams, and only the owner can record on its own (R69). They end with their
 * thread, which nobody tells: a key destructor of ours does, or a program that starts threads again and again would fill
 * the table.
 *
 * Contexts are noted when they are created, retained or allocated from, so that a fence covers them all (R1). Does not
 * create contexts and does not change which one is current, apart from context_enter/leave, which undo each other (R27).
 * Threads: any. One lock, not held across driver calls. Memory: meta.h, bounded. Rules: R26 R27 R28 R69 R76.
 * Prefixes: context_, stream_.
 */
#ifndef KEDGE_PRELOAD_CONTEXTS_H
#define KEDGE_PRELOAD_CONTEXTS_H

#include "preload/cuda_abi.h"
#include "preload/resolve.h"
#include "tracker/format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef STREAMS_MAX /* seen at one time; less in a library for tests */
#    define STREAMS_MAX (1u << 13)
#endif

enum {
    DEVICES_MAX = 64,
    /* streams of a device in a run that have numbers of their own (tag.stream) */
    NUMBERS_MAX = 65534,
};

/* A context that is alive. */
struct context {
    uint64_t generation;
    CUcontext handle;
    int device;
    /* how many contexts were noted up to it: small, and never used again */
    uint32_t serial;
};

/* The calling thread's current context, noted if it is new. 0, or the driver's code, or -ENOENT if there is none. */
int context_here(struct context *ret_context);

/* A context that somebody created or retained. No driver call is left undone if it is known already. */
void context_note(CUcontext handle);

/* The one with this handle or generation, without asking the driver; false if it is not known. */
bool context_of_handle(CUcontext handle, struct context *ret_context);
bool context_of_generation(uint64_t generation, struct context *ret_context);

/* What is to be done when a handle turns out to be another context's, so that the one before has ended unseen: it is told the
 * generation of that one, with no lock held. Driver calls may be made. Set once, when life starts. */
void context_on_lost(void (*on_lost)(uint64_t generation));

/* The one that is alive with the next greater generation, in any number of them; `after` 0 = the first. False: there is none. */
bool context_next(uint64_t after, struct context *ret_context);

/* A context is dead or about to die: it is known no more, and its streams neither. Waits for calls of ours that name it.
 * Returns its generation, 0 = unknown. */
uint64_t context_forget(CUcontext handle);

/* Around the call that ends a context (generation 0: one that is not known): until it is back, work of the context is not over although
 * it is not known any more, so no fence that would have to cover it counts as passed or can be recorded (R1, R26). */
void context_end_begin(uint64_t generation);
void context_end_done(uint64_t generation);

/* Whether this one is being ended; 0 = any. And how many ends have begun so far. */
bool context_is_ending(uint64_t generation);
uint64_t context_ends(void);

/* The primary context of a device, if it is known; which one is primary is learned from cuDevicePrimaryCtxRetain. */
void context_note_primary(CUdevice device, CUcontext handle);
CUcontext context_primary(CUdevice device);

/* Handles may mean something else now (a context was detached, reset, libraries came ...): what threads remember is not
 * trusted any more. */
void context_changed(void);

/* A call of ours that names a context. {0} = none. */
struct context_use {
    uint64_t generation;
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
    uint16_t number; /* as tag.stream */
    bool per_thread; /* nobody else can record on it */
};

/* What a capture calls it; NULL is fine. */
static inline uint64_t stream_told(const struct stream *stream)
{
    return stream ? format_stream((uintptr_t)stream->handle, stream->number) : 0;
}

/*
 * ---- where blocking streams meet (R69) ----
 *
 * Natively a free on the default (legacy) stream is an operation there: it waits for all blocking streams of the context, and
 * what follows on them waits for it. kedge makes no call for it, and the next tenant of the block needs none on the default
 * stream itself. But:
 *
 *     X used on B1 ─ X freed on the default stream ─ its block allocated there as Y ─ Y used on B2
 *
 * Natively B2 comes behind B1, over the free. So the free must record an event, which is an operation as good. Which streams
 * can be B1 and B2? Blocking ones: those made without CU_STREAM_NON_BLOCKING, and per-thread default streams; not the default
 * stream itself, whose work meets all of them anyway; not the same stream twice, which is in order; not non-blocking ones,
 * which the program must tie to a blocking or the default stream by an event, and that call is then the operation on B1, B2
 * or the default stream. So as long as fewer than two blocking streams can have been used, no event is needed.
 *
 * What is counted is what may have been: streams ever made, since B1 may be gone when B2 comes and its work not; over all
 * contexts of a device, since a context of a part of a device (green) may share its default stream's order with another; a
 * stream that is named to us and was not seen to be made, when it is first named; and the first use of any thread's own stream
 * as two, since nothing says when another thread's comes. Streams of green contexts are non-blocking by definition. What
 * cannot be found out counts as two.
 *
 * The second stream may be made after the free and before the next tenant's use. So when the count comes to two, one event is
 * recorded on the default stream before anybody can use the new one: it is behind all that was freed there, and B2 behind it.
 * (A free in another thread that still saw one stream had its uses submitted before it asked, so before this event.) Where it
 * cannot be recorded, what was freed there waits for a full fence.
 *
 * Not seen: work that reaches a thread's own stream through a call that is not in hooks.def, and nothing else of that stream
 * before (a memory operation of cuStreamBatchMemOp is one such).
 */

extern atomic_uint stream_meetings
        [DEVICES_MAX]; /* blocking streams that there may have been; 2 = two or more */

static inline bool stream_meets(int device)
{
    return device < 0 || device >= DEVICES_MAX || atomic_load(&stream_meetings[device]) > 1;
}

/* Whether a free on this stream must record its event at once, although the stream is the one that allocated. On a thread's
 * own stream only this thread can record later. */
static inline bool stream_must_record(const struct stream *stream)
{
    return stream->per_thread
            || (stream->handle == CU_STREAM_LEGACY && stream_meets(stream->device));
}

/* A blocking stream was made in the current context. */
void stream_made(CUstream handle);

/* A thread's own stream is about to be used. */
extern atomic_bool stream_own_used;
void stream_use_own(void);

/* What is to be done when the count of a device comes to two, for each default stream that is known there: `on_meeting` is told its
 * identity. Driver calls may be made. Set once, when life starts. */
void stream_on_meeting(void (*on_meeting)(uint64_t identity));

/* ---- what a thread remembers ---- */

enum {
    STREAM_MEMOS = 4,
    CALLER_MEMOS = 8,
};

/* The default stream of a context. A stream's number never comes back, so this stays true as long as the context lives. */
struct stream_memo {
    uint64_t identity; /* 0 = nothing is known */
    int device;
};

/* Whoever calls from there, for whoever asks the runtime there (export_asker, NULL = nobody), is served. */
struct caller_memo {
    const void *caller;
    const void *asker;
};

/* Good while context_epoch has the same value. The second half is quick.c's. */
struct context_memo {
    unsigned epoch;
    struct context context;
    struct stream_memo legacy;
    /* others: by handle, with a check by number */
    CUstream handle[STREAM_MEMOS];
    uint64_t identity[STREAM_MEMOS];
    int device_of[STREAM_MEMOS];
    uint16_t number_of[STREAM_MEMOS];
    unsigned left; /* short allocations until the next long one */
    int device;    /* of the memory pool that was used last */
    struct caller_memo caller[CALLER_MEMOS];
    CUmemoryPool mempool; /* NULL: the current one of the device */
    uint64_t mempool_id;  /* 0 = not known */
};

extern __thread struct context_memo context_memo __attribute__((tls_model("initial-exec")));
/* Rises when something that threads remember may have changed: a handle's meaning, a device's current memory pool, the
 * libraries of the process. */
extern atomic_uint context_epoch;

static inline unsigned stream_memo_at(CUstream handle)
{
    return (uintptr_t)handle / 16 % STREAM_MEMOS;
}

/* What a stream is called in calls of ours: 0 is the legacy stream, and the thread's own in a _ptsz call. */
static inline CUstream stream_named(CUstream handle, bool per_thread_call)
{
    if (handle)
        return handle;
    return per_thread_call ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Whether a stream, as it is called above, is being captured: yes, where the driver does not answer. And the graph that it is
 * captured into, 0 = none, or not known. Driver calls. */
bool stream_is_captured(CUstream named);
uint64_t stream_captured_graph(CUstream named);

/* Finds out which stream that is; `per_thread_call` = the entry was a _ptsz one. 0, or the driver's code, or -errno. */
int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream);

/* What an identity stands for, for one call of ours that names its handle: until stream_leave the stream is not destroyed.
 * false: gone, or another thread's own stream; then there is nothing to leave. */
bool stream_enter(uint64_t identity, struct stream *ret_stream);
void stream_leave(uint64_t identity);

/* The identity of a real handle if it was seen, else 0. */
uint64_t stream_identity(CUstream handle);

/*
 * What a stream is called while it captures (gate.h): a handle, which is one stream's as long as that lives, or an odd number,
 * made from the identity, for a thread's own stream: all threads have one handle for theirs. Where nobody can say which (no
 * context is current), the handle.
 */
uint64_t stream_capture_key(CUstream handle, bool per_thread_call);

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

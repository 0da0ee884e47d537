/* SPDX-License-Identifier: MIT */
/*
 * contexts.h - CUDA's recycled handles, made into names that are used once.
 *
 * A CUcontext and a CUstream may come back with the same value for another object. Everything that
 * outlives a call is therefore keyed by a generation (of a context) or an identity (of a stream),
 * numbers that are never used twice.
 *
 *     CUcontext ─ cuCtxGetId, or a count of our own below 12.0 ─► generation ─► device, events (driver.c)
 *     CUstream  ─ cuStreamGetId in the calling thread ──────────► identity ───► handle, generation, owner thread
 *     0, 1, 2   ─ the current context, and the calling thread ──► identity
 *
 * The driver's numbers of default streams may count within a context (as CUPTI's do), so the
 * identity of a default stream is made of its context and, if it is a thread's own, of the thread.
 * Where two streams that are alive have one number, so is that of the second one made of its
 * context and the number.
 *
 * Handles 0, 1 and 2 are normalised first: 0 is the legacy stream in a plain call and the thread's
 * own in a _ptsz call. Two threads' per-thread streams are two streams, and only the owner can
 * record on its own (R69). They end with their thread, which nobody tells: a key destructor of ours
 * does, or a program that starts threads again and again would fill the table.
 *
 * Contexts are noted when they are created, retained or allocated from, so that a fence covers them
 * all (R1). Does not create contexts and does not change which one is current, apart from
 * context_enter/leave, which undo each other (R27).
 * Threads: any. One lock, not held across driver calls. Memory: meta.h, bounded.
 * Rules: R26 R27 R28 R69 R76.
 * Prefixes: context_, stream_.
 */
#ifndef KEDGE_PRELOAD_CONTEXTS_H
#define KEDGE_PRELOAD_CONTEXTS_H

#include "preload/base/cuda_abi.h"
#include "preload/driver/hostwait.h"
#include "preload/driver/resolve.h"
#include "tracker/format/format.h"

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
    /* generation of the one whose memory cuMemAlloc gives there: its own, but of a green one the
     * primary's */
    uint64_t memory;
    CUcontext handle;
    int device;
    /* how many contexts were noted up to it: small, and never used again */
    uint32_t serial;
};

/* The calling thread's current context, noted if it is new. 0, or the driver's code, or -ENOENT if
 * there is none. */
int context_here(struct context *ret_context);

/* A context that somebody created or retained. No driver call is left undone if it is known
 * already. */
void context_note(CUcontext handle);

/*
 * A green context was made of a part of a primary one: what is allocated there is that one's, and
 * stays as it ends. And its handle as long as it is not known to have ended, NULL = it is not
 * known.
 */
void context_note_green(CUgreenCtx which, CUcontext handle, CUcontext primary);
CUcontext context_of_green(CUgreenCtx which);
void context_forget_green(CUgreenCtx which);

/* The one with this handle or generation, without asking the driver; false if it is not known. */
bool context_of_handle(CUcontext handle, struct context *ret_context);
bool context_of_generation(uint64_t generation, struct context *ret_context);

/*
 * What is to be done when a handle turns out to be another context's, so that the one before has
 * ended unseen: it is told the generation of that one, with no lock held. Driver calls may be made.
 * Set once, when life starts.
 */
void context_on_lost(void (*on_lost)(uint64_t generation));

/* The one that is alive with the next greater generation, in any number of them; `after` 0 = the
 * first. False: there is none. */
bool context_next(uint64_t after, struct context *ret_context);

/*
 * A context is dead or about to die: it is known no more, and its streams neither. Waits for calls
 * of ours that name it. Returns its generation, 0 = unknown; then context_forget_done follows once
 * the driver has ended it or refused to. Until then context_here answers -ENOSPC for it.
 */
uint64_t context_forget(CUcontext handle);
void context_forget_done(uint64_t generation, CUcontext handle);

/*
 * Around the call that ends a context (generation 0: one that is not known): until it is back, work
 * of the context is not over although it is not known any more, so no fence that would have to
 * cover it counts as passed or can be recorded (R1, R26). `devices`: whose memory that work may
 * use, as bits, the same at both times (reach.h).
 */
void context_end_begin(uint64_t generation, uint64_t devices, bool counts);
void context_end_done(uint64_t generation, uint64_t devices);

/*
 * Whether this one is being ended. Whether one is whose work may use memory of the device; and how
 * many such ends that count have begun so far.
 */
bool context_is_ending(uint64_t generation);
bool context_is_ending_near(int device);
uint64_t context_ends(int device);

/* The primary context of a device, if it is known; which one is primary is learned from
 * cuDevicePrimaryCtxRetain. */
void context_note_primary(CUdevice device, CUcontext handle);
CUcontext context_primary(CUdevice device);

/*
 * Handles may mean something else now (a context was detached, reset, libraries came ...): what
 * threads remember is not trusted any more.
 */
void context_changed(void);

/* A call of ours that names a context. {0} = none. */
struct context_use {
    uint64_t generation;
    bool pushed;
};

/*
 * Makes a context current for calls of ours: until context_leave it is not destroyed, since the
 * driver may give its handle and its addresses to somebody else at once. 0, -ENOENT, or the
 * driver's code; leave it in any case.
 */
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
    bool blocks;     /* has an order with the default stream; not of that itself */
};

/* What a capture calls it; NULL is fine. */
static inline uint64_t stream_told(const struct stream *stream)
{
    return stream ? format_stream((uintptr_t)stream->handle, stream->number) : 0;
}

/*
 * ---- the order that CUDA gives without events (R69) ----
 *
 * An operation on the default (legacy) stream waits for all that the blocking streams of its
 * context were given before, and what they are given later waits for it. Blocking streams are those
 * made without CU_STREAM_NON_BLOCKING, and threads' own default streams. Allocations and frees are
 * such operations natively (cuMemAllocAsync, cuMemFreeAsync: "inserts an operation into hStream"):
 *
 *     X used on B1 ─ X freed on the default stream ─ its block allocated there as Y ─ Y used on B2        B2 comes behind B1
 *     copy to the host on the default stream ─ X freed on B1 ─ the program waits for B1                   and so for the copy
 *
 * kedge needs no call for an allocation or a free. So that nobody misses this order it records an
 * event where one of them is an operation that somebody could wait for (stream_owes,
 * backend_operate): on the default stream as soon as a blocking stream may have been used, and on a
 * blocking one as soon as the default stream may have been. One blocking stream is enough, since
 * the second may come at a time at which nothing can be recorded any more (a capture), and the
 * order is about what the first one was given before. Where no event can be recorded, a request is
 * the driver's and a free waits for a full fence.
 * Before there is a blocking stream the default one has only work of its own, and of streams that
 * the program ties to it by an event, which is an operation as good. Non-blocking streams have no
 * such order.
 *
 * "May have been used" is never taken back, because work outlives streams. It is known of a device,
 * not of a context: a context of a part of a device (green) may share the order of its default
 * stream with another. A stream that is named to us and was not seen to be made counts from then
 * on, and what cannot be found out is a blocking one. Streams of green contexts are non-blocking by
 * definition.
 *
 * Every call that names a stream is a row HOOK_PTSZ or HOOK_PTDS of hooks.def. The hook of such a
 * row is defined by ON_STREAM, which notices the default streams, and calls that may wait
 * (hostwait.h); onstream.c makes a table of these rows, and the library is not linked if one of
 * them is defined otherwise.
 * Not seen: work that comes by a call without a row.
 */

/* Whether a blocking stream may have been used on a device. */
extern atomic_bool stream_blocks[DEVICES_MAX];
/* Whether the default stream of any context may have been. */
extern atomic_bool stream_defaults;

/* What no call has named yet: bits. */
enum {
    STREAM_NEWS_OWN = 1,     /* a thread's own stream */
    STREAM_NEWS_DEFAULT = 2, /* a default stream */
};

extern atomic_uint stream_news __attribute__((visibility("hidden")));

/* Such a stream is about to be given work for the first time. */
void stream_first(unsigned news);

/* The stream of a call that gives none work. */
#define STREAM_NONE ((CUstream)(uintptr_t)-1)

static inline void stream_notice(CUstream stream, bool per_thread_call)
{
    unsigned news;

    if (__builtin_expect((uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD, 1))
        return;
    news = stream == CU_STREAM_PER_THREAD || (per_thread_call && !stream) ? STREAM_NEWS_OWN
                                                                          : STREAM_NEWS_DEFAULT;
    if (__builtin_expect(atomic_load_explicit(&stream_news, memory_order_acquire) & news, 0))
        stream_first(news);
}

/*
 * Defines the hook of a row that names a stream: ON_STREAM(symbol, params, stream, per_thread,
 * body). The stream is an expression of the parameters, STREAM_NONE where the call gives no stream
 * work.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot stand in parentheses of their own
 * */
/* clang-format off */
#define ON_STREAM(symbol, params, on_stream, per_thread, ...)                           \
    extern const char stream_of_##symbol __attribute__((visibility("hidden")));         \
    const char stream_of_##symbol = 0;                                                  \
    CUresult symbol params                                                              \
    {                                                                                   \
        const struct hostwait hostwait_of_call __attribute__((cleanup(hostwait_end), unused)) = \
                (stream_notice(on_stream, per_thread),                                  \
                        hostwait_begin((enum hostwait_kind)HOSTWAIT_OF_##symbol, on_stream, per_thread)); \
        __VA_ARGS__                                                                     \
    }
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

static inline bool stream_meets(int device)
{
    return device < 0 || device >= DEVICES_MAX || atomic_load(&stream_blocks[device]);
}

/* Whether an allocation or a free there is an operation that somebody could wait for. */
static inline bool stream_owes(const struct stream *stream)
{
    return stream->handle == CU_STREAM_LEGACY ? stream_meets(stream->device)
                                              : stream->blocks && atomic_load(&stream_defaults);
}

/* A blocking stream was made in the current context. */
void stream_made(void);

/*
 * What is to be done once some streams have an order that they had not before: with no lock held.
 * Driver calls may be made. Set once, when life starts.
 */
void stream_on_meeting(void (*meet)(void));

/* ---- what a thread remembers ---- */

enum {
    STREAM_MEMOS = 4,
    CALLER_MEMOS = 8,
};

/* The default stream of a context. A stream's number never comes back, so this stays true as long
 * as the context lives. */
struct stream_memo {
    uint64_t identity; /* 0 = nothing is known */
    int device;
};

/* Whoever calls from there, for whoever asks the runtime there (bypass_asker, NULL = nobody), is
 * served. */
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
/*
 * Rises when something that threads remember may have changed: a handle's meaning, a device's
 * current memory pool, the libraries of the process.
 */
extern atomic_uint context_epoch __attribute__((visibility("hidden")));

static inline unsigned stream_memo_at(CUstream handle)
{
    return (uintptr_t)handle / 16 % STREAM_MEMOS;
}

/* What a stream is called in calls of ours: 0 is the legacy stream, and the thread's own in a _ptsz
 * call. */
static inline CUstream stream_named(CUstream handle, bool per_thread_call)
{
    if (handle)
        return handle;
    return per_thread_call ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/*
 * Whether a stream, as it is called above, is being captured: yes, where the driver does not
 * answer. And the graph that it is captured into, 0 = none, or not known. Driver calls.
 */
bool stream_is_captured(CUstream named);
uint64_t stream_captured_graph(CUstream named);

/* Finds out which stream that is; `per_thread_call` = the entry was a _ptsz one. 0, or the driver's
 * code, or -errno. */
int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream);

/*
 * What an identity stands for, for one call of ours that names its handle: until stream_leave the
 * stream is not destroyed. false: gone, or another thread's own stream; then there is nothing to
 * leave.
 */
bool stream_enter(uint64_t identity, struct stream *ret_stream);
void stream_leave(uint64_t identity);

/* The identity of a real handle if it was seen, else 0. */
uint64_t stream_identity(CUstream handle);

/*
 * What a stream is called while it captures (gate.h): a handle, which is one stream's as long as
 * that lives, or an odd number, made from the identity, for a thread's own stream: all threads have
 * one handle for theirs. Where nobody can say which (no context is current), the handle.
 */
uint64_t stream_capture_key(CUstream handle, bool per_thread_call);

/* The stream is about to be destroyed: it is known no more. Waits for calls of ours that name it.
 * */
void stream_forget(uint64_t identity);

/*
 * The streams that went with a context when it was forgotten, some at a time: how many, 0 = there
 * are no more. Each is told once. Streams of a context whose end the driver refused are seen anew,
 * and these are told of again when it does end.
 */
enum {
    STREAM_ENDED = 16,
};
unsigned stream_take_ended(uint64_t generation, uint64_t ret_identities[STREAM_ENDED]);

/*
 * At the end of a thread that used its own default stream, once for each such stream that is known
 * no more (R69): `gone` is told its identity. No driver call is made, and none may be made in
 * `gone`. Set once, when life starts.
 */
void stream_on_thread_end(void (*gone)(uint64_t identity));

/* In the child of a fork. */
void context_fork_child(void);

/*
 * What stands for a context in a capture where memory came from a pool of the device, which ends
 * with no context but with a reset of the primary one: "destroys all resources associated with the
 * device" (cudaDeviceReset). The pool keeps such a block until it is freed.
 */
static inline uint64_t context_pools_of(int device)
{
    return UINT64_MAX - (uint64_t)(unsigned)device;
}

#endif

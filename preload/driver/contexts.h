/* SPDX-License-Identifier: MIT */
/*
 * contexts.h - numbers for contexts and streams that, unlike CUDA's handles, are never reused.
 *
 * A CUcontext and a CUstream may come back with the same value for another object. Everything that
 * outlives a call is therefore keyed by a generation (of a context) or an identity (of a stream),
 * numbers that are never used twice.
 *
 *     CUcontext ─ cuCtxGetId (own count below 12.0) ─► generation ─► device, events (driver.c)
 *     CUstream  ─ cuStreamGetId in the calling thread ─► identity ───► handle, generation, thread
 *     0, 1, 2   ─ current context and calling thread ───► identity
 *
 * The driver's numbers of default streams may count within a context (as CUPTI's do), so the
 * identity of a default stream is made of its context and, if it is a thread's own, of the thread.
 * Where two living streams have the same number, the identity of the second one is made of its
 * context and the number.
 *
 * Handles 0, 1 and 2 are normalised first: 0 is the legacy stream in a plain call and the thread's
 * own in a _ptsz call. Two threads' per-thread streams are two streams, and only the owner can
 * record on its own (R69, identity of streams). They end with their thread, without a call: a key
 * destructor of ours removes them, else a program that keeps starting threads would fill the table.
 *
 * Contexts are noted when they are created, retained or allocated from, so that a fence covers them
 * all (R1, fences cover all streams). Does not create contexts and does not change which one is
 * current, except between context_enter and context_leave (R27, any current context).
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
#include <stdint.h>

#ifndef STREAMS_MAX /* most streams at one time; smaller in a library for tests */
#    define STREAMS_MAX (1u << 13)
#endif

enum {
    DEVICES_MAX = 64,
    /* most streams per device and run that get a number of their own (tag.stream) */
    NUMBERS_MAX = 65534,
};

/* A context that is alive. */
struct context {
    uint64_t generation;
    /*
     * generation of the context that owns memory from cuMemAlloc there: its own; for a green
     * context the primary's
     */
    uint64_t memory;
    CUcontext handle;
    int device;
    /* number of contexts noted up to this one: small, never reused */
    uint32_t serial;
};

/*
 * The calling thread's current context, noted if it is new. 0, or the driver's code, or -ENOENT if
 * none is current.
 */
int context_here(struct context *ret_context);

/* Notes a context that was created or retained. No driver call if it is known. */
void context_note(CUcontext handle);

/*
 * Notes a green context, made of a part of a primary one: memory allocated there belongs to the
 * primary context and survives the green one. Below: its handle, NULL once it is known to have
 * ended or if it is not known.
 */
void context_note_green(CUgreenCtx which, CUcontext handle, CUcontext primary);
CUcontext context_of_green(CUgreenCtx which);
void context_forget_green(CUgreenCtx which);

/*
 * The context with this handle or generation, without asking the driver; false if it is not known.
 */
bool context_of_handle(CUcontext handle, struct context *ret_context);
bool context_of_generation(uint64_t generation, struct context *ret_context);

/*
 * Sets the function that is called when a handle turns out to name another context, so that the
 * previous one has ended unseen. It gets the previous generation, with no lock held, and may make
 * driver calls. Once, when life starts.
 */
void context_on_lost(void (*on_lost)(uint64_t generation));

/*
 * The living context with the next greater generation, for iteration; `after` 0 = the first. False:
 * there is none.
 */
bool context_next(uint64_t after, struct context *ret_context);

/*
 * Forgets a context that is dead or about to die, and its streams. Waits for calls of kedge that
 * use it. Returns its generation, 0 = unknown; then context_forget_done follows once the driver has
 * ended the context or refused to. Until then context_here answers -ENOSPC for it.
 */
uint64_t context_forget(CUcontext handle);
void context_forget_done(uint64_t generation, CUcontext handle);

/*
 * Around the call that ends a context (generation 0: an unknown one). Until the call returns, the
 * context's work may still run although the context is not known any more, so no fence that would
 * have to cover it counts as passed or can be recorded (R1; R26, ends of contexts). `devices`: the
 * devices whose memory that work may use, as bits, the same in both calls (reach.h).
 */
void context_end_begin(uint64_t generation, uint64_t devices, bool counts);
void context_end_done(uint64_t generation, uint64_t devices);

/*
 * Whether this context is being ended. Below: whether a context is being ended whose work may use
 * memory of the device; and the number of such ends that count and have begun so far.
 */
bool context_is_ending(uint64_t generation);
bool context_is_ending_near(int device);
uint64_t context_ends(int device);

/* The primary context of a device, if it is known; learned from cuDevicePrimaryCtxRetain. */
void context_note_primary(CUdevice device, CUcontext handle);
CUcontext context_primary(CUdevice device);

/*
 * Makes threads drop what they remember: handles may name other objects now (a context was detached
 * or reset, libraries were loaded, ...).
 */
void context_changed(void);

/* A call of kedge that uses a context. {0} = none. */
struct context_use {
    uint64_t generation;
    bool pushed;
};

/*
 * Makes a context current for calls of kedge. Until context_leave the context is not destroyed,
 * since the driver may reuse its handle and its addresses at once. 0, -ENOENT, or the driver's
 * code; call context_leave in any case.
 */
int context_enter(uint64_t generation, struct context_use *ret_use);
void context_leave(struct context_use *use);

/* A stream as the program named it in this call. */
struct stream {
    uint64_t identity; /* identity for the pool; 0 = unknown */
    CUstream handle;   /* CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a real handle */
    uint64_t context;  /* generation */
    int device;
    uint16_t number; /* as tag.stream */
    bool per_thread; /* only its own thread can record on it */
    bool blocks;     /* ordered with the default stream; false for the default stream itself */
};

/* The identity to write into a capture; `stream` may be NULL. */
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
 *     X used on B1 ─ X freed on the default stream ─ its block allocated there as Y ─ Y used on
 *     B2: that use waits for B1
 *     copy to the host on the default stream ─ X freed on B1 ─ the program waits for B1, and so
 *     for the copy
 *
 * kedge needs no call for an allocation or a free. So that this order is kept it records an event
 * where one of them is an operation that somebody could wait for (stream_owes, backend_operate): on
 * the default stream as soon as a blocking stream may have been used, and on a blocking one as soon
 * as the default stream may have been. One blocking stream is enough, since the second may come at
 * a time at which nothing can be recorded any more (a capture), and the order is about what the
 * first one was given before. Where no event can be recorded, a request is the driver's and a free
 * waits for a full fence. Before there is a blocking stream the default one has only work of its
 * own, and of streams that the program ties to it by an event, which is an operation as good.
 * Non-blocking streams have no such order.
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
/* Whether the default stream of any context may have been used. */
extern atomic_bool stream_defaults;

/* Kinds of streams that no call has named yet: bits. */
enum {
    STREAM_NEWS_OWN = 1,     /* a thread's own stream */
    STREAM_NEWS_DEFAULT = 2, /* a default stream */
};

extern atomic_uint stream_news __attribute__((visibility("hidden")));

/* A stream of such a kind is about to get work for the first time. */
void stream_first(unsigned news);

/* Passed for a call that gives no stream work. */
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
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
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

/* Whether an allocation or a free on the stream is an operation that other work could wait for. */
static inline bool stream_owes(const struct stream *stream)
{
    return stream->handle == CU_STREAM_LEGACY ? stream_meets(stream->device)
                                              : stream->blocks && atomic_load(&stream_defaults);
}

/* A blocking stream was created in the current context. */
void stream_made(void);

/*
 * Sets the function that is called when streams become ordered that were not before: with no lock
 * held. It may make driver calls. Once, when life starts.
 */
void stream_on_meeting(void (*meet)(void));

/* ---- per-thread memory ---- */

enum {
    STREAM_MEMOS = 4,
    CALLER_MEMOS = 8,
};

/*
 * The default stream of a context. A stream's number is never reused, so this holds as long as the
 * context lives.
 */
struct stream_memo {
    uint64_t identity; /* 0 = nothing is known */
    int device;
};

/*
 * Requests of this caller on behalf of this caller of the runtime (bypass_asker, NULL = none) are
 * served, not bypassed.
 */
struct caller_memo {
    const void *caller;
    const void *asker;
};

/* Valid while context_epoch has the same value. quick.c uses the second half. */
struct context_memo {
    unsigned epoch;
    struct context context;
    struct stream_memo legacy;
    /* other streams: by handle, verified by number */
    CUstream handle[STREAM_MEMOS];
    uint64_t identity[STREAM_MEMOS];
    int device_of[STREAM_MEMOS];
    uint16_t number_of[STREAM_MEMOS];
    unsigned left; /* short allocations until the next one on the long path */
    int device;    /* of the memory pool used last */
    struct caller_memo caller[CALLER_MEMOS];
    CUmemoryPool mempool; /* NULL: the device's current pool */
    uint64_t mempool_id;  /* 0 = not known */
};

extern __thread struct context_memo context_memo __attribute__((tls_model("initial-exec")));
/*
 * Incremented when something that threads remember may have changed: a handle's meaning, a device's
 * current memory pool, the libraries of the process.
 */
extern atomic_uint context_epoch __attribute__((visibility("hidden")));

static inline unsigned stream_memo_at(CUstream handle)
{
    return (uintptr_t)handle / 16 % STREAM_MEMOS;
}

/*
 * The handle that kedge uses for a stream: 0 in a plain call is the legacy stream, in a _ptsz call
 * the thread's own.
 */
static inline CUstream stream_named(CUstream handle, bool per_thread_call)
{
    if (handle)
        return handle;
    return per_thread_call ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/*
 * Whether a stream, named as above, is being captured: yes if the driver does not answer. Below:
 * the graph that it is captured into, 0 = none or not known. Driver calls.
 */
bool stream_is_captured(CUstream named);
uint64_t stream_captured_graph(CUstream named);

/*
 * Identifies a stream; `per_thread_call` = the entry was a _ptsz one. 0, or the driver's code, or
 * -errno.
 */
int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream);

/*
 * The stream of an identity, for one call of kedge that uses its handle: until stream_leave the
 * stream is not destroyed. False: the stream has ended or is another thread's own; then
 * stream_leave must not be called.
 */
bool stream_enter(uint64_t identity, struct stream *ret_stream);
void stream_leave(uint64_t identity);

/* The identity of a real handle, 0 if it is unknown. */
uint64_t stream_identity(CUstream handle);

/*
 * The name of a stream while it captures (gate.h): its handle, which is unique as long as the
 * stream lives. For a thread's own stream an odd number made from the identity, since all threads
 * share that handle; if the identity cannot be found (no context is current), the handle.
 */
uint64_t stream_capture_key(CUstream handle, bool per_thread_call);

/* Forgets a stream that is about to be destroyed. Waits for calls of kedge that use it. */
void stream_forget(uint64_t identity);

/*
 * The streams that ended with a context when it was forgotten, some per call: their number, 0 = no
 * more. Each is returned once. If the driver refused to end the context, its streams are entered
 * anew, and are returned again when it does end.
 */
enum {
    STREAM_ENDED = 16,
};
unsigned stream_take_ended(uint64_t generation, uint64_t ret_identities[STREAM_ENDED]);

/*
 * Sets the function that gets, at the end of a thread that used its own default stream, the
 * identity of each such stream after it was forgotten (R69). It must make no driver call. Once,
 * when life starts.
 */
void stream_on_thread_end(void (*gone)(uint64_t identity));

/* In the child of a fork. */
void context_fork_child(void);

/*
 * The number that replaces a context in a capture for memory from a memory pool of the device. Such
 * memory ends with no context but with a reset of the primary one: "destroys all resources
 * associated with the device" (cudaDeviceReset). The pool keeps the block until it is freed.
 */
static inline uint64_t context_pools_of(int device)
{
    return UINT64_MAX - (uint64_t)(unsigned)device;
}

#endif

/* SPDX-License-Identifier: MIT */
#include "preload/driver/contexts.h"

#include "preload/base/bounds.h"
#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/driver/reach.h"
#include "preload/driver/resolve.h"

#include "alloc/base/table.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum {
    POP_TRIES = 4,
};

/* By generation. */
struct context_entry {
    struct context context;
    unsigned uses; /* calls of kedge that use it now */
    bool gone;     /* removed from the table's view; the entry is freed with its last use */
};

/* By identity. */
struct stream_entry {
    struct stream stream;
    uint64_t owner; /* of a per-thread stream: the thread's number, else 0 */
    unsigned uses;  /* calls of kedge that use the handle now */
    bool going;     /* about to be destroyed: no new uses */
};

/* By identity: a stream that ended with its context, until stream_take_ended returns it. */
struct ended_stream {
    uint64_t identity;
    uint64_t context; /* generation */
};

/* By the handle of the context that a green context is converted to. */
struct green {
    uint64_t handle;
    CUgreenCtx green;
    uint64_t memory; /* as context.memory */
};

FORKLOCK(contexts_lock);

/* guarded by contexts_lock: */
static struct table contexts = TABLE_OF(struct context_entry);
static struct table streams = TABLE_OF(struct stream_entry);
static struct table ended_streams = TABLE_OF(struct ended_stream);
static struct table greens = TABLE_OF(struct green);
static CUcontext primaries[DEVICES_MAX];
static uint64_t own_generations; /* counter for drivers below 12.0 */
static uint32_t serials;

/* A context that is being ended, and the number of calls that end it. */
struct ending {
    uint64_t generation;
    uint64_t calls;
};
static struct table endings = TABLE_OF(struct ending); /* guarded by contexts_lock */
/*
 * Contexts between context_forget and context_forget_done, by ending_key; guarded by contexts_lock.
 */
static struct table forgotten = TABLE_OF(uint64_t);
/* begun and done: an answer that the driver gave before one may concern a dead context */
static _Atomic(uint64_t) forgets;
static atomic_uint ending_calls; /* calls that end a context now, all */
/* of these, calls for contexts that are unknown, or that had no memory for an entry */
static atomic_uint unlisted_calls;
/* of these, calls for contexts that may have work on a device's memory */
static atomic_uint ending_on[DEVICES_MAX];
static _Atomic(uint64_t) ends_begun[DEVICES_MAX];
atomic_uint context_epoch = 1;

__thread struct context_memo context_memo __attribute__((tls_model("initial-exec")));

static void (*context_lost)(uint64_t generation); /* fixed when life starts */

void context_on_lost(void (*on_lost)(uint64_t generation))
{
    context_lost = on_lost;
}

/* ---- contexts ------------------------------------------------------------------------------- */

/* Iterates over the known contexts. */
static struct context_entry *next_locked(const struct context_entry *after)
{
    struct context_entry *at = table_next(&contexts, after);

    while (at && at->gone)
        at = table_next(&contexts, at);
    return at;
}

static struct context_entry *of_handle_locked(CUcontext handle)
{
    struct context_entry *at = next_locked(NULL);

    while (at && at->context.handle != handle)
        at = next_locked(at);
    return at;
}

static struct context_entry *of_generation_locked(uint64_t generation)
{
    struct context_entry *entry = table_find(&contexts, generation);

    return entry && !entry->gone ? entry : NULL;
}

/* Forgets a context and its streams. */
static void contexts_forget_locked(struct context_entry *entry)
{
    uint64_t generation = entry->context.generation;
    struct stream_entry *at = table_next(&streams, NULL);

    while (at) {
        struct ended_stream *ended;

        if (at->stream.context != generation) {
            at = table_next(&streams, at);
            continue;
        }
        ended = table_add(&ended_streams, at->stream.identity);
        if (ended)
            ended->context = generation;
        at = table_remove(&streams, at);
    }
    entry->gone = true;
    if (entry->uses == 0)
        (void)table_remove(&contexts, entry);
}

unsigned stream_take_ended(uint64_t generation, uint64_t ret_identities[STREAM_ENDED])
{
    struct ended_stream *at;
    unsigned count = 0;

    lock_take(&contexts_lock);
    at = table_next(&ended_streams, NULL);
    while (at && count < STREAM_ENDED) {
        if (at->context == generation) {
            ret_identities[count++] = at->identity;
            at = table_remove(&ended_streams, at);
        } else {
            at = table_next(&ended_streams, at);
        }
    }
    lock_drop(&contexts_lock);
    return count;
}

/*
 * The handle below driver 12.0, where our own number does not identify a context that is being
 * ended.
 */
static uint64_t ending_key(uint64_t generation, CUcontext handle)
{
    return REAL_HAS(cuCtxGetId) ? generation : (uint64_t)(uintptr_t)handle;
}

static uint64_t memory_of_locked(const struct context *context)
{
    const struct green *green = table_find(&greens, (uintptr_t)context->handle);

    return green ? green->memory : context->generation;
}

/*
 * False: the context is being ended, or there is no memory for it. *ret_lost: number of a context
 * that had the same handle and died unseen; else 0.
 */
static bool add_locked(struct context *context, uint64_t *ret_lost)
{
    struct context_entry *entry = of_handle_locked(context->handle);

    *ret_lost = 0;
    if (table_find(&forgotten, ending_key(context->generation, context->handle)))
        return false;
    if (entry && entry->context.generation == context->generation) {
        *context = entry->context;
        return true;
    }
    if (entry) {
        *ret_lost = entry->context.generation;
        contexts_forget_locked(entry);
    }
    entry = table_add(&contexts, context->generation);
    if (!entry)
        return false;
    context->serial = ++serials;
    context->memory = memory_of_locked(context);
    entry->context = *context;
    entry->gone = false; /* perhaps its end was refused */
    reach_context(context->device);
    return true;
}

static bool tell_locked(const struct context_entry *entry, struct context *ret_context)
{
    if (entry)
        *ret_context = entry->context;
    return entry != NULL;
}

bool context_of_handle(CUcontext handle, struct context *ret_context)
{
    bool found;

    lock_take(&contexts_lock);
    found = tell_locked(of_handle_locked(handle), ret_context);
    lock_drop(&contexts_lock);
    return found;
}

bool context_of_generation(uint64_t generation, struct context *ret_context)
{
    bool found;

    lock_take(&contexts_lock);
    found = tell_locked(of_generation_locked(generation), ret_context);
    lock_drop(&contexts_lock);
    return found;
}

bool context_next(uint64_t after, struct context *ret_context)
{
    const struct context_entry *next = NULL;

    lock_take(&contexts_lock);
    for (const struct context_entry *at = next_locked(NULL); at; at = next_locked(at))
        if (at->context.generation > after
                && (!next || at->context.generation < next->context.generation))
            next = at;
    (void)tell_locked(next, ret_context);
    lock_drop(&contexts_lock);
    return next != NULL;
}

void context_changed(void)
{
    atomic_fetch_add(&context_epoch, 1);
}

/* The driver's number of a context, or our next one; 0 if the handle is no context. */
static int contexts_generation_of(CUcontext handle, uint64_t *ret_generation)
{
    unsigned long long id = 0;
    struct context known;
    CUresult result;

    if (REAL_HAS(cuCtxGetId)) {
        result = REAL(cuCtxGetId)(handle, &id);
        if (result != CUDA_SUCCESS)
            return (int)result;
        *ret_generation = id + 1; /* 0 means no context */
        return 0;
    }
    if (context_of_handle(handle, &known)) {
        *ret_generation = known.generation;
        return 0;
    }
    lock_take(&contexts_lock);
    *ret_generation = ++own_generations;
    lock_drop(&contexts_lock);
    return 0;
}

/* Reports a dead context; other threads still remember its handle with its number. */
static void tell_lost(uint64_t generation)
{
    context_changed();
    guard_push();
    if (context_lost)
        context_lost(generation);
    guard_pop();
}

/* Asks the driver about a context that is current in this thread. */
static int ask_driver(CUcontext handle, struct context *ret_context)
{
    CUdevice device = 0;
    int r = (int)REAL(cuCtxGetDevice)(&device);

    *ret_context = (struct context){.handle = handle, .device = device};
    return r == 0 ? contexts_generation_of(handle, &ret_context->generation) : r;
}

/*
 * The same, and notes the context. Another thread may end the context meanwhile, and a primary
 * context keeps its handle: memory of the new context recorded for the old one could have the same
 * address twice. So the driver is asked again if a context ended in between.
 */
static int contexts_ask_current(CUcontext handle, struct context *ret_context)
{
    struct context context;
    uint64_t before, lost = 0;
    bool is_known = false;
    bool is_true = false;
    int r;

    while (!is_true) {
        before = atomic_load(&forgets);
        r = ask_driver(handle, &context);
        if (r != 0)
            return r;
        lock_take(&contexts_lock);
        is_true = atomic_load(&forgets) == before;
        if (is_true)
            is_known = add_locked(&context, &lost);
        lock_drop(&contexts_lock);
    }
    if (lost)
        tell_lost(lost);
    if (!is_known)
        return -ENOSPC;
    *ret_context = context;
    return 0;
}

/*
 * Forgets what this thread remembers of another context; callers and memory pools are forgotten
 * elsewhere.
 */
static void forget_memo(unsigned epoch)
{
    struct context_memo old = context_memo;

    context_memo = (struct context_memo){.epoch = 0};
    if (old.epoch != epoch)
        return;
    memcpy(context_memo.caller, old.caller, sizeof old.caller);
    context_memo.left = old.left;
    context_memo.device = old.device;
    context_memo.mempool = old.mempool;
    context_memo.mempool_id = old.mempool_id;
}

int context_here(struct context *ret_context)
{
    unsigned epoch = atomic_load(&context_epoch);
    CUcontext handle = NULL;
    int r = (int)REAL(cuCtxGetCurrent)(&handle);

    if (r != 0)
        return r;
    if (!handle)
        return -ENOENT;
    if (context_memo.epoch != epoch || context_memo.context.handle != handle) {
        forget_memo(epoch);
        r = contexts_ask_current(handle, &context_memo.context);
        context_memo.epoch = r == 0 ? epoch : 0;
    }
    if (r == 0)
        *ret_context = context_memo.context;
    return r;
}

/*
 * Pops what was pushed, whatever errors occur in between: the context stack is the program's (R27,
 * any current context).
 */
static void contexts_pop(void)
{
    CUcontext popped;

    for (int i = 0; i < POP_TRIES && REAL(cuCtxPopCurrent_v2)(&popped) != CUDA_SUCCESS; i++)
        ;
}

void context_note(CUcontext handle)
{
    struct context context;

    if (!handle || context_of_handle(handle, &context))
        return;
    if (REAL(cuCtxPushCurrent_v2)(handle) != CUDA_SUCCESS)
        return;
    (void)contexts_ask_current(handle, &context);
    contexts_pop();
}

static struct green *green_locked(CUgreenCtx which)
{
    struct green *at = table_next(&greens, NULL);

    while (at && at->green != which)
        at = table_next(&greens, at);
    return at;
}

void context_note_green(CUgreenCtx which, CUcontext handle, CUcontext primary)
{
    struct context context;
    struct green *green;

    context_note(primary);
    if (!context_of_handle(primary, &context))
        return;
    lock_take(&contexts_lock);
    green = table_add(&greens, (uintptr_t)handle);
    if (green) {
        green->green = which;
        green->memory = context.generation;
    }
    lock_drop(&contexts_lock);
    context_note(handle);
}

CUcontext context_of_green(CUgreenCtx which)
{
    const struct green *green;
    CUcontext handle;

    lock_take(&contexts_lock);
    green = green_locked(which);
    handle = (CUcontext)(uintptr_t)(green ? green->handle : 0);
    lock_drop(&contexts_lock);
    return handle;
}

void context_forget_green(CUgreenCtx which)
{
    lock_take(&contexts_lock);
    (void)table_remove(&greens, green_locked(which));
    lock_drop(&contexts_lock);
}

uint64_t context_forget(CUcontext handle)
{
    struct context_entry *found;
    uint64_t generation = 0;
    bool is_used = false;

    lock_take(&contexts_lock);
    found = of_handle_locked(handle);
    if (found) {
        generation = found->context.generation;
        is_used = found->uses > 0;
        contexts_forget_locked(found);
        (void)table_add(&forgotten, ending_key(generation, handle));
        atomic_fetch_add(&forgets, 1);
    }
    lock_drop(&contexts_lock);
    /*
     * Each use is one short driver call, none of which waits for the thread that ends the context.
     */
    while (is_used) {
        (void)sched_yield();
        lock_take(&contexts_lock);
        found = table_find(&contexts, generation);
        is_used = found && found->uses > 0;
        lock_drop(&contexts_lock);
    }
    context_changed();
    return generation;
}

void context_forget_done(uint64_t generation, CUcontext handle)
{
    lock_take(&contexts_lock);
    (void)table_remove(&forgotten, table_find(&forgotten, ending_key(generation, handle)));
    atomic_fetch_add(&forgets, 1);
    lock_drop(&contexts_lock);
}

void context_end_begin(uint64_t generation, uint64_t devices, bool counts)
{
    struct ending *ending;

    lock_take(&contexts_lock);
    ending = table_add(&endings, generation);
    if (ending)
        ending->calls++;
    else
        atomic_fetch_add(&unlisted_calls, 1);
    lock_drop(&contexts_lock);
    atomic_fetch_add(&ending_calls, 1);
    for (int i = 0; i < DEVICES_MAX; i++) {
        if (!(devices >> i & 1))
            continue;
        atomic_fetch_add(&ending_on[i], 1);
        atomic_fetch_add(&ends_begun[i], counts);
    }
}

void context_end_done(uint64_t generation, uint64_t devices)
{
    struct ending *ending;

    lock_take(&contexts_lock);
    ending = table_find(&endings, generation);
    if (!ending)
        atomic_fetch_sub(&unlisted_calls, 1);
    else if (--ending->calls == 0)
        (void)table_remove(&endings, ending);
    lock_drop(&contexts_lock);
    atomic_fetch_sub(&ending_calls, 1);
    for (int i = 0; i < DEVICES_MAX; i++)
        if (devices >> i & 1)
            atomic_fetch_sub(&ending_on[i], 1);
}

bool context_is_ending(uint64_t generation)
{
    bool is_ending = atomic_load(&ending_calls) != 0;

    if (!is_ending || atomic_load(&unlisted_calls) != 0)
        return is_ending;
    lock_take(&contexts_lock);
    is_ending = table_find(&endings, generation) != NULL;
    lock_drop(&contexts_lock);
    return is_ending;
}

bool context_is_ending_near(int device)
{
    return device < 0 || device >= DEVICES_MAX || atomic_load(&ending_on[device]) != 0;
}

uint64_t context_ends(int device)
{
    return device < 0 || device >= DEVICES_MAX ? 0 : atomic_load(&ends_begun[device]);
}

void context_note_primary(CUdevice device, CUcontext handle)
{
    if (device < 0 || device >= DEVICES_MAX)
        return;
    lock_take(&contexts_lock);
    primaries[device] = handle;
    lock_drop(&contexts_lock);
}

CUcontext context_primary(CUdevice device)
{
    CUcontext handle;

    if (device < 0 || device >= DEVICES_MAX)
        return NULL;
    lock_take(&contexts_lock);
    handle = primaries[device];
    lock_drop(&contexts_lock);
    return handle;
}

int context_enter(uint64_t generation, struct context_use *ret_use)
{
    struct context_entry *entry;
    CUcontext handle = NULL;
    CUcontext current = NULL;
    int r;

    *ret_use = (struct context_use){0};
    lock_take(&contexts_lock);
    entry = of_generation_locked(generation);
    if (entry) {
        handle = entry->context.handle;
        entry->uses++;
        ret_use->generation = generation;
    }
    lock_drop(&contexts_lock);
    if (!ret_use->generation)
        return -ENOENT;
    r = (int)REAL(cuCtxGetCurrent)(&current);
    if (r != 0 || current == handle)
        return r;
    r = (int)REAL(cuCtxPushCurrent_v2)(handle);
    ret_use->pushed = r == 0;
    return r;
}

void context_leave(struct context_use *use)
{
    struct context_entry *entry;

    if (!use->generation)
        return;
    if (use->pushed)
        contexts_pop();
    lock_take(&contexts_lock);
    entry = table_find(&contexts, use->generation);
    if (entry && --entry->uses == 0 && entry->gone)
        (void)table_remove(&contexts, entry);
    lock_drop(&contexts_lock);
    *use = (struct context_use){0};
}

/* ---- streams -------------------------------------------------------------------------------- */

static bool is_default(CUstream handle)
{
    return handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

/* A number of the calling thread. Unlike an address, it is never reused by another thread. */
static uint64_t thread_number(void)
{
    static _Atomic(uint64_t) threads;
    static __thread uint64_t number __attribute__((tls_model("initial-exec")));

    if (number == 0)
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    return number;
}

/* ---- threads end ---------------------------------------------------------------------------- */

static void (*thread_stream_gone)(uint64_t identity); /* fixed when life starts */
static pthread_key_t end_key;
static atomic_bool has_end_key;
/* Streams entered for this thread; those of dead contexts have been removed already. */
static __thread unsigned own_streams __attribute__((tls_model("initial-exec")));

/* Removes one stream of that thread from the table; 0 = there is none. */
static uint64_t take_stream_of(uint64_t owner)
{
    struct stream_entry *at;
    uint64_t identity;

    lock_take(&contexts_lock);
    at = table_next(&streams, NULL);
    while (at && at->owner != owner)
        at = table_next(&streams, at);
    identity = at ? at->stream.identity : 0;
    (void)table_remove(&streams, at);
    lock_drop(&contexts_lock);
    return identity;
}

/* Runs in the thread itself. No other thread names its stream, so no use of it is under way. */
static void thread_ends(void *unused)
{
    (void)unused;
    guard_push();
    while (own_streams > 0) {
        uint64_t identity = take_stream_of(thread_number());

        own_streams = identity ? own_streams - 1 : 0;
        if (identity)
            thread_stream_gone(identity);
    }
    guard_pop();
}

void stream_on_thread_end(void (*gone)(uint64_t identity))
{
    thread_stream_gone = gone;
    atomic_store(&has_end_key, pthread_key_create(&end_key, thread_ends) == 0);
}

/*
 * Registers the end of this thread, which now has a stream of its own. The destructor runs again if
 * other destructors use CUDA after it.
 */
static void expect_end(void)
{
    own_streams++;
    if (atomic_load(&has_end_key))
        (void)pthread_setspecific(end_key, &end_key);
}

/* ---- the order without events --------------------------------------------------------------- */

atomic_bool stream_blocks[DEVICES_MAX];
atomic_bool stream_defaults;
atomic_uint stream_news = STREAM_NEWS_OWN | STREAM_NEWS_DEFAULT;

static void (*streams_meet)(void); /* fixed when life starts */

void stream_on_meeting(void (*meet)(void))
{
    streams_meet = meet;
}

/*
 * Makes later allocations and frees record the event themselves: what threads remember of a stream
 * is checked again. False: it was noted before.
 */
static bool contexts_note(atomic_bool *may_be_used)
{
    if (atomic_load(may_be_used) || atomic_exchange(may_be_used, true))
        return false;
    context_changed();
    return true;
}

static void meet(bool is_new)
{
    if (is_new && streams_meet)
        streams_meet();
}

/* device < 0: unknown device */
static void note_blocking(int device)
{
    bool is_known = device >= 0 && device < DEVICES_MAX;
    bool is_new = false;

    for (int i = is_known ? device : 0; i < (is_known ? device + 1 : DEVICES_MAX); i++)
        is_new |= contexts_note(&stream_blocks[i]);
    meet(is_new);
}

/* Another thread's own stream may appear at any time, on any device. */
void stream_first(unsigned news)
{
    if (news == STREAM_NEWS_OWN)
        note_blocking(-1);
    else
        meet(contexts_note(&stream_defaults));
    atomic_fetch_and(&stream_news, ~news);
}

void stream_made(void)
{
    struct context here;

    note_blocking(context_here(&here) == 0 ? here.device : -1);
}

/* A stream is named for the first time: notes it if it is ordered with the default stream. */
static bool note_named(CUstream handle, int device)
{
    unsigned flags = CU_STREAM_DEFAULT;

    if (is_default(handle)) {
        stream_notice(handle, false);
        return handle == CU_STREAM_PER_THREAD;
    }
    if (REAL_HAS(cuStreamGetFlags) && REAL(cuStreamGetFlags)(handle, &flags) == CUDA_SUCCESS
            && (flags & CU_STREAM_NON_BLOCKING))
        return false;
    note_blocking(device);
    return true;
}

/* ---- streams of a call ---------------------------------------------------------------------- */

bool stream_is_captured(CUstream named)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return !REAL_HAS(cuStreamIsCapturing)
            || REAL(cuStreamIsCapturing)(named, &status) != CUDA_SUCCESS
            || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

uint64_t stream_captured_graph(CUstream named)
{
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;
    cuuint64_t id;

    if (!REAL_HAS(cuStreamGetCaptureInfo_v2)
            || REAL(cuStreamGetCaptureInfo_v2)(named, &status, &id, &graph, NULL, NULL)
                    != CUDA_SUCCESS)
        return 0;
    return (uintptr_t)graph;
}

#define IDENTITY_DEFAULT (UINT64_C(1) << 63) /* marks the identity of a default stream */
/* marks the identity of a stream whose number another stream has, too */
#define IDENTITY_SECOND (UINT64_C(1) << 62)

/*
 * Asks the driver whether a default stream may be named now; its number may be unique only within
 * the context.
 */
static uint64_t default_identity(CUstream handle, const struct context *here)
{
    uint64_t thread = handle == CU_STREAM_PER_THREAD ? thread_number() : 0;

    return IDENTITY_DEFAULT | (uint64_t)here->serial << 32 | (uint32_t)thread;
}

/* The driver's number of a stream; below 12.0 made of the handle and the context's generation. */
static int ask_identity(CUstream handle, const struct context *here, uint64_t *ret_identity)
{
    unsigned long long id = 0;
    int r = 0;

    if (REAL_HAS(cuStreamGetId))
        r = (int)REAL(cuStreamGetId)(handle, &id);
    if (is_default(handle))
        *ret_identity = default_identity(handle, here);
    else if (REAL_HAS(cuStreamGetId))
        *ret_identity = id + 1;
    else
        *ret_identity = ((uint64_t)(uintptr_t)handle ^ here->generation << 40) * 2 + 1;
    return r;
}

/* The context that a stream belongs to; for the special handles, the context of the call. */
static int ask_context(CUstream handle, const struct context *here, struct context *ret_context)
{
    CUcontext owner = NULL;

    *ret_context = *here;
    if (is_default(handle) || !REAL_HAS(cuStreamGetCtx))
        return 0;
    if (REAL(cuStreamGetCtx)(handle, &owner) != CUDA_SUCCESS || owner == here->handle || !owner)
        return 0;
    context_note(owner);
    return context_of_handle(owner, ret_context) ? 0 : -ENOENT;
}

/*
 * For the short path, which records no events. A thread's own stream is left out: its frees record
 * events in any case.
 */
static void contexts_remember(const struct stream *stream)
{
    struct context_memo *memo = &context_memo;
    unsigned at = stream_memo_at(stream->handle);

    if (stream_owes(stream))
        return;
    if (stream->handle == CU_STREAM_LEGACY) {
        memo->legacy = (struct stream_memo){stream->identity, stream->device};
    } else if (!stream->per_thread && REAL_HAS(cuStreamGetId)) {
        memo->handle[at] = stream->handle;
        memo->identity[at] = stream->identity;
        memo->device_of[at] = stream->device;
        memo->number_of[at] = stream->number;
    }
}

/*
 * Streams numbered per device; all default streams have the first number. Guarded by contexts_lock.
 */
static uint16_t numbered[DEVICES_MAX];

static uint16_t next_number(CUstream handle, int device)
{
    if (is_default(handle))
        return 1;
    if (device < 0 || device >= DEVICES_MAX)
        return 0;
    if (numbered[device] >= NUMBERS_MAX) {
        bounds_reached(BOUNDS_NUMBERS);
        return 0;
    }
    return (uint16_t)(++numbered[device] + 1);
}

/* The handle of the stream with this number, NULL = none: perhaps another stream's. */
static CUstream find_stream(uint64_t identity, struct stream *ret_stream)
{
    const struct stream_entry *entry;

    *ret_stream = (struct stream){.handle = NULL};
    lock_take(&contexts_lock);
    entry = table_find(&streams, identity);
    if (entry)
        *ret_stream = entry->stream;
    lock_drop(&contexts_lock);
    return ret_stream->handle;
}

/* Two living streams have different handles, but may have the same number. */
static uint64_t second_identity(uint64_t identity, const struct context *owner)
{
    return IDENTITY_SECOND | (uint64_t)owner->serial << 32 | (uint32_t)identity;
}

static int contexts_add_stream(
        CUstream handle, uint64_t identity, const struct context *owner, struct stream *ret_stream)
{
    bool blocks = note_named(handle, owner->device);
    struct stream_entry *entry;

    lock_take(&contexts_lock);
    entry = streams.count < STREAMS_MAX ? table_add(&streams, identity) : NULL;
    if (!entry)
        bounds_reached(BOUNDS_STREAMS);
    if (entry && !entry->stream.handle) { /* no other thread entered it first */
        entry->stream.handle = handle;
        entry->stream.context = owner->generation;
        entry->stream.device = owner->device;
        entry->stream.number = next_number(handle, owner->device);
        entry->stream.per_thread = handle == CU_STREAM_PER_THREAD;
        entry->stream.blocks = blocks;
        entry->owner = entry->stream.per_thread ? thread_number() : 0;
    }
    if (entry && entry->stream.handle != handle) /* another stream has just taken the number */
        entry = NULL;
    if (entry)
        *ret_stream = entry->stream;
    lock_drop(&contexts_lock);
    if (entry && handle == CU_STREAM_PER_THREAD)
        expect_end();
    return entry ? 0 : -ENOSPC;
}

int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream)
{
    struct context here, owner;
    uint64_t identity;
    CUstream known = NULL;
    int r = context_here(&here);

    handle = stream_named(handle, per_thread_call);
    if (r == 0)
        r = ask_identity(handle, &here, &identity);
    if (r == 0)
        known = find_stream(identity, ret_stream);
    if (r == 0 && known == handle)
        contexts_remember(ret_stream);
    if (r != 0 || known == handle)
        return r;
    r = ask_context(handle, &here, &owner);
    if (r != 0)
        return r;
    if (known)
        identity = second_identity(identity, &owner);
    if (known && find_stream(identity, ret_stream) == handle)
        return 0;
    return contexts_add_stream(handle, identity, &owner, ret_stream);
}

bool stream_enter(uint64_t identity, struct stream *ret_stream)
{
    struct stream_entry *entry;
    bool usable;

    lock_take(&contexts_lock);
    entry = table_find(&streams, identity);
    usable = entry && !entry->going && (!entry->owner || entry->owner == thread_number());
    if (usable) {
        entry->uses++;
        *ret_stream = entry->stream;
    }
    lock_drop(&contexts_lock);
    return usable;
}

void stream_leave(uint64_t identity)
{
    struct stream_entry *entry;

    lock_take(&contexts_lock);
    entry = table_find(&streams, identity);
    if (entry && entry->uses > 0) /* its context may have died meanwhile */
        entry->uses--;
    lock_drop(&contexts_lock);
}

uint64_t stream_identity(CUstream handle)
{
    const struct context nowhere = {.generation = 0};
    const struct stream_entry *entry = NULL;
    uint64_t identity = 0;

    if (!handle || is_default(handle))
        return 0;
    /*
     * Without a current context the driver does not say which stream it is; then the handle is
     * looked up, as below 12.0.
     */
    if (REAL_HAS(cuStreamGetId) && ask_identity(handle, &nowhere, &identity) != 0)
        identity = 0;
    lock_take(&contexts_lock);
    if (identity)
        entry = table_find(&streams, identity);
    if (!identity || (entry && entry->stream.handle != handle)) {
        entry = table_next(&streams, NULL);
        while (entry && entry->stream.handle != handle)
            entry = table_next(&streams, entry);
    }
    identity = entry ? entry->stream.identity : 0;
    lock_drop(&contexts_lock);
    return identity;
}

uint64_t stream_capture_key(CUstream handle, bool per_thread_call)
{
    struct context here;
    uint64_t identity;

    handle = stream_named(handle, per_thread_call);
    if (handle != CU_STREAM_PER_THREAD || context_here(&here) != 0
            || ask_identity(handle, &here, &identity) != 0)
        return (uintptr_t)handle;
    return identity << 1 | 1;
}

void stream_forget(uint64_t identity)
{
    struct stream_entry *entry;
    bool used = identity != 0;

    while (used) {
        lock_take(&contexts_lock);
        entry = table_find(&streams, identity);
        used = entry && entry->uses > 0;
        if (used)
            entry->going = true;
        else
            (void)table_remove(&streams, entry);
        lock_drop(&contexts_lock);
        if (used)
            (void)sched_yield(); /* the use is one short driver call */
    }
}

void context_fork_child(void)
{
    for (struct context_entry *at = table_next(&contexts, NULL); at; at = table_next(&contexts, at))
        at->uses = 0;
    endings = (struct table)TABLE_OF(struct ending); /* the memory belongs to the parent */
    forgotten = (struct table)TABLE_OF(uint64_t);
    atomic_store(&ending_calls, 0);
    atomic_store(&unlisted_calls, 0);
    for (int i = 0; i < DEVICES_MAX; i++)
        atomic_store(&ending_on[i], 0);
}

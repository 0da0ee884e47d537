/* SPDX-License-Identifier: MIT */
#include "preload/contexts.h"

#include "preload/guard.h"
#include "preload/resolve.h"

#include "alloc/lock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum {
    POP_TRIES = 4,
};

static struct lock contexts_lock = LOCK_INIT(LOCK_RANK_PRELOAD);

/* guarded by contexts_lock: */
static struct context contexts[CONTEXTS_MAX];
static unsigned context_uses[CONTEXTS_MAX]; /* calls of ours that name it now */
static CUcontext primaries[DEVICES_MAX];
static uint64_t own_generations; /* below driver 12.0 */

static atomic_uint context_count;
static atomic_uint contexts_ending;
atomic_uint context_epoch = 1;

__thread struct context_memo context_memo __attribute__((tls_model("initial-exec")));

static void (*context_lost)(uint64_t generation); /* fixed when life starts */

void context_on_lost(void (*on_lost)(uint64_t generation))
{
    context_lost = on_lost;
}

/* A stream that was seen. The table is open addressing by identity; entries of the dead are used again. */
struct stream_entry {
    uint64_t identity; /* 0 = free */
    CUstream handle;
    uint64_t context;
    uint64_t owner; /* of a per-thread stream: the thread's number, else 0 */
    int device;
    unsigned uses; /* calls of ours that name the handle now */
    bool going;    /* about to be destroyed: no new ones */
};

/* guarded by contexts_lock: */
static struct stream_entry streams[STREAMS_MAX];
static unsigned stream_count;

/* ---- contexts ------------------------------------------------------------------------------- */

static struct context *find_locked(CUcontext handle)
{
    for (int i = 0; i < CONTEXTS_MAX; i++)
        if (contexts[i].generation && contexts[i].handle == handle)
            return &contexts[i];
    return NULL;
}

static void forget_streams_locked(uint64_t context);

/* *ret_lost: the same handle had another number, whose context died where we could not see it; else 0. */
static struct context *add_locked(const struct context *context, uint64_t *ret_lost)
{
    struct context *old = find_locked(context->handle);

    *ret_lost = old && old->generation != context->generation ? old->generation : 0;
    if (*ret_lost)
        forget_streams_locked(*ret_lost);
    for (int i = 0; i < CONTEXTS_MAX && !old; i++) {
        if (contexts[i].generation || context_uses[i])
            continue;
        old = &contexts[i];
        atomic_fetch_add(&context_count, 1);
    }
    if (!old)
        return NULL;
    *old = *context;
    return old;
}

bool context_of_handle(CUcontext handle, struct context *ret_context)
{
    const struct context *found;

    lock_take(&contexts_lock);
    found = find_locked(handle);
    if (found)
        *ret_context = *found;
    lock_drop(&contexts_lock);
    return found != NULL;
}

bool context_of_generation(uint64_t generation, struct context *ret_context)
{
    bool found = false;

    lock_take(&contexts_lock);
    for (int i = 0; i < CONTEXTS_MAX && !found; i++) {
        found = contexts[i].generation == generation && generation != 0;
        if (found)
            *ret_context = contexts[i];
    }
    lock_drop(&contexts_lock);
    return found;
}

size_t context_list(struct context *ret_contexts, size_t max)
{
    size_t n = 0;

    lock_take(&contexts_lock);
    for (int i = 0; i < CONTEXTS_MAX && n < max && n < atomic_load(&context_count); i++)
        if (contexts[i].generation)
            ret_contexts[n++] = contexts[i];
    lock_drop(&contexts_lock);
    return n;
}

bool context_any(void)
{
    return atomic_load_explicit(&context_count, memory_order_relaxed) > 0;
}

void context_changed(void)
{
    atomic_fetch_add(&context_epoch, 1);
}

/* The driver's number for a context, or the next of ours; 0 if the handle is no context. */
static int generation_of(CUcontext handle, uint64_t *ret_generation)
{
    unsigned long long id = 0;
    struct context known;
    CUresult result;

    if (REAL_HAS(cuCtxGetId)) {
        result = REAL(cuCtxGetId)(handle, &id);
        if (result != CUDA_SUCCESS)
            return (int)result;
        *ret_generation = id + 1; /* 0 is nobody's */
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

/* Other threads remember the handle with the number of the dead one. */
static void tell_lost(uint64_t generation)
{
    context_changed();
    guard_push();
    if (context_lost)
        context_lost(generation);
    guard_pop();
}

/* Asks the driver about a context that is current in this thread, and notes it. */
static int ask_current(CUcontext handle, struct context *ret_context, unsigned *ret_slot)
{
    struct context context = {.handle = handle};
    const struct context *stored;
    CUdevice device = 0;
    uint64_t lost;
    int r = (int)REAL(cuCtxGetDevice)(&device);

    if (r == 0)
        r = generation_of(handle, &context.generation);
    if (r != 0)
        return r;
    context.device = device;
    lock_take(&contexts_lock);
    stored = add_locked(&context, &lost);
    lock_drop(&contexts_lock);
    if (lost)
        tell_lost(lost);
    if (!stored)
        return -ENOSPC;
    *ret_context = context;
    *ret_slot = (unsigned)(stored - contexts);
    return 0;
}

/* What is remembered of another context goes; of the callers and of memory pools only at another time. */
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
        r = ask_current(handle, &context_memo.context, &context_memo.slot);
        context_memo.epoch = r == 0 ? epoch : 0;
    }
    if (r == 0)
        *ret_context = context_memo.context;
    return r;
}

/* The stack is the program's: what was pushed goes, whatever comes in between (R27). */
static void pop(void)
{
    CUcontext popped;

    for (int i = 0; i < POP_TRIES && REAL(cuCtxPopCurrent_v2)(&popped) != CUDA_SUCCESS; i++)
        ;
}

void context_note(CUcontext handle)
{
    struct context context;
    unsigned slot;

    if (!handle || context_of_handle(handle, &context))
        return;
    if (REAL(cuCtxPushCurrent_v2)(handle) != CUDA_SUCCESS)
        return;
    (void)ask_current(handle, &context, &slot);
    pop();
}

/* One short call into the driver each; nothing of ours waits in it for the thread that ends the context. */
static void wait_for_uses(const unsigned *uses)
{
    bool used = true;

    while (used) {
        lock_take(&contexts_lock);
        used = *uses > 0;
        lock_drop(&contexts_lock);
        if (used)
            (void)sched_yield();
    }
}

uint64_t context_forget(CUcontext handle)
{
    struct context *found;
    uint64_t generation = 0;

    lock_take(&contexts_lock);
    found = find_locked(handle);
    if (found) {
        generation = found->generation;
        found->generation = 0;
        atomic_fetch_sub(&context_count, 1);
        forget_streams_locked(generation);
    }
    lock_drop(&contexts_lock);
    if (found)
        wait_for_uses(&context_uses[found - contexts]);
    context_changed();
    return generation;
}

void context_end_begin(void)
{
    atomic_fetch_add(&contexts_ending, 1);
}

void context_end_done(void)
{
    atomic_fetch_sub(&contexts_ending, 1);
}

bool context_is_ending(void)
{
    return atomic_load(&contexts_ending) != 0;
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
    CUcontext handle = NULL;

    if (device < 0 || device >= DEVICES_MAX)
        return NULL;
    lock_take(&contexts_lock);
    handle = primaries[device];
    lock_drop(&contexts_lock);
    return handle;
}

int context_enter(uint64_t generation, struct context_use *ret_use)
{
    CUcontext handle = NULL;
    CUcontext current = NULL;
    int r;

    *ret_use = (struct context_use){0};
    lock_take(&contexts_lock);
    for (unsigned i = 0; i < CONTEXTS_MAX && generation != 0 && !ret_use->slot; i++) {
        if (contexts[i].generation != generation)
            continue;
        handle = contexts[i].handle;
        context_uses[i]++;
        ret_use->slot = i + 1;
    }
    lock_drop(&contexts_lock);
    if (!ret_use->slot)
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
    if (use->pushed)
        pop();
    if (use->slot) {
        lock_take(&contexts_lock);
        context_uses[use->slot - 1]--;
        lock_drop(&contexts_lock);
    }
    *use = (struct context_use){0};
}

/* ---- streams -------------------------------------------------------------------------------- */

static unsigned stream_start(uint64_t identity)
{
    return (unsigned)((identity * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % STREAMS_MAX;
}

/* The entry of an identity, or the free one where it belongs; NULL if the table is full. */
static struct stream_entry *stream_locked(uint64_t identity)
{
    unsigned at = stream_start(identity);

    for (unsigned i = 0; i < STREAMS_MAX; i++, at = (at + 1) % STREAMS_MAX)
        if (!streams[at].identity || streams[at].identity == identity)
            return &streams[at];
    return NULL;
}

/* Closes the hole that an entry leaves, so that probing still finds what lies behind it. */
static void stream_remove_locked(struct stream_entry *entry)
{
    unsigned hole = (unsigned)(entry - streams);
    unsigned at = hole;

    stream_count--;
    for (;;) {
        unsigned home;

        streams[hole].identity = 0;
        do {
            at = (at + 1) % STREAMS_MAX;
            if (!streams[at].identity)
                return;
            home = stream_start(streams[at].identity);
            /* movable if its home does not lie between the hole and itself */
        } while (hole <= at ? (hole < home && home <= at) : (hole < home || home <= at));
        streams[hole] = streams[at];
        hole = at;
    }
}

static void forget_streams_locked(uint64_t context)
{
    bool again = stream_count > 0;

    while (again) {
        again = false;
        for (unsigned i = 0; i < STREAMS_MAX && !again; i++) {
            again = streams[i].identity && streams[i].context == context;
            if (again)
                stream_remove_locked(&streams[i]);
        }
    }
}

/* Of the calling thread; unlike an address of its own it never comes back as another thread's. */
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
/* How many were entered for this thread; those of dead contexts are gone already. */
static __thread unsigned own_streams __attribute__((tls_model("initial-exec")));

/* One stream of that thread, which leaves the table; 0 = there is none. */
static uint64_t take_stream_of(uint64_t owner)
{
    uint64_t identity = 0;

    lock_take(&contexts_lock);
    for (unsigned i = 0; i < STREAMS_MAX && !identity; i++) {
        if (!streams[i].identity || streams[i].owner != owner)
            continue;
        identity = streams[i].identity;
        stream_remove_locked(&streams[i]);
    }
    lock_drop(&contexts_lock);
    return identity;
}

/* In the thread itself: nobody else names its stream, so no use of it is under way. */
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

/* This thread has a stream of its own now. The destructor runs again if other destructors use CUDA after it. */
static void expect_end(void)
{
    own_streams++;
    if (atomic_load(&has_end_key))
        (void)pthread_setspecific(end_key, &end_key);
}

/* ---- where blocking streams meet ------------------------------------------------------------ */

atomic_uint stream_meetings[DEVICES_MAX];
atomic_bool stream_own_used;
static void (*meet)(uint64_t identity);     /* fixed when life starts */
static CUstream only_blocking[DEVICES_MAX]; /* guarded by contexts_lock: the one that was counted */

void stream_on_meeting(void (*on_meeting)(uint64_t identity))
{
    meet = on_meeting;
}

/* The default streams of a device, those of other devices too if `device` < 0; at most max. */
static size_t list_defaults(int device, uint64_t *ret_identities, size_t max)
{
    size_t n = 0;

    lock_take(&contexts_lock);
    for (unsigned i = 0; i < STREAMS_MAX && n < max && stream_count > 0; i++)
        if (streams[i].identity && streams[i].handle == CU_STREAM_LEGACY
                && (device < 0 || streams[i].device == device))
            ret_identities[n++] = streams[i].identity;
    lock_drop(&contexts_lock);
    return n;
}

/* After the count was raised: from here on frees see to it themselves. */
static void let_meet(int device)
{
    uint64_t identities[CONTEXTS_MAX];
    size_t n = meet ? list_defaults(device, identities, CONTEXTS_MAX) : 0;

    guard_push();
    for (size_t i = 0; i < n; i++)
        meet(identities[i]);
    guard_pop();
}

static void meet_everywhere(void)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        atomic_store(&stream_meetings[i], 2);
    let_meet(-1);
}

/* `known`: it may be the one that was counted. */
static void count_blocking(CUstream handle, int device, bool known)
{
    bool is_second;

    if (device < 0 || device >= DEVICES_MAX) {
        meet_everywhere();
        return;
    }
    lock_take(&contexts_lock);
    is_second = atomic_load(&stream_meetings[device]) == 1
            && !(known && only_blocking[device] == handle);
    if (atomic_load(&stream_meetings[device]) == 0) {
        only_blocking[device] = handle;
        atomic_store(&stream_meetings[device], 1);
    } else if (is_second) {
        atomic_store(&stream_meetings[device], 2);
    }
    lock_drop(&contexts_lock);
    if (is_second)
        let_meet(device);
}

void stream_made(CUstream handle)
{
    struct context here;

    count_blocking(handle, context_here(&here) == 0 ? here.device : -1, false);
}

void stream_use_own(void)
{
    if (!atomic_load(&stream_own_used) && !atomic_exchange(&stream_own_used, true))
        meet_everywhere();
}

/* A stream is named for the first time. */
static void count_named(CUstream handle, int device)
{
    unsigned flags = CU_STREAM_DEFAULT;

    if (handle == CU_STREAM_LEGACY)
        return;
    if (handle == CU_STREAM_PER_THREAD)
        stream_use_own();
    else if (!stream_meets(device)
            && (!REAL_HAS(cuStreamGetFlags)
                    || REAL(cuStreamGetFlags)(handle, &flags) != CUDA_SUCCESS
                    || !(flags & CU_STREAM_NON_BLOCKING)))
        count_blocking(handle, device, true);
}

/* ---- streams of a call ---------------------------------------------------------------------- */

static CUstream normalised(CUstream handle, bool per_thread_call)
{
    if (handle)
        return handle;
    return per_thread_call ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* The driver's number of a stream, which is never another one's; below 12.0 the handle and the context's generation. */
static int ask_identity(CUstream handle, uint64_t context, uint64_t *ret_identity)
{
    unsigned long long id = 0;
    uint64_t seed;
    int r;

    if (REAL_HAS(cuStreamGetId)) {
        r = (int)REAL(cuStreamGetId)(handle, &id);
        *ret_identity = id + 1;
        return r;
    }
    seed = (uint64_t)(uintptr_t)handle ^ context << 40;
    if (handle == CU_STREAM_PER_THREAD)
        seed ^= thread_number() << 8;
    *ret_identity = seed * 2 + 1;
    return 0;
}

/* Whose context a stream belongs to: that of the call for the special ones. */
static int ask_context(CUstream handle, const struct context *here, struct context *ret_context)
{
    CUcontext owner = NULL;

    *ret_context = *here;
    if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD || !REAL_HAS(cuStreamGetCtx))
        return 0;
    if (REAL(cuStreamGetCtx)(handle, &owner) != CUDA_SUCCESS || owner == here->handle || !owner)
        return 0;
    context_note(owner);
    return context_of_handle(owner, ret_context) ? 0 : -ENOENT;
}

static void fill(const struct stream_entry *entry, struct stream *ret_stream)
{
    ret_stream->identity = entry->identity;
    ret_stream->handle = entry->handle;
    ret_stream->context = entry->context;
    ret_stream->device = entry->device;
    ret_stream->per_thread = entry->owner != 0;
}

/* For quick_stream. A thread's own stream is left out: its frees record in any case. */
static void remember(const struct stream *stream)
{
    struct context_memo *memo = &context_memo;
    unsigned at = stream_memo_at(stream->handle);

    if (stream->handle == CU_STREAM_LEGACY) {
        memo->legacy = (struct stream_memo){stream->identity, stream->device};
    } else if (!stream->per_thread && REAL_HAS(cuStreamGetId)) {
        memo->handle[at] = stream->handle;
        memo->identity[at] = stream->identity;
        memo->device_of[at] = stream->device;
    }
}

int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream)
{
    struct stream_entry *entry;
    struct context here, owner;
    uint64_t identity;
    int r = context_here(&here);

    handle = normalised(handle, per_thread_call);
    if (r == 0)
        r = ask_identity(handle, here.generation, &identity);
    if (r != 0)
        return r;
    lock_take(&contexts_lock);
    entry = stream_locked(identity);
    if (entry && entry->identity) {
        fill(entry, ret_stream);
        lock_drop(&contexts_lock);
        remember(ret_stream);
        return 0;
    }
    lock_drop(&contexts_lock);

    r = ask_context(handle, &here, &owner);
    if (r != 0)
        return r;
    count_named(handle, owner.device);
    lock_take(&contexts_lock);
    entry = stream_count < STREAMS_MAX / 2 ? stream_locked(identity) : NULL;
    if (entry) {
        stream_count += entry->identity ? 0 : 1;
        *entry = (struct stream_entry){.identity = identity,
                .handle = handle,
                .context = owner.generation,
                .owner = handle == CU_STREAM_PER_THREAD ? thread_number() : 0,
                .device = owner.device};
        fill(entry, ret_stream);
    }
    lock_drop(&contexts_lock);
    if (entry && handle == CU_STREAM_PER_THREAD)
        expect_end();
    return entry ? 0 : -ENOSPC;
}

bool stream_enter(uint64_t identity, struct stream *ret_stream)
{
    struct stream_entry *entry;
    bool usable;

    lock_take(&contexts_lock);
    entry = stream_locked(identity);
    usable = entry && entry->identity && identity && !entry->going
            && (!entry->owner || entry->owner == thread_number());
    if (usable) {
        entry->uses++;
        fill(entry, ret_stream);
    }
    lock_drop(&contexts_lock);
    return usable;
}

void stream_leave(uint64_t identity)
{
    struct stream_entry *entry;

    lock_take(&contexts_lock);
    entry = stream_locked(identity);
    if (entry && entry->identity && entry->uses > 0) /* its context may have died meanwhile */
        entry->uses--;
    lock_drop(&contexts_lock);
}

uint64_t stream_identity(CUstream handle)
{
    const struct stream_entry *entry = NULL;
    uint64_t identity = 0;

    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return 0;
    /* Without a current context the driver does not say; then the handle is looked for, as below 12.0. */
    if (REAL_HAS(cuStreamGetId) && ask_identity(handle, 0, &identity) != 0)
        identity = 0;
    lock_take(&contexts_lock);
    if (identity)
        entry = stream_locked(identity);
    for (unsigned i = 0; i < STREAMS_MAX && stream_count > 0 && !identity && !entry; i++)
        if (streams[i].identity && streams[i].handle == handle)
            entry = &streams[i];
    identity = entry ? entry->identity : 0;
    lock_drop(&contexts_lock);
    return identity;
}

uint64_t stream_capture_key(CUstream handle, bool per_thread_call)
{
    struct context here;
    uint64_t identity;

    handle = normalised(handle, per_thread_call);
    if (handle != CU_STREAM_PER_THREAD || context_here(&here) != 0
            || ask_identity(handle, here.generation, &identity) != 0)
        return (uintptr_t)handle;
    return identity << 1 | 1;
}

void stream_forget(uint64_t identity)
{
    struct stream_entry *entry;
    bool used = identity != 0;

    while (used) {
        lock_take(&contexts_lock);
        entry = stream_locked(identity);
        used = entry && entry->identity && entry->uses > 0;
        if (used)
            entry->going = true;
        else if (entry && entry->identity)
            stream_remove_locked(entry);
        lock_drop(&contexts_lock);
        if (used)
            (void)sched_yield(); /* one short call into the driver */
    }
}

void context_fork_child(void)
{
    lock_init(&contexts_lock, LOCK_RANK_PRELOAD);
    memset(context_uses, 0, sizeof context_uses);
    atomic_store(&contexts_ending, 0);
}

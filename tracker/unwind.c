/* SPDX-License-Identifier: MIT */
#include "tracker/unwind.h"

#include "tracker/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define DEPTH_DEFAULT 48u
#define FEW_FRAMES    4u

/* libunwind's values (its enum is part of its ABI). */
#define CACHE_GLOBAL 1

#if defined(__x86_64__)
#    define UNW_PREFIX     "_ULx86_64_"
#    define UNW_ANY_PREFIX "_Ux86_64_"
#elif defined(__aarch64__)
#    define UNW_PREFIX     "_ULaarch64_"
#    define UNW_ANY_PREFIX "_Uaarch64_"
#else
#    define UNW_PREFIX     "_UL_none_"
#    define UNW_ANY_PREFIX "_U_none_"
#endif

typedef void (*flush_fn)(void *space, uintptr_t low, uintptr_t high);

/* fixed by unwind_init, before there are other threads */
static struct {
    enum unwind_engine engine;
    unsigned depth;
    unwind_fn walk; /* unw_backtrace, backtrace or our own */
    flush_fn flush; /* libunwind's, NULL without */
    void *space;
    struct unwind_ops ops;
} unwinder = {.depth = DEPTH_DEFAULT};

/* How often code was replaced, plus one: a thread whose record has a smaller number walked before the last time. */
static _Atomic uint32_t epoch = 1;
/* backtrace(), once it is needed. Release, readers acquire: whoever sees a new epoch sees it. */
static _Atomic(unwind_fn) long_walk;
static _Atomic uint64_t long_walks;

static void *object_symbol(void *object, const char *symbol, const struct unwind_ops *ops)
{
    return object ? ops->symbol(object, symbol) : NULL;
}

/* ISO C has no cast from void * to a function; POSIX promises that the bytes are the same. */
static unwind_fn as_walk(void *symbol)
{
    unwind_fn walk = NULL;

    memcpy(&walk, &symbol, sizeof walk);
    return walk;
}

static unwind_fn open_libunwind(const struct unwind_ops *ops)
{
    void *object = ops->open("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    unwind_fn walk = as_walk(object_symbol(object, "unw_backtrace", ops));
    void *space_symbol = object_symbol(object, UNW_PREFIX "local_addr_space", ops);
    void *policy_symbol = object_symbol(object, UNW_PREFIX "set_caching_policy", ops);
    void *flush_symbol = object_symbol(object, UNW_ANY_PREFIX "flush_cache", ops);
    int (*set_policy)(void *space, int policy) = NULL;
    void *space = NULL;

    if (walk && space_symbol && policy_symbol) {
        memcpy(&space, space_symbol, sizeof space);
        memcpy(&set_policy, &policy_symbol, sizeof set_policy);
        /* One cache for all threads: a cache per thread is not compiled into Debian's library. */
        (void)set_policy(space, CACHE_GLOBAL);
        memcpy(&unwinder.flush, &flush_symbol, sizeof flush_symbol);
        unwinder.space = space;
    }
    return walk;
}

/* Not the symbol that we are linked with: a libunwind elsewhere in the process may offer a weak one. */
static unwind_fn open_backtrace(const struct unwind_ops *ops)
{
    void *object = ops->open("libc.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

    return as_walk(object_symbol(object, "backtrace", ops));
}

/*
 * The bounds of this thread's stack, asked once: pthread_getattr_np reads /proc/self/maps on the main thread. A walk on
 * another stack (a coroutine, sigaltstack) finds itself outside and stops at once.
 */
static void find_stack(struct thread *thread)
{
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;

    thread->stack_low = 1;
    thread->stack_high = 1;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &low, &size) == 0) {
        thread->stack_low = (uintptr_t)low;
        thread->stack_high = (uintptr_t)low + size;
    }
    (void)pthread_attr_destroy(&attr);
}

bool unwind_stack(struct thread *thread, uintptr_t sp, uintptr_t *ret_high)
{
    if (unwinder.engine != UNWIND_ENGINE_LIBUNWIND)
        return false;
    if (thread->stack_high == 0)
        find_stack(thread);
    *ret_high = thread->stack_high;
    return sp >= thread->stack_low && sp < thread->stack_high;
}

/* A frame is {caller's frame, return address}; anything else ends the walk, and nothing outside the stack is read. */
__attribute__((noinline, no_sanitize("address"))) static int walk_frame_pointers(
        void **ret_ips, int max)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    struct thread *thread = thread_self();
    int count = 0;

    if (!thread)
        return 0;
    if (thread->stack_high == 0)
        find_stack(thread);
    while (count < max && frame % sizeof(uintptr_t) == 0 && frame >= thread->stack_low
            && frame + 2 * sizeof(uintptr_t) <= thread->stack_high) {
        uintptr_t words[2];

        memcpy(words, (const void *)frame, sizeof words); // NOLINT(performance-no-int-to-ptr)
        if (words[1] == 0)
            break;
        memcpy(&ret_ips[count++], &words[1], sizeof words[1]);
        if (words[0] <= frame)
            break;
        frame = words[0];
    }
    return count;
}

int unwind_init(const struct unwind_opts *opts)
{
    enum unwind_engine engine = UNWIND_ENGINE_NONE;
    unwind_fn walk = NULL;

    if (opts->mode >= UNWIND_MODE_COUNT || opts->depth > UNWIND_DEPTH_MAX)
        return -EINVAL;
    unwinder.flush = NULL;
    unwinder.ops = opts->ops;
    if (opts->mode == UNWIND_FP) {
        engine = UNWIND_ENGINE_FP;
        walk = walk_frame_pointers;
    }
    if (opts->mode == UNWIND_AUTO || opts->mode == UNWIND_NATIVE) {
        if (!opts->ops.open || !opts->ops.symbol)
            return -EINVAL;
        walk = open_libunwind(&opts->ops);
        engine = UNWIND_ENGINE_LIBUNWIND;
        if (!walk) {
            walk = open_backtrace(&opts->ops);
            engine = walk ? UNWIND_ENGINE_BACKTRACE : UNWIND_ENGINE_FP;
            walk = walk ? walk : walk_frame_pointers;
        }
    }
    unwinder.engine = engine;
    unwinder.walk = walk;
    unwinder.depth = opts->depth ? opts->depth : DEPTH_DEFAULT;
    return 0;
}

unwind_fn unwind_walker(struct thread *thread)
{
    uint32_t now = atomic_load_explicit(&epoch, memory_order_acquire);

    if (unwinder.engine != UNWIND_ENGINE_LIBUNWIND)
        return unwinder.walk;
    if (thread && thread->walk_epoch == 0)
        thread->walk_epoch = now;
    if (thread ? thread->walk_epoch == now : now == 1)
        return unwinder.walk;
    /* this thread's walks of before can have left something in libunwind that is wrong by now */
    atomic_fetch_add_explicit(&long_walks, 1, memory_order_relaxed);
    return atomic_load_explicit(&long_walk, memory_order_acquire);
}

void unwind_code_unloaded(void)
{
    if (unwinder.flush)
        unwinder.flush(unwinder.space, 0, 0);
}

void unwind_code_replaced(uint32_t times)
{
    uint32_t before = atomic_load_explicit(&epoch, memory_order_relaxed);
    void *buffer[FEW_FRAMES];
    unwind_fn walk = atomic_load_explicit(&long_walk, memory_order_acquire);

    if (unwinder.engine != UNWIND_ENGINE_LIBUNWIND)
        return;
    if (!walk) {
        walk = open_backtrace(&unwinder.ops);
        if (walk)
            (void)walk(buffer,
                    (int)FEW_FRAMES); /* its first call opens libgcc_s: here, not in a walk */
        atomic_store_explicit(&long_walk, walk, memory_order_release);
    }
    while (before < times + 1
            && !atomic_compare_exchange_weak_explicit(
                    &epoch, &before, times + 1, memory_order_release, memory_order_relaxed)) {}
}

uint64_t unwind_long_walks(void)
{
    return atomic_load_explicit(&long_walks, memory_order_relaxed);
}

int unwind_warm(void)
{
    void *ips[UNWIND_DEPTH_MAX];
    unwind_fn walk = unwind_walker(thread_self());

    return !walk || walk(ips, (int)unwinder.depth) > 0 ? 0 : -ENODATA;
}

enum unwind_engine unwind_engine(void)
{
    return unwinder.engine;
}

const char *unwind_engine_name(enum unwind_engine engine)
{
    static const char *const names[UNWIND_ENGINE_COUNT] = {
            [UNWIND_ENGINE_NONE] = "none",
            [UNWIND_ENGINE_LIBUNWIND] = "libunwind",
            [UNWIND_ENGINE_BACKTRACE] = "backtrace",
            [UNWIND_ENGINE_FP] = "fp",
    };

    return engine < UNWIND_ENGINE_COUNT ? names[engine] : "none";
}

unsigned unwind_depth(void)
{
    return unwinder.depth;
}

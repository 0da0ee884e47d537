/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/unwind.h"

#include "tracker/stacks/cfirule.h"
#include "tracker/stacks/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define DEPTH_DEFAULT 48u

/* The greatest extent of the main thread's stack below its beginning: the system places nothing
 * else there. */
#define MAIN_STACK_MAX (UINT64_C(128) << 20)

/* The beginning of the main thread's frames: the loader's value at program start. */
extern void *__libc_stack_end; // NOLINT(bugprone-reserved-identifier)

/* set by unwind_init, before there are other threads */
static struct {
    enum unwind_engine engine;
    unsigned depth;
    unwind_fn walk;
    struct unwind_ops ops;
} unwinder = {.depth = DEPTH_DEFAULT};

/* backtrace(), once it is needed. */
static _Atomic(unwind_fn) other_walk;

/* Not the symbol that we are linked with: a libunwind in the process may define a weak one. */
static unwind_fn find_backtrace(void)
{
    void *object = unwinder.ops.open("libc.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void *symbol = object ? unwinder.ops.symbol(object, "backtrace") : NULL;
    unwind_fn walk = NULL;

    /* ISO C has no cast from void * to a function pointer; POSIX promises the same
     * representation. */
    memcpy(&walk, &symbol, sizeof walk);
    return walk;
}

/* Determines the bounds of this thread's stack, once. Not by pthread_getattr_np for the main
 * thread, which would open /proc/self/maps. A walk on another stack (a coroutine, sigaltstack) is
 * outside these bounds. */
static void find_stack(struct thread *thread, uintptr_t sp)
{
    uintptr_t main_high = (uintptr_t)__libc_stack_end;
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;

    thread->stack_low = 1;
    thread->stack_high = 1;
    if (sp < main_high && main_high - sp < MAIN_STACK_MAX) {
        thread->stack_low = main_high - MAIN_STACK_MAX;
        thread->stack_high = main_high;
        return;
    }
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &low, &size) == 0) {
        thread->stack_low = (uintptr_t)low;
        thread->stack_high = (uintptr_t)low + size;
    }
    (void)pthread_attr_destroy(&attr);
}

static bool is_on_stack(struct thread *thread, uintptr_t sp)
{
    if (thread->stack_high == 0)
        find_stack(thread, sp);
    return sp >= thread->stack_low && sp < thread->stack_high;
}

bool unwind_stack(struct thread *thread, uintptr_t sp, uintptr_t *ret_high)
{
    if (unwinder.engine != UNWIND_ENGINE_TABLES || !is_on_stack(thread, sp))
        return false;
    *ret_high = thread->stack_high;
    return true;
}

/* ---- by tables ------------------------------------------------------------------------------ */

/* A frame to which a callee returns at `ip`, with the registers at that time. */
struct frame {
    uintptr_t ip, sp, bp;
    uintptr_t high; /* end of the stack; UINTPTR_MAX: it is not the thread's own, and unknown */
};

static bool unwind_is_word(const struct frame *frame, uintptr_t at)
{
    return at % sizeof at == 0 && at >= frame->sp && at <= frame->high - sizeof at;
}

/* Steps to the caller's frame. False: none, or unreadable. */
static bool step_out(struct frame *frame, const struct cfirule *rule)
{
    uintptr_t base = rule->is_by_bp ? frame->bp : frame->sp;
    uintptr_t cfa = base + (uintptr_t)(intptr_t)rule->cfa;
    uintptr_t bp_at;

    if (rule->kind == CFIRULE_ALIGNED) {
        if (!unwind_is_word(frame, cfa))
            return false;
        cfa = unwind_stack_word(cfa);
    }
    bp_at = (rule->kind == CFIRULE_ALIGNED ? base : cfa) + (uintptr_t)(intptr_t)rule->bp;
    if (cfa <= frame->sp || !unwind_is_word(frame, cfa - sizeof cfa)
            || (rule->has_bp && !unwind_is_word(frame, bp_at)))
        return false;
    frame->ip = unwind_stack_word(cfa - sizeof cfa);
    if (rule->has_bp)
        frame->bp = unwind_stack_word(bp_at);
    frame->sp = cfa;
    return frame->ip != 0;
}

/* The rule assumed for a frame without a table: the usual one of functions with a frame pointer. */
static const struct cfirule guessed = {
        .kind = CFIRULE_PLAIN, .is_by_bp = true, .has_bp = true, .bp = -16, .cfa = 16};

static int walk_otherwise(void **ret_ips, int max)
{
    unwind_fn walk = atomic_load_explicit(&other_walk, memory_order_acquire);

    if (!walk) {
        walk = find_backtrace();
        atomic_store_explicit(&other_walk, walk, memory_order_release);
    }
    return walk ? walk(ret_ips, max) : 0;
}

__attribute__((noinline, no_sanitize("address"))) static int walk_tables(void **ret_ips, int max)
{
    uintptr_t own = (uintptr_t)__builtin_frame_address(0); /* {caller's rbp, return address} */
    struct thread *thread = thread_self();
    struct frame frame = {unwind_stack_word(own + sizeof own), own + 2 * sizeof own,
            unwind_stack_word(own), UINTPTR_MAX};
    int count = 0, others;

    if (thread && is_on_stack(thread, frame.sp))
        frame.high = thread->stack_high;
    while (count < max) {
        struct cfirule rule = cfirule_known(frame.ip);

        memcpy(&ret_ips[count++], &frame.ip, sizeof frame.ip);
        if (rule.kind == CFIRULE_OTHER) {
            others = walk_otherwise(ret_ips, max);
            return others > 0 ? others : count;
        }
        if (rule.kind == CFIRULE_NONE && frame.high != UINTPTR_MAX)
            rule = guessed;
        if (rule.kind == CFIRULE_END || rule.kind == CFIRULE_NONE || !step_out(&frame, &rule))
            break;
    }
    return count;
}

/* ---- by frame pointers ---------------------------------------------------------------------- */

/* A frame is {caller's frame, return address}; any other content ends the walk, and nothing outside
 * the stack is read. */
__attribute__((noinline, no_sanitize("address"))) static int walk_frame_pointers(
        void **ret_ips, int max)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    struct thread *thread = thread_self();
    int count = 0;

    if (!thread || !is_on_stack(thread, frame))
        return 0;
    while (count < max && frame % sizeof(uintptr_t) == 0 && frame >= thread->stack_low
            && frame + 2 * sizeof(uintptr_t) <= thread->stack_high) {
        uintptr_t next = unwind_stack_word(frame);
        uintptr_t ip = unwind_stack_word(frame + sizeof frame);

        if (ip == 0)
            break;
        memcpy(&ret_ips[count++], &ip, sizeof ip);
        if (next <= frame)
            break;
        frame = next;
    }
    return count;
}

/* ---- choice of the engine ------------------------------------------------------------------- */

int unwind_init(const struct unwind_opts *opts)
{
    static const struct {
        enum unwind_engine engine;
        unwind_fn walk;
    } engines[UNWIND_MODE_COUNT] = {
            [UNWIND_AUTO] = {UNWIND_ENGINE_TABLES, walk_tables},
            [UNWIND_NATIVE] = {UNWIND_ENGINE_TABLES, walk_tables},
            [UNWIND_FP] = {UNWIND_ENGINE_FP, walk_frame_pointers},
            [UNWIND_OFF] = {UNWIND_ENGINE_NONE, NULL},
    };

    if (opts->mode >= UNWIND_MODE_COUNT || opts->depth > UNWIND_DEPTH_MAX
            || (engines[opts->mode].walk == walk_tables && (!opts->ops.open || !opts->ops.symbol)))
        return -EINVAL;
    unwinder.ops = opts->ops;
    unwinder.engine = engines[opts->mode].engine;
    unwinder.walk = engines[opts->mode].walk;
    unwinder.depth = opts->depth ? opts->depth : DEPTH_DEFAULT;
    return 0;
}

unwind_fn unwind_walker(void)
{
    return unwinder.walk;
}

void unwind_code_changed(void)
{
    cfirule_forget();
}

enum unwind_engine unwind_engine(void)
{
    return unwinder.engine;
}

const char *unwind_engine_name(enum unwind_engine engine)
{
    static const char *const names[UNWIND_ENGINE_COUNT] = {
            [UNWIND_ENGINE_NONE] = "none",
            [UNWIND_ENGINE_TABLES] = "tables",
            [UNWIND_ENGINE_FP] = "fp",
    };

    return engine < UNWIND_ENGINE_COUNT ? names[engine] : "none";
}

unsigned unwind_depth(void)
{
    return unwinder.depth;
}

/* SPDX-License-Identifier: MIT */
#include "tracker/where/where.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "tracker/base/catalog.h"
#include "tracker/base/site.h"
#include "tracker/format/format.h"
#include "tracker/python/pyframe.h"
#include "tracker/python/pystack.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/modules.h"
#include "tracker/stacks/thread.h"
#include "tracker/stacks/walkmemo.h"
#include "tracker/where/anchor.h"
#include "tracker/where/nth.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define STACKS_MAX  (1u << 20)                   /* walks cached for all threads */
#define WALK_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd, with high and low bits set */

/* A cached walk of any thread. */
struct known {
    uint64_t hash;
    uint64_t site;
    uint32_t leaf;
    uint32_t generation;
};

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

static bool same_walk(uint32_t number, const void *key);
static struct catalog walks =
        CATALOG_OF(struct known, STACKS_MAX, same_walk); /* guarded by lock for adding */

/* fixed by where_init */
static uint64_t min_size;
static char program[96];
static bool has_stacks, has_python;

/* any thread, relaxed: */
static _Atomic uint64_t stacks_known, known_walks, stacks_lost, stacks_cut;
static _Atomic uint32_t python_told;    /* the state last reported by where_python_news */
static _Atomic uint32_t replaced_known; /* as last passed to the unwinder; release, acquire */

static void count_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void name_program(void)
{
    const struct intern_module *module = modules_main();
    size_t used = sizeof "build-id:" - 1;

    program[0] = '\0';
    if (!module)
        return;
    if (module->build_id_bytes == 0) {
        (void)snprintf(program, sizeof program, "path:%016llx", (unsigned long long)module->hash);
        return;
    }
    memcpy(program, "build-id:", used);
    for (unsigned i = 0; i < module->build_id_bytes && used + 3 <= sizeof program; i++) {
        program[used++] = "0123456789abcdef"[module->build_id[i] >> 4];
        program[used++] = "0123456789abcdef"[module->build_id[i] & 15];
    }
    program[used] = '\0';
}

int where_init(const struct where_opts *opts)
{
    int r = unwind_init(&opts->unwind);

    if (r < 0)
        return r;
    r = modules_init(opts->self);
    if (r < 0)
        return r;
    name_program();
    min_size = opts->min_size;
    has_stacks = unwind_engine() != UNWIND_ENGINE_NONE;
    has_python = opts->python;
    if (thread_current)
        walkmemo_forget(thread_current->walkmemo);
    if (has_python)
        pystack_init(&opts->unwind.ops);
    return 0;
}

static bool same_walk(uint32_t number, const void *key)
{
    const struct known *wanted = key;
    const struct known *have = catalog_at(&walks, number);

    return have->hash == wanted->hash && have->generation == wanted->generation;
}

/* Converts addresses to frames, innermost first, and keeps only the program's own. */
static unsigned strip_frames(void *const *ips, unsigned count, struct intern_frame *ret_frames)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++) {
        uintptr_t call = (uintptr_t)ips[i]
                - 1; /* a return address may belong to the next function already */
        const struct intern_module *module;
        uint32_t number = modules_at(call);

        modules_walked(number);
        module = intern_module_at(number);
        if (!module)
            ret_frames[kept++] = (struct intern_frame){0, call};
        else if (module->kind == INTERN_MODULE_PROGRAM)
            ret_frames[kept++] = (struct intern_frame){number, call - module->bias};
    }
    return kept;
}

static uint64_t where_site_of(const struct intern_frame *frames, unsigned count)
{
    uint64_t hashes[SITE_FRAMES];
    unsigned used = count < SITE_FRAMES ? count : SITE_FRAMES;

    for (unsigned i = 0; i < used; i++) {
        const struct intern_module *module = intern_module_at(frames[i].module);

        /* generated code has no address that is valid beyond this run */
        hashes[i] = module ? site_frame(module->hash, frames[i].offset) : site_frame(0, 0);
    }
    return site_combine(hashes, used);
}

/* Other code was loaded where walks went: the unwinder must drop its cache. replaced_known is set
 * after that: a thread that sees it walks at once. */
static void look_for_replaced(void)
{
    uint32_t now = modules_replaced();

    if (atomic_load_explicit(&replaced_known, memory_order_acquire) == now)
        return;
    unwind_code_changed();
    atomic_store_explicit(&replaced_known, now, memory_order_release);
}

/* False: no memory now. The frames are not on the stack, which may be small. */
static bool resolve_stack(void *const *ips, unsigned count, struct known *known)
{
    struct intern_frame *frames = meta_get(count * sizeof *frames);
    unsigned kept;

    if (!frames)
        return false;
    kept = strip_frames(ips, count, frames);
    known->leaf = intern_stack(frames, kept);
    known->site = where_site_of(frames, kept);
    /* A module found in strip_frames() starts a new generation, for which the result is valid. */
    known->generation = modules_generation();
    look_for_replaced();
    meta_put(frames, count * sizeof *frames);
    return true;
}

/* Valid within this run only, so it may be faster than site_hash: one product of 128 bits for two
 * addresses, neither of which is 0. Not a sum of two: small differences in adjacent frames, as of
 * calls from one function to two others, would cancel each other out. */
static inline uint64_t hash_step(uint64_t hash, const void *ip, uintptr_t next)
{
    unsigned __int128 product = (unsigned __int128)(hash ^ (uintptr_t)ip) * next;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t walk_hash(void *const *ips, unsigned count)
{
    uint64_t hash = count * WALK_FACTOR;

#pragma GCC unroll 4
    for (; count >= 2; ips += 2, count -= 2)
        hash = hash_step(hash, ips[0], (uintptr_t)ips[1]);
    if (count > 0)
        hash = hash_step(hash, *ips, WALK_FACTOR);
    return hash;
}

/* Leaf and site of a walk: from the cache of all threads, else from the modules. True: it was
 * cached. */
static bool look_up_stack(void *const *ips, unsigned count, struct known *ret_known)
{
    uint64_t hash = walk_hash(ips, count);
    struct known key = {.hash = hash ? hash : 1, .generation = modules_generation()};
    uint32_t number = catalog_find(&walks, key.hash, &key);

    if (number != 0) {
        count_one(&stacks_known);
        *ret_known = *(const struct known *)catalog_at(&walks, number);
        return true;
    }
    ret_known->hash = key.hash;
    /* without space it is dropped, and resolved again next time */
    if (resolve_stack(ips, count, ret_known))
        (void)catalog_number(&walks, &lock, ret_known->hash, ret_known);
    return false;
}

enum {
    /* including stripped frames: kedge's, the runtime's, the driver's */
    LEAST_FRAMES = 2 * SITE_FRAMES,
};

static bool where_is_own(uint32_t pystack)
{
    return pystack != 0 && (pystack & FORMAT_PYSTACK_AMBIENT) == 0;
}

/* The thread's record, if it is not inside already and a stack is wanted; NULL: no walk. */
static struct thread *begin_where(struct where_walk *ret_walk, uint64_t size)
{
    struct thread *thread = thread_self();

    ret_walk->thread = NULL;
    ret_walk->known = NULL;
    ret_walk->depth = 0;
    ret_walk->found = 0;
    ret_walk->pystack = 0;
    ret_walk->is_walked = false;
    if (!thread || thread->in_where)
        return NULL;
    thread->in_where = true;
    ret_walk->thread = thread;
    return size < min_size ? NULL : thread;
}

unwind_fn where_begin(uint64_t size, struct where_walk *walk)
{
    struct thread *thread = begin_where(walk, size);
    bool own;

    if (!thread)
        return NULL;
    if (has_python && pyframe_is_wanted())
        walk->pystack = pystack_here(thread);
    if (!has_stacks)
        return NULL;
    own = where_is_own(walk->pystack);
    walk->from.ip = (uintptr_t)__builtin_return_address(0);
    walk->from.generation = modules_generation();
    walk->from.is_own = own;
    walk->known = walkmemo_find(thread, &walk->from);
    if (walk->known)
        return NULL;
    walk->depth = unwind_depth();
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &walk->cancel);
    walk->is_walked = true;
    return unwind_walker();
}

/* Number of innermost frames up to the interpreter's loop, for a walk below Python frames of this
 * thread; 0: all. */
static unsigned frames_to_loop(const struct where_walk *walk)
{
    if (where_is_own(walk->pystack))
        for (int i = LEAST_FRAMES; i < walk->found; i++)
            if (pyframe_is_loop(walk->thread->ips[i]))
                return (unsigned)i + 1;
    return 0;
}

/* Looks up the walk from `caller` outwards: the frames below are kedge's. A walk seen a second time
 * is recorded, since it may come again. */
static void look_up_walk(const struct where_walk *walk, struct known *ret_known)
{
    unsigned to_loop = frames_to_loop(walk);
    unsigned found = walk->found > 0 ? (unsigned)walk->found : 0;
    unsigned count = to_loop ? to_loop : found;
    bool ends_at_depth = to_loop == 0 && count == walk->depth;
    struct walkmemo_known noted = {.is_cut = ends_at_depth};
    unsigned first = 0;

    while (first < count && (uintptr_t)walk->thread->ips[first] != walk->from.caller)
        first++;
    if (first == count)
        first = 0;
    if (ends_at_depth)
        count_one(&stacks_cut);
    if (count == 0)
        count_one(&stacks_lost);
    else if (look_up_stack(walk->thread->ips + first, count - first, ret_known)
            && walk->from.sp != 0 && ret_known->generation == walk->from.generation) {
        noted.site = ret_known->site;
        noted.leaf = ret_known->leaf;
        walkmemo_note(walk->thread, &walk->from, walk->thread->ips, count,
                !ends_at_depth && to_loop == 0, &noted);
    }
}

static void take_known(const struct walkmemo_known *known, struct known *ret_known)
{
    count_one(&known_walks);
    if (__builtin_expect(known->is_cut, 0))
        count_one(&stacks_cut);
    ret_known->leaf = known->leaf;
    ret_known->site = known->site;
}

static void end_walk(const struct where_walk *walk, struct known *ret_known)
{
    int unused;

    *ret_known = (struct known){0};
    if (walk->depth != 0)
        look_up_walk(walk, ret_known);
    if (walk->is_walked)
        (void)pthread_setcancelstate(walk->cancel, &unused);
}

int where_end(const struct where_walk *walk, uint64_t size, int device, struct tag *ret_tag)
{
    struct known known;
    struct anchor_place place;

    if (!walk->thread) {
        *ret_tag = (struct tag){.path = "", .size = size, .device = device};
        return -EAGAIN;
    }
    if (__builtin_expect(walk->known != NULL, 1))
        take_known(walk->known, &known);
    else
        end_walk(walk, &known);
    anchor_here(&place);
    *ret_tag = (struct tag){
            .site = known.site,
            .stack = known.leaf,
            .pystack = walk->pystack,
            .anchor = place.anchor,
            .nth = nth_count(place.anchor, known.site, size),
            .size = size,
            .path = place.path,
            .instance = place.instance,
            .device = device,
            .is_main = walk->thread->is_main,
    };
    walk->thread->in_where = false;
    return has_python && pyframe_is_news(atomic_load_explicit(&python_told, memory_order_relaxed));
}

__attribute__((noinline)) int where_am_i(
        const void *caller, uint64_t size, int device, struct tag *ret_tag)
{
    struct where_walk walk;

    where_go(size, caller ? caller : __builtin_return_address(0), &walk);
    return where_end(&walk, size, device, ret_tag);
}

__attribute__((noinline)) uint32_t where_stack(void)
{
    struct known known = {0};
    struct where_walk walk;
    struct thread *thread = begin_where(&walk, UINT64_MAX);
    unwind_fn unwind;

    if (!thread)
        return 0;
    if (has_stacks) {
        unwind = unwind_walker();
        walk.depth = unwind_depth();
        walk.from = (struct walkmemo_from){
                .caller = (uintptr_t)__builtin_return_address(0)}; /* no sp: not to be recorded */
        walk.found = unwind ? unwind(thread->ips, (int)walk.depth) : 0;
        look_up_walk(&walk, &known);
    }
    thread->in_where = false;
    return known.leaf;
}

uint32_t where_pystack(void)
{
    struct thread *thread = has_python && pyframe_is_wanted() ? thread_self() : NULL;
    uint32_t leaf;

    if (!thread || thread->in_where)
        return 0;
    thread->in_where = true;
    leaf = pystack_here(thread);
    thread->in_where = false;
    return leaf;
}

void where_library_opened(void)
{
    pyframe_library_opened();
}

const char *where_python_news(bool *ret_refused)
{
    enum pyframe_state state = pyframe_state();
    uint32_t before = atomic_load_explicit(&python_told, memory_order_relaxed);

    /* READY may become REFUSED later, never the reverse. */
    if (!has_python || !pyframe_is_news(before)
            || !atomic_compare_exchange_strong(&python_told, &before, (uint32_t)state))
        return NULL;
    *ret_refused = state == PYFRAME_REFUSED;
    return pyframe_text();
}

const char *where_lacks_python(void)
{
    if (!has_python)
        return "KEDGE_STACKS takes no Python stacks";
    (void)where_pystack(); /* searches, if a library was opened since */
    if (pyframe_state() == PYFRAME_READY)
        return NULL;
    return pyframe_state() == PYFRAME_REFUSED
            ? pyframe_text()
            : "there is no Python interpreter in this process so far";
}

bool where_code_has_gone(void)
{
    return modules_has_gone();
}

void where_modules_came(void)
{
    modules_came();
    look_for_replaced();
}

void where_modules_changed(void)
{
    unwind_code_changed();
    modules_reload();
    look_for_replaced();
}

const char *where_program(void)
{
    return program;
}

void where_stats(struct where_stats *ret_stats)
{
    *ret_stats = (struct where_stats){
            .stacks_known = atomic_load_explicit(&stacks_known, memory_order_relaxed)
                    + atomic_load_explicit(&known_walks, memory_order_relaxed),
            .known_walks = atomic_load_explicit(&known_walks, memory_order_relaxed),
            .stacks_lost = atomic_load_explicit(&stacks_lost, memory_order_relaxed),
            .stacks_cut = atomic_load_explicit(&stacks_cut, memory_order_relaxed),
            .nth_lost = nth_lost(),
            .no_build_id = modules_without_build_id(),
    };
}

uint64_t where_stacks_cut(void)
{
    return atomic_load_explicit(&stacks_cut, memory_order_relaxed);
}

void where_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_TRACKER);
    thread_fork_child();
    intern_fork_child();
    pystack_fork_child();
    modules_fork_child();
    nth_fork_child();
    anchor_fork_child();
}

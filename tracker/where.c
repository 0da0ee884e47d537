/* SPDX-License-Identifier: MIT */
#include "tracker/where.h"

#include "alloc/lock.h"
#include "alloc/meta.h"
#include "tracker/anchor.h"
#include "tracker/catalog.h"
#include "tracker/format.h"
#include "tracker/intern.h"
#include "tracker/modules.h"
#include "tracker/nth.h"
#include "tracker/pyframe.h"
#include "tracker/pystack.h"
#include "tracker/site.h"
#include "tracker/thread.h"
#include "tracker/walkmemo.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define STACKS_MAX  (1u << 20)                   /* walks remembered for all threads */
#define WALK_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd, with bits high and low */

/* A walk that was seen, by any thread. */
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
static _Atomic uint64_t asked, memo_hits, known_walks, stacks_lost, stacks_cut;
static _Atomic uint32_t python_told;    /* the state that where_python_news spoke of last */
static _Atomic uint32_t replaced_known; /* as far as the unwinder was told; release, acquire */

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
    if (!walks.records.base) {
        r = catalog_reserve(&walks);
        if (r < 0)
            return r;
    }
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
    (void)unwind_warm(); /* without a walk there are no stacks, and where_am_i counts that */
    return 0;
}

static bool same_walk(uint32_t number, const void *key)
{
    const struct known *wanted = key;
    const struct known *have = catalog_at(&walks, number);

    return have->hash == wanted->hash && have->generation == wanted->generation;
}

/* Frames of the program's own, innermost first: addresses become places in modules. */
static unsigned strip(void *const *ips, unsigned count, struct intern_frame *ret_frames)
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

static uint64_t site_of(const struct intern_frame *frames, unsigned count)
{
    uint64_t hashes[SITE_FRAMES];
    unsigned used = count < SITE_FRAMES ? count : SITE_FRAMES;

    for (unsigned i = 0; i < used; i++) {
        const struct intern_module *module = intern_module_at(frames[i].module);

        /* generated code has no address that lasts beyond this run */
        hashes[i] = module ? site_frame(module->hash, frames[i].offset) : site_frame(0, 0);
    }
    return site_combine(hashes, used);
}

/*
 * Other code lies where walks went: the unwinder must not rely on what it remembers. Known only when it has been told: whoever
 * finds that walks at once.
 */
static void look_for_replaced(void)
{
    uint32_t now = modules_replaced();

    if (atomic_load_explicit(&replaced_known, memory_order_acquire) == now)
        return;
    unwind_code_replaced(now);
    atomic_store_explicit(&replaced_known, now, memory_order_release);
}

/* noinline: its array would be on the stack of every request. */
__attribute__((noinline)) static void resolve(void *const *ips, unsigned count, struct known *known)
{
    struct intern_frame frames[UNWIND_DEPTH_MAX] = {{0, 0}};
    unsigned kept = strip(ips, count, frames);

    known->leaf = intern_stack(frames, kept);
    known->site = site_of(frames, kept);
    /* A module that turned up in strip() made a new generation; what was resolved holds for it. */
    known->generation = modules_generation();
    look_for_replaced();
}

/*
 * Within this run only, so it may be quicker than site_hash: one product of 128 bits for two addresses, of which none is 0. Not a
 * sum for two: calls that differ a little in neighbouring frames, as those of one function to two others do, would cancel each
 * other out.
 */
static inline uint64_t step(uint64_t hash, const void *ip, uintptr_t next)
{
    unsigned __int128 product = (unsigned __int128)(hash ^ (uintptr_t)ip) * next;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t walk_hash(void *const *ips, unsigned count)
{
    uint64_t hash = count * WALK_FACTOR;

#pragma GCC unroll 4
    for (; count >= 2; ips += 2, count -= 2)
        hash = step(hash, ips[0], (uintptr_t)ips[1]);
    if (count > 0)
        hash = step(hash, *ips, WALK_FACTOR);
    return hash;
}

/*
 * Leaf and site of a walk: the thread's memo, then what any thread knew, then the modules. True: the thread's memo, so that the stack
 * has been here before.
 */
static bool look_up(
        struct thread *thread, void *const *ips, unsigned count, struct known *ret_known)
{
    uint64_t hash = walk_hash(ips, count);
    struct known key = {.hash = hash ? hash : 1, .generation = modules_generation()};
    /* two places for each: stacks that take turns would drive each other out */
    struct thread_memo *home = &thread->memo[key.hash & (THREAD_MEMO - 1)];
    struct thread_memo *other = &thread->memo[(key.hash & (THREAD_MEMO - 1)) ^ 1];
    const struct thread_memo *memo = home->hash == key.hash ? home : other;
    uint32_t number;

    if (memo->hash == key.hash && memo->generation == key.generation) {
        count_one(&memo_hits);
        ret_known->leaf = memo->leaf;
        ret_known->site = memo->site;
        ret_known->generation = memo->generation;
        return true;
    }
    number = catalog_find(&walks, key.hash, &key);
    if (number != 0) {
        *ret_known = *(const struct known *)catalog_at(&walks, number);
    } else {
        ret_known->hash = key.hash;
        resolve(ips, count, ret_known);
        /* where there is no room it is forgotten, and resolved again next time */
        (void)catalog_number(&walks, &lock, ret_known->hash, ret_known);
    }
    *other = *home;
    *home = (struct thread_memo){key.hash, ret_known->site, ret_known->leaf, ret_known->generation};
    return false;
}

/*
 * A walk cannot be told where to end, only after how many frames; to find out that they did not reach is a second walk. So it
 * takes as many as the walks of this thread needed lately, and of those that need more the first one pays twice.
 */
enum {
    LEAST_FRAMES = 2 * SITE_FRAMES, /* with what is stripped: ours, the runtime's, the driver's */
    SPARE_FRAMES = 2,
    REACHES = 64, /* walks after which "lately" begins anew */
};

static bool is_own(uint32_t pystack)
{
    return pystack != 0 && (pystack & FORMAT_PYSTACK_AMBIENT) == 0;
}

/* `takes_python`: both stacks are taken, else the native one alone. */
static unwind_fn begin(struct where_walk *ret_walk, uint64_t size, bool takes_python)
{
    struct thread *thread = thread_self();

    ret_walk->thread = NULL;
    ret_walk->depth = 0;
    ret_walk->pystack = 0;
    ret_walk->is_cut = false;
    ret_walk->known = NULL;
    if (!thread || thread->in_where)
        return NULL;
    thread->in_where = true;
    ret_walk->thread = thread;
    if (size < min_size)
        return NULL;
    if (takes_python && has_python && pyframe_is_wanted())
        ret_walk->pystack = pystack_here(thread);
    if (!has_stacks)
        return NULL;
    ret_walk->depth =
            is_own(ret_walk->pystack) && thread->reach > 0 ? thread->reach : unwind_depth();
    return unwind_walker(thread);
}

unwind_fn where_begin(uint64_t size, struct where_walk *walk)
{
    unwind_fn unwind = begin(walk, size, true);

    if (!unwind)
        return NULL;
    walk->from.ip = (uintptr_t)__builtin_return_address(0);
    walk->from.generation = modules_generation();
    walk->from.is_own = is_own(walk->pystack);
    walk->known = walkmemo_find(walk->thread, &walk->from);
    return walk->known ? NULL : unwind;
}

/* So many frames were needed: the next walks take as many, and a few more. */
static void note_reach(struct thread *thread, unsigned frames)
{
    const unsigned most = unwind_depth();

    frames = frames + SPARE_FRAMES < most ? frames + SPARE_FRAMES : most;
    if (frames > thread->reached)
        thread->reached = (uint8_t)frames;
    if (thread->reached > thread->reach || ++thread->reaches == REACHES) {
        thread->reach = thread->reached;
        thread->reached = 0;
        thread->reaches = 0;
    }
}

bool where_goes_on(struct where_walk *walk)
{
    const int most = (int)unwind_depth();

    if (walk->found <= 0 || !is_own(walk->pystack))
        return false;
    for (int i = LEAST_FRAMES; i < walk->found; i++) {
        if (!pyframe_is_loop(walk->ips[i]))
            continue;
        walk->found = i + 1;
        walk->is_cut = true;
        note_reach(walk->thread, (unsigned)walk->found);
        return false;
    }
    if (walk->found < (int)walk->depth || walk->depth == (unsigned)most) {
        note_reach(walk->thread, (unsigned)walk->found);
        return false;
    }
    walk->depth = (unsigned)most;
    return true;
}

/* A second sight is worth to be noted: the third one may come again. */
static void note(const struct where_walk *walk, bool ends_at_depth, const struct known *known)
{
    struct walkmemo_known noted = {
            .site = known->site, .leaf = known->leaf, .is_cut = ends_at_depth};

    if (known->generation == walk->from.generation)
        walkmemo_note(walk->thread, &walk->from, walk->ips, (unsigned)walk->found,
                !ends_at_depth && !walk->is_cut, &noted);
}

/* The walk from `caller` outwards: what lies below it is ours. */
static void look_up_walk(const struct where_walk *walk, struct known *ret_known)
{
    unsigned count = walk->found > 0 ? (unsigned)walk->found : 0;
    bool ends_at_depth = count == walk->depth && !walk->is_cut;
    unsigned first = 0;

    while (first < count && (uintptr_t)walk->ips[first] != walk->from.caller)
        first++;
    if (first == count)
        first = 0;
    if (ends_at_depth)
        count_one(&stacks_cut);
    if (count == 0)
        count_one(&stacks_lost);
    else if (look_up(walk->thread, walk->ips + first, count - first, ret_known)
            && walk->from.sp != 0)
        note(walk, ends_at_depth, ret_known);
}

static void take_known(const struct walkmemo_known *known, struct known *ret_known)
{
    count_one(&known_walks);
    if (known->is_cut)
        count_one(&stacks_cut);
    ret_known->leaf = known->leaf;
    ret_known->site = known->site;
}

int where_end(const struct where_walk *walk, uint64_t size, int device, struct tag *ret_tag)
{
    struct known known = {0};
    struct anchor_place place;

    if (!walk->thread) {
        *ret_tag = (struct tag){.path = "", .size = size, .device = device};
        return -EAGAIN;
    }
    count_one(&asked);
    if (walk->known)
        take_known(walk->known, &known);
    else if (walk->depth != 0)
        look_up_walk(walk, &known);
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
    unwind_fn unwind = begin(&walk, UINT64_MAX, false);

    walk.from = (struct walkmemo_from){
            .caller = (uintptr_t)__builtin_return_address(0)}; /* no sp: not to be noted */
    walk.found = unwind ? unwind(walk.ips, (int)walk.depth) : 0;
    if (!walk.thread)
        return 0;
    if (walk.depth != 0)
        look_up_walk(&walk, &known);
    walk.thread->in_where = false;
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

    /* READY may turn into REFUSED later, never back. */
    if (!has_python || !pyframe_is_news(before)
            || !atomic_compare_exchange_strong(&python_told, &before, (uint32_t)state))
        return NULL;
    *ret_refused = state == PYFRAME_REFUSED;
    return pyframe_text();
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
    unwind_code_unloaded();
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
            .asked = atomic_load_explicit(&asked, memory_order_relaxed),
            .memo_hits = atomic_load_explicit(&memo_hits, memory_order_relaxed)
                    + atomic_load_explicit(&known_walks, memory_order_relaxed),
            .known_walks = atomic_load_explicit(&known_walks, memory_order_relaxed),
            .stacks_lost = atomic_load_explicit(&stacks_lost, memory_order_relaxed),
            .stacks_cut = atomic_load_explicit(&stacks_cut, memory_order_relaxed),
            .long_walks = unwind_long_walks(),
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

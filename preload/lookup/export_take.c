/* SPDX-License-Identifier: MIT */
/* Decides which library's function an export stands for, and finds that function again. */
#include "preload/base/exports.h"
#include "preload/base/guard.h"
#include "preload/base/linked.h"
#include "preload/base/msg.h"
#include "preload/base/threadmem.h"
#include "preload/caller/variables.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

_Atomic(uint64_t) export_closes;
static struct export_memo no_memos[EXPORT_MEMOS]; /* never written */
__thread struct export_memo *export_memos = no_memos;

#define UNDER_WAY UINT64_C(0xffffffff) /* part of export_closes */

void export_close_begins(void)
{
    atomic_fetch_add(&export_closes, 1);
}

void export_close_ends(void)
{
    atomic_fetch_add(&export_closes, UNDER_WAY);
}

void export_fork_child(void)
{
    atomic_fetch_and(&export_closes, ~UNDER_WAY);
}

/* A signal handler that calls meanwhile finds another caller's entry, or none. */
static void export_take_remember(struct export_memo known)
{
    struct export_memo *memo;

    if (export_memos == no_memos
            && !threadmem_make(&export_memos, EXPORT_MEMOS * sizeof *export_memos))
        return;
    memo = export_memo(known.caller, known.ours);
    memo->caller = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    memo->ours = known.ours;
    memo->real = known.real;
    memo->closes = known.closes;
    atomic_signal_fence(memory_order_seq_cst);
    memo->caller = known.caller;
}

/* Keeps the object that contains an address loaded for good. */
static void export_take_keep(const void *address)
{
    Dl_info info;

    if (address && dladdr(address, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void *export_beside(const void *real, const char *name)
{
    return linked_for(real, name).own;
}

/*
 * The next definition after kedge in the global scope; clears the loader's error, since the program
 * did not ask.
 */
static void *export_take_next_of(const char *name)
{
    void *found = resolve_next(name);

    /* as in resolve.c, the message is the thread's own */
    if (!found)
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe) */
    return found && linked_is_code(found) ? found : NULL;
}

/*
 * A definition after kedge in the global scope that is not the library itself, as of another
 * preload: it takes part in each call, as without kedge. Libraries linked at the start stay where
 * they are, so this is looked up once.
 */
static void *next_preload(
        const struct export_library *library, struct export *export, const char *name)
{
    static char none;
    void *next = atomic_load_explicit(&export->preload, memory_order_acquire);

    if (!next) {
        next = export_take_next_of(name);
        if (!next || linked_is_in(next, library->base))
            next = &none;
        atomic_store_explicit(&export->preload, next, memory_order_release);
    }
    return next == &none ? NULL : next;
}

static void *export_take_find(const struct export_library *library, struct export *export,
        const char *name, const void *ours, const void *caller)
{
    void *known = atomic_load_explicit(&export->real, memory_order_acquire);
    struct linked linked = linked_for(caller, name);
    bool is_given = atomic_load_explicit(&export->is_given, memory_order_acquire);
    bool is_by_name = !is_given || (linked.calls && !linked.is_program);
    void *found = NULL;

    if (linked.is_earlier)
        found = export_take_next_of(name);
    else if (is_by_name)
        found = next_preload(library, export, name);
    if (!found && !(is_given && linked.is_program))
        found = linked.own;
    if (!found && is_by_name)
        found = export_take_next_of(name);
    if (!found && is_by_name)
        found = linked.users;
    if (!found)
        found = known ? known : linked_in(library->base, name);
    if (!known && found && atomic_compare_exchange_strong(&export->real, &known, found))
        export_take_keep(found);
    return found == ours ? NULL : found;
}

void *export_search(const struct export_library *library, struct export *export, const char *name,
        const void *ours, const void *caller)
{
    uint64_t now = atomic_load_explicit(&export_closes, memory_order_acquire);
    void *found;

    guard_push();
    found = export_take_find(library, export, name, ours, caller);
    guard_pop();
    if (found && (now & UNDER_WAY) == 0)
        export_take_remember((struct export_memo){caller, ours, found, now});
    return found;
}

void *export_take(struct export_library *library, struct export *export, void *handle,
        const char *name, void *ours)
{
    void *none = NULL;
    void *found;

    if (!life_is_wanted())
        return NULL;
    found = handle == RTLD_DEFAULT ? ours : resolve_real_dlsym()(handle, name);
    if (found == ours) /* in the global scope: a name that only kedge exports must not be found */
        return resolve_next(name) && !variables_stands_next(name) ? NULL : RESOLVE_HIDE;
    if (!found || !linked_is_code(found))
        return NULL;
    if (atomic_compare_exchange_strong(&export->real, &none, found))
        export_take_keep(found);
    if (!none || none == found) {
        atomic_store_explicit(&export->is_given, true, memory_order_release);
        return ours;
    }
    if (!atomic_exchange(&library->is_second_told, true))
        msg_warn("a second %s is loaded, which is not watched", library->base);
    return NULL;
}

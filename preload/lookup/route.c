/* SPDX-License-Identifier: MIT */
#include "preload/lookup/route.h"

#include "preload/base/exports.h"
#include "preload/base/linked.h"
#include "preload/base/mark.h"
#include "preload/base/msg.h"
#include "preload/caller/coverage.h"
#include "preload/caller/variables.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* One row of hooks.def. */
struct route_row {
    const char *name; /* as cuGetProcAddress knows it */
    int from, to;     /* from <= version < to; to 0 = no end */
    unsigned per_thread;
    void *ours;
};

/* A function's address as data: ISO C has no conversion, POSIX demands one. */
#define HOOK(symbol, name, from, to, per_thread, family, params) \
    [SLOT_##symbol] = {name, from, to, per_thread, (void *)(symbol)},
static const struct route_row rows[SLOT_HOOKS] = {
#include "preload/base/hooks.def"
};

void *route_hook(enum resolve_slot slot)
{
    return rows[slot].ours;
}

/* ---- cuGetProcAddress ----------------------------------------------------------------------- */

/*
 * A row without an end answers up to the newest headers that kedge was compared with: a later form
 * of the name may take other arguments (R100, versions of rows).
 */
static bool row_answers(const struct route_row *row, const char *name, int version)
{
    return strcmp(row->name, name) == 0 && version >= row->from
            && (row->to == 0 ? version <= HOOKS_NEWEST : version < row->to);
}

/* The row for (name, version, flags): its per-thread form if that was asked for and exists. */
static int slot_of_request(const char *name, int version, cuuint64_t flags)
{
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    int plain = -1;

    for (int slot = 0; slot < SLOT_HOOKS; slot++) {
        if (!row_answers(&rows[slot], name, version))
            continue;
        if ((rows[slot].per_thread != 0) == per_thread)
            return slot;
        if (!rows[slot].per_thread)
            plain = slot;
    }
    return plain;
}

/*
 * The row that this is the driver's function or the hook of: a library that is not bound to its own
 * symbols hands out the hook. `name` decides if several symbols share a function.
 */
static int slot_of_pointer(const void *fn, const char *name)
{
    int found = -1;

    for (int slot = 0; slot < SLOT_HOOKS; slot++) {
        if (!resolve_is_own((enum resolve_slot)slot, fn) && rows[slot].ours != fn)
            continue;
        if (strcmp(rows[slot].name, name) == 0)
            return slot;
        if (found < 0)
            found = slot;
    }
    return found;
}

/* Whether this is the start of a function that the driver exports, under any name. */
static bool is_exported(const void *fn)
{
    Dl_info info;

    return resolve_in_driver(fn) && dladdr(fn, &info) && info.dli_sname && info.dli_saddr == fn;
}

/*
 * The row of a request whose answer is no row's own function. If that answer is an exported
 * function, hooks.def does not have it (a form of a later driver, for example), and only the driver
 * knows its arguments (R100).
 */
static int slot_by_name(const char *name, int version, cuuint64_t flags, const void *fn)
{
    int slot = slot_of_request(name, version, flags);

    return slot >= 0 && is_exported(fn) ? -1 : slot;
}

void route_answer(const char *name, int version, cuuint64_t flags, void **pfn)
{
    int slot = slot_of_pointer(*pfn, name);

    if (slot < 0) {
        slot = slot_by_name(name, version, flags, *pfn);
        if (slot < 0) {
            if (coverage_is_memory(name))
                coverage_unhooked(name);
            return;
        }
        /*
         * The driver returns another address than its symbol has; it is still this row's function.
         */
        resolve_adopt((enum resolve_slot)slot, *pfn);
    }
    resolve_note((enum resolve_slot)slot, ROUTE_GPA);
    *pfn = rows[slot].ours;
}

/* ---- dlsym ---------------------------------------------------------------------------------- */

static void warn_second_driver(const void *fn)
{
    static atomic_bool is_told;
    Dl_info info;

    if (atomic_exchange(&is_told, true))
        return;
    if (!dladdr(fn, &info) || !info.dli_fname || !resolve_is_driver_name(info.dli_fname))
        return;
    mark_driver(*resolve_driver_path() == '\0');
    if (*resolve_driver_path() == '\0')
        msg_warn("the driver %s is loaded in a namespace of its own (dlmopen): not watched, "
                 "passing through",
                info.dli_fname);
    else
        msg_warn("a second driver, %s, is loaded beside %s: not watched, passing through",
                info.dli_fname, resolve_driver_path());
}

/*
 * Whether our export of that name stands for a real function: a hook, if the driver has its
 * function.
 */
static bool stands_for(int slot)
{
    return slot < 0 || (resolve_ready() && resolve_driver_exports((enum resolve_slot)slot));
}

void *route_dlsym(void *handle, const char *name)
{
    int slot = resolve_slot(name);
    void *fn;

    if (slot < 0)
        return NULL;
    fn = resolve_look_up(handle, name);
    if (!fn)
        return NULL;
    if (fn == rows[slot].ours) /* dlopen(NULL): our own export came first */
        return resolve_next(name) && stands_for(slot) && !variables_stands_next(name)
                ? fn
                : RESOLVE_HIDE;
    (void)resolve_bind(fn);
    if (!resolve_is_own((enum resolve_slot)slot, fn)) {
        warn_second_driver(fn);
        return NULL;
    }
    resolve_note((enum resolve_slot)slot, ROUTE_DLSYM);
    (void)resolve_look_up(handle, name); /* leaves no error of ours behind for dlerror() */
    return rows[slot].ours;
}

static bool is_runtime_memory(const char *name)
{
    return strncmp(name, "cudaMalloc", 10) == 0 || strncmp(name, "cudaFree", 8) == 0
            || strncmp(name, "cudaHostAlloc", 13) == 0;
}

bool route_notes(const char *name)
{
    return is_runtime_memory(name) || coverage_is_memory(name);
}

void route_note_unwatched(void *handle, const char *name)
{
    const void *fn = resolve_look_up(handle, name);

    if (fn && is_runtime_memory(name))
        coverage_runtime(name);
    else if (fn && resolve_ready() && resolve_in_driver(fn))
        coverage_unhooked(name);
}

void *route_instead(void *handle, const char *name, const void *caller, bool is_wanted)
{
    int slot = resolve_slot(name);
    struct linked linked;
    void *found;

    if (!resolve_exports(name)
            || !resolve_is_ours(resolve_look_up(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, name)))
        return NULL;
    if (handle == RTLD_DEFAULT
            && linked_before_us(name)) /* kedge's own look-up finds kedge first (DT_SYMBOLIC) */
        return NULL;
    linked = linked_for(caller, name);
    if (handle == RTLD_NEXT && !linked.is_program && !linked.is_earlier)
        return NULL; /* the next definition for an object after kedge is not kedge's */
    found = resolve_next(name);
    if (!found && handle == RTLD_DEFAULT) /* the scope that the caller was opened in */
        found = linked.own ? linked.own : linked.users;
    if (!found)
        return RESOLVE_HIDE;
    return is_wanted && stands_for(slot) && !variables_stands_next(name) ? NULL : found;
}

/* SPDX-License-Identifier: MIT */
#include "preload/caller/coverage.h"

#include "preload/base/elfsym.h"
#include "preload/base/msg.h"
#include "preload/caller/bypass.h"
#include "preload/driver/contexts.h"
#include "tracker/base/config.h"
#include "tracker/capture/capture.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/anchor.h"
#include "tracker/where/where.h"

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    NAMES_MAX = 192,
    NAME_BYTES = 56,
    /*
     * After something was opened or closed, this many requests of a thread ask the loader; others
     * are this far apart.
     */
    LOOKS_OFTEN = 16,
    LOOKS_APART = 1024,
};

enum name_state {
    NAME_FREE,
    NAME_CLAIMED,
    NAME_THERE,
};

/*
 * A name that was handed out without a hook. Two threads may enter the same name; the reader merges
 * them.
 */
struct name {
    atomic_int state;
    _Atomic(uint64_t) count;
    _Atomic(uint64_t) told; /* only saves repeated records */
    const char *route;      /* fixed once it is set, like the text */
    char text[NAME_BYTES];
};

static struct name names[NAMES_MAX];

static const char unhooked_route[] = "unhooked";

bool coverage_is_memory(const char *name)
{
    static const char *const beginnings[] = {"cuMem", "cuArray", "cuMipmappedArray", "cuIpc",
            "cuMulticast", "cuImportExternalMemory", "cuExternalMemory", "cuGraphAddMem",
            "cuGraphMem", "cuLaunch", "cuTexRefSetAddress", "cuGraphicsResourceGetMappedPointer"};

    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* NULL: the table is full. *ret_new: this call entered the name. */
static struct name *coverage_enter(const char *text, const char *route, bool *ret_new)
{
    *ret_new = false;
    for (int i = 0; i < NAMES_MAX; i++) {
        int state = NAME_FREE;

        if (atomic_compare_exchange_strong(&names[i].state, &state, NAME_CLAIMED)) {
            strncpy(names[i].text, text, NAME_BYTES - 1);
            names[i].route = route;
            atomic_store_explicit(&names[i].state, NAME_THERE, memory_order_release);
            *ret_new = true;
            return &names[i];
        }
        if (state == NAME_THERE && names[i].route == route
                && strncmp(names[i].text, text, NAME_BYTES - 1) == 0)
            return &names[i];
    }
    return NULL;
}

static void coverage_note(const char *text, const char *route)
{
    bool is_new;
    struct name *name = coverage_enter(text, route, &is_new);

    if (!name)
        return;
    atomic_fetch_add_explicit(&name->count, 1, memory_order_relaxed);
    if (is_new)
        resolve_tell_news();
}

void coverage_unhooked(const char *name)
{
    coverage_note(name, unhooked_route);
}

void coverage_runtime(const char *name)
{
    coverage_note(name, "dlsym");
}

/* ---- the loader ----------------------------------------------------------------------------- */

struct counts {
    unsigned long long adds, subs;
};

static int read_counts(struct dl_phdr_info *info, size_t size, void *data)
{
    struct counts *counts = data;

    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        counts->adds = info->dlpi_adds;
        counts->subs = info->dlpi_subs;
    }
    return 1; /* the counts are the same in every object's record */
}

static void note_wanted(const char *name)
{
    if (name[0] == 'c' && name[1] == 'u' && coverage_is_memory(name) && !resolve_knows(name))
        coverage_unhooked(name);
}

static struct link_map as_link_map(const struct dl_phdr_info *info)
{
    struct link_map object = {.l_addr = info->dlpi_addr};

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            object.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return object;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct link_map object = as_link_map(info);

    (void)size;
    (void)data;
    if (object.l_ld)
        elfsym_each_wanted(&object, note_wanted);
    return 0;
}

/*
 * Memory functions that libraries link and that kedge does not export reach the driver without a
 * look-up.
 */
static void tell_linked(void)
{
    (void)dl_iterate_phdr(look_at_object, NULL);
}

static int find_interpreter(struct dl_phdr_info *info, size_t size, void *data)
{
    struct link_map object = as_link_map(info);

    (void)size;
    (void)data;
    return object.l_ld && elfsym_may_have(&object, "PyGILState_GetThisThreadState") ? 1 : 0;
}

/*
 * A framework that caches: its segments would be taken for tensors. One line for each, when it is
 * found.
 */
static void tell_frameworks(void)
{
    static atomic_uint told;
    struct bypass_caching caching;
    char setting[48];

    for (unsigned i = 0; bypass_caching_framework(i, &caching) >= 0; i++) {
        if (!caching.is_on || (atomic_fetch_or(&told, 1U << i) & 1U << i))
            continue;
        if (!config_env(environ, CONFIG_CACHED))
            msg_warn("%s %s: what follows are its segments, not tensors; set %s", caching.name,
                    caching.is_certain ? "caches memory by itself" : "may cache memory by itself",
                    caching.advice);
        (void)snprintf(setting, sizeof setting, "framework-pool.%s", caching.name);
        (void)capture_setting(setting, caching.advice);
        (void)snprintf(setting, sizeof setting, "framework-library.%s", caching.name);
        (void)capture_setting(setting, caching.library);
    }
}

__thread struct coverage_turn coverage_turn;

/*
 * Whether this thread must ask the loader now. After an export of the loader's was used, at each of
 * the next requests, because the object that is being opened is there only when that call returns.
 * Now and then in any case, for callers that do not use our exports. Always, once code was unloaded
 * that stack walks went through.
 */
static bool is_turn(void)
{
    struct coverage_turn *turn = &coverage_turn;
    unsigned epoch = atomic_load_explicit(&context_epoch, memory_order_acquire);

    if (turn->epoch != epoch) {
        turn->epoch = epoch;
        turn->often = LOOKS_OFTEN;
    }
    if (turn->often == 0 && turn->seldom > 0 && !where_code_has_gone()) {
        turn->seldom--;
        return false;
    }
    if (turn->often > 0)
        turn->often--;
    turn->seldom = LOOKS_APART;
    return true;
}

void coverage_look(void)
{
    static _Atomic(unsigned long long) adds, subs;
    struct counts now = {0, 0};
    unsigned long long before;

    if (!is_turn())
        return;
    (void)dl_iterate_phdr(read_counts, &now);
    bypass_loader_says(now.adds + now.subs);
    if (atomic_load_explicit(&subs, memory_order_acquire) != now.subs) {
        where_modules_changed(); /* an address may belong to another function now */
        /*
         * Stored only now: a thread that sees the new count must not walk before the caches are
         * cleared. Twice is harmless.
         */
        atomic_store_explicit(&subs, now.subs, memory_order_release);
    }
    before = atomic_load_explicit(&adds, memory_order_acquire);
    if (before == now.adds)
        return;
    if (where_code_has_gone())
        /*
         * a new object may lie where an old one was; called before the number is stored, as above
         */
        where_modules_came();
    if (atomic_exchange(&adds, now.adds) != now.adds) {
        if (before == 0)
            tell_linked();
        /* Only then ask the loader: another thread may hold its lock and wait for this one. */
        if (dl_iterate_phdr(find_interpreter, NULL))
            where_library_opened();
        tell_frameworks();
    }
}

/* ---- records for the capture --------------------------------------------------------------- */

static void tell_count(const char *name, const char *route, uint64_t count, _Atomic(uint64_t) *told)
{
    if (count > 0 && atomic_exchange_explicit(told, count, memory_order_relaxed) != count)
        (void)capture_coverage(name, route, count);
}

static void tell_hooks(void)
{
    static const char *const routes[ROUTE_COUNT] = {[ROUTE_DLSYM] = "dlsym",
            [ROUTE_GPA] = "cuGetProcAddress",
            [ROUTE_CALLED] = "called",
            [ROUTE_LINKED] = "symbol"};
    static _Atomic(uint64_t) told[SLOT_HOOKS][ROUTE_COUNT];

    uint64_t count[ROUTE_COUNT];

    for (int slot = 0; slot < SLOT_HOOKS; slot++) {
        if (!resolve_counts((enum resolve_slot)slot, count))
            continue;
        for (int route = 0; route < ROUTE_COUNT; route++)
            tell_count(resolve_symbol((enum resolve_slot)slot), routes[route], count[route],
                    &told[slot][route]);
    }
}

static void tell_exports(void)
{
    static _Atomic(uint64_t) told[EXPORT_COUNT];

    for (int export = 0; export < EXPORT_COUNT; export ++)
        tell_count(resolve_export_name((enum resolve_export) export), "symbol",
                resolve_export_count((enum resolve_export) export), &told[export]);
}

static void tell_names(void)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        uint64_t count = atomic_load_explicit(&names[i].count, memory_order_relaxed);

        if (atomic_load_explicit(&names[i].state, memory_order_acquire) != NAME_THERE)
            continue;
        tell_count(names[i].text, names[i].route, count, &names[i].told);
    }
}

/*
 * At the first loss, at each doubling and at the end: a definition in the capture is never removed.
 */
static void tell_loss(const char *name, uint64_t now, _Atomic(uint64_t) *told, bool ends)
{
    uint64_t before = atomic_load_explicit(told, memory_order_relaxed);
    char text[24];

    if (now == before || (now < 2 * before && !ends)
            || !atomic_compare_exchange_strong(told, &before, now))
        return;
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)now);
    (void)capture_setting(name, text);
}

/* Other losses: unknown, or without room. */
static void coverage_tell_losses(bool ends)
{
    static _Atomic(uint64_t) told[4];
    struct where_stats where;
    struct intern_counts counts;

    where_stats(&where);
    intern_counts(&counts);
    tell_loss("stacks_lost", where.stacks_lost, &told[0], ends);
    tell_loss("nth_lost", where.nth_lost, &told[1], ends);
    tell_loss("anchors_lost", anchor_lost(), &told[2], ends);
    tell_loss("names_lost", counts.refused, &told[3], ends);
}

void coverage_tell(bool ends)
{
    static _Atomic(uint64_t) cut_told;
    bool news = resolve_coverage_news();

    tell_loss("stacks_cut", where_stacks_cut(), &cut_told, ends);
    if (!news && !ends)
        return;
    if (ends)
        tell_linked(); /* including objects that were loaded later */
    tell_hooks();
    tell_exports();
    tell_names();
    coverage_tell_losses(ends);
}

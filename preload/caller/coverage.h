/* SPDX-License-Identifier: MIT */
/*
 * coverage.h - the calls that kedge saw and those it missed, so that a report can say what it is
 * based on.
 *
 *     resolve.c  look-ups and calls per hook, by route ─┐
 *     look-ups   memory functions without a hook ──────┼─► coverage records ─► kedge report
 *     loader     frameworks with a pool of their own ──┘   and one line on stderr
 *
 * A hook counts as called each time it acted; hooks that only check arguments while hints act are
 * counted where they were handed out. Records are written when something new appears, less and less
 * often, and at the end: after a kill the last counts may be missing, but no route and no name.
 *
 * The loader is asked whether objects were loaded or unloaded (two counts): an address may belong
 * to another function now, and a framework may be loaded. It is asked after one of its exports was
 * used (export_dlopen.c) and now and then, because asking takes its lock.
 *
 * Threads: any. Writes to the capture, so no lock of ours may be held. Memory: static, bounded.
 */
#ifndef KEDGE_PRELOAD_COVERAGE_H
#define KEDGE_PRELOAD_COVERAGE_H

#include "preload/driver/contexts.h"
#include "preload/driver/resolve.h"
#include "tracker/where/where.h"

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Whether a driver function of that name concerns memory: allocates, frees, maps, shares, copies,
 * sets or names it, or launches work that uses it.
 */
bool coverage_is_memory(const char *name);

/* Such a function was handed out and kedge has no hook for it. Once per name. */
void coverage_unhooked(const char *name);

/*
 * An allocating function of the runtime was handed out; kedge sees its effect below, in the driver.
 */
void coverage_runtime(const char *name);

/*
 * At every request: handles objects that were loaded or unloaded since the last one. Usually a few
 * thread-local loads.
 */
void coverage_look(void);

/* A thread's countdown to its next look. */
struct coverage_turn {
    unsigned epoch;         /* context_epoch */
    unsigned often, seldom; /* requests that look, and then those until the next that does */
};
extern __thread struct coverage_turn coverage_turn __attribute__((tls_model("initial-exec")));

/*
 * True: a request of this thread may skip coverage_look and coverage_tell; counts it as one that
 * did not look.
 */
static inline bool coverage_is_quiet(void)
{
    if (coverage_turn.epoch != atomic_load_explicit(&context_epoch, memory_order_acquire)
            || coverage_turn.often > 0 || coverage_turn.seldom == 0 || resolve_has_news()
            || where_code_has_gone())
        return false;
    coverage_turn.seldom--;
    return true;
}

/* Records what is new; everything when the program ends. */
void coverage_tell(bool ends);

#endif

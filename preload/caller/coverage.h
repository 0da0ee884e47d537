/* SPDX-License-Identifier: MIT */
/*
 * coverage.h - which calls kedge saw and which it did not, so that a report can say what it is based on.
 *
 *     resolve.c   look-ups and calls per hook, by route ─┐
 *     look-ups    memory functions that are no hooks ────┼─► coverage records of the capture ─► kedge report
 *     the loader  frameworks with a pool of their own ───┘   and one line on stderr
 *
 * A hook is "called" as often as it acted; hooks that only look at arguments while hints act are counted where they were
 * handed out. Written when something new appears, less and less often, and at the end: after a kill the last counts may be
 * missing, but no route and no name.
 *
 * The loader is asked whether objects came or went (two numbers of it): an address may mean another function now, and a
 * framework may have come. Only where one of its exports was used (export_dlopen.c), and now and then: to ask is to take its lock.
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

/* Whether a driver function of that name has to do with memory: allocates, frees, maps, shares, copies, sets or names it, or
 * launches what uses it. */
bool coverage_is_memory(const char *name);

/* Such a function was handed out and is no hook of ours. Once per name. */
void coverage_unhooked(const char *name);

/* An allocating function of the runtime was handed out; what it does is seen below, in the driver. */
void coverage_runtime(const char *name);

/* At every request: objects that came or went since the last one are looked at. As a rule a few loads of the thread's own. */
void coverage_look(void);

/* What a thread knows of its next look. */
struct coverage_turn {
    unsigned epoch;         /* context_epoch */
    unsigned often, seldom; /* requests that look, and then those until the next that does */
};
extern __thread struct coverage_turn coverage_turn __attribute__((tls_model("initial-exec")));

/* True: a request of this thread may do without coverage_look and coverage_tell. Counts as one that did not look. */
static inline bool coverage_is_quiet(void)
{
    if (coverage_turn.epoch != atomic_load_explicit(&context_epoch, memory_order_acquire)
            || coverage_turn.often > 0 || coverage_turn.seldom == 0 || resolve_has_news()
            || where_code_has_gone())
        return false;
    coverage_turn.seldom--;
    return true;
}

/* Writes down what is new; all of it when the program ends. */
void coverage_tell(bool ends);

#endif

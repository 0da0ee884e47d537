/* SPDX-License-Identifier: MIT */
#include "preload/graph/launches.h"

#include "alloc/base/table.h"
#include "preload/anchors/source.h"
#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/graph/graphkernels.h"
#include "preload/graph/kernelnames.h"
#include "preload/hints/hints_run.h"
#include "preload/request/dispatch.h"
#include "preload/request/submit.h"
#include "tracker/base/config.h"
#include "tracker/capture/capture.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/anchor.h"
#include "tracker/where/loglines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    GROUPS = 32, /* after the groups of the patterns of lines */
    NAME_ROOM = 32,
    BATCH = 32,
};

_Static_assert(LOGLINES_MAX + GROUPS <= ANCHOR_GROUP_PYTHON, "groups of anchors");

FORKLOCK(lock);

/* The number of a handle. */
struct number {
    uint64_t handle;
    uint64_t number; /* counts from 1 */
};

/* guarded by lock: */
static struct table captures = TABLE_OF(struct number);  /* by stream */
static struct table instances = TABLE_OF(struct number); /* by CUgraphExec */
/* captures that have ended while their anchors are open */
static struct table gone = TABLE_OF(struct number);
static uint64_t capture_count, instance_count;

static atomic_bool has_gone;

/* fixed by launches_start: */
static bool wants_graphs;
static bool wants_launches;

static _Atomic uint32_t labels;

/* ---- numbers -------------------------------------------------------------------------------- */

/* 0 = no memory. */
static uint64_t number_put(struct table *table, uint64_t handle, uint64_t *count)
{
    struct number *entry;
    uint64_t number = 0;

    lock_take(&lock);
    entry = table_add(table, handle);
    if (entry)
        number = entry->number = ++*count;
    lock_drop(&lock);
    return number;
}

/* 0 = unknown. */
static uint64_t number_get(struct table *table, uint64_t handle, bool remove)
{
    struct number *entry;
    uint64_t number;

    lock_take(&lock);
    entry = table_find(table, handle);
    number = entry ? entry->number : 0;
    if (remove)
        (void)table_remove(table, entry);
    lock_drop(&lock);
    return number;
}

static void number_move(struct table *table, uint64_t from, uint64_t to)
{
    uint64_t number = number_get(table, from, true);
    struct number *entry;

    if (!number)
        return;
    lock_take(&lock);
    entry = table_add(table, to);
    if (entry)
        entry->number = number;
    lock_drop(&lock);
}

static void label(const char *name)
{
    uint32_t count = atomic_fetch_add_explicit(&labels, 1, memory_order_relaxed);

    if (count < LAUNCHES_LABELS_MAX) {
        source_label(NULL, name);
        return;
    }
    atomic_store_explicit(&labels, LAUNCHES_LABELS_MAX + 1, memory_order_relaxed);
    if (count == LAUNCHES_LABELS_MAX && life_begin_edge()) {
        (void)capture_note(1, "launches are no anchors from here on: there were too many");
        life_leave();
    }
}

void launches_start(void)
{
    const struct config_value *kernel = config_key(life_config(), CONFIG_ANCHORS, "kernel");

    wants_graphs = source_wants(SOURCE_GRAPHS);
    wants_launches = source_wants(SOURCE_LAUNCHES);
    if (wants_launches || hints_run_waits(EDGE_LAUNCH))
        guard_set(GUARD_LAUNCHES);
    if (hints_run_waits(EDGE_LAUNCH) && !REAL_HAS(cuFuncGetName))
        msg_warn("KEDGE_HINTS: launch needs driver 12.3, which tells the names of kernels; no such "
                 "event comes");
    if (!source_wants(SOURCE_KERNELS) || !kernel)
        return;
    if (!REAL_HAS(cuFuncGetName)) {
        msg_warn("KEDGE_ANCHORS: kernel= needs driver 12.3, which tells the names of kernels; "
                 "ignored");
        return;
    }
    kernelnames_list(kernel->text);
    guard_set(GUARD_LAUNCHES);
}

/* ---- captures ------------------------------------------------------------------------------- */

static uint32_t launches_group_of(uint64_t number)
{
    return (uint32_t)(LOGLINES_MAX + number % GROUPS);
}

void launches_capture_begins(uint64_t stream)
{
    char name[NAME_ROOM] = "capture:later";
    uint64_t number = wants_graphs ? number_put(&captures, stream, &capture_count) : 0;

    if (number == 0)
        return;
    if (number <= LAUNCHES_CAPTURES_MAX)
        (void)snprintf(name, sizeof name, "capture:%lu", (unsigned long)number - 1);
    source_enter_group(launches_group_of(number), name, strlen(name));
}

void launches_capture_ends(uint64_t stream)
{
    uint64_t number = wants_graphs ? number_get(&captures, stream, true) : 0;

    if (number)
        source_leave_group(launches_group_of(number), NULL, 0);
}

void launches_capture_move(uint64_t from, uint64_t to)
{
    if (wants_graphs)
        number_move(&captures, from, to);
}

void launches_capture_gone(uint64_t stream)
{
    uint64_t number = wants_graphs ? number_get(&captures, stream, true) : 0;

    if (!number)
        return;
    lock_take(&lock);
    (void)table_add(&gone, number);
    lock_drop(&lock);
    atomic_store(&has_gone, true);
}

void launches_leave_gone(void)
{
    struct number *entry;
    uint64_t number;

    if (!atomic_exchange(&has_gone, false))
        return;
    do {
        lock_take(&lock);
        entry = table_next(&gone, NULL);
        number = entry ? entry->handle : 0;
        (void)table_remove(&gone, entry);
        lock_drop(&lock);
        if (number)
            source_leave_group(launches_group_of(number), NULL, 0);
    } while (number);
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* Whether the call is captured into a graph. Then nothing runs before the graph does. */
static bool is_captured(CUstream stream, bool per_thread)
{
    bool is_it;

    if (!guard_has(GUARD_CAPTURING) || stream == SUBMIT_NO_STREAM)
        return false;
    guard_push();
    is_it = stream_is_captured(stream_named(stream, per_thread));
    guard_pop();
    return is_it;
}

void launches_made(uint64_t exec)
{
    if (wants_launches)
        (void)number_put(&instances, exec, &instance_count);
}

void launches_gone(uint64_t exec)
{
    if (wants_launches)
        (void)number_get(&instances, exec, true);
}

void launches_move(uint64_t from, uint64_t to)
{
    if (wants_launches)
        number_move(&instances, from, to);
}

void launches_graph(CUgraphExec exec, CUstream stream, bool per_thread)
{
    uint64_t number;
    char name[NAME_ROOM];

    if (!wants_launches || guard_depth() > 0 || is_captured(stream, per_thread))
        return;
    number = number_get(&instances, (uint64_t)(uintptr_t)exec, false);
    if (number == 0)
        return;
    (void)snprintf(name, sizeof name, "graph:%lu", (unsigned long)number - 1);
    label(name);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Records it, so that predictions have it for hints that would wait for it. */
static void launches_note(const char *name)
{
    struct capture_call_info info = {.is_launch = true, .name = name, .peer = -1};

    if (!life_begin_edge())
        return;
    info.seq = session_seq();
    session_report(capture_call(&info));
    life_leave();
}

/* Reports a kernel that is launched next. */
static void launches_tell(const char *name)
{
    struct edge event;

    if (!hints_run_waits(EDGE_LAUNCH) || kernelnames_is_listed(name))
        label(name);
    launches_note(name);
    if (!source_event(EDGE_LAUNCH, &event) || !life_begin_edge())
        return;
    event.name = name;
    dispatch_event(&event, NULL, 0, NULL);
    life_leave();
}

/* Names of kernels are wanted. A function of its own, so that other launches save no registers. */
__attribute__((noinline)) static bool name_launch(
        CUfunction function, CUstream stream, bool per_thread)
{
    bool is_event, unused;
    uint32_t name;

    if (!kernelnames_are_wanted() || guard_depth() > 0 || !function)
        return false;
    name = kernelnames_of(function, &unused);
    if (!name || is_captured(stream, per_thread))
        return false;
    is_event = submit_event_begin();
    launches_tell(intern_text(name));
    return is_event;
}

bool launches_kernel(CUfunction function, CUstream stream, bool per_thread)
{
    return (kernelnames_are_listed() || hints_run_waits(EDGE_LAUNCH))
            && name_launch(function, stream, per_thread);
}

__attribute__((noinline)) static bool name_graph(CUgraphExec exec, CUstream stream, bool per_thread)
{
    uint32_t names[BATCH];
    size_t all = 0;
    size_t count;
    bool is_event;

    if (!kernelnames_are_wanted() || guard_depth() > 0 || is_captured(stream, per_thread))
        return false;
    is_event = submit_event_begin();
    do {
        count = graphkernels_names(exec, all, names, BATCH);
        for (size_t i = 0; i < count; i++)
            launches_tell(intern_text(names[i]));
        all += count;
    } while (count == BATCH);
    return is_event;
}

bool launches_graph_begins(CUgraphExec exec, CUstream stream, bool per_thread)
{
    return (kernelnames_are_listed() || hints_run_waits(EDGE_LAUNCH))
            && name_graph(exec, stream, per_thread);
}

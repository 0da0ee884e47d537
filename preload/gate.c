/* SPDX-License-Identifier: MIT */
#include "preload/gate.h"

#include "preload/forklock.h"
#include "preload/guard.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum {
    /* A fence call takes microseconds, unless the driver holds it up: a queue that is full takes no event. Then it stands
     * in the driver, and the capture cannot come before it any more. */
    GATE_FENCE_MS = 500,
    GATE_DRAIN_MS = 20, /* until a drain that is about to enter the driver is there */
    GATE_YIELDS = 64,   /* before the processor is left to others for longer */
    /* whose streams are known; one more is counted and ends with its context or never */
    GATE_CAPTURES = 64,
};

/* Low half: fence calls in flight. High half: captures pending or running. */
#define GATE_CAPTURE (UINT64_C(1) << 32)

static _Atomic(uint64_t) gate_word;
static _Atomic(uint32_t) gate_drains;

FORKLOCK(gate_lock);
static struct {
    uint64_t stream;
    uint64_t context;
    uint64_t graph;
    bool used;
} gate_running[GATE_CAPTURES]; /* guarded by gate_lock */

/* After each change of the count; the last of two that meet sees both. */
static void tell_guard(void)
{
    lock_take(&gate_lock);
    if (gate_captures() > 0)
        guard_set(GUARD_CAPTURING);
    else
        guard_clear(GUARD_CAPTURING);
    lock_drop(&gate_lock);
}

static bool is_entered(void)
{
    return (uint32_t)atomic_load(&gate_word) != 0 || atomic_load(&gate_drains) != 0;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What stands in the gate for longer than this waits for the device, perhaps for what the program does after the begin. */
static void wait_for_entered(void)
{
    const struct timespec pause = {0, 50000};
    uint64_t start = now_ms();
    uint64_t waited = 0;

    for (unsigned i = 0; is_entered() && waited < GATE_FENCE_MS; i++) {
        if (waited >= GATE_DRAIN_MS && (uint32_t)atomic_load(&gate_word) == 0)
            return;
        if (i < GATE_YIELDS)
            (void)sched_yield();
        else
            (void)nanosleep(&pause, NULL);
        waited = now_ms() - start;
    }
}

void gate_begin_enter(void)
{
    atomic_fetch_add(&gate_word, GATE_CAPTURE);
    tell_guard();
    if (is_entered())
        wait_for_entered();
}

static void remember(uint64_t stream, uint64_t context, uint64_t graph)
{
    lock_take(&gate_lock);
    for (int i = 0; i < GATE_CAPTURES; i++) {
        if (gate_running[i].used)
            continue;
        gate_running[i].used = true;
        gate_running[i].stream = stream;
        gate_running[i].context = context;
        gate_running[i].graph = graph;
        break;
    }
    lock_drop(&gate_lock);
}

void gate_begin_leave(bool began, uint64_t stream, uint64_t context, uint64_t graph)
{
    if (!began) {
        atomic_fetch_sub(&gate_word, GATE_CAPTURE);
        tell_guard();
        return;
    }
    remember(stream, context, graph);
}

bool gate_graphs(uint64_t *ret_graphs, size_t max, size_t *ret_count)
{
    size_t count = 0;
    size_t known = 0;

    lock_take(&gate_lock);
    for (int i = 0; i < GATE_CAPTURES; i++) {
        if (!gate_running[i].used || !gate_running[i].graph)
            continue;
        known++;
        if (count < max)
            ret_graphs[count++] = gate_running[i].graph;
    }
    lock_drop(&gate_lock);
    *ret_count = count;
    return count == known && known == gate_captures();
}

uint64_t gate_graph(uint64_t stream)
{
    uint64_t graph = 0;

    lock_take(&gate_lock);
    for (int i = 0; i < GATE_CAPTURES; i++)
        if (gate_running[i].used && gate_running[i].stream == stream)
            graph = gate_running[i].graph;
    lock_drop(&gate_lock);
    return graph;
}

bool gate_ended(uint64_t stream)
{
    bool found = false;

    lock_take(&gate_lock);
    for (int i = 0; i < GATE_CAPTURES && !found; i++) {
        found = gate_running[i].used && gate_running[i].stream == stream;
        if (found)
            gate_running[i].used = false;
    }
    lock_drop(&gate_lock);
    if (found) {
        atomic_fetch_sub(&gate_word, GATE_CAPTURE);
        tell_guard();
    }
    return found;
}

void gate_context_gone(uint64_t context)
{
    unsigned gone = 0;

    lock_take(&gate_lock);
    for (int i = 0; i < GATE_CAPTURES; i++) {
        if (!gate_running[i].used || gate_running[i].context != context)
            continue;
        gate_running[i].used = false;
        gone++;
    }
    lock_drop(&gate_lock);
    if (gone > 0) {
        atomic_fetch_sub(&gate_word, gone * GATE_CAPTURE);
        tell_guard();
    }
}

bool gate_fence_enter(void)
{
    uint64_t word = atomic_load(&gate_word);

    do {
        if (word >= GATE_CAPTURE)
            return false;
    } while (!atomic_compare_exchange_weak(&gate_word, &word, word + 1));
    return true;
}

void gate_fence_leave(void)
{
    atomic_fetch_sub(&gate_word, 1);
}

bool gate_drain_enter(void)
{
    atomic_fetch_add(&gate_drains, 1);
    if (gate_captures() == 0)
        return true;
    atomic_fetch_sub(&gate_drains, 1);
    return false;
}

void gate_drain_leave(void)
{
    atomic_fetch_sub(&gate_drains, 1);
}

void gate_fences_end(void)
{
    while ((uint32_t)atomic_load(&gate_word) != 0)
        (void)sched_yield();
}

unsigned gate_captures(void)
{
    return (unsigned)(atomic_load(&gate_word) >> 32);
}

void gate_fork_child(void)
{
    atomic_store(&gate_word, 0);
    atomic_store(&gate_drains, 0);
    for (int i = 0; i < GATE_CAPTURES; i++)
        gate_running[i].used = false;
    guard_clear(GUARD_CAPTURING);
}

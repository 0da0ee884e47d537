/* SPDX-License-Identifier: MIT */
#include "preload/base/gate.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"

#include "alloc/base/table.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum {
    /*
     * A fence call takes microseconds unless the driver blocks it: a full queue accepts no event. A
     * call blocked for longer is inside the driver, and the begin of a capture cannot overtake it
     * any more.
     */
    GATE_FENCE_MS = 500,
    GATE_DRAIN_MS = 20, /* time for an announced drain to enter the driver */
    GATE_YIELDS = 64,   /* yields before a waiter sleeps */
};

/* Low half: fence calls in flight. High half: captures pending or running. */
#define GATE_CAPTURE (UINT64_C(1) << 32)

static _Atomic(uint64_t) gate_word;
static _Atomic(uint32_t) gate_drains;

/* A capture that runs, by the stream that it began on. */
struct row {
    uint64_t stream;
    uint64_t context;
    struct gate_capture capture;
};

FORKLOCK(gate_lock);
/* guarded by gate_lock: */
static struct table running = TABLE_OF(struct row);
static uint64_t numbered; /* number of the newest capture */
static unsigned unlisted; /* captures without a row, for lack of memory */

/*
 * Updates GUARD_CAPTURING after each change of the count. If two threads meet, the later one sees
 * both changes.
 */
static void tell_guard(void)
{
    lock_take(&gate_lock);
    if (gate_may_capture())
        guard_set(GUARD_CAPTURING);
    else
        guard_clear(GUARD_CAPTURING);
    lock_drop(&gate_lock);
}

static void count_down(void)
{
    atomic_fetch_sub(&gate_word, GATE_CAPTURE);
    tell_guard();
}

static bool is_entered(void)
{
    return (uint32_t)atomic_load(&gate_word) != 0 || atomic_load(&gate_drains) != 0;
}

static uint64_t gate_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * A fence call that takes longer than GATE_FENCE_MS waits for the device, perhaps for work that the
 * program submits after the begin.
 */
static void wait_for_entered(void)
{
    const struct timespec pause = {0, 50000};
    uint64_t start = gate_now_ms();
    uint64_t waited = 0;

    for (unsigned i = 0; is_entered() && waited < GATE_FENCE_MS; i++) {
        if (waited >= GATE_DRAIN_MS && (uint32_t)atomic_load(&gate_word) == 0)
            return;
        if (i < GATE_YIELDS)
            (void)sched_yield();
        else
            (void)nanosleep(&pause, NULL);
        waited = gate_now_ms() - start;
    }
}

void gate_begin_enter(void)
{
    atomic_fetch_add(&gate_word, GATE_CAPTURE);
    tell_guard();
    if (is_entered())
        wait_for_entered();
}

void gate_begin_leave(bool began, uint64_t stream, uint64_t context, uint64_t graph)
{
    bool is_one_less = !began;
    struct row *row;

    if (began) {
        lock_take(&gate_lock);
        row = table_add(&running, stream);
        /* the end of the stream's last capture was not seen: its waiters now wait for this one */
        is_one_less = row && row->capture.number;
        if (row) {
            row->context = context;
            row->capture = (struct gate_capture){
                    .number = is_one_less ? row->capture.number : ++numbered,
                    .graph = graph,
                    .stream = stream,
            };
        } else {
            unlisted++;
        }
        lock_drop(&gate_lock);
    }
    if (is_one_less)
        count_down();
}

uint64_t gate_next(uint64_t after)
{
    uint64_t next = 0;

    lock_take(&gate_lock);
    for (const struct row *row = table_next(&running, NULL); row; row = table_next(&running, row))
        if (row->capture.number > after && (!next || row->capture.number < next))
            next = row->capture.number;
    if (!next && unlisted && after < GATE_UNLISTED)
        next = GATE_UNLISTED;
    lock_drop(&gate_lock);
    return next;
}

void gate_stays(uint64_t stream)
{
    struct row *row;

    lock_take(&gate_lock);
    row = table_find(&running, stream);
    if (row)
        row->capture.stays = true;
    lock_drop(&gate_lock);
}

uint64_t gate_graph(uint64_t stream)
{
    const struct row *row;
    uint64_t graph;

    lock_take(&gate_lock);
    row = table_find(&running, stream);
    graph = row ? row->capture.graph : 0;
    lock_drop(&gate_lock);
    return graph;
}

/* Removes a row (NULL: of a capture that has none). */
static struct gate_capture end_locked(struct row *row)
{
    struct gate_capture capture = {.number = GATE_UNLISTED};

    if (row)
        capture = row->capture;
    else
        unlisted--;
    (void)table_remove(&running, row);
    return capture;
}

bool gate_ended(uint64_t stream, bool was_one, struct gate_capture *ret_capture)
{
    struct row *row;
    bool found;

    lock_take(&gate_lock);
    row = table_find(&running, stream);
    found = row || (was_one && unlisted > 0);
    if (found)
        *ret_capture = end_locked(row);
    lock_drop(&gate_lock);
    if (found)
        count_down();
    return found;
}

void gate_move(uint64_t from, uint64_t to)
{
    struct row *row;
    struct row copy;

    lock_take(&gate_lock);
    row = table_find(&running, from);
    if (row) {
        copy = *row;
        (void)table_remove(&running, row);
        row = table_add(&running, to);
        if (row) {
            *row = copy;
            row->stream = to;
        } else {
            unlisted++;
        }
    }
    lock_drop(&gate_lock);
}

bool gate_context_gone(uint64_t context, struct gate_capture *ret_capture)
{
    struct row *row;
    bool found;

    lock_take(&gate_lock);
    row = table_next(&running, NULL);
    while (row && row->context != context)
        row = table_next(&running, row);
    found = row != NULL;
    if (found)
        *ret_capture = end_locked(row);
    lock_drop(&gate_lock);
    if (found)
        count_down();
    return found;
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

atomic_bool gate_has_unseen;

void gate_unseen(void)
{
    atomic_store(&gate_has_unseen, true);
    tell_guard();
}

void gate_fork_child(void)
{
    atomic_store(&gate_word, 0);
    atomic_store(&gate_drains, 0);
    running = (struct table)TABLE_OF(struct row); /* the memory belongs to the parent */
    unlisted = 0;
    guard_clear(GUARD_CAPTURING);
}

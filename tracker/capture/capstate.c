/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capstate.h"

#include "tracker/base/counter.h"
#include "tracker/capture/capdefs.h"
#include "tracker/capture/capfile.h"
#include "tracker/format/formatsum.h"
#include "tracker/stacks/thread.h"

#include <errno.h>
#include <stdatomic.h>

#define WAIT_STEP_NS   100000L
#define WAIT_STEPS_MAX 20000 /* two seconds of waiting for another thread that creates the file */

bool capstate_logs;
uint64_t capstate_start_ns;

static int (*create_file)(void); /* fixed by capstate_init */
/* set by capstate_show; capstate_set, which may run in a signal handler, reads it in any phase */
static _Atomic(struct format_header *) header_at;
static _Atomic int phase = CAPSTATE_NEVER;
static _Atomic uint64_t missed; /* calls that found CAPSTATE_LATE */
static _Atomic bool is_lost;    /* the file was lost, and no caller knows yet */
/* -errno: the last error, and the one that no caller got yet (0 = none) */
static _Atomic int last_trouble, untold;

void capstate_init(bool is_on, bool has_log, int (*create)(void))
{
    capstate_logs = has_log;
    create_file = create;
    atomic_store(&last_trouble, 0);
    atomic_store(&untold, 0);
    atomic_store(&phase, is_on ? CAPSTATE_NEW : CAPSTATE_NEVER);
}

uint64_t capstate_start(void)
{
    capstate_start_ns = capstate_clock(CLOCK_MONOTONIC);
    return capstate_start_ns;
}

/* ---- errors ---- */

void capstate_keep_trouble(int r)
{
    if (atomic_exchange_explicit(&last_trouble, r, memory_order_relaxed) != r)
        atomic_store_explicit(&untold, r, memory_order_relaxed);
}

int capstate_trouble(void)
{
    if (__builtin_expect(atomic_load_explicit(&untold, memory_order_relaxed) == 0, 1))
        return 0;
    return atomic_exchange_explicit(&untold, 0, memory_order_relaxed);
}

/* ---- phases ---- */

static struct format_header *capstate_header(void)
{
    /* acquire: pairs with the store in capstate_show */
    return atomic_load_explicit(&header_at, memory_order_acquire);
}

enum capstate_phase capstate_phase(void)
{
    return (enum capstate_phase)atomic_load_explicit(&phase, memory_order_acquire);
}

static __attribute__((noinline, cold)) enum capstate_phase capstate_break_seal(void)
{
    int now = CAPSTATE_SEALED;

    __atomic_store_n(&capstate_header()->seal, 0, __ATOMIC_SEQ_CST);
    (void)atomic_compare_exchange_strong(&phase, &now, CAPSTATE_OPEN);
    return CAPSTATE_OPEN;
}

enum capstate_phase capstate_unsealed(void)
{
    enum capstate_phase now = capstate_phase();

    return now == CAPSTATE_SEALED ? capstate_break_seal() : now;
}

void capstate_show(struct format_header *header)
{
    atomic_store_explicit(&header_at, header, memory_order_release);
}

void capstate_opened(void)
{
    /* release: a reader of CAPSTATE_OPEN sees the file */
    atomic_store_explicit(&phase, CAPSTATE_OPEN, memory_order_release);
    counter_add(&capstate_header()->lost.events_dropped, atomic_load(&missed));
}

void capstate_never(void)
{
    atomic_store_explicit(&phase, CAPSTATE_NEVER, memory_order_release);
}

void capstate_lost(void)
{
    capstate_never();
    atomic_store(&is_lost, true);
}

int capstate_open(void)
{
    int expected = CAPSTATE_NEW;
    struct timespec step = {0, WAIT_STEP_NS};
    int cancel = capfile_begin();
    bool is_mine = atomic_compare_exchange_strong(&phase, &expected, CAPSTATE_OPENING);

    if (is_mine)
        capstate_degraded(create_file());
    for (int i = 0; !is_mine && expected == CAPSTATE_OPENING && i < WAIT_STEPS_MAX; i++) {
        (void)nanosleep(&step, NULL);
        expected = (int)capstate_phase();
    }
    capfile_end(cancel);
    if (is_mine)
        return capstate_trouble();
    /* The file system hangs: wait once, not at every allocation. If the opening ends after all, the
     * file is used. */
    if (expected == CAPSTATE_OPENING)
        (void)atomic_compare_exchange_strong(&phase, &expected, CAPSTATE_LATE);
    return 0;
}

struct format_header *capstate_begin(bool opens, int *ret_error)
{
    enum capstate_phase now = capstate_phase();

    *ret_error = 0;
    if (__builtin_expect(now == CAPSTATE_OPEN, 1))
        return capstate_header();
    if (now == CAPSTATE_SEALED)
        now = capstate_break_seal();
    if (now == CAPSTATE_NEVER || (now == CAPSTATE_NEW && !opens)) {
        if (opens && atomic_load_explicit(&is_lost, memory_order_relaxed)
                && atomic_exchange(&is_lost, false))
            *ret_error = -EIO;
        return NULL;
    }
    if (now != CAPSTATE_LATE) {
        *ret_error = capstate_open();
        now = capstate_phase();
    }
    if (now == CAPSTATE_LATE)
        atomic_fetch_add(&missed, 1);
    return now == CAPSTATE_OPEN ? capstate_header() : NULL;
}

/* ---- state of the run ---- */

/* At the end of the program. If other threads have taken part, one may be in the middle of a change
 * that the seal would lack: then no seal is made, except by `kedge run` after the process has
 * ended. A later thread sees the phase; of two late threads one breaks the other's seal. */
static void capstate_seal(struct format_header *header)
{
    int now = CAPSTATE_OPEN;

    if (!atomic_compare_exchange_strong(&phase, &now, CAPSTATE_SEALED) && now != CAPSTATE_SEALED)
        return;
    if (thread_living() <= 1)
        __atomic_store_n(&header->seal, formatsum_seal(header), __ATOMIC_SEQ_CST);
    if (atomic_load(&phase) != CAPSTATE_SEALED)
        __atomic_store_n(&header->seal, 0, __ATOMIC_SEQ_CST);
}

void capstate_set(enum format_state state, uint32_t detail)
{
    struct format_header *header = capstate_header();

    if (!header)
        return;
    __atomic_store_n(&header->seal, 0, __ATOMIC_SEQ_CST);
    capdefs_tell();
    if (state == FORMAT_STATE_CLEAN
            && __atomic_load_n(&header->state, __ATOMIC_RELAXED) == FORMAT_STATE_SIGNAL)
        return;
    __atomic_store_n(&header->state_detail, detail, __ATOMIC_RELAXED);
    __atomic_store_n(&header->state, (uint32_t)state, __ATOMIC_RELEASE);
    if (state == FORMAT_STATE_CLEAN)
        capstate_seal(header);
}

void capstate_fork_child(void)
{
    /* The mapping is shared with the parent: nothing may be stored into it from here on. */
    if (atomic_load(&phase) != CAPSTATE_NEW)
        atomic_store(&phase, CAPSTATE_NEVER);
    atomic_store(&header_at, NULL);
}

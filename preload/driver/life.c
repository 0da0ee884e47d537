/* SPDX-License-Identifier: MIT */
#include "preload/driver/life.h"

#include "preload/base/guard.h"
#include "preload/base/linked.h"
#include "preload/base/mark.h"
#include "preload/base/msg.h"
#include "preload/base/results.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "tracker/base/errtext.h"
#include "tracker/capture/capture.h"

#include "alloc/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

enum life_state {
    LIFE_ASLEEP,
    LIFE_STARTING,
    LIFE_ON,
    LIFE_PASS, /* degraded or a forked child */
};

static atomic_int life_state;
static atomic_int life_mode_known = -1;
static atomic_int life_sticky_code;
static atomic_bool life_child;
static pid_t life_process; /* fixed by wake_up */
static struct config config;

/* ---- configuration -------------------------------------------------------------------------- */

static void warn_line(void *data, const char *line)
{
    (void)data;
    msg_warn("%s", line);
}

bool life_is_secure(void)
{
    return getauxval(AT_SECURE) != 0;
}

static enum life_mode life_mode_of(const struct config *c)
{
    static const enum life_mode modes[] = {LIFE_POOL, LIFE_TRACK, LIFE_OFF};

    return modes[config_word(c, CONFIG_MODE) % 3];
}

/*
 * The path of a library before kedge in the global scope with the same exports: a copy of this one,
 * which all calls have passed through. Found before read_config, since a thread that waits for
 * read_config may hold the loader's lock (R36, no lock is held in the loader).
 */
static _Atomic(const char *) other_copy;

static void find_other_copy(void)
{
    atomic_store(&other_copy, linked_before_us("kedge_python_level"));
}

static void read_config(void)
{
    const char *other;
    enum life_mode mode;

    if (life_is_secure()) {
        atomic_store(&life_mode_known, LIFE_OFF);
        return;
    }
    config_read(&config, environ, NULL, NULL);
    msg_set_level((enum msg_level)config_word(&config, CONFIG_LOG));
    config_read(&config, environ, warn_line, NULL);
    other = atomic_load(&other_copy);
    if (other && life_mode_of(&config) != LIFE_OFF)
        msg_warn("another libkedge.so, %s, stands before this one, which stands aside", other);
    mode = other ? LIFE_OFF : life_mode_of(&config);
    atomic_store_explicit(&life_mode_known, mode, memory_order_release);
}

enum life_mode life_mode(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int mode = atomic_load_explicit(&life_mode_known, memory_order_acquire);

    if (mode < 0) {
        find_other_copy();
        (void)pthread_once(&once, read_config);
        mode = atomic_load_explicit(&life_mode_known, memory_order_acquire);
    }
    return (enum life_mode)mode;
}

bool life_read_early(struct config *ret_config)
{
    config_read(ret_config, environ, NULL, NULL);
    find_other_copy();
    return life_mode_of(ret_config) != LIFE_OFF && !atomic_load(&other_copy);
}

const struct config *life_config(void)
{
    return &config;
}

/* ---- start ---------------------------------------------------------------------------------- */

/*
 * Waits while another thread starts kedge. That thread may need a lock of the loader that this one
 * holds, so the wait is bounded.
 */
static bool wait_for_start(void)
{
    struct timespec pause = {0, 1000000};

    for (int i = 0; i < 2000 && atomic_load(&life_state) == LIFE_STARTING; i++)
        (void)nanosleep(&pause, NULL);
    return atomic_load(&life_state) == LIFE_ON;
}

/* The functions that LIFE_STARTS collects; the linker defines the two names. */
/* NOLINTBEGIN(bugprone-reserved-identifier): names that the linker defines */
extern const life_start __start_kedge_starts[] __attribute__((weak, visibility("hidden")));
extern const life_start __stop_kedge_starts[] __attribute__((weak, visibility("hidden")));
/* NOLINTEND(bugprone-reserved-identifier) */

static int start_all(void)
{
    int r = 0;

    for (const life_start *fn = __start_kedge_starts; r == 0 && fn < __stop_kedge_starts; fn++)
        r = (*fn)(&config);
    return r;
}

/* A part that cannot start: one line, then pass-through for the rest of the process. */
static void life_degrade(const char *what)
{
    if (atomic_exchange(&life_state, LIFE_PASS) == LIFE_PASS)
        return;
    session_end_quick();
    msg_warn("%s, passing everything through", what);
    (void)capture_note(2, what);
    if (session_pool)
        pool_freeze(session_pool);
}

static bool wake_up(void)
{
    int asleep = LIFE_ASLEEP;
    int r;

    if (!atomic_compare_exchange_strong(&life_state, &asleep, LIFE_STARTING))
        return asleep == LIFE_ON || (asleep == LIFE_STARTING && wait_for_start());
    life_process = getpid();
    guard_push();
    r = start_all();
    guard_pop();
    if (r < 0) {
        life_degrade(errtext(-r));
        return false;
    }
    atomic_store_explicit(&life_state, LIFE_ON, memory_order_release);
    return true;
}

/*
 * Defers cancellation while kedge acts: a thread that ended inside would stay marked as inside, and
 * the frees of its cleanup handlers would go to a driver that does not know our blocks.
 */
static void go_in(void)
{
    guard_push();
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard_thread.cancel);
}

bool life_enter(int slot)
{
    if (guard_depth() > 0 || !resolve_ready() || life_mode() == LIFE_OFF || life_is_child())
        return false;
    resolve_note((enum resolve_slot)slot, ROUTE_CALLED);
    if (atomic_load_explicit(&life_state, memory_order_acquire) != LIFE_ON && !wake_up())
        return false;
    guard_thread.entry = slot;
    go_in();
    return true;
}

bool life_begin_edge(void)
{
    if (guard_depth() > 0 || life_is_child()
            || atomic_load_explicit(&life_state, memory_order_acquire) != LIFE_ON)
        return false;
    go_in();
    return true;
}

void life_leave(void)
{
    /* read before leaving: outside, a signal handler may enter and overwrite it */
    int cancel = guard_thread.cancel;
    int unused;

    atomic_signal_fence(memory_order_seq_cst);
    guard_pop();
    (void)pthread_setcancelstate(cancel, &unused);
}

/* ---- trouble -------------------------------------------------------------------------------- */

void life_driver_said(int result)
{
    int none = 0;

    if (result == CUDA_ERROR_DEINITIALIZED) {
        session_end_quick();
        if (session_pool)
            pool_freeze(session_pool);
        return;
    }
    if (!results_is_sticky(result)
            || !atomic_compare_exchange_strong(&life_sticky_code, &none, result))
        return;
    session_end_quick();
    msg_warn("the device has failed with error %d; nothing is recycled any more", result);
    (void)capture_note(1, "sticky device error");
    if (session_pool)
        pool_freeze(session_pool);
}

int life_sticky(void)
{
    return atomic_load_explicit(&life_sticky_code, memory_order_relaxed);
}

bool life_is_child(void)
{
    return atomic_load_explicit(&life_child, memory_order_relaxed);
}

void life_become_child(void)
{
    if (atomic_load(&life_state) != LIFE_ASLEEP)
        atomic_store(&life_child, true);
}

bool life_is_on(void)
{
    return atomic_load(&life_state) == LIFE_ON && !life_is_child();
}

bool life_is_passive(void)
{
    return life_is_child() || atomic_load_explicit(&life_state, memory_order_relaxed) == LIFE_PASS;
}

/* A child of vfork shares our memory, but is another process. */
void life_exits(int status)
{
    mark_ended();
    if (!life_is_on() || getpid() != life_process)
        return;
    guard_push();
    capture_state(FORMAT_STATE_CLEAN, FORMAT_EXIT_KNOWN | ((unsigned)status & 0xffu));
    guard_pop();
}

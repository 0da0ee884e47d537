/* SPDX-License-Identifier: MIT */
#include "preload/life.h"

#include "preload/bus.h"

#include "preload/backend.h"
#include "preload/contexts.h"
#include "preload/coverage.h"
#include "preload/dispatch.h"
#include "preload/evictlog.h"
#include "preload/exports.h"
#include "preload/forklock.h"
#include "preload/gate.h"
#include "preload/guard.h"
#include "preload/hostwait.h"
#include "preload/launches.h"
#include "preload/linked.h"
#include "preload/msg.h"
#include "preload/nvtx.h"
#include "preload/output.h"
#include "preload/pyhost.h"
#include "preload/pyloop.h"
#include "preload/quick.h"
#include "preload/resolve.h"
#include "preload/sidecar.h"
#include "preload/source.h"
#include "preload/threadmem.h"
#include "preload/underway.h"
#include "preload/variables.h"
#include "tracker/capture.h"
#include "tracker/thread.h"
#include "tracker/where.h"

#include "alloc/meta.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
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
static pid_t life_process; /* fixed by start */
static struct config config;

/* ---- configuration -------------------------------------------------------------------------- */

static void warn_line(void *data, const char *line)
{
    (void)data;
    msg_warn("%s", line);
}

static bool is_secure(void)
{
    return getauxval(AT_SECURE) != 0;
}

static enum life_mode mode_of(const struct config *c)
{
    static const enum life_mode modes[] = {LIFE_POOL, LIFE_TRACK, LIFE_OFF};

    return modes[config_word(c, CONFIG_MODE) % 3];
}

/*
 * A library before us in the global scope that has the same exports: a copy of this one, through which all calls have passed. Looked
 * for before read_config, since the loader's lock may be held by a thread that waits for that (R36, no lock is held in the loader).
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

    if (is_secure()) {
        atomic_store(&life_mode_known, LIFE_OFF);
        return;
    }
    config_read(&config, environ, NULL, NULL);
    msg_set_level((enum msg_level)config_word(&config, CONFIG_LOG));
    config_read(&config, environ, warn_line, NULL);
    other = atomic_load(&other_copy);
    if (other && mode_of(&config) != LIFE_OFF)
        msg_warn("another libkedge.so, %s, stands before this one, which stands aside", other);
    mode = other ? LIFE_OFF : mode_of(&config);
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

const struct config *life_config(void)
{
    return &config;
}

/* ---- start ---------------------------------------------------------------------------------- */

_Static_assert(UNWIND_DEPTH_MAX == 128, "as tracker/options.def says");

static void start_where(const struct config *c)
{
    static const enum unwind_mode modes[] = {
            UNWIND_AUTO, UNWIND_NATIVE, UNWIND_OFF, UNWIND_FP, UNWIND_OFF};
    const char *stacks = config_text(c, CONFIG_STACKS);
    const struct config_value *depth = config_key(c, CONFIG_STACKS, "depth");
    const struct config_value *min = config_key(c, CONFIG_STACKS, "min");
    struct where_opts opts = {
            .unwind = {.mode = modes[config_word(c, CONFIG_STACKS) % 5],
                    .ops = {dlopen, resolve_real_dlsym()}},
            .python = strcmp(stacks, "auto") == 0 || strcmp(stacks, "python") == 0,
            .min_size = min ? min->number : 0,
            .self = &config,
    };

    if (depth)
        opts.unwind.depth = (unsigned)depth->number;
    if (where_init(&opts) < 0)
        msg_warn("stacks cannot be taken, going on without");
}

static void fork_child(void);

/* A thread has ended, and its own stream with it. Its frees recorded their points themselves (R69). */
static void thread_stream_gone(uint64_t identity)
{
    if (dispatch_pool() && !life_is_child())
        pool_stream_lost(dispatch_pool(), identity);
}

static void context_lost(uint64_t generation)
{
    if (!life_is_child())
        dispatch_context_gone(generation);
}

/* What such a driver's functions do to memory, nobody here has read (R100). */
static void warn_newer_driver(void)
{
    if (sidecar_driver_is_newer())
        msg_warn("this driver is newer than CUDA %d.%d, the last one that this kedge knows: "
                 "functions "
                 "that are new in it are not watched%s",
                HOOKS_NEWEST / 1000, HOOKS_NEWEST % 1000 / 10,
                sidecar.hints ? ", hints stay in shadow" : "");
}

/* Everything that can fail, once, in the thread that came first. */
static int start(void)
{
    int r;

    life_process = getpid();
    output_complain();
    export_cuda_begins();
    start_where(&config);
    stream_on_thread_end(thread_stream_gone);
    context_on_lost(context_lost);
    stream_on_meeting(hostwait_streams_meet);
    backend_on_wait(hostwait_goes_on);
    r = dispatch_start();
    warn_newer_driver();
    launches_start();
    if (r == 0)
        bus_start((bus_sigaction)resolve_next("sigaction"));
    coverage_look();
    if (r == 0)
        r = -pthread_atfork(NULL, NULL, fork_child);
    return r;
}

/* Another thread is starting. It may need a lock of the loader's that we hold, so the wait has an end. */
static bool wait_for_start(void)
{
    struct timespec pause = {0, 1000000};

    for (int i = 0; i < 2000 && atomic_load(&life_state) == LIFE_STARTING; i++)
        (void)nanosleep(&pause, NULL);
    return atomic_load(&life_state) == LIFE_ON;
}

static bool wake_up(void)
{
    int asleep = LIFE_ASLEEP;
    int r;

    if (!atomic_compare_exchange_strong(&life_state, &asleep, LIFE_STARTING))
        return asleep == LIFE_ON || (asleep == LIFE_STARTING && wait_for_start());
    guard_push();
    r = start();
    guard_pop();
    if (r < 0) {
        life_degrade(strerrordesc_np(-r));
        return false;
    }
    atomic_store_explicit(&life_state, LIFE_ON, memory_order_release);
    if (dispatch_pool())
        quick_start(dispatch_pool(), sidecar.hints != NULL, dispatch_records);
    msg_info("mode %s, driver %s, stacks by %s, capture %s", config_text(&config, CONFIG_MODE),
            resolve_driver_path(), unwind_engine_name(unwind_engine()),
            config_text(&config, CONFIG_CAPTURE));
    return true;
}

/*
 * Cancellation waits while kedge acts: a thread that ended inside would leave itself marked as inside, and the frees of its
 * cleanup handlers would go to a driver that knows nothing of our blocks.
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
    int cancel = guard_thread.cancel; /* outside, a signal handler may come in here */
    int unused;

    atomic_signal_fence(memory_order_seq_cst);
    guard_pop();
    (void)pthread_setcancelstate(cancel, &unused);
}

/* ---- trouble -------------------------------------------------------------------------------- */

void life_degrade(const char *what)
{
    if (atomic_exchange(&life_state, LIFE_PASS) == LIFE_PASS)
        return;
    quick_end();
    msg_warn("%s, passing everything through", what);
    (void)capture_note(2, what);
    if (dispatch_pool())
        pool_freeze(dispatch_pool());
}

void life_driver_said(int result)
{
    int none = 0;

    if (result == CUDA_ERROR_DEINITIALIZED) {
        quick_end();
        if (dispatch_pool())
            pool_freeze(dispatch_pool());
        return;
    }
    if (!backend_is_sticky(result)
            || !atomic_compare_exchange_strong(&life_sticky_code, &none, result))
        return;
    quick_end();
    msg_warn("the device has failed with error %d; nothing is recycled any more", result);
    (void)capture_note(1, "sticky device error");
    if (dispatch_pool())
        pool_freeze(dispatch_pool());
}

int life_sticky(void)
{
    return atomic_load_explicit(&life_sticky_code, memory_order_relaxed);
}

bool life_is_child(void)
{
    return atomic_load_explicit(&life_child, memory_order_relaxed);
}

bool life_is_passive(void)
{
    return life_is_child() || atomic_load_explicit(&life_state, memory_order_relaxed) == LIFE_PASS;
}

/* One thread is left; locks that others held would never be dropped. */
static void fork_child(void)
{
    lock_forget_thread();
    meta_forget();
    forklock_child();
    guard_fork_child();
    gate_fork_child();
    context_fork_child();
    dispatch_fork_child();
    where_fork_child();
    pyloop_fork_child();
    capture_fork_child();
    quick_end();
    atomic_store(&life_child, true);
}

/* ---- load and exit -------------------------------------------------------------------------- */

static int is_cuda_object(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *base = info->dlpi_name ? linked_base(info->dlpi_name) : NULL;

    (void)size;
    (void)data;
    return base && (strncmp(base, "libcuda.so", 10) == 0 || strncmp(base, "libcudart", 9) == 0);
}

/*
 * Before CUDA is used there is a story already: open ranges, and locks that another thread may have held. All of this may be
 * done twice. Where CUDA is used, the program's own handlers come before the other of ours, and are the child's.
 */
static void fork_child_early(void)
{
    if (atomic_load(&life_state) != LIFE_ASLEEP)
        atomic_store(&life_child, true);
    lock_forget_thread();
    meta_forget();
    forklock_child();
    where_fork_child();
    export_fork_child();
    pyloop_fork_child();
    variables_fork_child();
}

/* A child of vfork has our memory, but is another process. */
void life_exits(int status)
{
    if (atomic_load(&life_state) != LIFE_ON || life_is_child() || getpid() != life_process)
        return;
    guard_push();
    capture_state(FORMAT_STATE_CLEAN, FORMAT_EXIT_KNOWN | ((unsigned)status & 0xffu));
    guard_pop();
}

/* Runs behind all destructors, ours included, since it is asked for before the program's start. */
static void note_exit_status(int status, void *unused)
{
    (void)unused;
    life_exits(status);
}

/*
 * Makes NVTX find us, since a library reads the variable at its first range. No file, no thread, no CUDA call.
 */
__attribute__((constructor)) static void loaded(void)
{
    static struct config early;
    static char own_path[PATH_MAX];
    bool is_off;
    Dl_info info;

    if (is_secure())
        return;
    msg_start();
    config_read(&early, environ, NULL, NULL);
    find_other_copy();
    is_off = mode_of(&early) == LIFE_OFF || atomic_load(&other_copy);
    if (dladdr(&config, &info) && info.dli_fname && realpath(info.dli_fname, own_path)) {
        if (!is_off && (config_word(&early, CONFIG_ANCHORS) & SOURCE_NVTX))
            nvtx_offer(own_path);
        else
            nvtx_withdraw(own_path);
    }
    if (is_off)
        return;
    (void)on_exit(note_exit_status, NULL);
    if (source_python_level(&early) > 0)
        pyhost_start(source_python_level(&early) == 2);
    output_start(&early, dl_iterate_phdr(is_cuda_object, NULL) != 0);
    thread_prepare();
    threadmem_prepare();
    (void)pthread_atfork(NULL, NULL, fork_child_early);
}

__attribute__((destructor)) static void unloading(void)
{
    if (atomic_load(&life_state) != LIFE_ON || life_is_child())
        return;
    guard_push();
    coverage_tell(true);
    evictlog_end();
    underway_end();
    capture_state(FORMAT_STATE_CLEAN, 0);
    guard_pop();
}

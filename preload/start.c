/* SPDX-License-Identifier: MIT */
/*
 * start.c - the top of preload: runs when the library is loaded, at the first CUDA call, in a
 * forked child and at exit.
 *
 * life.h knows the state of the process. It knows none of the modules that are started here, so
 * that all of them can ask it. LIFE_STARTS registers a start function at link time, because the
 * first CUDA call may come from a constructor that runs before ours.
 */
#include "preload/anchors/nvtx.h"
#include "preload/anchors/output.h"
#include "preload/anchors/pyhost.h"
#include "preload/anchors/pyloop.h"
#include "preload/anchors/pynames.h"
#include "preload/anchors/pyparts.h"
#include "preload/anchors/pytoken.h"
#include "preload/anchors/source.h"
#include "preload/base/exports.h"
#include "preload/base/forklock.h"
#include "preload/base/gate.h"
#include "preload/base/guard.h"
#include "preload/base/linked.h"
#include "preload/base/mark.h"
#include "preload/base/msg.h"
#include "preload/base/threadmem.h"
#include "preload/caller/coverage.h"
#include "preload/caller/variables.h"
#include "preload/driver/backend.h"
#include "preload/driver/contexts.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/hostwait.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/graph/ending.h"
#include "preload/graph/launches.h"
#include "preload/held/held.h"
#include "preload/held/history.h"
#include "preload/hints/evictlog.h"
#include "preload/hints/hints_run.h"
#include "preload/hooks/bus.h"
#include "preload/kinds/kinds.h"
#include "preload/kinds/titles.h"
#include "preload/request/dispatch.h"
#include "preload/request/quick.h"
#include "preload/request/underway.h"
#include "tracker/capture/capture.h"
#include "tracker/stacks/thread.h"
#include "tracker/where/where.h"

#include "alloc/base/meta.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the first CUDA call -------------------------------------------------------------------- */

/* ---- fork ---- */

/* Only one thread is left; locks that others held would never be released. */
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
    session_end_quick();
    life_become_child();
}

_Static_assert(UNWIND_DEPTH_MAX == 128, "as tracker/base/options.def says");

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
            .self = c,
    };

    if (depth)
        opts.unwind.depth = (unsigned)depth->number;
    if (where_init(&opts) < 0)
        msg_warn("stacks cannot be taken, going on without");
}

/*
 * A thread has ended, and its own stream with it. Its frees recorded their points themselves (R69,
 * identity of streams).
 */
static void thread_stream_gone(uint64_t identity)
{
    if (session_pool && !life_is_child())
        pool_stream_lost(session_pool, identity);
}

static void context_lost(uint64_t generation)
{
    if (!life_is_child())
        ending_context_gone(generation);
}

/*
 * The effects on memory of a newer driver's functions have not been compared with hooks.def (R100,
 * versions of rows).
 */
static void warn_newer_driver(void)
{
    if (hints_run_driver_is_newer())
        msg_warn("this driver is newer than CUDA %d.%d, the last one that this kedge knows: "
                 "functions "
                 "that are new in it are not watched%s",
                HOOKS_NEWEST / 1000, HOOKS_NEWEST % 1000 / 10,
                hints_run.hints ? ", hints stay in shadow" : "");
}

/* Everything that can fail, once, in the first thread. */
static int start(const struct config *config)
{
    int r;

    mark_started();
    output_complain();
    export_cuda_begins();
    start_where(config);
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
    if (r < 0)
        return r;
    if (session_pool)
        quick_start(hints_run.hints != NULL, session_records);
    msg_info("mode %s, driver %s, stacks by %s, capture %s", config_text(config, CONFIG_MODE),
            resolve_driver_path(), unwind_engine_name(unwind_engine()),
            config_text(config, CONFIG_CAPTURE));
    return 0;
}

LIFE_STARTS(start);

/* ---- load and exit -------------------------------------------------------------------------- */

static int is_cuda_object(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *base = info->dlpi_name ? linked_base(info->dlpi_name) : NULL;

    (void)size;
    (void)data;
    return base && (resolve_is_driver_name(base) || strncmp(base, "libcudart", 9) == 0);
}

/*
 * Before CUDA is used there is already state: open ranges, and locks that another thread may have
 * held. This may run twice, and is harmless then. Where CUDA is used, the program's own handlers
 * run before our other one, and belong to the child.
 */
static void fork_child_early(void)
{
    life_become_child();
    lock_forget_thread();
    meta_forget();
    forklock_child();
    where_fork_child();
    export_fork_child();
    pyloop_fork_child();
    variables_fork_child();
}

/* Runs after all destructors, ours included, since it was registered before the program's start. */
static void note_exit_status(int status, void *unused)
{
    (void)unused;
    life_exits(status);
}

static void look_at_python(void)
{
    pyparts_look();
    held_find();
    kinds_find();
    history_find();
}

static void look_at_moment(const struct pyhost_moment *moment)
{
    kinds_at(moment);
    held_at(moment);
}

static void forget_python(void)
{
    pyparts_forget();
    held_forget();
    kinds_forget();
    titles_forget();
    pynames_forget();
    pytoken_forget();
    history_forget();
}

/*
 * Makes NVTX find us, since a library reads the variable at its first range. No file but that of
 * mark.h, no thread, no CUDA call.
 */
__attribute__((constructor)) static void loaded(void)
{
    static struct config early;
    static char own_path[PATH_MAX];
    bool is_wanted, asks_moments;
    Dl_info info;

    if (life_is_secure())
        return;
    msg_start();
    is_wanted = life_read_early(&early);
    if (dladdr(&early, &info) && info.dli_fname && realpath(info.dli_fname, own_path)) {
        if (is_wanted && (config_word(&early, CONFIG_ANCHORS) & SOURCE_NVTX))
            nvtx_offer(own_path);
        else
            nvtx_withdraw(own_path);
    }
    if (!is_wanted)
        return;
    mark_loaded();
    (void)on_exit(note_exit_status, NULL);
    asks_moments = held_start(&early);
    asks_moments |= kinds_start(&early);
    history_start(&early);
    if (source_python_level(&early) > 0)
        pyhost_start(source_python_level(&early) == 2,
                &(struct pyhost_parts){look_at_python, pyparts_look_for_classes, forget_python,
                        asks_moments ? look_at_moment : NULL, titles_name, pynames_below});
    output_start(&early, dl_iterate_phdr(is_cuda_object, NULL) != 0);
    thread_prepare();
    threadmem_prepare();
    (void)pthread_atfork(NULL, NULL, fork_child_early);
}

__attribute__((destructor)) static void unloading(void)
{
    if (!life_is_on())
        return;
    guard_push();
    coverage_tell(true);
    device_stats_moves();
    evictlog_end();
    underway_end();
    held_exits();
    capture_state(FORMAT_STATE_CLEAN, 0);
    guard_pop();
}

/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capdefs.h"
#include "tracker/capture/caplive.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/anchor.h"

static _Atomic uint32_t kept, shorts; /* numbers of recorded ones */

/* Writes the definitions that the record names before the record. */
static int capevict_put(
        struct format_def *def, size_t bytes, uint32_t string, uint32_t stack, uint32_t pystack)
{
    capstate_degraded(capdefs_sync(string, stack));
    capstate_degraded(capdefs_sync_python(pystack));
    capstate_degraded(capdefs_put(def, bytes, NULL, 0));
    return capstate_trouble();
}

/* Is there a file, and may one more record be written? */
static bool may_put(_Atomic uint32_t *count, uint32_t max, int *ret_error)
{
    if (!capstate_begin(false, ret_error))
        return false;
    if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < max)
        return true;
    capdefs_lost();
    return false;
}

/* One of this many steps around `step` is written: each up to the bound, and half as many each time
 * the step number doubles. */
static uint64_t one_in(uint64_t step)
{
    uint64_t count = 1;

    while (step / count >= FORMAT_EVICT_STEPS_ALL)
        count *= 2;
    return count;
}

int capture_evict(const struct capture_evict *info)
{
    bool is_running = (info->what.flags & FORMAT_EVICT_RUNNING) != 0;
    struct format_def_evict def = {
            .def = {.kind = FORMAT_DEF_EVICT, .id = (uint32_t)info->rule},
            .what = info->what,
    };
    int r;

    if (!is_running && info->what.step % one_in(info->what.step) != 0)
        return 0;
    if (!capstate_begin(false, &r))
        return r;
    def.time_ns = capstate_time();
    return capevict_put(&def.def, sizeof def, 0, 0, 0);
}

int capture_evict_kept(
        int rule, devptr_t ptr, uint64_t size, int device, enum format_kept_why why, uint64_t seq)
{
    struct caplive_origin origin;
    int r;

    if (!may_put(&kept, FORMAT_KEPT_MAX, &r))
        return r;
    origin = caplive_origin(ptr);
    struct format_def_kept def = {
            .def = {.kind = FORMAT_DEF_KEPT, .id = (uint32_t)rule},
            .addr = ptr,
            .size = size,
            .seq = seq,
            .device = device,
            .why = (uint32_t)why,
            .stack = origin.stack,
            .pystack = origin.pystack,
            .path = origin.path,
    };
    return capevict_put(&def.def, sizeof def, def.path, def.stack, def.pystack);
}

int capture_evict_short(int rule, int device, uint64_t needed, uint64_t room, uint64_t cap)
{
    struct anchor_place place;
    int r;

    if (!may_put(&shorts, FORMAT_SHORT_MAX, &r))
        return r;
    anchor_here(&place);
    struct format_def_short def = {
            .def = {.kind = FORMAT_DEF_SHORT, .id = (uint32_t)rule},
            .time_ns = capstate_time(),
            .needed = needed,
            .room = room,
            .cap = cap,
            .path = place.anchor ? intern_number(place.path) : 0,
            .instance = place.instance,
            .device = device,
    };
    return capevict_put(&def.def, sizeof def, def.path, 0, 0);
}

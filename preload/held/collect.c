/* SPDX-License-Identifier: MIT */
#include "preload/held/collect.h"

#include "preload/base/guard.h"
#include "preload/driver/backend.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/driver/session.h"
#include "preload/held/grown.h"
#include "preload/python/pycall.h"
#include "tracker/capture/capture.h"

#include "alloc/pool.h"

#include <stdint.h>

#define COLLECT_ROOM 16 /* this part of what can be live is left when the collector runs */

static const char *const collect_names[] = {"PyObject_CallObject"};
static struct {
    struct pyhost_object *(*PyObject_CallObject)(struct pyhost_object *, struct pyhost_object *);
} py;

/* With the GIL. Of the device of the thread that came last. */
static struct {
    int device;
    uint64_t before;   /* live at the last round */
    uint64_t peak;     /* by then */
    uint64_t beyond;   /* what the round with this peak had beyond what was live at its begin */
    uint64_t can_live; /* in the whole, when this peak was seen; 0: unknown */
    uint64_t used;     /* live after the last collection */
} round_at = {.device = -1};

bool collect_find(void)
{
    return pycall_find(&py, collect_names, sizeof collect_names / sizeof *collect_names)
            && pyhost_in_module("gc", "collect");
}

void collect_now(void)
{
    struct pyhost_object *collect = pyhost_in_module("gc", "collect");

    if (collect)
        pyhost_drop(py.PyObject_CallObject(collect, NULL));
}

/* What can be live on the device: what is, and what the program could still get. 0: unknown. */
static uint64_t collect_can_live(int device, uint64_t live)
{
    struct pool_memory memory = {.may_wait = true};

    if (!session_pool || !session_may_fence() || life_sticky()
            || backend_driver.memory(NULL, device, &memory.total, &memory.driver_free) != 0)
        return 0;
    return live + pool_available(session_pool, device, &memory);
}

/* Notes what is live; false: nothing is known of this round. */
static bool collect_look(uint64_t *ret_live)
{
    struct context context;
    uint64_t peak;

    if (context_here(&context) != 0)
        return false;
    *ret_live = capture_live_bytes(context.device, &peak);
    if (context.device != round_at.device) {
        round_at.device = context.device;
        round_at.before = round_at.peak = round_at.beyond = round_at.can_live = round_at.used = 0;
    }
    if (peak > round_at.peak) {
        if (round_at.before)
            round_at.beyond = peak - round_at.before;
        round_at.peak = peak;
        round_at.can_live = collect_can_live(context.device, *ret_live);
    }
    round_at.before = *ret_live;
    return round_at.can_live != 0;
}

void collect_at_round(void)
{
    uint64_t live = 0, peak;
    bool is_known;

    guard_push();
    is_known = collect_look(&live);
    guard_pop();
    if (!is_known || live + round_at.beyond <= round_at.can_live - round_at.can_live / COLLECT_ROOM
            || !grown_is_clear(round_at.used, live))
        return;
    collect_now();
    round_at.used = round_at.before = capture_live_bytes(round_at.device, &peak);
}

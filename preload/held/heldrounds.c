/* SPDX-License-Identifier: MIT */
#include "preload/held/heldrounds.h"

#include "preload/held/grown.h"
#include "tracker/capture/capture.h"

enum {
    ROUNDLESS_BLOCKS = 16, /* fewer that are left of a program without rounds are no leak of it */
    ROUNDLESS_PART = 8,    /* and so if more than this part of its peak is gone */
};

/* With the GIL. `steps` end with the last of these kinds that the program has come to. */
static struct grown steps, evals;
static enum pyloop_kind steps_by;
static uint64_t walked_at; /* live when its growth was last walked */

struct grown *heldrounds_of(const struct pyhost_moment *moment)
{
    if (moment->is_begin != (moment->kind == PYLOOP_FORWARD) || pyhost_passes() > 0)
        return NULL;
    if (!moment->trains && moment->kind == PYLOOP_FORWARD)
        return &evals;
    if (moment->kind > steps_by) {
        steps_by = moment->kind;
        steps = (struct grown){0};
    }
    return moment->kind == steps_by ? &steps : NULL;
}

bool heldrounds_have_grown(struct grown *of)
{
    uint64_t peak;
    uint64_t live = capture_live_bytes(-1, &peak);

    if (!grown_round(of, live) || live < HELDROUNDS_LEAST || !grown_is_clear(walked_at, live))
        return false;
    walked_at = live;
    return true;
}

bool heldrounds_are_left(uint64_t count, uint64_t bytes)
{
    const struct grown *of = steps.rounds ? &steps : &evals;
    uint64_t peak;

    if (walked_at)
        return false;
    if (of->rounds)
        return grown_is_clear(of->most, bytes);
    (void)capture_live_bytes(-1, &peak);
    return count >= ROUNDLESS_BLOCKS && bytes >= peak - peak / ROUNDLESS_PART;
}

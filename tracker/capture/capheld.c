/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capdefs.h"
#include "tracker/capture/caplive.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/captotal.h"
#include "tracker/capture/capture.h"

#include <stdatomic.h>

static _Atomic uint32_t walks, all_records, all_addresses;
static _Atomic uint32_t records[FORMAT_WALKS_MAX]; /* of each walk */

uint32_t capture_live(int device, struct capture_block *to, uint32_t room, uint64_t *ret_bytes)
{
    int r;

    *ret_bytes = 0;
    return capstate_begin(false, &r) ? caplive_list(device, to, room, ret_bytes) : 0;
}

uint64_t capture_live_bytes(int device, uint64_t *ret_peak)
{
    int r;
    struct format_header *header = capstate_begin(false, &r);
    const struct format_totals *of = !header ? NULL
            : device < 0                     ? &header->total
                                             : captotal_of(header, device);

    *ret_peak = of ? __atomic_load_n(&of->peak_bytes, __ATOMIC_RELAXED) : 0;
    return of ? __atomic_load_n(&of->live_bytes, __ATOMIC_RELAXED) : 0;
}

uint64_t capture_recent_peak(bool restart)
{
    int r;
    const struct format_header *header = capstate_begin(false, &r);
    uint64_t peak;

    if (!header)
        return 0;
    lock_take(&captotal_figures);
    peak = captotal_recent_peak(header, restart);
    lock_drop(&captotal_figures);
    return peak;
}

uint32_t capture_walk_begin(void)
{
    uint32_t number;
    int r;

    if (!capstate_begin(false, &r)
            || atomic_load_explicit(&all_records, memory_order_relaxed) >= FORMAT_HELD_ALL_MAX)
        return 0;
    number = atomic_fetch_add_explicit(&walks, 1, memory_order_relaxed) + 1;
    return number <= FORMAT_WALKS_MAX ? number : 0;
}

int capture_held(uint32_t walk, const struct capture_block *sum, uint64_t count, const char *text,
        size_t length)
{
    struct format_def_held def = {
            .def = {.kind = FORMAT_DEF_HELD, .id = walk},
            .bytes = sum->size,
            .count = count,
            .stack = (uint32_t)sum->stack,
            .pystack = (uint32_t)sum->pystack,
    };
    int r;

    if (walk == 0 || walk > FORMAT_WALKS_MAX || !capstate_begin(false, &r)
            || atomic_fetch_add_explicit(&records[walk - 1], 1, memory_order_relaxed)
                    >= FORMAT_HELD_MAX
            || atomic_fetch_add_explicit(&all_records, 1, memory_order_relaxed)
                    >= FORMAT_HELD_ALL_MAX)
        return 0;
    capstate_degraded(capdefs_sync(0, def.stack > sum->addr ? def.stack : (uint32_t)sum->addr));
    capstate_degraded(capdefs_sync_python(def.pystack));
    capstate_degraded(capdefs_put(&def.def, sizeof def, text, length));
    return capstate_trouble();
}

int capture_held_at(uint32_t walk, const uint64_t *addresses, size_t count)
{
    struct format_def_held_at def = {.def = {.kind = FORMAT_DEF_HELD_AT, .id = walk}};
    int r;

    if (walk == 0 || walk > FORMAT_WALKS_MAX || !capstate_begin(false, &r))
        return 0;
    def.row = atomic_load_explicit(&records[walk - 1], memory_order_relaxed) - 1;
    while (def.row < FORMAT_HELD_MAX && count > 0
            && atomic_load_explicit(&all_addresses, memory_order_relaxed)
                    < FORMAT_HELD_AT_ALL_MAX) {
        size_t part = count < FORMAT_HELD_AT_MAX ? count : FORMAT_HELD_AT_MAX;

        atomic_fetch_add_explicit(&all_addresses, (uint32_t)part, memory_order_relaxed);
        capstate_degraded(capdefs_put(
                &def.def, sizeof def, (const char *)addresses, part * sizeof *addresses));
        addresses += part;
        count -= part;
    }
    return capstate_trouble();
}

int capture_walk(uint32_t walk, const struct format_def_walk *what)
{
    struct format_def_walk def = *what;
    struct format_header *header;
    int r;

    header = walk == 0 ? NULL : capstate_begin(false, &r);
    if (!header)
        return 0;
    def.def = (struct format_def){.kind = FORMAT_DEF_WALK, .id = walk};
    def.time_ns = capstate_time();
    def.failures = __atomic_load_n(&header->oom_count, __ATOMIC_RELAXED);
    capstate_degraded(capdefs_put(&def.def, sizeof def, NULL, 0));
    return capstate_trouble();
}

/* SPDX-License-Identifier: MIT */
#include "preload/hints/evictlog.h"

#include "preload/base/msg.h"
#include "preload/driver/contexts.h"
#include "preload/driver/session.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/hints_run.h"
#include "tracker/capture/capture.h"

#include <stdatomic.h>

/* Rules that have printed a line, one bit each; the last bit stands for all higher rules. */
enum {
    RULES_TOLD = 4096,
};

struct told {
    _Atomic(uint64_t) bits[RULES_TOLD / 64];
};

static bool is_first(struct told *told, int rule)
{
    unsigned at = rule < RULES_TOLD ? (unsigned)rule : RULES_TOLD - 1;
    uint64_t bit = UINT64_C(1) << at % 64;

    return (atomic_fetch_or(&told->bits[at / 64], bit) & bit) == 0;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void evictlog_tell_step(const struct pool_evict_step *step, bool is_running)
{
    struct capture_evict info = {
            .rule = step->rule,
            .what = {.step = step->step,
                    .cap = step->cap,
                    .bytes = step->bytes,
                    .units = step->units,
                    .in_bytes_high = step->in_bytes_high,
                    .moved_in = step->moved_in,
                    .moved_out = step->moved_out,
                    .count_in = step->count_in,
                    .count_out = step->count_out,
                    .dropped = step->dropped,
                    .late = step->late,
                    .uses = step->uses,
                    .looks = step->looks,
                    .bound = step->bound,
                    .layout_ns = step->layout_ns,
                    .evict_ns = step->evict_ns,
                    .stall_ns = step->stall_ns,
                    .device = step->device,
                    .flags = (step->is_planned ? FORMAT_EVICT_PLANNED : 0)
                            | (step->is_replayed ? FORMAT_EVICT_REPLAYED : 0)
                            | (step->is_paper ? FORMAT_EVICT_PAPER : 0)
                            | (is_running ? FORMAT_EVICT_RUNNING : 0)},
    };

    _Static_assert(FORMAT_EVICT_STATES == EVICT_STATE_COUNT, "the capture has all states");
    for (unsigned i = 0; i < FORMAT_EVICT_STATES; i++)
        info.what.state_bytes[i] = step->state_bytes[i];
    session_report(capture_evict(&info));
}

void evictlog_steps(void)
{
    struct pool_evict_step step;

    while (pool_evict_next_step(session_pool, &step))
        evictlog_tell_step(&step, false);
}

void evictlog_end(void)
{
    struct pool_evict_step step;

    if (!evict_in_is_wanted() || !hints_run.hints)
        return;
    evictlog_steps();
    for (int rule = 0; rule < (int)hint_count(hints_run.hints); rule++)
        for (int device = 0; hints_run_is_evict_rule(rule) && device < DEVICES_MAX; device++)
            if (pool_evict_now(session_pool, rule, device, &step))
                evictlog_tell_step(&step, true);
}

/* ---- blocks that stay in -------------------------------------------------------------------- */

struct reason {
    enum format_kept_why why;
    const char *text;
};

static void tell_kept(const struct block_info *block, const struct reason *reason)
{
    static struct told told;

    session_report(capture_evict_kept(
            block->rule, block->base, block->size, block->device, reason->why, block->alloc_seq));
    if (is_first(&told, block->rule))
        msg_warn("hint %s: a block of %lu bytes at %p stays on the device: %s",
                hint_rule(hints_run.hints, block->rule)->id, (unsigned long)block->size,
                (void *)(uintptr_t)block->base, reason->text);
}

void evictlog_kept(const struct outcome *kept)
{
    static const struct reason reasons[POOL_KEPT_COUNT] = {
            [POOL_KEPT_POINTER] = {FORMAT_KEPT_POINTER,
                    "its address was copied to the device among data"},
            [POOL_KEPT_UNTOLD] = {FORMAT_KEPT_UNTOLD,
                    "the driver does not tell what a launch uses"},
            [POOL_KEPT_UNUSED] = {FORMAT_KEPT_UNUSED,
                    "no call has named it in a whole step (while there is room)"},
            [POOL_KEPT_HOST] = {FORMAT_KEPT_HOST, "the host has no memory for its content"},
            [POOL_KEPT_DRIVER] = {FORMAT_KEPT_DRIVER, "the driver has refused to move it"},
            [POOL_KEPT_NEEDED] = {FORMAT_KEPT_NEEDED,
                    "a call has named it after its release, and it came back from the host"},
    };
    struct block_info block = {.rule = kept->rule,
            .base = kept->ptr,
            .size = kept->size,
            .device = kept->device,
            .alloc_seq = kept->alloc_seq};

    if (kept->rule >= 0 && kept->rounded < POOL_KEPT_COUNT)
        tell_kept(&block, &reasons[kept->rounded]);
}

void evictlog_pinned(const struct block_info *info, enum format_kept_why why)
{
    struct reason reason = {why, "it was registered or shown to somebody who uses it unseen"};

    tell_kept(info, &reason);
}

/* ---- calls whose blocks do not fit ---------------------------------------------------------- */

void evictlog_short(const struct pool_short *lacks)
{
    static struct told told;

    if (lacks->rule < 0)
        return;
    session_report(capture_evict_short(
            lacks->rule, lacks->device, lacks->needed, lacks->room, lacks->cap));
    if (is_first(&told, lacks->rule))
        msg_warn("hint %s: a call needs %lu bytes on the device at once, and the cap of %lu leaves "
                 "room for %lu; it is not made",
                hint_rule(hints_run.hints, lacks->rule)->id, (unsigned long)lacks->needed,
                (unsigned long)lacks->cap, (unsigned long)lacks->room);
}

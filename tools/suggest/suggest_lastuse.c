/* SPDX-License-Identifier: MIT */
#include "tools/suggest/suggest_lastuse.h"

#include "tools/base/vec.h"
#include "tools/patterns/patterns.h"

uint32_t suggest_lastuse_late_by(const struct trace *trace, const struct trace_block *block)
{
    for (uint32_t a = block->anchor; a != TRACE_NONE && a != 0; a = trace->anchors[a].parent) {
        uint32_t exit = trace->anchors[a].exit;

        if (exit == TRACE_NEVER || exit >= block->died)
            return TRACE_NONE;
        if (exit > block->born && trace_uses(trace, block).last < trace->events[exit].time_ns)
            return a;
    }
    return TRACE_NONE;
}

/* Counts the block; true: its uses and its anchor allow it to be late. */
static bool suggest_lastuse_look_at(
        const struct trace *trace, const struct trace_block *block, struct compare *late)
{
    struct trace_sum *sum = &late->looked;

    if (block->anchor == 0)
        sum = &late->outside;
    else if (patterns_doubt_of(block) != PATTERNS_DOUBTS)
        sum = &late->unjudged;
    else if (trace->anchors[block->anchor].exit == TRACE_NEVER)
        sum = &late->unfinished;
    trace_sum_add(&late->all, block->size);
    trace_sum_add(sum, block->size);
    return sum == &late->looked;
}

void suggest_lastuse_late(
        const struct trace *trace, struct model_window window, struct compare *ret_late)
{
    *ret_late = (struct compare){.lone_good_anchor = TRACE_NONE, .lone_bad_anchor = TRACE_NONE};
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        uint32_t anchor;

        if (block->born < window.first || block->born >= window.last
                || !suggest_lastuse_look_at(trace, block, ret_late))
            continue;
        anchor = suggest_lastuse_late_by(trace, block);
        if (anchor == TRACE_NONE)
            continue;
        VEC_PUSH(ret_late->late, ret_late->late_count, ret_late->late_room) =
                (struct compare_late){TRACE_NONE, (uint32_t)i, anchor};
        ret_late->late_bytes += block->size;
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * compare.h - compares two runs of one program, block by block, to find blocks that the bad run
 * frees too late.
 *
 * 1. Anchor instances of the two runs correspond if path and instance number are equal.
 * 2. Within one, the blocks allocated directly in it are two sequences of (site, size). The longest
 *    common subsequence pairs them in order (align.h). The rest is paired by (site, size) in order,
 *    since threads interleave differently, then by size alone, since a rebuilt binary has other
 *    sites. If both runs have Python stacks, blocks of equal (site, size, Python stack) are paired
 *    before these, since all layers of a framework have one site.
 * 3. A pair whose free in the good run came inside some anchor around it, and in the bad run after
 *    that anchor's exit or never, is a late free: the good run proves that the block is not needed
 *    after that exit.
 *
 *        good   SOT_CALL_3 [ alloc x ─── free x ]
 *        bad    SOT_CALL_3 [ alloc x ───────────] ─── … ─── free x        late by SOT_CALL_3's exit
 *
 * An allocation of one run only that is freed in the same anchor instance is counted; peaks.h shows
 * its effect on the peak. One that is kept is listed as extra. Blocks that the bad run never frees
 * although the good run frees them, outside of all anchors, are listed apart and only if the bad
 * run exited. Blocks without a partner, outside of anchors, or in an anchor that one run lacks or
 * did not leave are counted by the reason (compare_coverage.h).
 *
 * Does not symbolise or group. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_COMPARE_H
#define KEDGE_TOOLS_COMPARE_H

#include "tools/base/keytable.h"
#include "tools/trace/model.h"
#include "tools/trace/trace.h"

/* A block of the bad run that the good run had freed by the exit of `anchor` (of the bad run). */
struct compare_late {
    uint32_t good, bad;
    uint32_t anchor;
};

struct compare {
    uint32_t *partner; /* good block -> bad block, ALIGN_NONE; NULL: of one run */

    struct compare_late *late;
    size_t late_count, late_room;
    uint64_t late_bytes;

    struct compare_late *never; /* anchor is 0 */
    size_t never_count, never_room;
    uint64_t never_bytes;

    uint32_t *extra; /* blocks that only the bad run allocates, and keeps beyond their anchor */
    size_t extra_count, extra_room;
    uint64_t extra_bytes;

    struct trace_sum extra_remaining; /* those of `extra` that are live at the window's end */

    struct trace_sum freed_good, freed_bad; /* one run only, freed in the same anchor instance */
    struct trace_sum missing;               /* blocks that only the good run allocates, and keeps */
    struct trace_sum paired;                /* blocks that have a partner */
    uint64_t anchors_paired, anchors_lone_good, anchors_lone_bad;

    /* Bytes live at the window's end of the window's allocations (model.h: Remaining). */
    struct trace_sum remaining_good, remaining;
    struct trace_sum all_good; /* every block of the good run */

    /* Every block of the bad run is in one of these sums; `all` is the sum of them. */
    struct trace_sum all, looked;
    struct trace_sum outside;    /* in no anchor */
    struct trace_sum lone_bad;   /* in anchors that the good run never entered */
    struct trace_sum unfinished; /* paired, in anchors that the bad run never left */
    struct trace_sum unpaired;   /* in anchors of both, without a partner */
    /* of one run: may have been used unseen (suggest_lastuse.h) */
    struct trace_sum unjudged;
    uint32_t lone_good_anchor, lone_bad_anchor; /* the first anchor of one run only, TRACE_NONE */
};

struct compare_side {
    const struct trace *trace;
    struct model_window window; /* only blocks born in it are compared */
    bool ended;                 /* the program exited: blocks live at the end were never freed */
};

/* Whether the end of the compared part is not where the run was cut off. */
bool compare_has_end(const struct compare_side *side);

/* Equal for anchor instances that correspond. */
struct key compare_anchor_key(const struct trace_anchor *anchor);

/* Fills *ret_compare; compare_done frees it. */
void compare_runs(const struct compare_side *good, const struct compare_side *bad,
        struct compare *ret_compare);
void compare_done(struct compare *compare);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * suggest_rules.h - late frees into hints: as few and as general as are exact.
 *
 * A hint says which allocations die at which anchor's exit. suggest_candidates.h lists the hints that are exact, suggest_cover.h takes few of them
 * that cover as much as all do, the more readable ones where they cover as much:
 *
 *     late frees ─► candidates: site x anchor x sizes x turns, exact in both runs ─► fewest ─► checked by the code that acts
 *
 * Send buffers that pile up (suggest_growth.h) come first: their hints release them at a counted receive. They are written in mode trap,
 * since what a receive proves is for a person to say. If the hint of one is dropped, its blocks are late frees like others.
 *
 * Of several ranks one has its hints made, and the others speak against what would take memory that they still use, may use unseen, or
 * share. What a hint expects is what it matches in all of them.
 *
 * A late free that the bad run still uses after its exit is late by the exit of the next anchor around it that lies behind all its
 * uses. Counted, and given no hint: what no candidate covers, blocks below min_size, and what is used after every such
 * exit. The hints are checked together with the code that acts in the run (predict.h).
 *
 * Does not read, write or print. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SUGGEST_RULES_H
#define KEDGE_TOOLS_SUGGEST_RULES_H

#include "alloc/base/rule.h"
#include "tools/compare/compare.h"
#include "tools/suggest/suggest_growth.h"
#include "tools/symbols/sitekey.h"
#include "tools/trace/trace.h"

enum suggest_rules_effect {
    SUGGEST_RULES_EFFECT_UNKNOWN, /* too many hints to try each */
    SUGGEST_RULES_EFFECT_NONE,    /* the peak is the same with and without it */
    SUGGEST_RULES_EFFECT_PEAK,    /* it lowers the peak, alone or with the others */
};

struct suggest_rules_hint {
    struct rule rule;
    struct sitekey key; /* that of the rule's site */
    uint64_t count,
            bytes;   /* late frees; rule.expect: in the instances that have ended, of all ranks */
    uint64_t unused; /* of them, those of which a use would have been seen, and none was */
    /* the job's: then count and bytes are of its blocks; NULL: the hint is for late frees */
    const struct suggest_growth *grower;
    uint64_t least, most; /* their sizes */
    uint32_t stack;       /* of the first of them */
    enum suggest_rules_effect effect;
    uint64_t gain; /* how much higher the peak would be without it */
};

struct suggest_rules {
    struct suggest_rules_hint *hints;
    size_t hint_count;
    struct trace_sum covered;       /* late frees that a hint covers */
    struct trace_sum grown;         /* blocks that pile up and have a hint, late or not */
    struct trace_sum small;         /* below min_size */
    struct trace_sum mixed;         /* no hint tells them apart from what must stay */
    bool is_cut;                    /* or none that was looked at (suggest_candidates.h) */
    struct trace_sum unplaced;      /* no stack was recorded, or not from the pool */
    struct trace_sum shared;        /* at a site that exports, registers or describes its blocks */
    struct trace_sum used;          /* the bad run was seen to use them after the exit */
    struct trace_sum idle;          /* only_effective: a hint would not lower the peak */
    uint64_t max_before, max_after; /* Max of the window without and with the hints */
};

struct suggest_rules_job {
    const struct trace *trace; /* the bad run */
    /* the other one, NULL: none. What lives past the exit there is not matched; and its shared sites count, too */
    const struct trace *good;
    struct model_window window;
    const struct compare_late *late;
    size_t late_count;
    const struct growers *growers; /* get a hint each, before all others; NULL: none */
    /* Runs of other ranks with the same hints (`trace` may be among them): no hint takes what one of them still uses. */
    const struct trace *const *ranks;
    size_t rank_count;
    uint64_t min_size;
    /*
     * Only hints that lower the peak: late frees of one run by its own uses prove less than another run does. Two that lower it
     * only together have an effect each; should the others be worse without those that have none, all stay.
     */
    bool only_effective;
};

/* 0, or -errno of hint_new. */
int suggest_rules_hints(const struct suggest_rules_job *job, struct suggest_rules *ret_mine);
void suggest_rules_done(struct suggest_rules *mine);

/* The rules of the hints, for predict.h; the caller frees them. */
struct rule *suggest_rules_rules(const struct suggest_rules *mine);

#endif

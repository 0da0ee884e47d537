/* SPDX-License-Identifier: MIT */
/*
 * suggest_rules.h - makes hints for late frees: as few and as general as exactness permits.
 *
 * A hint names allocations and the anchor at whose exit they die. suggest_candidates.h lists the
 * hints that are exact, suggest_cover.h takes few of them that cover as much as all do, preferring
 * readable ones:
 *
 *     late frees ─► candidates: site x anchor x sizes x turns, exact in both runs ─► fewest ─►
 *     checked by the code that acts
 *
 * Send buffers that pile up (suggest_growth.h) come first: their hints release them at a counted
 * receive. They are written in mode trap, since a person must state what a receive proves. If such
 * a hint is dropped, its blocks are late frees like others.
 *
 * With several ranks the hints are made from one, and dropped if they would take memory that
 * another rank still uses, may use unseen, or shares. A hint expects its matches in all ranks.
 *
 * A late free that the bad run still uses after its exit is late by the exit of the next anchor
 * around it that lies behind all its uses. Counted without a hint: blocks that no candidate covers,
 * blocks below min_size, and blocks used after every such exit. The hints are checked together with
 * the code that acts in the run (predict.h).
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
    struct sitekey key;    /* key of the rule's site */
    uint64_t count, bytes; /* late frees; rule.expect: in the finished instances, of all ranks */
    uint64_t unused;       /* of them, those whose uses would have been seen, without any use */
    /* from the job: then count and bytes are of its blocks; NULL: the hint is for late frees */
    const struct suggest_growth *grower;
    uint64_t least, most; /* their sizes */
    uint32_t stack;       /* of the first of them */
    enum suggest_rules_effect effect;
    uint64_t gain; /* the increase of the peak without the hint */
};

struct suggest_rules {
    struct suggest_rules_hint *hints;
    size_t hint_count;
    struct trace_sum covered;       /* late frees that a hint covers */
    struct trace_sum grown;         /* blocks of growers with a hint, late or not */
    struct trace_sum small;         /* below min_size */
    struct trace_sum mixed;         /* no hint distinguishes them from blocks that must stay */
    bool is_cut;                    /* or no tried hint does (suggest_candidates.h) */
    struct trace_sum unplaced;      /* no stack was recorded, or not from the pool */
    struct trace_sum shared;        /* at a site that exports, registers or describes its blocks */
    struct trace_sum used;          /* the bad run used them after the exit */
    struct trace_sum idle;          /* only_effective: a hint would not lower the peak */
    uint64_t max_before, max_after; /* Max of the window without and with the hints */
};

struct suggest_rules_job {
    const struct trace *trace; /* the bad run */
    /* NULL: none. Blocks that live past the exit there are not matched; its shared sites count */
    const struct trace *good;
    struct model_window window;
    const struct compare_late *late;
    size_t late_count;
    const struct growers *growers; /* get a hint each, before all others; NULL: none */
    /* runs of all ranks with these hints: no hint takes a block that one of them still uses */
    const struct trace *const *ranks;
    size_t rank_count;
    uint64_t min_size;
    /*
     * Keeps only hints that lower the peak: late frees of one run by its own uses prove less than a
     * second run does. Two hints that lower it only together both have an effect; if the others are
     * worse without the ineffective ones, all are kept.
     */
    bool only_effective;
};

/* 0, or -errno of hint_new. */
int suggest_rules_hints(const struct suggest_rules_job *job, struct suggest_rules *ret_mine);
void suggest_rules_done(struct suggest_rules *mine);

/* The rules of the hints, for predict.h; the caller frees them. */
struct rule *suggest_rules_rules(const struct suggest_rules *mine);

#endif

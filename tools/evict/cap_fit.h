/* SPDX-License-Identifier: MIT */
/*
 * cap_fit.h - finds the evict hint with which a recorded run fits into a given size of a device.
 *
 *     steps, uses ─► fitsites: which blocks may go out, by which picks ─┐
 *     pool replay of other blocks ─► rest of the cap ───────────────────┼─► swapsim ─► moves ─► picks
 *
 * It is one hint, since blocks that share a cap must have one hint: its sites are those of the
 * picks. Picks are added one by one, each time the one with the fewest moved bytes, until the run
 * fits and no further pick saves a sixteenth of them. If blocks that live across steps do not
 * suffice, blocks that live within a step may be evicted, too.
 *
 * The cap of the hint is the size of the device, less the most that all other blocks take when the
 * pool serves them, rounding included, and less the memory that the driver serves itself.
 *
 * Does not read, write or print. Units: bytes, ns. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_CAP_FIT_H
#define KEDGE_TOOLS_CAP_FIT_H

#include "alloc/base/rule.h"
#include "tools/evict/cap_sites.h"
#include "tools/evict/swapsim.h"
#include "tools/trace/stated_steps.h"

#define CAP_FIT_STEPS_MIN 3 /* the first step is learnt, the second uses that order, and must end */

struct cap_fit_job {
    const struct trace *trace;
    const struct stated_steps *steps;
    uint64_t size; /* that each device may hold */
    uint64_t min_size;
    uint64_t bandwidth; /* bytes a second in each direction */
};

enum cap_fit_answer {
    CAP_FIT_FOUND,
    CAP_FIT_FITS,        /* without a hint */
    CAP_FIT_FEW_STEPS,   /* fewer than CAP_FIT_STEPS_MIN are stated */
    CAP_FIT_MIXED_STEPS, /* no edge of a range occurs at each begin and nowhere else */
    CAP_FIT_NOTHING,     /* no block may be evicted */
    CAP_FIT_OTHER,       /* the blocks that must stay are too large: `other` */
    CAP_FIT_CALL,        /* a call needs too much at once: `needed`, `room`, `at` */
};

/* A usual step, all devices together. */
struct cap_fit_step {
    uint64_t moved_in, moved_out;
    uint64_t bound; /* bytes that any order of moves must bring in */
    uint64_t recorded_ns, waited_ns;
};

struct cap_fit {
    enum cap_fit_answer answer;
    struct rule rule;             /* without an id */
    struct cap_sites_pick *picks; /* of the rule's sites */
    size_t pick_count;
    struct trace_sum managed;                 /* blocks that the hint matches */
    struct trace_sum left[CAP_SITES_CLASSES]; /* as in cap_sites.h */
    /* blocks that live across steps and could be evicted, but are in no pick of the hint */
    struct trace_sum mixed;
    uint64_t before;   /* held without the hint, by the fullest device */
    uint64_t other;    /* held by all other blocks */
    uint64_t reserved; /* predicted for the pools of all devices, with the hint */
    uint64_t host;     /* evicted content, at most */
    struct cap_fit_step step;
    uint64_t needed, room;
    uint32_t at; /* the next event */
};

/* 0, or -errno. Call cap_fit_done in any case. */
int cap_fit_find(const struct cap_fit_job *job, struct cap_fit *ret_fit);
void cap_fit_done(struct cap_fit *fit);

/* The factor by which a step takes longer than recorded; 0 = unknown. */
double cap_fit_slowdown(const struct cap_fit_step *step);

#endif

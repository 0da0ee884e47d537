/* SPDX-License-Identifier: MIT */
/*
 * cap_fit.h - the evict hint under which a recorded run needs no more than so much of a device.
 *
 *     steps, uses ─► fitsites: which blocks may go out, by which picks ─┐
 *     pool replay of all other blocks ─► what is left of the cap ───────┼─► swapsim ─► moved bytes, time ─► fewest picks
 *
 * One hint, since blocks that share a cap have to be of one: its sites are those of the picks. They are taken one by one, each time the one
 * with which least is moved, until the run fits and no further one saves a sixteenth of what is moved. If what lives across steps
 * does not suffice, what is made and freed within a step may go out, too.
 *
 * The cap of the hint is what the device may hold, less the most that all other blocks take when the pool serves them, rounding
 * included, and what the driver serves itself.
 *
 * Does not read, write or print. Units: bytes, ns. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_CAP_FIT_H
#define KEDGE_TOOLS_CAP_FIT_H

#include "alloc/base/rule.h"
#include "tools/evict/cap_sites.h"
#include "tools/evict/swapsim.h"
#include "tools/trace/stated_steps.h"

#define CAP_FIT_STEPS_MIN \
    3 /* the first is learnt from, the next one goes by that, and has to end */

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
    CAP_FIT_MIXED_STEPS, /* no edge of a range is their begins, and nothing else's */
    CAP_FIT_NOTHING,     /* no block may go out */
    CAP_FIT_OTHER,       /* what has to stay is too much: `other` */
    CAP_FIT_CALL,        /* a call needs too much at once: `needed`, `room`, `at` */
};

/* A step as it becomes the habit, all devices together. */
struct cap_fit_step {
    uint64_t moved_in, moved_out;
    uint64_t bound; /* no order of moves brings in less */
    uint64_t recorded_ns, waited_ns;
};

struct cap_fit {
    enum cap_fit_answer answer;
    struct rule rule;             /* without an id */
    struct cap_sites_pick *picks; /* of the rule's sites */
    size_t pick_count;
    struct trace_sum managed;                 /* what the hint matches */
    struct trace_sum left[CAP_SITES_CLASSES]; /* as cap_sites.h */
    /* lives across steps and could go out, but no pick of the hint has it */
    struct trace_sum mixed;
    uint64_t before;   /* held without the hint, by the fullest device */
    uint64_t other;    /* held by all else */
    uint64_t reserved; /* predicted for the pools of all devices, with the hint */
    uint64_t host;     /* content that is out, at its most */
    struct cap_fit_step step;
    uint64_t needed, room;
    uint32_t at; /* the next event */
};

/* 0, or -errno. cap_fit_done in any case. */
int cap_fit_find(const struct cap_fit_job *job, struct cap_fit *ret_fit);
void cap_fit_done(struct cap_fit *fit);

/* How many times as long as recorded a step takes; 0 = not known. */
double cap_fit_slowdown(const struct cap_fit_step *step);

#endif

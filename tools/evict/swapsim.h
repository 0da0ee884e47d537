/* SPDX-License-Identifier: MIT */
/*
 * swapsim.h - what evict and restore hints would move in a recorded run.
 *
 * The order in which calls used blocks (trace_use) is played through the very code that decides in the run (alloc/hints/evict.h), one set
 * for each evict hint and device:
 *
 *     block made, matched ─► evict_add, its size in whole granules        edge of the hint's `when` ─► evict_step
 *     the uses of one call ─► evict_use ─► moves ─► bytes, time           freed ─► evict_remove
 *
 * A block's first coming in moves nothing, since it has no content yet; each later one is a copy in, and each going out a copy
 * out, unless no call has named it since it came in, or the hint says that kernels only read (clean) and the host has the
 * content: copies and sets that write it are not told apart in a capture. A block that is in, and that no call has named in
 * the first whole step, stays in from then on, but in shadow or under policy cpu.
 *
 * Time is that of the record, and what calls wait for: copies in and out are two queues, one of each for a device, at `bandwidth`. A copy
 * in begins when its call, or the one ahead of which it is made, is due, and the copies out before it are done.
 *
 * Knows nothing of pins, graphs and hosts without memory: which blocks stay for these is for the caller to say.
 *
 * Units: bytes, ns. Threads: none. Memory: vec.h, and evict.h's own.
 */
#ifndef KEDGE_TOOLS_SWAPSIM_H
#define KEDGE_TOOLS_SWAPSIM_H

#include "alloc/base/rule.h"
#include "tools/trace/trace.h"

#define SWAPSIM_GRANULE (UINT64_C(2) << 20) /* a block that moves has handles of its own */

struct swapsim_job {
    const struct trace *trace;
    const struct rule *rules;
    size_t rule_count;
    uint64_t bandwidth; /* bytes a second in each direction; 0: copies take no time */
    /* The cap in a step; NULL: what the rules state, which has to be bytes and all that there is. */
    uint64_t (*cap)(const void *self, uint32_t rule, int device, uint64_t step);
    const void *self;
    const bool *stays; /* per block: once in, it does not go out; NULL: all may */
};

/* Step 0 is what comes before the first edge. */
struct swapsim_step {
    uint64_t step, cap;
    uint64_t units, bytes; /* all of the set at its end */
    uint64_t in_bytes_high;
    uint64_t moved_in, moved_out; /* copied */
    uint64_t count_in, count_out;
    uint64_t dropped; /* went out without a copy */
    uint64_t uses;
    uint64_t recorded_ns; /* how long it took in the record, 0 = not known */
    uint64_t waited_ns;   /* what it would take longer */
    bool is_planned;      /* the order of use was known */
    bool is_replayed;     /* all went by the plan of the step before */
    bool is_running;      /* the record ended before it did */
};

/* Calls that could not be made. */
struct swapsim_short {
    uint64_t count;
    uint64_t needed, room; /* of the one that needed most: bytes at once, and what could be had */
    uint32_t at;           /* of that one: the next event */
};

struct swapsim_set {
    uint32_t rule;
    int device;
    struct swapsim_step *steps;
    size_t count, room;
    uint64_t bound;        /* evict_bound, of the last order that was learnt */
    uint64_t demand_high;  /* of one call */
    uint64_t host_high;    /* content that is out, at its most */
    struct trace_sum kept; /* stay in: not named in their first whole step */
    struct swapsim_short shorts;
};

struct swapsim {
    struct swapsim_set *sets;
    size_t count, room;
    /* per event, and one more behind the last: the most that was in at once since the event before, of all sets */
    uint64_t *in_most;
    uint32_t *rule_of; /* per block: the evict hint whose set it was in, TRACE_NONE */
};

/* 0, or -errno: of hint_new; -ENOMEM; -ENODATA: a cap is not bytes, and there is no `cap`. swapsim_done in any case. */
int swapsim_run(const struct swapsim_job *job, struct swapsim *ret_sim);
void swapsim_done(struct swapsim *sim);

bool swapsim_has_evict(const struct rule *rules, size_t count);

/*
 * The step that is the middle one by what it moved, of those that went by an order and ended, the first of them left out where there are more: it
 * begins with what the warm-up has left. NULL: there is none.
 */
const struct swapsim_step *swapsim_median(const struct swapsim_set *set);

#endif

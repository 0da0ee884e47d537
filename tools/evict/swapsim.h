/* SPDX-License-Identifier: MIT */
/*
 * swapsim.h - simulates the moves of evict and restore hints in a recorded run.
 *
 * The recorded order of uses (trace_use) is fed to the code that decides in the run
 * (alloc/hints/evict.h), one set for each evict hint and device:
 *
 *     block made, matched ─► evict_add, its size in granules   edge of its `when` ─► evict_step
 *     the uses of one call ─► evict_use ─► moves ─► bytes, time           freed ─► evict_remove
 *
 * A block's first move in copies nothing, since it has no content yet; each later one is a copy in.
 * Each move out is a copy out, unless no call has named the block since it came in, or the hint
 * says that kernels only read (clean) and the host has the content: a capture does not distinguish
 * copies and sets that write. A block that is in and was not named in the first whole step stays in
 * from then on, except in shadow or under policy cpu.
 *
 * Time is that of the record, and what calls wait for: copies in and out are two queues, one of
 * each for a device, at `bandwidth`. A copy in begins when its call, or the one ahead of which it
 * is made, is due, and the copies out before it are done.
 *
 * Knows nothing of pins, graphs and hosts without memory: the caller says which blocks stay because
 * of these.
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
    /* The cap in a step; NULL: the caps of the rules, which must be in bytes. */
    uint64_t (*cap)(const void *self, uint32_t rule, int device, uint64_t step);
    const void *self;
    const bool *stays; /* per block: once in, it is not evicted; NULL: all may be */
};

/* Step 0 is the time before the first edge. */
struct swapsim_step {
    uint64_t step, cap;
    uint64_t units, bytes; /* all of the set at its end */
    uint64_t in_bytes_high;
    uint64_t moved_in, moved_out; /* copied */
    uint64_t count_in, count_out;
    uint64_t dropped; /* moved out without a copy */
    uint64_t uses;
    uint64_t recorded_ns; /* its recorded duration, 0 = unknown */
    uint64_t waited_ns;   /* the predicted extra time */
    bool is_planned;      /* the order of use was known */
    bool is_replayed;     /* all moves followed the plan of the step before */
    bool is_running;      /* the record ended before it did */
};

/* Calls that could not be made. */
struct swapsim_short {
    uint64_t count;
    uint64_t needed, room; /* of the call that needed most: bytes at once, and bytes available */
    uint32_t at;           /* of that one: the next event */
};

struct swapsim_set {
    uint32_t rule;
    int device;
    struct swapsim_step *steps;
    size_t count, room;
    uint64_t bound;        /* evict_bound, for the last learnt order */
    uint64_t demand_high;  /* of one call */
    uint64_t host_high;    /* evicted content, at most */
    struct trace_sum kept; /* kept in: not named in their first whole step */
    struct swapsim_short shorts;
};

struct swapsim {
    struct swapsim_set *sets;
    size_t count, room;
    /* per event, and one more: the most bytes of all sets in at once since the event before */
    uint64_t *in_most;
    uint32_t *rule_of; /* per block: the evict hint of its set, TRACE_NONE */
};

/* 0, or -errno (-ENODATA: a cap is not in bytes, and there is no `cap`). Then swapsim_done, too. */
int swapsim_run(const struct swapsim_job *job, struct swapsim *ret_sim);
void swapsim_done(struct swapsim *sim);

bool swapsim_has_evict(const struct rule *rules, size_t count);

/*
 * The median step by moved bytes, of those that used an order and ended. If there are several, the
 * first is left out, since it begins with the state after the warm-up. NULL: there is none.
 */
const struct swapsim_step *swapsim_median(const struct swapsim_set *set);

#endif

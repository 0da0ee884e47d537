/* SPDX-License-Identifier: MIT */
/*
 * predict.h - what hints would do to a recorded run.
 *
 * The hints decide with the very code that decides in the run (alloc/hints/hint.h); the figures are the model's, with releases moved
 * to where the hints put them; the bytes held from the driver come from replaying the run through the pool itself
 * (alloc/pool.h) above a driver that only counts.
 *
 *     trace + rules ─ hint_plan ─► release at event[] ─► model_figure      (requested bytes: exact)
 *                   └──────────── pool_alloc · pool_free · pool_edge ─► reserved_high   (streams never late)
 *
 * The replay knows nothing of streams that run late, so a GPU that lags holds more for a while: the report of the real run
 * says how much (limbo). Threads: none. Memory: vec.h, and the pool's own.
 */
#ifndef KEDGE_TOOLS_PREDICT_H
#define KEDGE_TOOLS_PREDICT_H

#include "alloc/base/rule.h"
#include "tools/trace/trace.h"

struct predict_match {
    uint32_t rule; /* index, TRACE_NONE: no rule */
    /* the edge at which it is released, TRACE_NEVER: none came, or the block is too small */
    uint32_t at;
    bool small; /* matched, but below the rule's min_size */
};

/*
 * For each block of the trace what the rules say. The modes of the rules do not matter, off ones excepted, but only in live a canary
 * leaves blocks out. 0, or -errno of hint_new.
 */
int predict_matches(const struct trace *trace, const struct rule *rules, size_t count,
        struct predict_match *ret_matches);

/* What hints are told of an event of the trace; false: nothing, or that memory comes and goes. */
bool predict_edge(const struct trace *trace, uint32_t at, struct edge *ret_edge);

/*
 * The first rule of this rank that waits for launches of kernels of which the trace has none; -1 = no rule does. A capture has launches if hints of
 * its run waited for them, or KEDGE_ANCHORS named the kernels.
 */
int predict_lacks_launch(const struct trace *trace, const struct rule *rules, size_t count);

/* Max of the whole run if these rules were live, evictions left out. 0, or -errno of hint_new. */
int predict_max(
        const struct trace *trace, const struct rule *rules, size_t count, uint64_t *ret_bytes);

/* The most that would be held from the driver if these rules were live (count may be 0), none of which evicts. 0, or -errno. */
int predict_reserved(
        const struct trace *trace, const struct rule *rules, size_t count, uint64_t *ret_bytes);

/* The same beside blocks that the pool does not serve in the replay (swapsim.h). */
struct predict_beside {
    const uint32_t *rule_of; /* per block: TRACE_NONE = it is served; NULL: all are */
    /* what the others hold: the most since the event before; NULL: nothing */
    const uint64_t *in_most;
    int device; /* of this one alone; -1 = of all */
};

struct predict_held {
    uint64_t reserved; /* from the driver for the pool, what blocks beside it hold included */
    uint64_t other;    /* without those, and with what the driver serves itself */
};

int predict_held(const struct trace *trace, const struct rule *rules, size_t count,
        const struct predict_beside *beside, struct predict_held *ret_held);

#endif

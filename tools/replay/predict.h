/* SPDX-License-Identifier: MIT */
/*
 * predict.h - the effect that hints would have on a recorded run.
 *
 * The code that decides in the run (alloc/hints/hint.h) decides here, too. The figures are the
 * model's, with releases moved to where the hints put them; the bytes held from the driver come
 * from replaying the run through the pool itself (alloc/pool.h) above a driver that only counts.
 *
 *     trace + rules ─ hint_plan ─► release at event[] ─► model_figure      (requested bytes: exact)
 *                   └─ pool_alloc · pool_free · pool_edge ─► reserved_high  (streams never lag)
 *
 * The replay assumes streams that never lag, so a lagging GPU holds more for a while: the report of
 * the real run says how much (limbo). Threads: none. Memory: vec.h, and the pool's own.
 */
#ifndef KEDGE_TOOLS_PREDICT_H
#define KEDGE_TOOLS_PREDICT_H

#include "alloc/base/rule.h"
#include "tools/trace/trace.h"

struct predict_match {
    uint32_t rule; /* index, TRACE_NONE: no rule */
    /* the event of its release; TRACE_NEVER: none came, or the block is too small */
    uint32_t at;
    bool small; /* matched, but smaller than the rule's min_size */
};

/*
 * Matches each block of the trace with the rules. Their modes make no difference, with two
 * exceptions: rules that are off match nothing, and only in live a canary leaves blocks out. 0, or
 * -errno of hint_new.
 */
int predict_matches(const struct trace *trace, const struct rule *rules, size_t count,
        struct predict_match *ret_matches);

/* The edge that hints get for an event of the trace; false: none, or an allocation or free. */
bool predict_edge(const struct trace *trace, uint32_t at, struct edge *ret_edge);

/*
 * The first rule of this rank that waits for launches of kernels of which the trace has none; -1 =
 * none. A capture has launches if hints of its run waited for them, or if KEDGE_ANCHORS named the
 * kernels.
 */
int predict_lacks_launch(const struct trace *trace, const struct rule *rules, size_t count);

/* Max of the whole run if these rules were live, without evictions. 0, or -errno of hint_new. */
int predict_max(
        const struct trace *trace, const struct rule *rules, size_t count, uint64_t *ret_bytes);

/*
 * The high mark of bytes held from the driver if these rules were live (count may be 0), none of
 * which evicts. 0, or -errno.
 */
int predict_reserved(
        const struct trace *trace, const struct rule *rules, size_t count, uint64_t *ret_bytes);

/* The same, with blocks that the pool does not serve in the replay (swapsim.h). */
struct predict_beside {
    const uint32_t *rule_of; /* per block: TRACE_NONE = the pool serves it; NULL: it serves all */
    /* the most that the other blocks held since the event before; NULL: 0 bytes */
    const uint64_t *in_most;
    int device; /* device to replay; -1 = all */
};

struct predict_held {
    uint64_t reserved; /* from the driver for the pool, and blocks beside it */
    uint64_t other;    /* without those, and with blocks that the driver serves */
};

int predict_held(const struct trace *trace, const struct rule *rules, size_t count,
        const struct predict_beside *beside, struct predict_held *ret_held);

#endif

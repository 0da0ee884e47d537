/* SPDX-License-Identifier: MIT */
/*
 * suggest_growth.h - what piles up within an anchor, one instance of an inner anchor after the other: send buffers of a pipeline.
 *
 *     step/0 [ backward [ alloc a ─ send a ] forward [ recv ] backward [ alloc b ─ send b ] ... update [ free a, b ... ] ]
 *                                     └── the k-th receive after it: a is dead
 *
 * The blocks of one call site grow if in each instance of the anchor around theirs (with SUGGEST_GROWTH_INSTANCES of theirs or more) none
 * of them is freed before the last one is made. They are listed if each of them is the send buffer of an ncclSend, all to one
 * rank of one communicator, and if receives in anchors of one name follow that sooner than the free does: those from that very
 * rank. Where it has a communicator of its own for each direction, nobody knows; then receives in other anchors than the
 * send's are preferred, since what comes in the same one comes from the other side, as a rule.
 *
 * k is the smallest count by which all of them were used for the last time before the k-th receive after their last send, and
 * SUGGEST_GROWTH_RECEIVES at least: what comes first may have been on its way before the peer took ours (it may even be received in the
 * send's own group). What a receive proves, one rank's capture cannot tell, so that is for a person to say.
 *
 * Those of one call site whose anchors have other paths that end in the same names (step/backward, step/train/backward) are also
 * listed as one, with the largest k, before they are listed each: one hint for all, if it is right.
 *
 * Blocks that may have been used unseen are not judged (patterns.h), and neither are those of their call site there.
 * Pure apart from memory. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SUGGEST_GROWTH_H
#define KEDGE_TOOLS_SUGGEST_GROWTH_H

#include "alloc/base/rule.h"
#include "tools/trace/model.h"

#define SUGGEST_GROWTH_INSTANCES 4
#define SUGGEST_GROWTH_RECEIVES  2

struct suggest_growth {
    uint32_t *blocks; /* rising */
    size_t count;
    uint64_t bytes;
    uint64_t most;     /* how many of them live at a time */
    uint32_t receives; /* k */
    uint32_t place;    /* equal for those of one call site */
    /* globs: the anchors that they are made in, are sent in ("": of several names), receives lie in, whose exit ends their time */
    char inside[RULE_GLOB_MAX], sent[RULE_GLOB_MAX], received[RULE_GLOB_MAX],
            closing[RULE_GLOB_MAX];
};

struct growers {
    struct suggest_growth *list;
    size_t count, room;
};

/* Of blocks of the window of min_size or more. suggest_growth_done in any case. */
void suggest_growth_find(const struct trace *trace, struct model_window window, uint64_t min_size,
        struct growers *ret_growers);
void suggest_growth_done(struct growers *growers);

#endif

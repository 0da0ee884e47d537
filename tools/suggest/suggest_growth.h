/* SPDX-License-Identifier: MIT */
/*
 * suggest_growth.h - blocks that pile up within an anchor over the instances of an inner anchor:
 * send buffers of a pipeline.
 *
 *     step/0 [ backward [ alloc a ─ send a ] forward [ recv ] backward [ alloc b ─ send b ] ... ]
 *                                     └── the k-th receive after it: a is dead
 *
 * The blocks of one call site grow if in each instance of the anchor around theirs (with
 * SUGGEST_GROWTH_INSTANCES of theirs or more) none of them is freed before the last one is made.
 * They are listed if each of them is the send buffer of an ncclSend, all to one rank of one
 * communicator, and if receives in anchors of one name follow that sooner than the free does: those
 * from that very rank. If each direction has its own communicator, the rank is unknown; then
 * receives in other anchors than the send's are preferred, since receives in the same anchor
 * usually come from the other side.
 *
 * k is the smallest count by which all of them were used for the last time before the k-th receive
 * after their last send, and SUGGEST_GROWTH_RECEIVES at least: the first message may have been on
 * its way before the peer received ours (it may even be received in the send's own group). One
 * rank's capture cannot show what a receive proves, so a person must state it.
 *
 * Blocks of one call site in anchors with different paths that end in the same names
 * (step/backward, step/train/backward) are also listed as one entry, with the largest k, before the
 * single entries: one hint for all, if it is right.
 *
 * Blocks that may have been used unseen are not judged (patterns.h), and neither are those of their
 * call site there. Pure apart from memory. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SUGGEST_GROWTH_H
#define KEDGE_TOOLS_SUGGEST_GROWTH_H

#include "alloc/base/rule.h"
#include "tools/trace/model.h"

#define SUGGEST_GROWTH_INSTANCES 4
#define SUGGEST_GROWTH_RECEIVES  2

struct suggest_growth {
    uint32_t *blocks; /* ascending */
    size_t count;
    uint64_t bytes;
    uint64_t most;     /* the number of blocks that live at a time */
    uint32_t receives; /* k */
    uint32_t place;    /* equal for entries of one call site */
    /* globs of anchors: of births, sends ("": several), receives; whose exit ends their lifetime */
    char inside[RULE_GLOB_MAX], sent[RULE_GLOB_MAX], received[RULE_GLOB_MAX],
            closing[RULE_GLOB_MAX];
};

struct growers {
    struct suggest_growth *list;
    size_t count, room;
};

/* For blocks of the window of min_size or more. Call suggest_growth_done in any case. */
void suggest_growth_find(const struct trace *trace, struct model_window window, uint64_t min_size,
        struct growers *ret_growers);
void suggest_growth_done(struct growers *growers);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * expect.h - the blocks that each hint has matched in the open instances of its anchor.
 *
 *     commit_block ─ expect_count ─► (rule, instance): count, bytes
 *                    ─ expect_take ─► pool_edge judges, then releases
 *
 * The instance is plan.due_anchor, so that two threads in two instances of one anchor do not mix.
 * Where it is 0, the instance is everything since the last matching edge. A block counts when it is
 * allocated, whatever happens to it later.
 *
 * Requests that the driver serves have no block here. For a rule that counts (rule_counts) they go
 * to rule_due.forwarded: since it is not known when they would be due, they excuse missing blocks
 * from then on.
 *
 * Only rules with an expectation are counted. The counts of each rule are bounded: a rule without
 * space for another count is in shadow from then on, and the next edge reports that
 * (HINT_LEARNT_UNCOUNTED). An instance that ends without an edge, as when its thread ends, keeps
 * its entry.
 *
 * Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_EXPECT_H
#define KEDGE_ALLOC_EXPECT_H

#include "alloc/heap/records.h"

struct expect_seen {
    struct rule_seen seen;
    struct rule_seen forwarded; /* blocks that the driver has served */
};

#define EXPECT_OPEN_MAX (1u << 16) /* open counts of each rule: 5 MiB */

void expect_count(struct pool *pool, const struct plan *plan, uint64_t size) POOL_LOCKED;

/* Counts a block that the driver has served: the request is as expected, but the block can never be
 * due. */
void expect_count_forwarded(struct pool *pool, const struct plan *plan, uint64_t size) POOL_LOCKED;

/* Ends the count of the instance that ends at this edge and returns it; `matches`:
 * hint_edge_matches. seen.count 0: nothing was counted. */
struct expect_seen expect_take(
        struct pool *pool, int rule, const struct edge *edge, bool matches) POOL_LOCKED;

/* True if the counts meet the expectation. A block that the driver has served counts only if there
 * are too few without it. Fewer bytes in the same number of blocks are a smaller batch, not another
 * program (R109, judged per instance). */
bool expect_is_met(const struct rule_expect *expect, const struct expect_seen *seen);

#endif

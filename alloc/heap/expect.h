/* SPDX-License-Identifier: MIT */
/*
 * expect.h - what each hint has matched in the instances of its anchor that are under way.
 *
 *     commit_block ─ expect_count ─► (rule, instance): count, bytes ─ expect_take ─► pool_edge judges, then releases
 *
 * The instance is plan.due_anchor, so that two threads inside two instances of one anchor do not mix. Where that is 0, it is
 * all that came since the last edge that matches. A block counts when it is handed out, whatever becomes of it.
 *
 * What the driver serves has no block here. Of a rule that counts (rule_counts) it is in rule_due.forwarded: as nobody knows when it
 * would be due, it excuses what is missing from then on.
 *
 * Only rules that expect something are counted. The counts of each are bounded: a rule for which there is no room is in shadow from
 * then on, and the next edge tells so (HINT_LEARNT_UNCOUNTED). An instance that ends without an edge, as with a thread that
 * ends inside of it, keeps its room.
 *
 * Threads: the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_EXPECT_H
#define KEDGE_ALLOC_EXPECT_H

#include "alloc/heap/records.h"

struct expect_seen {
    struct rule_seen seen;
    struct rule_seen forwarded; /* those that the driver has served */
};

#define EXPECT_OPEN_MAX (1u << 16) /* counts at one time, of each rule: 5 MiB */

void expect_count(struct pool *pool, const struct plan *plan, uint64_t size) POOL_LOCKED;

/* One that the driver has served itself: what the program asked for is as expected, but nothing of it can be due. */
void expect_count_forwarded(struct pool *pool, const struct plan *plan, uint64_t size) POOL_LOCKED;

/* What ends at this edge, which is not counted any more; `matches`: hint_edge_matches. seen.count 0: nothing. */
struct expect_seen expect_take(
        struct pool *pool, int rule, const struct edge *edge, bool matches) POOL_LOCKED;

/*
 * Is it so? A block that the driver has served may count or not: it counts where there are too few without it. Fewer bytes in as many
 * blocks are no other program, but a smaller batch (R109).
 */
bool expect_is_met(const struct rule_expect *expect, const struct expect_seen *seen);

#endif

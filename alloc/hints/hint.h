/* SPDX-License-Identifier: MIT */
/*
 * hint.h - what the hints say: tag to plan, edge to due.
 *
 * Pure decisions over struct rule: the same code acts in the run, predicts in `kedge suggest` and checks in tests. The
 * index is built once; rules are keyed by whichever of site, size, nth and literal anchor path they state exactly, so that
 * an allocation costs a handful of probes whether there are ten rules or ten thousand.
 *
 *     tag {site, pysites, size, nth, path, device} ─► probes, one per shape of key in use ─► first matching rule in file order
 *                                                                                         └─► plan
 *     plan + edge {kind, path, instance} ─► due or not
 *
 * Which edge is meant: if `when` is an exit and its anchor matches the path of the anchor instance that the allocation
 * was made inside of, then that very instance's exit (plan.due_anchor); else the first matching edge of any instance that
 * is passed after the allocation (due_anchor 0): the enter of the instance itself lies before it, and a mark is a point.
 * The same for `else`. Events (calls, launches, frees, counted marks) are of no instance: struct hint_wait.
 *
 * Does not act, count (expect.h), or know about blocks. The only state between calls is what a run has learnt against a rule. The
 * rule array must outlive the index.
 * Threads: built by one, then any. Memory: meta.h. Rules: R55 R84 (nothing here changes an API answer) R85 R86.
 */
#ifndef KEDGE_ALLOC_HINT_H
#define KEDGE_ALLOC_HINT_H

#include "alloc/base/rule.h"

struct hints;

/* Builds the index over n rules (n may be 0). 0, -ENOMEM, or -EINVAL if a string has no end or n is absurd. */
int hint_new(const struct rule *rules, size_t n, struct hints **ret_hints);
void hint_free(struct hints *hints);

/* Is the rule for a process of this rank, "" = one without? One that is not has to be off in it; nothing else here looks at ranks. */
bool hint_is_for(const struct rule *rule, const char *rank);

/* The rules, as given. */
size_t hint_count(const struct hints *hints);
const struct rule *hint_rule(const struct hints *hints, int rule);

/*
 * Which Python call sites of a stack rules name, for tag.pysites: `outer` is the list of the frames further out, `key` a key of
 * the next frame inwards (pysite.h: two of each frame). If a rule names it and it is not in the list, *room becomes the head of
 * the list and is returned, else `outer`. To be asked once per stack, not once per request: hint_plan then looks only at
 * what is in the list.
 */
bool hint_has_pysites(const struct hints *hints);
const struct pysite *hint_pysite(
        const struct hints *hints, const struct pysite *outer, uint64_t key, struct pysite *room);

/* Whether a rule can match a request of this size at all, whatever else it is. */
bool hint_has_size(const struct hints *hints, uint64_t size);

/*
 * The plan for a request: the first rule in file order that matches and is not off. No match: rule -1, action NONE. RESTORE matches
 * nothing; of EVICT the steps begin at edges of any instance, and due_anchor is 0.
 */
void hint_plan(const struct hints *hints, const struct tag *tag, struct plan *ret_plan);

/* True if the edge can be this `when` or `else` at all, whatever the instance. */
bool hint_edge_matches(const struct rule_when *when, const struct edge *edge);

/* Of an edge that matches: how many came before it, as far as its anchor counts them; 0 where
 * `when` may be several anchors, or none. */
uint64_t hint_edges_before(const struct rule_when *when, const struct edge *edge);

/*
 * ---- how long a block waits ----
 *
 * A rule counts the events of its `when` and of its `else`, each on its own. A block that has begun to wait is due when one of
 * the counts gets to what it was then and as many more as the rule says; of anchors nothing is counted. Nothing of a block
 * whose pick names a use is due before that use. A rule that holds waits from the free on.
 *
 *     hint_wait_begin ─► [hint_wait_use ...] ─► at each edge: hint_count_edge, then hint_wait_is_due of each that waits
 *
 * The counts need not go on while nobody waits.
 */
struct hint_counts {
    uint64_t when, otherwise;
};

struct hint_wait {
    uint32_t when_anchor, else_anchor; /* as in struct plan */
    struct hint_counts at; /* due when the counts are there; UINT64_MAX = `from` has not come */
    bool unused;           /* the use that its pick names has not come */
};

void hint_wait_begin(const struct rule *rule, const struct plan *plan,
        const struct hint_counts *now, struct hint_wait *ret_wait);

/* The block is given to a call as buffer `arg`, before that call is counted itself. True if its rule names such a use. */
bool hint_wait_use(const struct rule *rule, const struct edge *call, uint32_t arg,
        const struct hint_counts *now, struct hint_wait *io_wait);

/* The program frees the block. True if its rule holds it from here on, until its edge or count. */
bool hint_wait_free(
        const struct rule *rule, const struct hint_counts *now, struct hint_wait *io_wait);

/* The edge is counted. True if it can be the `when` or the `else` of a block that waits. */
bool hint_count_edge(
        const struct rule *rule, const struct edge *edge, struct hint_counts *io_counts);

bool hint_wait_is_due(const struct rule *rule, const struct hint_wait *wait,
        const struct hint_counts *now, const struct edge *edge);

/* True if this edge is the one that proves the storage dead: of a rule that counts nothing. */
bool hint_is_due(const struct hints *hints, const struct plan *plan, const struct edge *edge);

/*
 * To be asked once for each plan that is carried out: in live, of the first HINT_CANARY * canary blocks of a rule with canary
 * that releases only each canary-th acts, the others are in shadow.
 */
#define HINT_CANARY 64
void hint_canary(struct hints *hints, struct plan *io_plan);

/* True if the plan changes where the block is placed: a mode that acts, an action that unmaps, not below min_size. */
bool hint_acts(const struct plan *plan);

/*
 * What a run has learnt against a rule, from any thread, for good, ever worse: in shadow it still matches, and what it placed
 * before is not released or evicted any more; off, it matches nothing more either.
 */
enum hint_learnt {
    HINT_LEARNT_NOTHING,
    HINT_LEARNT_UNCOUNTED, /* in shadow: there was no memory to count what it matches; to be told at an edge */
    HINT_LEARNT_LOST, /* the same, and an edge has told of it */
    HINT_LEARNT_STOPPED, /* in shadow: a call was stopped and the file says fallback, or pins cannot be noted */
    HINT_LEARNT_OFF, /* off: a block of it is shared (R85) */
};

/* True for the call that changed something; so is hint_refuse_live, after which live is shadow for all rules (R86). */
bool hint_learn(struct hints *hints, int rule, enum hint_learnt what);
enum hint_learnt hint_learnt(const struct hints *hints, int rule);
bool hint_refuse_live(struct hints *hints);

/* Whether a block that this rule placed in this mode may still be released, or evicted. */
bool hint_may(const struct hints *hints, int rule, enum hint_mode mode);

#endif

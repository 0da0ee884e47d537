/* SPDX-License-Identifier: MIT */
/*
 * hint.h - decisions of the hints: from tag to plan, from edge to due.
 *
 * Pure decisions over struct rule: the same code acts in the run, predicts in `kedge suggest` and
 * checks in tests. The index is built once; rules are keyed by whichever of site, size, nth and
 * literal anchor path they state exactly, so that an allocation costs a handful of probes with ten
 * rules or ten thousand.
 *
 *     tag {site, pysites, size, nth, path, device} ─► probes, one per shape of key in use
 *         ─► first matching rule in file order ─► plan
 *     plan + edge {kind, path, instance} ─► due or not
 *
 * The edge that counts: if `when` is an exit and its anchor matches the path of the anchor instance
 * of the allocation, then that instance's exit (plan.due_anchor); else the first matching edge of
 * any instance after the allocation (due_anchor 0): the enter of the instance itself lies before
 * it, and a mark is a point. The same for `else`. Events (calls, launches, frees, counted marks)
 * belong to no instance: struct hint_wait.
 *
 * Does not act, count (expect.h), or know blocks. The only state between calls is the findings of
 * the run against a rule. The rule array must outlive the index.
 * Threads: one thread builds it, then any. Memory: meta.h.
 * Rules: R55 R84 (nothing here changes an API answer) R85 R86.
 */
#ifndef KEDGE_ALLOC_HINT_H
#define KEDGE_ALLOC_HINT_H

#include "alloc/base/rule.h"

struct hints;

/* Builds the index over n rules (n may be 0). 0, -ENOMEM, or -EINVAL if a string is unterminated or
 * n is too large. */
int hint_new(const struct rule *rules, size_t n, struct hints **ret_hints);
void hint_free(struct hints *hints);

/* Does the rule apply to a process of this rank, "" = without one? The caller turns other rules
 * off; no other function here checks ranks. */
bool hint_is_for(const struct rule *rule, const char *rank);

/* The rules, as given. */
size_t hint_count(const struct hints *hints);
const struct rule *hint_rule(const struct hints *hints, int rule);

/* Collects the Python call sites of a stack that rules name, for tag.pysites: `outer` is the list
 * of the outer frames, `key` a key of the next inner frame (pysite.h: two of each frame). If a rule
 * names it and it is not in the list, *room becomes the head of the list and is returned, else
 * `outer`. Call it once per stack, not per request: hint_plan then examines only the list. */
bool hint_has_pysites(const struct hints *hints);
const struct pysite *hint_pysite(
        const struct hints *hints, const struct pysite *outer, uint64_t key, struct pysite *room);

/* Can a rule match a request of this size at all? */
bool hint_has_size(const struct hints *hints, uint64_t size);

/* The plan for a request: the first rule in file order that matches and is not off. No match: rule
 * -1, action NONE. RESTORE never matches; steps of EVICT begin at edges of any instance, with
 * due_anchor 0. */
void hint_plan(const struct hints *hints, const struct tag *tag, struct plan *ret_plan);

/* Can the edge match this `when` or `else`, in any instance? */
bool hint_edge_matches(const struct rule_when *when, const struct edge *edge);

/* The number of earlier edges of a matching edge, as counted by its anchor; 0 where `when` matches
 * several anchors, or none. */
uint64_t hint_edges_before(const struct rule_when *when, const struct edge *edge);

/*
 * ---- how long a block waits ----
 *
 * A rule counts the events of its `when` and of its `else` separately. A waiting block is due when
 * one count has risen by the rule's number since the block began to wait; edges of anchors are not
 * counted. A block whose pick names a use is not due before that use. A rule that holds waits from
 * the free on.
 *
 *     hint_wait_begin ─► [hint_wait_use ...] ─► at each edge: hint_count_edge, then
 *                                               hint_wait_is_due of each waiting block
 *
 * The counts may stop while no block waits.
 */
struct hint_counts {
    uint64_t when, otherwise;
};

struct hint_wait {
    uint32_t when_anchor, else_anchor; /* as in struct plan */
    struct hint_counts at; /* counts at which it is due; UINT64_MAX = `from` has not come */
    bool unused;           /* the use in its pick has not come */
};

void hint_wait_begin(const struct rule *rule, const struct plan *plan,
        const struct hint_counts *now, struct hint_wait *ret_wait);

/* The block is passed to a call as buffer `arg`, before the call itself is counted. True if its
 * rule names such a use. */
bool hint_wait_use(const struct rule *rule, const struct edge *call, uint32_t arg,
        const struct hint_counts *now, struct hint_wait *io_wait);

/* The program frees the block. True if its rule holds it from here on, until its edge or count. */
bool hint_wait_free(
        const struct rule *rule, const struct hint_counts *now, struct hint_wait *io_wait);

/* Counts the edge. True if it can be the `when` or the `else` of a waiting block. */
bool hint_count_edge(
        const struct rule *rule, const struct edge *edge, struct hint_counts *io_counts);

bool hint_wait_is_due(const struct rule *rule, const struct hint_wait *wait,
        const struct hint_counts *now, const struct edge *edge);

/* True if this edge proves that the storage is dead; for a rule that counts nothing. */
bool hint_is_due(const struct hints *hints, const struct plan *plan, const struct edge *edge);

/* Call it once for each plan that is carried out: in live, of the first HINT_CANARY * canary blocks
 * of a rule with canary that releases, only each canary-th acts; the others are in shadow. */
#define HINT_CANARY 64
void hint_canary(struct hints *hints, struct plan *io_plan);

/* True if the plan changes where the block is placed: a mode that acts, an action that unmaps, not
 * below min_size. */
bool hint_acts(const struct plan *plan);

/* Findings of a run against a rule, from any thread; permanent, and only growing stricter: in
 * shadow it still matches, and its earlier blocks are not released or evicted any more; off, it
 * does not match either. */
enum hint_learnt {
    HINT_LEARNT_NOTHING,
    /* in shadow: no memory to count its matches; to be reported at an edge */
    HINT_LEARNT_UNCOUNTED,
    HINT_LEARNT_LOST, /* the same, reported at an edge */
    /* in shadow: a call was stopped and the file says fallback, or pins cannot be recorded */
    HINT_LEARNT_STOPPED,
    HINT_LEARNT_OFF, /* off: a block of it is shared (R85, fitness of sites) */
};

/* True for the call that changed something. Likewise hint_refuse_live, after which live is shadow
 * for all rules (R86, guard). */
bool hint_learn(struct hints *hints, int rule, enum hint_learnt what);
enum hint_learnt hint_learnt(const struct hints *hints, int rule);
bool hint_refuse_live(struct hints *hints);

/* May a block that this rule placed in this mode still be released, or evicted? */
bool hint_may(const struct hints *hints, int rule, enum hint_mode mode);

#endif

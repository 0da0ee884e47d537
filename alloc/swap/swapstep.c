/* SPDX-License-Identifier: MIT */
#include "alloc/swap/swapstep.h"

#include "alloc/base/meta.h"
#include "alloc/swap/swapqueue.h"

#include <string.h>

enum {
    BOUND_USES = 8192, /* the bound of a longer order is computed only once, under the lock */
};

void swapstep_fill(struct swap_set *set, struct pool_evict_step *ret)
{
    struct evict_figures figures;
    bool is_new;

    evict_figures(set->evict, &figures);
    is_new = figures.is_planned && (!set->now.bound || !figures.is_replayed)
            && !swapset_releases(set);
    if (is_new && (figures.uses <= BOUND_USES || !set->now.bound))
        set->now.bound = evict_bound(set->evict);
    set->now.rule = set->number;
    set->now.device = set->device->number;
    set->now.cap = set->cap;
    set->now.bytes = figures.bytes;
    set->now.units = figures.units;
    set->now.uses = figures.uses;
    set->now.looks = figures.looks;
    set->now.is_planned = figures.is_planned;
    set->now.is_replayed = figures.is_replayed;
    set->now.is_paper = set->is_paper;
    memcpy(set->now.state_bytes, figures.state_bytes, sizeof(figures.state_bytes));
    *ret = set->now;
    ret->step += set->before;
}

/* The first complete step has ended: a block that no call has named in it may be used in a way that
 * no call names, and stays while there is space. A block that was out all the time was not used, or
 * the device would have faulted. With several threads a step of one of them is no whole step, so a
 * call must not fail because of this: the trap run of verify knows more. */
static void swapstep_keep_unused(struct pool *pool, struct swap_set *set) POOL_LOCKED
{
    for (uint32_t i = 1; i < pool->swaps.top; i++) {
        struct swap *swap = swap_at(pool, i);

        if (swap->block && swap->set == set && swap->state == SWAP_IN
                && swap->made_in < set->now.step && swap->used_in < set->now.step) {
            swapset_keep(pool, swap, POOL_KEPT_UNUSED);
            set->has_unused = true;
        }
    }
}

/* A set is made with its first block, which may come within a step: the step that ends at the set's
 * first edge is then incomplete and not its first. */
static void swapstep_end_step(
        struct pool *pool, struct swap_set *set, const struct edge *edge) POOL_LOCKED
{
    struct swap_step *step = meta_get(sizeof(*step));
    struct pool_evict_step was;

    if (set->now.step == 0)
        set->before = hint_edges_before(&set->rule->when, edge);
    swapstep_fill(set, &was);
    if (step) {
        step->what = was;
        if (set->step_last)
            set->step_last->next = step;
        else
            set->step_first = step;
        set->step_last = step;
    }
    if (set->now.step == 1 && !set->is_paper && !set->is_alone && !swapset_releases(set))
        swapstep_keep_unused(pool, set);
    evict_step(set->evict);
    swapset_see_others(pool, set);
    set->other_high = set->other_now;
    set->other_now = 0;
    set->now = (struct pool_evict_step){
            .step = set->now.step + 1, .bound = was.bound, .in_bytes_high = set->in_bytes};
    swapset_restate_cap(set);
}

static void bring(struct pool *pool, struct swap_set *set) POOL_LOCKED
{
    struct evict_moves moves;

    (void)evict_bring(set->evict, &moves);
    (void)swapqueue_push(pool, set, &moves);
}

void swapstep_edge(struct pool *pool, const struct edge *edge)
{
    for (struct swap_set *set = pool->swap_sets; set; set = set->next)
        if (hint_edge_matches(&set->rule->when, edge)
                && (!swapset_releases(set) || set->bytes || swapset_keeps_content(set)))
            swapstep_end_step(pool, set, edge);
    for (int i = 0; (size_t)i < hint_count(pool->hints); i++) {
        const struct rule *rule = hint_rule(pool->hints, i);

        if (rule->action != ACTION_RESTORE || rule->mode == HINT_OFF
                || !hint_edge_matches(&rule->when, edge))
            continue;
        for (struct swap_set *set = pool->swap_sets; set; set = set->next)
            if (set->number == rule->of)
                bring(pool, set);
    }
    swapqueue_tell_ahead(pool);
}

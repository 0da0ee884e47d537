/* SPDX-License-Identifier: MIT */
#include "alloc/heap/swapset.h"

#include "alloc/base/meta.h"
#include "alloc/heap/block.h"
#include "alloc/heap/outcome_queue.h"

#include <errno.h>
#include <string.h>

/* ---- copies ---- */

struct swap_copy *swap_copy_use(struct swap_copy *copy)
{
    copy->users++;
    return copy;
}

void swap_copy_drop(struct pool *pool, struct swap_copy *copy)
{
    if (!copy || --copy->users > 0)
        return;
    copy->next = pool->swap_spent;
    pool->swap_spent = copy;
}

/* ---- sets ---- */

struct swap_set *swapset_find(const struct pool *pool, int rule, int device, bool is_paper)
{
    struct swap_set *set = pool->swap_sets;

    while (set
            && (set->number != rule || set->device->number != device || set->is_paper != is_paper))
        set = set->next;
    return set;
}

static uint64_t percent_of(uint64_t bytes, uint32_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

/* The cap that the hint states, with current figures. */
static uint64_t stated_cap(const struct swap_set *set)
{
    const struct rule_evict *opts = &set->rule->evict;
    uint64_t cap = opts->cap ? opts->cap : percent_of(set->total, opts->cap_percent);

    if (opts->policy == RULE_POLICY_CUDA || (!opts->cap && !opts->cap_percent))
        return UINT64_MAX;
    return opts->less_other ? excess_of(cap, set->other_high) : cap;
}

static uint64_t warmup_of(const struct swap_set *set, uint64_t cap)
{
    uint32_t percent = set->rule->evict.warmup_percent;

    return percent && percent < 100 && cap != UINT64_MAX ? percent_of(cap, percent) : 0;
}

void swapset_put_cap(struct swap_set *set, uint64_t cap)
{
    set->cap = cap;
    evict_set_cap(set->evict, cap, warmup_of(set, cap));
}

void swapset_restate_cap(struct swap_set *set)
{
    swapset_put_cap(set, stated_cap(set));
}

void swapset_limit(struct swap_set *set, uint64_t cap)
{
    if (cap < set->cap)
        swapset_put_cap(set, cap);
}

static struct swap_set *new_set(
        struct pool *pool, int rule, int device, bool is_paper, uint64_t total)
{
    struct swap_set *set = meta_get(sizeof(*set));
    struct evict_opts opts;

    if (!set)
        return NULL;
    set->rule = hint_rule(pool->hints, rule);
    set->number = rule;
    set->device = &pool->devices[device];
    set->is_paper = is_paper;
    set->is_alone = set->rule->evict.policy == RULE_POLICY_CPU
            || (set->rule->mode == HINT_TRAP && !is_paper);
    set->total = total;
    set->cap = stated_cap(set);
    opts = (struct evict_opts){.cap = set->cap,
            .warmup_cap = warmup_of(set, set->cap),
            .victim = set->rule->evict.victim,
            .prefetch = set->is_alone || swapset_releases(set) ? 0 : set->rule->evict.prefetch,
            .cyclic = set->rule->evict.cyclic,
            .order = set->rule->evict.order,
            .order_count = set->rule->evict.order_count};
    if (evict_new(&opts, &set->evict) != 0) {
        meta_put(set, sizeof(*set));
        return NULL;
    }
    return set;
}

struct swap_set *swapset_get(struct pool *pool, int rule, int device, bool is_paper, uint64_t total)
{
    struct swap_set *set = swapset_find(pool, rule, device, is_paper);

    if (set)
        return set;
    set = new_set(pool, rule, device, is_paper, total);
    if (!set)
        return NULL;
    set->next = pool->swap_sets;
    pool->swap_sets = set;
    return set;
}

/* ---- blocks ---- */

struct swap *swapset_of(const struct pool *pool, const struct block *block)
{
    uint32_t index = block->holder ? holder_at(pool, block->holder)->swap : 0;

    return index ? swap_at(pool, index) : NULL;
}

bool swapset_is_held(const struct pool *pool, const struct block *block)
{
    const struct swap *swap = swapset_of(pool, block);

    return swap ? swapset_is_stored(swap) : !(block->flags & BLOCK_GONE);
}

uint32_t swapset_add(struct pool *pool, struct swap_set *set, uint64_t size)
{
    uint32_t index = slab_take(&pool->swaps);
    struct swap *swap;
    uint32_t unit;

    if (!index)
        return 0;
    if (evict_add(set->evict, size, &unit) != 0) {
        slab_put(&pool->swaps, index);
        return 0;
    }
    if (!meta_grow(&set->swap_of, &set->swap_of_room, (uint64_t)unit + 1, sizeof(uint32_t))) {
        evict_remove(set->evict, unit);
        slab_put(&pool->swaps, index);
        return 0;
    }
    set->swap_of[unit] = index;
    swap = swap_at(pool, index);
    swap->set = set;
    swap->unit = unit;
    swap->size = size;
    swap->made_in = set->now.step;
    swap->is_managed = set->is_paper && set->rule->evict.backing == RULE_BACKING_MANAGED;
    return index;
}

bool swapset_keeps_content(const struct swap_set *set)
{
    return set->is_needed || set->now.step < set->rule->keep_content;
}

static void swapset_hold(struct swap *swap, bool *io_reason, bool is_held);

void swapset_add_stored(struct pool *pool, struct swap_set *set, uint32_t number)
{
    uint64_t size = block_at(pool, number)->node.size;
    uint32_t index = swapset_add(pool, set, size);
    struct evict_moves moves;
    struct swap *swap;

    if (!index)
        return;
    swap = swap_at(pool, index);
    if (evict_use(set->evict, &swap->unit, 1, &moves) != 0) {
        swapset_drop(pool, index);
        return;
    }
    swap->state = SWAP_IN;
    swap->has_content = true;
    swap->stream_count = SWAP_STREAMS + 1; /* a release waits for all streams */
    set->in_bytes += size;
    set->storage += size;
    swapset_hold(swap, &swap->is_awaited, true);
    swapset_bind(pool, index, number);
}

void swapset_is_due(struct swap *swap)
{
    swapset_hold(swap, &swap->is_awaited, false);
}

void swapset_came_back(struct pool *pool, struct swap *swap)
{
    swap->set->is_needed = true;
    swapset_keep(pool, swap, POOL_KEPT_NEEDED);
}

void swapset_drop(struct pool *pool, uint32_t index)
{
    struct swap *swap = swap_at(pool, index);

    evict_remove(swap->set->evict, swap->unit);
    slab_put(&pool->swaps, index);
}

void swapset_bind(struct pool *pool, uint32_t index, uint32_t number)
{
    struct block *block = block_at(pool, number);
    struct swap *swap = swap_at(pool, index);

    swap->block = number;
    swap->seq = block->seq;
    swap->requested = block->node.size - block->slack;
    swap->set->bytes += swap->size;
    holder_at(pool, block->holder)->swap = index;
    granule_swap(&pool->granules, block->node.base, swap->requested, 1);
    /* The count comes after the marks, and before the program can have the address. */
    atomic_store_explicit(&pool->gate.evicts, 1, memory_order_seq_cst);
}

void swapset_put_room(struct swap_set *set, struct swap_room *room)
{
    room->next = set->rooms;
    set->rooms = room;
}

/* Frees the host memory for another block once the copy has completed: the block has overwritten
 * its content, or was freed. */
void swapset_leave_room(struct swap *swap)
{
    if (!swap->room)
        return;
    swap->room->copy = swap->copy ? swap_copy_use(swap->copy) : NULL;
    swapset_put_room(swap->set, swap->room);
    swap->room = NULL;
}

static void leave_host(struct pool *pool, struct swap *swap) POOL_LOCKED
{
    swapset_leave_room(swap);
    swap_copy_drop(pool, swap->copy);
    swap->copy = NULL;
}

static void leave_queue(struct swap_set *set, uint32_t index, uint64_t last)
{
    for (uint64_t i = set->done + 1; i <= last && i <= set->queued; i++)
        if (swapset_move(set, i)->swap == index)
            swapset_move(set, i)->swap = 0;
}

void swapset_forget(struct pool *pool, uint32_t index)
{
    struct swap *swap = swap_at(pool, index);
    const struct block *block = block_at(pool, swap->block);
    struct swap_set *set = swap->set;

    granule_swap(&pool->granules, block->node.base, swap->requested, -1);
    leave_queue(set, index, swap->moves);
    if (evict_is_in(set->evict, swap->unit))
        set->in_bytes -= swap->size;
    evict_remove(set->evict, swap->unit);
    set->bytes -= swap->size;
    if (!set->is_paper && swapset_is_stored(swap))
        set->storage -= swap->size;
    swap->block = 0;
    if (swap->is_busy)
        return; /* the thread frees the record after its driver call */
    leave_host(pool, swap);
    slab_put(&pool->swaps, index);
}

void swapset_leave(struct pool *pool, uint32_t index)
{
    leave_host(pool, swap_at(pool, index));
    slab_put(&pool->swaps, index);
}

bool swapset_free(struct pool *pool, uint32_t number)
{
    struct block *block = block_at(pool, number);
    struct swap *swap = swapset_of(pool, block);

    if (!swap || swap->set->is_paper)
        return false;
    if (swap->is_busy) {
        swap->is_freed = true;
        block->state = BLOCK_PENDING;
        return true;
    }
    if (swap->state != SWAP_IN || swap->moves) /* else it was never copied */
        block->flags |= swapset_is_stored(swap) ? BLOCK_TRAPPED : BLOCK_GONE;
    return false;
}

bool swapset_lacks_room(const struct swap_set *set, uint64_t size)
{
    uint64_t budget = set->rule->evict.host_budget;

    return set->bytes > set->cap && set->host < set->bytes - set->cap + 2 * size
            && (!budget || set->host + size <= budget);
}

struct swap_room *swapset_take_room(struct pool *pool, struct swap_set *set, uint64_t size)
{
    for (struct swap_room **link = &set->rooms; *link; link = &(*link)->next) {
        struct swap_room *room = *link;

        if (room->size != size || (room->copy && !room->copy->is_over))
            continue;
        *link = room->next;
        swap_copy_drop(pool, room->copy);
        room->copy = NULL;
        return room;
    }
    return NULL;
}

/* ---- reasons to stay in ---- */

static void swapset_hold(struct swap *swap, bool *io_reason, bool is_held)
{
    if (*io_reason == is_held)
        return;
    *io_reason = is_held;
    if (is_held)
        evict_hold(swap->set->evict, swap->unit);
    else
        evict_let_go(swap->set->evict, swap->unit);
}

void swapset_pin(struct pool *pool, const struct block *block, bool is_pinned)
{
    struct swap *swap = swapset_of(pool, block);

    if (swap)
        swapset_hold(swap, &swap->is_pinned, is_pinned);
}

/* True for reasons of a possible use that no call names. */
static bool is_of_unseen(enum pool_kept why)
{
    return why == POOL_KEPT_POINTER || why == POOL_KEPT_UNTOLD || why == POOL_KEPT_UNUSED;
}

void swapset_keep(struct pool *pool, struct swap *swap, enum pool_kept why)
{
    struct outcome kept;

    if (swap->is_kept || !swap->block || (swap->is_managed && is_of_unseen(why)))
        return;
    swapset_hold(swap, why == POOL_KEPT_UNUSED ? &swap->is_unused : &swap->is_kept, true);
    kept = block_outcome(pool, block_at(pool, swap->block), OUTCOME_KEPT, records_next_seq(pool));
    kept.rule = swap->set->number;
    kept.rounded = (uint64_t)why;
    kept.mode = swap->set->is_paper ? HINT_SHADOW : swap->set->rule->mode;
    outcome_queue_tell(pool, &kept);
}

void swapset_let_go(struct swap *swap)
{
    swapset_hold(swap, &swap->is_unused, false);
}

bool swapset_let_unused_go(struct pool *pool, struct swap_set *set)
{
    bool any = false;

    for (uint32_t i = 1; set->has_unused && i < pool->swaps.top; i++) {
        struct swap *swap = swap_at(pool, i);

        if (!swap->block || swap->set != set || !swap->is_unused)
            continue;
        swapset_let_go(swap);
        any = true;
    }
    set->has_unused = false;
    return any;
}

void swapset_see_others(struct pool *pool, struct swap_set *set)
{
    uint64_t others = set->device->reserved;

    if (!set->rule->evict.less_other)
        return;
    for (const struct swap_set *at = pool->swap_sets; at; at = at->next)
        if (at->device == set->device)
            others = excess_of(others, at->storage);
    set->other_now = max_of(set->other_now, others);
}

/* ---- the end of sets ---- */

void swapset_done(struct pool *pool)
{
    while (pool->swap_sets) {
        struct swap_set *set = pool->swap_sets;

        pool->swap_sets = set->next;
        while (set->step_first) {
            struct swap_step *step = set->step_first;

            set->step_first = step->next;
            meta_put(step, sizeof(*step));
        }
        evict_free(set->evict);
        meta_put(set->swap_of, set->swap_of_room * sizeof(uint32_t));
        meta_put(set->units, set->units_room * sizeof(uint32_t));
        meta_put(set->queue, set->queue_room * sizeof(struct swap_move));
        meta_put(set, sizeof(*set));
    }
}

static const char *check_set(struct pool *pool, const struct swap_set *set) POOL_LOCKED
{
    uint64_t storage = 0;
    uint64_t in = 0;

    for (uint32_t i = 1; i < pool->swaps.top; i++) {
        const struct swap *swap = swap_at(pool, i);

        if (!swap->block || swap->set != set)
            continue;
        if (set->swap_of[swap->unit] != i)
            return "a block that may go out is not its unit's";
        in += evict_is_in(set->evict, swap->unit) ? swap->size : 0;
        storage += !set->is_paper && swapset_is_stored(swap) ? swap->size : 0;
        if (!set->is_moving && swapset_pending(set) == 0 && !set->is_paper
                && evict_is_in(set->evict, swap->unit) != (swap->state == SWAP_IN))
            return "a block is not where it was decided to be";
    }
    if (in != set->in_bytes)
        return "bytes that are in are miscounted";
    return !set->is_moving && storage != set->storage ? "storage of a set is miscounted" : NULL;
}

const char *swapset_check(struct pool *pool)
{
    const char *what = NULL;

    for (const struct swap_set *set = pool->swap_sets; set && !what; set = set->next)
        what = check_set(pool, set);
    return what;
}

/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/meta.h"
#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/expect.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/records.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/reclaim.h"
#include "alloc/swap/swapqueue.h"
#include "alloc/swap/swapstep.h"

#include <errno.h>

/* ── hints ── */

/* The results of one edge. */
struct edge_walk {
    const struct edge *edge;
    struct outcome *ret;
    size_t max;
    size_t count;
    uint32_t dead;         /* chain of holders marked dead, or no longer held, */
    uint32_t dead_by_call; /* and of those that wait only for the call that is the edge */
};

static void note_edge(struct pool *pool, struct edge_walk *walk, const struct holder *holder,
        enum outcome_kind kind, uint32_t how) POOL_LOCKED
{
    const struct block *block = block_at(pool, holder->block);
    struct outcome *ret = &walk->ret[walk->count++];

    *ret = block_outcome(pool, block, kind, records_next_seq(pool));
    ret->rule = holder->rule;
    ret->how = how | (block->flags & BLOCK_HINTED ? OUTCOME_HINTED : 0);
    ret->mode = holder->mode;
}

/* The storage of a due block stays: its hint records that, and expects no more events of the
 * block. */
static bool pool_hint_is_refused(
        struct pool *pool, struct edge_walk *walk, uint32_t index) POOL_LOCKED
{
    const struct holder *holder = holder_at(pool, index);
    struct block *block = block_at(pool, holder->block);
    bool pinned = block->flags & BLOCK_PINNED;

    if (!pinned && !holder->drifted && hint_may(pool->hints, holder->rule, holder->mode))
        return false;
    note_edge(pool, walk, holder, OUTCOME_REFUSED, pinned ? OUTCOME_PINNED : 0);
    holder_drop(pool, block);
    return true;
}

/* The event that a block was held for has come. It may be a call that names the block and is made
 * only now. */
static void pool_hint_let_go(struct pool *pool, struct edge_walk *walk, uint32_t index) POOL_LOCKED
{
    struct holder *holder = holder_at(pool, index);
    const struct block *block = block_at(pool, holder->block);

    note_edge(pool, walk, holder, OUTCOME_LET_GO, 0);
    holder_unexpect(pool, index);
    tally_held(block_segment(pool, block)->heap, -(int64_t)block->node.size);
    (void)holder_step(holder, HOLDER_EVENT_DUE);
    holder->next = walk->dead;
    walk->dead = index;
}

/* Is the edge the very call after which the hint says that the block is unused? `else`, and the
 * count of an earlier call, are not. */
static bool waits_for_call(
        struct pool *pool, const struct holder *holder, const struct edge *edge) POOL_LOCKED
{
    const struct rule *rule = hint_rule(pool->hints, holder->rule);

    return edge->stream && rule->wait == RULE_WAIT_EVENT && hint_edge_matches(&rule->when, edge)
            && holder->wait.at.when == pool->due[holder->rule].passed.when;
}

/* Releases one due block. Shadow mode: record only; otherwise mark the range released. */
static void release(struct pool *pool, struct edge_walk *walk, uint32_t index) POOL_LOCKED
{
    struct holder *holder = holder_at(pool, index);
    const struct block *block = block_at(pool, holder->block);
    struct heap *heap = block_segment(pool, block)->heap;
    uint64_t requested = block->node.size - block->slack;
    uint32_t *chain;

    if (pool_hint_is_refused(pool, walk, index))
        return;
    holder_unexpect(pool, index);
    if (holder->swap) {
        note_edge(pool, walk, holder, OUTCOME_RELEASE, 0);
        pool->counters.released_count++;
        pool->counters.released_bytes += requested;
        swapqueue_send(pool, swap_at(pool, holder->swap));
        return;
    }
    (void)holder_step(holder, HOLDER_EVENT_DUE);
    holder_mark_released(pool, block, 1);
    note_edge(
            pool, walk, holder, holder->mode == HINT_SHADOW ? OUTCOME_SHADOW : OUTCOME_RELEASE, 0);
    if (holder->mode == HINT_SHADOW) {
        (void)holder_step(holder, HOLDER_EVENT_QUIET);
        (void)holder_step(holder, HOLDER_EVENT_REMOVED);
        pool->counters.shadow_count++;
        pool->counters.shadow_bytes += requested;
        return;
    }
    tally_stored(heap, -(int64_t)block->node.size);
    heap->tally.limbo += block->node.size;
    pool->counters.released_count++;
    pool->counters.released_bytes += requested;
    chain = waits_for_call(pool, holder, walk->edge) ? &walk->dead_by_call : &walk->dead;
    holder->next = *chain;
    *chain = index;
}

static bool is_due(
        struct pool *pool, const struct holder *holder, const struct edge *edge) POOL_LOCKED
{
    return hint_wait_is_due(hint_rule(pool->hints, holder->rule), &holder->wait,
            &pool->due[holder->rule].passed, edge);
}

/* Does the instance that ends here match the hint's expectation? */
static bool is_expected(
        struct pool *pool, int rule, struct expect_seen *io_seen, bool matches) POOL_LOCKED
{
    enum hint_learnt learnt = hint_learnt(pool->hints, rule);

    if (POOL_IS_WITHOUT(EXPECT) || learnt == HINT_LEARNT_OFF)
        return true;
    if (learnt == HINT_LEARNT_UNCOUNTED && matches) {
        *io_seen = (struct expect_seen){.seen.count = 0};
        return false;
    }
    return io_seen->seen.count == 0
            || expect_is_met(&hint_rule(pool->hints, rule)->expect, io_seen);
}

/* Counts the blocks that are due at this edge, and not at an earlier edge whose outcomes are still
 * being reported. */
static struct rule_seen note_due(struct pool *pool, const struct edge *edge, int rule) POOL_LOCKED
{
    struct rule_seen seen = {0, 0};
    struct holder *holder;

    for (uint32_t at = pool->due[rule].first; at; at = holder->next) {
        const struct block *block;

        holder = holder_at(pool, at);
        block = block_at(pool, holder->block);
        if (holder->due || !is_due(pool, holder, edge))
            continue;
        holder->due = edge->seq;
        seen.count++;
        seen.bytes += block->node.size - block->slack;
    }
    return seen;
}

/* Each instance is judged before any of its blocks is released, so an expected instance may
 * follow at once on an unexpected one, as after an epoch's last batch. After several unexpected
 * instances in a row the same number of expected ones is required, since the program may have
 * changed (R109, judged per instance). */
#define DISTRUST_MOST 8

static void note_drift(struct pool *pool, const struct edge *edge, int number,
        const struct expect_seen *seen) POOL_LOCKED
{
    struct rule_due *due = &pool->due[number];

    if (due->distrust < DISTRUST_MOST)
        due->distrust++;
    due->drift = seen->seen;
    due->drift_seq = edge->seq;
    due->is_first_drift |= !due->has_drifted;
    due->has_drifted = true;
    if (hint_learnt(pool->hints, number) == HINT_LEARNT_UNCOUNTED)
        (void)hint_learn(pool->hints, number, HINT_LEARNT_LOST);
}

/* An instance ends. None of its blocks is released if it is not as expected, or if too few expected
 * instances followed the last unexpected ones. */
static void pool_hint_judge(struct pool *pool, const struct edge *edge, int number,
        struct expect_seen seen, bool matches) POOL_LOCKED
{
    struct rule_due *due = &pool->due[number];
    struct holder *holder;

    if (!is_expected(pool, number, &seen, matches))
        note_drift(pool, edge, number, &seen);
    else if (seen.seen.count && due->distrust)
        due->distrust--;
    if (!due->distrust)
        return;
    for (uint32_t at = due->first; at; at = holder->next) {
        holder = holder_at(pool, at);
        holder->drifted |= holder->due == edge->seq;
    }
}

static bool waits_for(const struct pool *pool, int number, enum edge_kind kind) POOL_LOCKED
{
    const struct rule_due *due = &pool->due[number];
    const struct rule *rule = hint_rule(pool->hints, number);

    return (due->first || due->counted)
            && (rule->when.kind == kind
                    || (rule_is_set(&rule->otherwise) && rule->otherwise.kind == kind));
}

/* Finds all due blocks of the edge at once: the caller's array may be too small to report them all,
 * and other threads go on meanwhile. */
static void find_due(struct pool *pool, const struct edge *edge) POOL_LOCKED
{
    for (int number = 0; (size_t)number < hint_count(pool->hints); number++) {
        const struct rule *rule = hint_rule(pool->hints, number);
        bool matches = hint_edge_matches(&rule->when, edge);
        struct expect_seen seen = {.forwarded = pool->due[number].forwarded};
        bool fired;

        if (!waits_for(pool, number, edge->kind))
            continue;
        fired = hint_count_edge(rule, edge, &pool->due[number].passed);
        seen.seen = note_due(pool, edge, number);
        if (!rule_counts(rule))
            seen = expect_take(pool, number, edge, matches);
        else if (!fired)
            seen.seen = (struct rule_seen){0, 0};
        pool_hint_judge(pool, edge, number, seen, matches);
    }
}

static void tell_drift(struct pool *pool, struct edge_walk *walk, int rule) POOL_LOCKED
{
    struct rule_due *due = &pool->due[rule];

    if (due->drift_seq != walk->edge->seq)
        return;
    walk->ret[walk->count++] = (struct outcome){
            .kind = OUTCOME_DRIFT,
            .size = due->drift.bytes,
            .rounded = due->drift.count,
            .seq = records_next_seq(pool),
            .rule = rule,
            .how = due->is_first_drift ? OUTCOME_FIRST : 0,
            .device = -1,
            .mode = hint_rule(pool->hints, rule)->mode,
    };
    due->drift_seq = 0;
    due->is_first_drift = false;
}

static void walk_rule(struct pool *pool, struct edge_walk *walk, int rule) POOL_LOCKED
{
    uint32_t next;

    tell_drift(pool, walk, rule);
    for (uint32_t at = pool->due[rule].first; at && walk->count < walk->max; at = next) {
        const struct holder *holder = holder_at(pool, at);

        next = holder->next;
        if (holder->due != walk->edge->seq)
            continue;
        if (holder->state == HOLDER_HELD)
            pool_hint_let_go(pool, walk, at);
        else
            release(pool, walk, at);
    }
}

/* Starts the grace period of the blocks marked dead. False: there were none. */
static bool begin_grace(
        struct pool *pool, struct grace *grace, uint32_t dead, uint64_t stream) POOL_LOCKED
{
    if (dead)
        reclaim_begin_grace(pool, grace, dead, stream);
    return dead != 0;
}

static void end_edge(struct pool *pool, struct grace *grace, bool is_begun)
{
    if (is_begun)
        reclaim_ask_readers(pool, grace);
    else if (grace)
        meta_put(grace, sizeof(*grace));
}

int pool_edge(
        struct pool *pool, struct edge *edge, struct outcome *ret, size_t max, size_t *ret_count)
{
    struct edge_walk walk = {.edge = edge, .ret = ret, .max = max};
    struct grace *grace, *by_call;
    bool begun, begun_by_call;

    *ret_count = 0;
    if (!pool_is_armed(pool) || atomic_load_explicit(&pool->frozen, memory_order_relaxed))
        return 0;
    grace = meta_get(sizeof(*grace)); /* Allocated first: marked blocks must be able to go on. */
    by_call = grace && edge->stream ? meta_get(sizeof(*grace)) : NULL;
    if (!grace || (edge->stream && !by_call)) {
        end_edge(pool, grace, false);
        return -ENOMEM;
    }
    lock_take(&pool->lock);
    if (!edge->seq) {
        edge->seq = records_next_seq(pool);
        if (pool->due)
            find_due(pool, edge);
        if (pool->swap_sets)
            swapstep_edge(pool, edge);
    }
    for (int rule = 0; pool->due && (size_t)rule < hint_count(pool->hints); rule++) {
        if (walk.count < max
                && (waits_for(pool, rule, edge->kind) || pool->due[rule].drift_seq == edge->seq))
            walk_rule(pool, &walk, rule);
    }
    begun = begin_grace(pool, grace, walk.dead, 0);
    begun_by_call = begin_grace(pool, by_call, walk.dead_by_call, edge->stream);
    lock_drop(&pool->lock);
    *ret_count = walk.count;
    end_edge(pool, grace, begun);
    end_edge(pool, by_call, begun_by_call);
    return 0;
}

void pool_forwarded(struct pool *pool, const struct plan *plan, uint64_t size)
{
    if (plan->rule < 0 || plan->small || !action_releases(plan->action))
        return;
    lock_take(&pool->lock);
    if (pool->due && (size_t)plan->rule < hint_count(pool->hints)) {
        /* An edge must end the instance that is counted here. */
        atomic_store_explicit(&pool->gate.armed, 1, memory_order_seq_cst);
        expect_count_forwarded(pool, plan, size);
    }
    lock_drop(&pool->lock);
}

/* Most addresses asked about are not ours; they need no lock. */
static bool pool_hint_is_foreign(const struct pool *pool, devptr_t lo, uint64_t len)
{
    return len == 0 || lo + len < lo
            || atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD
            || (!granule_segment(&pool->granules, lo)
                    && !granule_segment(&pool->granules, lo + len - 1));
}

bool pool_use(struct pool *pool, devptr_t ptr, const struct edge *call, uint32_t arg,
        struct outcome *ret_picked)
{
    struct edge_walk walk = {.edge = call, .ret = ret_picked, .max = 1};
    const struct block *block;
    struct holder *holder;
    bool unused;

    if (!pool_is_armed(pool) || pool_hint_is_foreign(pool, ptr, 1))
        return false;
    lock_take(&pool->lock);
    block = block_at(pool, block_find(pool, ptr));
    holder = block->state == BLOCK_LIVE && block->holder ? holder_at(pool, block->holder) : NULL;
    unused = holder && holder->wait.unused;
    if (holder && holder->state == HOLDER_LIVE
            && hint_wait_use(hint_rule(pool->hints, holder->rule), call, arg,
                    &pool->due[holder->rule].passed, &holder->wait)) {
        holder->due = 0;
        if (unused)
            note_edge(pool, &walk, holder, OUTCOME_PICKED, 0);
    }
    lock_drop(&pool->lock);
    return walk.count > 0;
}

bool pool_collect(struct pool *pool, devptr_t ptr, bool is_named, struct pool_collected *ret)
{
    const struct block *block;
    struct holder *holder;

    if (!pool_is_armed(pool) || pool_hint_is_foreign(pool, ptr, 1))
        return false;
    lock_take(&pool->lock);
    block = block_at(pool, block_find(pool, ptr));
    holder = block->holder ? holder_at(pool, block->holder) : NULL;
    if (holder) {
        *ret = (struct pool_collected){block->node.base, block->seq, is_named};
        holder->collected++;
        holder->named += is_named;
    }
    lock_drop(&pool->lock);
    return holder != NULL;
}

/* NULL: the block no longer exists. */
static struct holder *holder_of_call(
        struct pool *pool, const struct pool_collected *collected) POOL_LOCKED
{
    const struct block *block = block_at(pool, block_find(pool, collected->base));

    return block->holder && block->seq == collected->alloc_seq ? holder_at(pool, block->holder)
                                                               : NULL;
}

/* Removes the name of the block. True: submissions that found it named, after it was marked dead,
 * may not have reached the driver yet, and the block's storage waits for those, too. */
static bool unname(struct pool *pool, const struct pool_collected *collected)
{
    struct holder *holder;
    bool may_be_read;

    if (!collected->is_named)
        return false;
    lock_take(&pool->lock);
    holder = holder_of_call(pool, collected);
    may_be_read = holder && --holder->named == 0 && holder_is_released(holder);
    lock_drop(&pool->lock);
    return may_be_read;
}

void pool_call_made(struct pool *pool, const struct pool_collected *collected)
{
    uint64_t readers = 0;
    struct holder *holder;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return;
    if (unname(pool, collected))
        readers = drive_readers_snapshot(pool);
    lock_take(&pool->lock);
    holder = holder_of_call(pool, collected);
    if (holder && --holder->collected == 0)
        reclaim_call_made(pool, readers);
    lock_drop(&pool->lock);
}

bool pool_waits_for_call(
        struct pool *pool, const struct pool_collected *collected, struct outcome *ret)
{
    const struct holder *holder;
    struct edge_walk walk = {.ret = ret, .max = 1};

    lock_take(&pool->lock);
    holder = holder_of_call(pool, collected);
    if (holder && holder->state == HOLDER_DEAD)
        note_edge(pool, &walk, holder, OUTCOME_REFUSED, 0);
    lock_drop(&pool->lock);
    return walk.count > 0;
}

static void fill_hit(const struct block *block, const struct holder *holder, struct pool_hit *ret)
{
    *ret = (struct pool_hit){
            .base = block->node.base,
            .size = block->node.size - block->slack,
            .alloc_seq = block->seq,
            .rule = holder->rule,
            .state = holder->state,
            .mode = holder->mode,
    };
}

static bool pool_hint_is_live(const struct pool *pool, const struct block *block)
{
    (void)pool;
    return block->state == BLOCK_LIVE;
}

static bool pool_hint_is_released(const struct pool *pool, const struct block *block)
{
    return block->state == BLOCK_LIVE && block->holder
            && holder_is_released(holder_at(pool, block->holder))
            && holder_at(pool, block->holder)->named == 0;
}

/* The first block of the kind whose requested bytes the range touches, 0 = none. */
static uint32_t first_in(struct pool *pool, devptr_t lo, uint64_t len,
        bool (*is_wanted)(const struct pool *, const struct block *)) POOL_LOCKED
{
    devptr_t at = lo;

    while (at - lo < len) {
        uint32_t index = block_find(pool, at);
        const struct block *block = block_at(pool, index);

        if (!index)
            at = (at | (GRANULE_SIZE - 1)) + 1; /* a segment fills its granules */
        else if (is_wanted(pool, block) && at - block->node.base < block->node.size - block->slack)
            return index;
        else
            at = block->node.base + block->node.size;
    }
    return 0;
}

int pool_touch_slow(struct pool *pool, devptr_t lo, uint64_t len, struct pool_hit *ret)
{
    uint32_t index;

    if (len == 0 || lo + len < lo
            || atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD
            || !granule_is_released(&pool->granules, lo, len))
        return 0;
    lock_take(&pool->lock);
    index = first_in(pool, lo, len, pool_hint_is_released);
    if (index)
        fill_hit(block_at(pool, index), holder_at(pool, block_at(pool, index)->holder), ret);
    lock_drop(&pool->lock);
    return index != 0;
}

/* ── pins ── */

/* An evictable block stays in device memory for every kind of pin except graphs, whose launches
 * name the blocks that they use. */
static void stay_for_pins(struct pool *pool, uint32_t index) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);

    if (block->holder)
        swapset_pin(pool, block,
                pin_count(pool, index, POOL_PIN_LIVE) + pin_count(pool, index, POOL_PIN_SHOWN)
                                + pin_count(pool, index, POOL_PIN_HINT)
                        > 0);
}

static int pin_locked(struct pool *pool, uint32_t index, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;
    int r;

    if (holder && hint_mode_stops(holder->mode) && holder_is_released(holder)) {
        fill_hit(block, holder, ret_hit);
        return -EBUSY;
    }
    *ret = (struct pool_pinned){
            .base = block->node.base,
            .alloc_seq = block->seq,
            .end = block->node.base + block->node.size,
            .size = block->node.size - block->slack,
            .rule = holder ? holder->rule : -1,
            .device = block_segment(pool, block)->heap->device->number,
            .first = pin_count(pool, index, kind) == 0,
    };
    r = pin_add(pool, index, kind);
    stay_for_pins(pool, index);
    return r;
}

int pool_pin(struct pool *pool, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit)
{
    int r = -ENOENT;
    uint32_t index;

    if (pool_hint_is_foreign(pool, lo, len))
        return -ENOENT;
    lock_take(&pool->lock);
    index = first_in(pool, lo, len, pool_hint_is_live);
    if (index)
        r = pin_locked(pool, index, kind, ret, ret_hit);
    lock_drop(&pool->lock);
    return r;
}

/* The pinned block with this identity, 0 = it no longer exists. */
static uint32_t find_pinned(struct pool *pool, devptr_t base, uint64_t alloc_seq) POOL_LOCKED
{
    uint32_t index = block_find(pool, base);
    const struct block *block = block_at(pool, index);

    return index && block->node.base == base && block->seq == alloc_seq
                    && block->flags & BLOCK_PINNED
            ? index
            : 0;
}

int pool_repin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind)
{
    uint32_t index;
    int r = -ENOENT;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return -ENOENT;
    lock_take(&pool->lock);
    index = find_pinned(pool, base, alloc_seq);
    if (index) {
        r = pin_add(pool, index, kind);
        stay_for_pins(pool, index);
    }
    lock_drop(&pool->lock);
    return r;
}

void pool_unpin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind)
{
    uint32_t index;

    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) == FROZEN_CHILD)
        return;
    lock_take(&pool->lock);
    index = find_pinned(pool, base, alloc_seq);
    if (index) {
        pin_remove(pool, index, kind);
        stay_for_pins(pool, index);
    }
    lock_drop(&pool->lock);
}

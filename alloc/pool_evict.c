/* SPDX-License-Identifier: MIT */
#include "alloc/pool.h"

#include "alloc/base/meta.h"
#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/index/granule.h"
#include "alloc/swap/swap.h"
#include "alloc/swap/swapcall.h"
#include "alloc/swap/swapqueue.h"
#include "alloc/swap/swapstep.h"

enum {
    FAILURES_MAX = 3,  /* driver failures before a call gets the error */
    TIMEOUTS_MAX = 12, /* timeouts of waits for the device: a minute by default */
};

static bool pool_evict_is_frozen(const struct pool *pool)
{
    return atomic_load_explicit(&pool->frozen, memory_order_relaxed) != FROZEN_NOT;
}

/* ── blocks of a call ── */

int pool_call_name(
        struct pool *pool, devptr_t lo, uint64_t len, bool is_written, struct pool_call *io_call)
{
    int r;

    if (len == 0 || pool_evict_is_frozen(pool)
            || (len != UINT64_MAX
                    && (lo + len < lo || !granule_has_swaps(&pool->granules, lo, len))))
        return 0;
    lock_take(&pool->lock);
    r = swapcall_name(pool, lo, len, is_written, io_call);
    lock_drop(&pool->lock);
    return r;
}

static const struct pool_named *pool_evict_named_of(const struct pool_call *call)
{
    return call->more ? call->more : call->few;
}

/* The copy of a named block that its user has to wait for, NULL = none. Counts as a use of the
 * block. */
static struct swap_copy *coming_copy(
        struct pool *pool, const struct pool_named *named, uint64_t stream)
{
    const struct swap *swap = swap_at(pool, named->swap);
    struct swap_copy *copy = NULL;

    lock_take(&pool->lock);
    if (swap->block && swap->seq == named->seq && swap->copy && !swap->copy->is_over
            && !(stream && swapcall_has_stream(swap, stream)) && !POOL_IS_WITHOUT(ARRIVE))
        copy = swap_copy_use(swap->copy);
    lock_drop(&pool->lock);
    return copy;
}

static void drop_copy(struct pool *pool, struct swap_copy *copy)
{
    lock_take(&pool->lock);
    swap_copy_drop(pool, copy);
    lock_drop(&pool->lock);
}

/* Makes the stream of the call wait for copies in progress. 0, or an error: then the host has to
 * wait. */
static int order_stream(struct pool *pool, const struct pool_call *call)
{
    const struct pool_named *named = pool_evict_named_of(call);
    int r = 0;

    for (uint32_t i = 0; i < call->count && r == 0; i++) {
        struct swap_copy *copy = coming_copy(pool, &named[i], call->stream);

        for (uint32_t at = 0; copy && at < copy->count && r == 0; at++)
            r = DRIVE(pool, stream_wait_fence, call->stream, copy->fence[at]);
        if (copy)
            drop_copy(pool, copy);
    }
    return r;
}

static int wait_for_copies(struct pool *pool, const struct pool_call *call)
{
    const struct pool_named *named = pool_evict_named_of(call);
    int r = 0;

    for (uint32_t i = 0; i < call->count && r == 0; i++) {
        struct swap_copy *copy = coming_copy(pool, &named[i], 0);

        if (!copy)
            continue;
        r = swap_wait_copy(pool, named[i].set, copy);
        drop_copy(pool, copy);
    }
    return r;
}

/* True if a block of the call is being copied and the stream of the call cannot wait for the
 * copy. */
static bool must_wait(struct pool *pool, const struct pool_call *call)
{
    const struct pool_named *named = pool_evict_named_of(call);
    bool is_coming = false;

    if (call->stream && !call->must_wait)
        return false;
    for (uint32_t i = 0; i < call->count && !is_coming; i++) {
        struct swap_copy *copy = coming_copy(pool, &named[i], 0);

        is_coming = copy != NULL;
        if (copy)
            drop_copy(pool, copy);
    }
    return is_coming;
}

/* Checks that the blocks of the call stay in, are in, and can be used: then 0. */
static int settle_call(struct pool *pool, struct pool_call *call, struct pool_short *ret_short)
{
    uint64_t begin = pool->driver.clock_ns(pool->driver.self);
    int r;

    lock_take(&pool->lock);
    r = swapcall_ready(pool, call);
    if (r == -ESTALE) {
        swapcall_end(pool, call);
        r = swapcall_decide(pool, call, ret_short);
        if (r == 0)
            r = swapcall_ready(pool, call);
    }
    if (r == -EAGAIN)
        swapcall_late(pool, call);
    lock_drop(&pool->lock);
    swap_spend(pool, pool_evict_named_of(call)->set, SWAP_LAYOUT,
            pool->driver.clock_ns(pool->driver.self) - begin);
    return r;
}

int pool_call_begin(struct pool *pool, struct pool_call *io_call)
{
    struct pool_short not_told;
    int r;

    if (io_call->count == 0 || pool_evict_is_frozen(pool))
        return 0;
    r = settle_call(pool, io_call, &not_told);
    if (r != 0 || must_wait(pool, io_call))
        return -EAGAIN;
    if (io_call->stream && !io_call->must_wait && order_stream(pool, io_call) != 0) {
        io_call->must_wait = true;
        return -EAGAIN;
    }
    lock_take(&pool->lock);
    swapcall_use(pool, io_call);
    lock_drop(&pool->lock);
    return 0;
}

/* ── copying blocks in ── */

/* A call that waits for its blocks. */
struct evict_in {
    struct pool *pool;
    struct pool_call *call;
    struct pool_short *ret_short;
    uint64_t end; /* deadline on the driver's clock */
    int failures, timeouts;
    bool has_asked_others;
};

static bool is_patient(const struct evict_in *bring)
{
    return bring->pool->driver.clock_ns(bring->pool->driver.self) < bring->end;
}

/* Lets the sets that the call needs go on. 0, -EAGAIN, or the first error. */
static int pool_evict_advance(struct evict_in *bring, struct swap_set **ret_set)
{
    const struct pool_named *named = pool_evict_named_of(bring->call);
    int all = -EAGAIN;

    for (uint32_t i = 0; i < bring->call->count; i++) {
        int r;

        if (named[i].set->is_paper || (i > 0 && named[i].set == named[i - 1].set))
            continue;
        *ret_set = named[i].set;
        r = swap_advance(bring->pool, named[i].set, true);
        if (r != 0 && r != -EAGAIN && r != -ENOENT)
            return r;
        all = r == 0 ? 0 : all;
    }
    return all;
}

/* A block could not be copied in. 0: something is left to try. */
static int cope(struct evict_in *bring, struct swap_set *set, int code)
{
    struct pool *pool = bring->pool;

    if (code != DRIVER_OUT_OF_MEMORY)
        return code < 0 ? DRIVER_OUT_OF_MEMORY : ++bring->failures < FAILURES_MAX ? 0 : code;
    if (!bring->has_asked_others) {
        bring->has_asked_others = true;
        (void)swap_make_room(pool, set->device->number, set->cap, set);
        return 0;
    }
    lock_take(&pool->lock);
    swapset_limit(set, set->storage);
    lock_drop(&pool->lock);
    return ++bring->failures < FAILURES_MAX ? 0 : code;
}

/* The host waits longer for a device that is far behind than for another thread or a capture:
 * the device reaches the copy, unless its current work waits for the very call that waits here
 * (R73, host waits). */
static int pool_evict_wait_on(struct evict_in *bring, struct swap_set *set, int r)
{
    struct pool *pool = bring->pool;

    if (r == -ETIMEDOUT && ++bring->timeouts < TIMEOUTS_MAX) {
        bring->end = pool->driver.clock_ns(pool->driver.self) + swap_patience(pool);
        return -EAGAIN;
    }
    if (r == -ETIMEDOUT || !is_patient(bring))
        return DRIVER_OUT_OF_MEMORY;
    swap_pause(pool, set);
    return -EAGAIN;
}

/* 0: the call may be tried; -EAGAIN: not yet; > 0: it cannot be made. */
static int bring_more(struct evict_in *bring)
{
    struct pool *pool = bring->pool;
    struct swap_set *set = pool_evict_named_of(bring->call)->set;
    int r = settle_call(pool, bring->call, bring->ret_short);

    if (r == 0) {
        r = must_wait(pool, bring->call) ? wait_for_copies(pool, bring->call) : 0;
        if (r != -EAGAIN && r != -ETIMEDOUT)
            return r;
    } else if (r == -EAGAIN) {
        r = pool_evict_advance(bring, &set);
        if (r == 0)
            return -EAGAIN;
        if (r != -EAGAIN && r != -ETIMEDOUT)
            return cope(bring, set, r) == 0 ? -EAGAIN : r < 0 ? DRIVER_OUT_OF_MEMORY : r;
    } else if (r != -ESTALE && !(r == -ENOSPC && bring->ret_short->is_waiting)) {
        return DRIVER_OUT_OF_MEMORY;
    }
    return pool_evict_wait_on(bring, set, r);
}

int pool_call_bring(struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short)
{
    struct evict_in bring = {.pool = pool,
            .call = io_call,
            .ret_short = ret_short,
            .end = pool->driver.clock_ns(pool->driver.self) + swap_patience(pool)};
    int r;

    *ret_short = (struct pool_short){.rule = -1};
    do
        r = pool_evict_is_frozen(pool) ? 0 : bring_more(&bring);
    while (r == -EAGAIN);
    swap_flush(pool);
    return r;
}

void pool_call_end(struct pool *pool, struct pool_call *io_call)
{
    if (io_call->count == 0)
        return;
    if (atomic_load_explicit(&pool->frozen, memory_order_relaxed) != FROZEN_CHILD) {
        lock_take(&pool->lock);
        swapcall_end(pool, io_call);
        lock_drop(&pool->lock);
    }
    meta_put(io_call->more, io_call->room * sizeof(*io_call->more));
    *io_call = (struct pool_call){.stream = io_call->stream};
}

/* ── outside calls ── */

void pool_evict_go_on(struct pool *pool)
{
    struct swap_set *set;

    if (pool_evict_is_frozen(pool))
        return;
    lock_take(&pool->lock);
    set = pool->swap_sets;
    lock_drop(&pool->lock);
    for (; set; set = set->next)
        while (!set->is_paper && swap_advance(pool, set, false) == 0)
            ;
}

void pool_evict_keep(struct pool *pool, devptr_t ptr, enum pool_kept why)
{
    if (pool_evict_is_frozen(pool))
        return;
    lock_take(&pool->lock);
    for (uint32_t i = 1; ptr == 0 && i < pool->swaps.top; i++)
        if (swap_at(pool, i)->block)
            swapset_keep(pool, swap_at(pool, i), why);
    if (ptr != 0) {
        struct swap *swap = swapset_of(pool, block_at(pool, block_find(pool, ptr)));

        if (swap)
            swapset_keep(pool, swap, why);
    }
    lock_drop(&pool->lock);
}

uint64_t pool_evict_make_room(struct pool *pool, int device, uint64_t want)
{
    return pool_evict_is_frozen(pool) ? 0 : swap_make_room(pool, device, want, NULL);
}

/* ── steps ── */

bool pool_evict_next_step(struct pool *pool, struct pool_evict_step *ret)
{
    struct swap_step *step = NULL;

    lock_take(&pool->lock);
    for (struct swap_set *set = pool->swap_sets; set && !step; set = set->next) {
        step = set->step_first;
        if (!step)
            continue;
        set->step_first = step->next;
        if (!step->next)
            set->step_last = NULL;
    }
    lock_drop(&pool->lock);
    if (!step)
        return false;
    *ret = step->what;
    meta_put(step, sizeof(*step));
    return true;
}

bool pool_evict_now(struct pool *pool, int rule, int device, struct pool_evict_step *ret)
{
    struct swap_set *set;

    lock_take(&pool->lock);
    set = swapset_find(pool, rule, device, false);
    if (!set)
        set = swapset_find(pool, rule, device, true);
    if (set)
        swapstep_fill(set, ret);
    lock_drop(&pool->lock);
    return set != NULL;
}

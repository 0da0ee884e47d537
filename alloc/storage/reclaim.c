/* SPDX-License-Identifier: MIT */
#include "alloc/storage/reclaim.h"

#include "alloc/base/meta.h"
#include "alloc/base/mutation.h"
#include "alloc/heap/alias.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/handles.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/outcome_queue.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/swapset.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/trim.h"
#include "alloc/storage/vacate.h"

#include <sched.h>

#define PUTS_MAX 16         /* fences that one hold of the lock removes */
#ifndef STREAMS_LOOK        /* smaller in a test */
#    define STREAMS_LOOK 64 /* streams of a heap that one call queries */
#endif
#define EVENTS_LOOK    16   /* pending events that one call queries */
#define GRACE_PATIENCE 4096 /* polls of the readers before a waiting allocation gives up on them */

/* Fences to be destroyed once the lock is dropped. */
struct puts {
    uint64_t fence[PUTS_MAX];
    uint32_t count;
};

static void unuse(struct fence_mark *mark, struct puts *puts)
{
    uint64_t fence = 0;
    bool put = false;

    if (fence_drop(mark, &fence, &put) && put)
        puts->fence[puts->count++] = fence;
}

static void put_all(struct pool *pool, struct puts *puts)
{
    for (uint32_t i = 0; i < puts->count; i++)
        drive_fence_put(pool, puts->fence[i]);
    puts->count = 0;
}

/* ── passed fences ── */

/* Frees the addresses of an unmapped hinted block that is not live. */
static void put_addresses(struct pool *pool, uint32_t index) POOL_LOCKED
{
    if (block_at(pool, index)->flags & BLOCK_SHARED)
        index = alias_join(pool, index);
    freelist_put_decommitted(pool, index);
}

/* Makes a freed block on a handle of its own reusable. */
static void rest(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    struct heap *heap = block_segment(pool, block)->heap;

    heap->tally.pending -= block->node.size;
    block->state = BLOCK_IDLE;
    block->slack = 0;
    block_name_stream(pool, block, 0);
    bestfit_insert(&heap->idle, index);
    heap_list(heap, HEAPS_GIVING);
}

/* The epoch of a hinted block has passed. False: it is retired like all others. */
static bool retire_hinted(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = block_at(pool, index);
    struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;

    if (block->state == BLOCK_VACATED) {
        vacate_ready(pool, index);
        return true;
    }
    if (holder)
        holder->waited = true;
    if ((holder && holder->state == HOLDER_LIMBO)
            || block_segment(pool, block)->kind == SEGMENT_MANAGED
            || (!(block->flags & BLOCK_GONE)
                    && block->flags & (BLOCK_TRAPPED | BLOCK_POISONED | BLOCK_SHARED))) {
        block_chain(pool, &pool->removals, index);
        return true;
    }
    holder_drop(pool, block);
    if (block->flags & BLOCK_GONE) {
        put_addresses(pool, index);
        return true;
    }
    if (!(block->flags & BLOCK_HINTED))
        return false;
    rest(pool, index);
    return true;
}

/* As freecache_put for blocks that any stream may have, and inlined: each sync block passes
 * here. */
static inline void retire(struct pool *pool, struct block *block, uint32_t index) POOL_LOCKED
{
    const struct segment *segment = block_segment(pool, block);
    struct heap *heap = segment->heap;

    heap->tally.pending -= block->node.size;
    if (block->node.size > FREECACHE_MAX || segment->sealed) {
        (void)freelist_put(pool, index, 0, 0);
        return;
    }
    block_name_stream(pool, block, 0);
    freecache_push(pool, heap, segment->small ? &heap->recent_small : &heap->recent_clean, block,
            index, 0);
}

static void retire_chain(struct pool *pool, uint32_t index) POOL_LOCKED
{
    while (index) {
        struct block *block = block_at(pool, index);
        uint32_t next = block->chain;

        if (!(block->holder || block->flags & (BLOCK_GONE | BLOCK_TRAPPED | BLOCK_HINTED))
                || !retire_hinted(pool, index))
            retire(pool, block, index);
        index = next;
    }
}

/* Takes the marks up to `number` off the timeline and retires their blocks. True: there may be more
 * (the lock has to be dropped to destroy the fences). */
static bool reclaim_pass(struct pool *pool, struct fence_timeline *timeline, uint64_t number,
        struct puts *puts) POOL_LOCKED
{
    uint64_t passed = timeline->passed;
    struct fence_mark *mark;

    while (puts->count < PUTS_MAX - 1 && (mark = fence_pass(timeline, number)) != NULL) {
        timeline->stalled = false;
        retire_chain(pool, mark->chain.head);
        unuse(mark, puts);
    }
    if (timeline->is_streams && timeline->passed > passed)
        heap_note_passed(streams_of_timeline(timeline));
    return puts->count >= PUTS_MAX - 1;
}

static void pass_all(struct pool *pool, struct fence_timeline *timeline, uint64_t number)
{
    struct puts puts = {.count = 0};
    bool more;

    do {
        lock_take(&pool->lock);
        more = reclaim_pass(pool, timeline, number, &puts);
        lock_drop(&pool->lock);
        put_all(pool, &puts);
    } while (more);
}

#define MS_NS        UINT64_C(1000000)
#define STALLED_PART 64 /* fraction of the patience for a timeline that has exhausted it once */

uint32_t reclaim_patience_left(struct pool *pool, struct reclaim_patience *patience)
{
    uint64_t now = pool->driver.clock_ns(pool->driver.self);

    if (!patience->end_ns)
        patience->end_ns = now + pool->opts.fence_timeout_ms * MS_NS;
    return (uint32_t)((excess_of(patience->end_ns, now) + MS_NS - 1) / MS_NS);
}

/* Waits for a fence while there is patience, and briefly if its timeline has stalled. */
static int wait_fence(
        struct pool *pool, uint64_t fence, struct reclaim_patience *patience, bool is_stalled)
{
    uint32_t left = reclaim_patience_left(pool, patience);
    int r;

    patience->is_over = left == 0;
    if (is_stalled) {
        left = (uint32_t)min_of(left, pool->opts.fence_timeout_ms / STALLED_PART + 1);
        patience->was_stalled = true;
    }
    r = left ? DRIVE(pool, fence_wait, fence, left) : DRIVE(pool, fence_query, fence);
    patience->is_over |= r == -EAGAIN && !is_stalled;
    return r;
}

/* NULL while a context is being ended, which may take any time: natively only the thread that ends
 * it waits for that. */
static struct reclaim_patience *patience_now(
        struct pool *pool, const struct device *device, struct reclaim_patience *patience)
{
    bool is_ending;

    if (!patience || patience->for_ends || POOL_IS_WITHOUT(ENDS))
        return patience;
    lock_take(&pool->lock);
    is_ending = device->ending > 0;
    lock_drop(&pool->lock);
    patience->missed |= is_ending;
    return is_ending ? NULL : patience;
}

/* Queries a fence, or waits for it if there is patience. A mutant has patience for each. */
static int ask_fence(
        struct pool *pool, uint64_t fence, struct reclaim_patience *patience, bool is_stalled)
{
    if (POOL_IS_WITHOUT(FENCE))
        return 0;
    if (POOL_IS_WITHOUT(PATIENCE) && patience)
        return DRIVE(pool, fence_wait, fence, pool->opts.fence_timeout_ms);
    if (!patience || patience->is_over || (is_stalled && patience->was_stalled))
        return DRIVE(pool, fence_query, fence);
    return wait_fence(pool, fence, patience, is_stalled);
}

/* Counts a failed query of a fence, or (`has_waited`) a failed wait. */
static void note_failure(
        struct pool *pool, struct fence_timeline *timeline, int r, bool has_waited) POOL_LOCKED
{
    if (r > 0 || r == -EBUSY)
        pool->counters.fence_errors++;
    if (r == -EAGAIN && has_waited) {
        pool->counters.timeouts += !timeline->stalled;
        timeline->stalled = true;
    }
}

/* Queries, or (`patience`) waits for, a mark of a timeline with at least this number. 0 = passed,
 * -ENOENT = none. */
static int reclaim_ask(struct pool *pool, const struct device *device,
        struct fence_timeline *timeline, uint64_t number, struct reclaim_patience *patience)
{
    struct puts puts = {.count = 0};
    bool is_stalled = false;
    struct fence_mark *mark;
    uint64_t fence = 0;
    bool waits;
    int r;

    patience = patience_now(pool, device, patience);
    waits = patience && !patience->is_over;
    lock_take(&pool->lock);
    mark = fence_at_least(timeline, number);
    if (mark) {
        fence_use(mark);
        fence = mark->fence;
        number = mark->number;
        is_stalled = timeline->stalled;
        pool->counters.host_waits += waits;
    }
    lock_drop(&pool->lock);
    if (!mark)
        return -ENOENT;

    r = ask_fence(pool, fence, patience, is_stalled);
    if (r == 0)
        pass_all(pool, timeline, number);
    lock_take(&pool->lock);
    unuse(mark, &puts);
    note_failure(pool, timeline, r, waits);
    lock_drop(&pool->lock);
    put_all(pool, &puts);
    return r;
}

/* ── epochs ── */

/* The fence of an epoch could not be recorded: its blocks are open again, before those freed
 * since. */
static void reopen(struct pool *pool, struct device *device, struct fence_chain chain) POOL_LOCKED
{
    struct fence_chain *open = &device->open;

    if (!chain.head)
        return;
    block_at(pool, chain.tail)->chain = open->head;
    if (!open->head)
        open->tail = chain.tail;
    open->head = chain.head;
    open->count += chain.count;
    open->bytes += chain.bytes;
}

/* Takes the blocks of a device out of a chain. */
static struct fence_chain reclaim_split(
        struct pool *pool, struct fence_chain *from, const struct device *device) POOL_LOCKED
{
    struct fence_chain own = {.head = 0};
    uint32_t index = from->head;
    uint32_t next;

    *from = (struct fence_chain){0};
    for (; index; index = next) {
        struct block *block = block_at(pool, index);

        next = block->chain;
        block_chain(pool, block_device(pool, block) == device ? &own : from, index);
    }
    return own;
}

/* Opens blocks of any devices, and asks for an early release. */
static void open_soon(struct pool *pool, struct fence_chain chain) POOL_LOCKED
{
    while (chain.head) {
        struct device *device = block_device(pool, block_at(pool, chain.head));

        reopen(pool, device, reclaim_split(pool, &chain, device));
        device->eager = true;
    }
}

/* Blocks in the open epoch cannot be reused for packing. At most this fraction of held memory may
 * wait there, or 2 MiB. On the eight real traces (DESIGN.md), served from mapped memory with a
 * device that keeps up, four passes hold 0.956 and the fourth ones make 6,300 driver calls if 64
 * MiB may wait; 0.978 and 8,600 with a 128th of what is held, 0.979 and 11,000 with a 256th, 0.981
 * and 14,200 with a 512th. Natively it is 56,100 calls. A plain heap holds the same with all of
 * them. */
#define EPOCH_PART 512

static uint64_t bytes_of_epoch(const struct pool *pool, const struct device *device) POOL_LOCKED
{
    if (!pool->opts.sync_mapped)
        return pool->opts.epoch_bytes;
    return min_of(pool->opts.epoch_bytes, max_of(GRANULE_SIZE, device->reserved / EPOCH_PART));
}

void reclaim_put_back(struct pool *pool, struct device *device)
{
    struct fence_chain chain = device->aside;

    device->aside = (struct fence_chain){0};
    reopen(pool, device, chain);
}

/* True for a block that was allocated when no work of the contexts being ended could be submitted
 * any more. Blocks other than plain blocks of the sync API count as old. */
static bool is_young(const struct pool *pool, const struct block *block) POOL_LOCKED
{
    return block->state == BLOCK_PENDING && block->flags == 0 && !block->holder
            && block_segment(pool, block)->heap->kind != HEAP_MAPPED
            && block->seq > block_device(pool, block)->ending_seq && !POOL_IS_WITHOUT(YOUNG);
}

/* While contexts are being ended, the young open blocks get an event of their own, which passes
 * when the other contexts have passed it; all others wait until no context is being ended. NULL: no
 * young blocks. */
static struct fence_mark *begin_young(struct pool *pool, struct device *device) POOL_LOCKED
{
    struct fence_chain young = {.head = 0};
    uint32_t index = device->open.head;
    struct fence_mark *mark;
    uint32_t next;

    device->open = (struct fence_chain){0};
    for (; index; index = next) {
        next = block_at(pool, index)->chain;
        block_chain(pool, is_young(pool, block_at(pool, index)) ? &young : &device->aside, index);
    }
    mark = young.head ? fence_begin(&device->events, &young) : NULL;
    reopen(pool, device, young);
    return mark;
}

/* 0, or the error after which the mark's blocks are open again. */
static int record_young(
        struct pool *pool, struct device *device, struct fence_mark *mark, uint64_t endings)
{
    struct puts puts = {.count = 0};
    struct fence_chain chain;
    uint64_t fence = 0;
    int r = DRIVE(pool, fence_record_beside, device->number, endings, &fence);

    lock_take(&pool->lock);
    if (r == 0) {
        fence_recorded(&device->events, mark, fence);
        pool->counters.epochs++;
    } else {
        pool->counters.fence_errors++;
        fence_failed(&device->events, mark, &chain);
        reopen(pool, device, chain);
    }
    unuse(mark, &puts);
    lock_drop(&pool->lock);
    put_all(pool, &puts);
    return r;
}

static int close_epoch(struct pool *pool, struct device *device, bool always)
{
    struct puts puts = {.count = 0};
    struct fence_mark *mark = NULL;
    struct fence_chain chain;
    uint64_t endings = 0;
    uint64_t fence = 0;
    bool is_ending;
    int r;

    lock_take(&pool->lock);
    is_ending = device->ending > 0;
    endings = device->endings;
    if (device->open.head && (always || device->eager || reclaim_is_due(pool, device)))
        mark = is_ending ? begin_young(pool, device) : fence_begin(&device->epochs, &device->open);
    if (mark && is_ending) {
        lock_drop(&pool->lock);
        return record_young(pool, device, mark, endings);
    }
    if (mark)
        device->epoch_bytes = bytes_of_epoch(pool, device);
    lock_drop(&pool->lock);
    if (!mark)
        return -ENOENT;

    r = DRIVE(pool, fence_record, device->number, &fence);

    lock_take(&pool->lock);
    if (r == 0) {
        fence_recorded(&device->epochs, mark, fence);
        pool->counters.epochs++;
        if (!device->open.head)
            device->eager = false;
    } else {
        pool->counters.fence_errors++;
        fence_failed(&device->epochs, mark, &chain);
        reopen(pool, device, chain);
    }
    unuse(mark, &puts);
    lock_drop(&pool->lock);
    put_all(pool, &puts);
    return r;
}

/* ── limbo ── */

void reclaim_begin_grace(struct pool *pool, struct grace *grace, uint32_t holders, uint64_t stream)
{
    *grace = (struct grace){.holders = holders, .stream = stream};
    if (pool->grace_last)
        pool->grace_last->next = grace;
    else
        pool->grace_first = grace;
    pool->grace_last = grace;
}

void reclaim_ask_readers(struct pool *pool, struct grace *grace)
{
    uint64_t snapshot = drive_readers_snapshot(pool);

    lock_take(&pool->lock);
    if (grace->snapshot < snapshot)
        grace->snapshot = snapshot;
    grace->is_asked = true;
    lock_drop(&pool->lock);
}

void reclaim_call_made(struct pool *pool, uint64_t readers)
{
    for (struct grace *grace = pool->grace_first; grace; grace = grace->next) {
        grace->is_held_up = false;
        if (grace->snapshot < readers)
            grace->snapshot = readers;
    }
}

/* Records the event of blocks that wait for one stream: its fence, or that of all streams where it
 * can have none. */
static void record_event(
        struct pool *pool, struct device *device, struct fence_mark *mark, uint64_t stream)
{
    struct puts puts = {.count = 0};
    struct fence_chain chain;
    uint64_t fence = 0;
    int r = DRIVE(pool, stream_record, stream, &fence);

    lock_take(&pool->lock);
    if (r == 0) {
        fence_recorded(&device->events, mark, fence);
    } else {
        pool->counters.fence_errors++;
        fence_failed(&device->events, mark, &chain);
        open_soon(pool, chain);
    }
    unuse(mark, &puts);
    lock_drop(&pool->lock);
    put_all(pool, &puts);
}

struct grace *reclaim_grace(struct pool *pool)
{
    struct grace *grace = pool->grace_first;

    while (grace && grace->is_held_up)
        grace = grace->next;
    return grace;
}

/* A holder's readers have ended, and no call names its block that is still to be made: a held block
 * is freed, others wait for a fence. */
static void pass_grace(struct pool *pool, const struct grace *grace, uint32_t index,
        struct fence_chain *chain) POOL_LOCKED
{
    struct holder *holder = holder_at(pool, index);
    uint32_t block = holder->block;

    if (holder->state == HOLDER_LET_GO) {
        holder_drop(pool, block_at(pool, block));
        pin_remove(pool, block, POOL_PIN_HELD);
        return;
    }
    (void)holder_step(holder, HOLDER_EVENT_QUIET);
    /* poison is ordered after all streams on the device, everything else waits on the host */
    block_chain(
            pool, holder->mode == HINT_POISON && !grace->stream ? &pool->removals : chain, block);
}

/* Begins the fence mark of blocks that wait for one stream, for the first device of the chain.
 * NULL: none. */
static struct fence_mark *reclaim_begin_event(
        struct pool *pool, struct fence_chain *chain, struct device **ret_device) POOL_LOCKED
{
    struct device *device = block_device(pool, block_at(pool, chain->head));
    struct fence_chain own = reclaim_split(pool, chain, device);
    struct fence_mark *mark = fence_begin(&device->events, &own);

    open_soon(pool, own);
    *ret_device = device;
    return mark;
}

/* The holders wait for a fence from now on, except those of blocks that calls name which are still
 * to be made. Returns the mark of the fence to record, NULL = an epoch's. */
static struct fence_mark *wait_for_fence(
        struct pool *pool, struct grace *grace, struct device **ret_device) POOL_LOCKED
{
    struct fence_chain chain = {.head = 0};
    struct fence_mark *mark = NULL;
    uint32_t index = grace->holders;

    grace->holders = 0;
    while (index) {
        struct holder *holder = holder_at(pool, index);
        uint32_t next = holder->next;

        holder->next = 0;
        if (holder->collected > 0) {
            holder->next = grace->holders;
            grace->holders = index;
        } else {
            pass_grace(pool, grace, index, &chain);
        }
        index = next;
    }
    if (grace->stream && chain.head)
        mark = reclaim_begin_event(pool, &chain, ret_device);
    open_soon(pool, chain);
    return mark;
}

static void unlink_grace(struct pool *pool, struct grace *grace) POOL_LOCKED
{
    struct grace *before = NULL;

    for (struct grace *at = pool->grace_first; at != grace; at = at->next)
        before = at;
    if (before)
        before->next = grace->next;
    else
        pool->grace_first = grace->next;
    if (!grace->next)
        pool->grace_last = before;
}

/* The readers of the first grace have ended. */
static void end_grace(struct pool *pool, const struct grace *which, uint64_t snapshot)
{
    struct device *device = NULL;
    struct fence_mark *mark;
    struct grace *grace;
    uint64_t stream;
    bool is_over;

    lock_take(&pool->lock);
    grace = reclaim_grace(pool);
    if (!grace || grace != which || grace->snapshot != snapshot) {
        lock_drop(&pool->lock);
        return; /* another thread was first */
    }
    stream = grace->stream;
    mark = wait_for_fence(pool, grace, &device);
    is_over = grace->holders == 0;
    grace->is_held_up = !is_over;
    if (is_over)
        unlink_grace(pool, grace);
    lock_drop(&pool->lock);
    if (mark)
        record_event(pool, device, mark, stream);
    if (is_over)
        meta_put(grace, sizeof(*grace));
}

/* 0 = a grace has ended, -ENOENT = none, -EAGAIN = not yet. */
static int poll_grace(struct pool *pool)
{
    const struct grace *grace;
    uint64_t snapshot = 0;
    bool is_asked = false;

    lock_take(&pool->lock);
    grace = reclaim_grace(pool);
    if (grace) {
        snapshot = grace->snapshot;
        is_asked = grace->is_asked;
    }
    lock_drop(&pool->lock);
    if (!grace)
        return -ENOENT;
    if (!is_asked)
        return -EAGAIN;
    if (!POOL_IS_WITHOUT(GRACE) && drive_readers_passed(pool, snapshot) != 0)
        return -EAGAIN;
    end_grace(pool, grace, snapshot);
    return 0;
}

/* An event mark that has a fence, in use by the caller; it moves to the end, so that each gets its
 * turn. NULL = none. */
static struct fence_mark *reclaim_next_event(
        struct pool *pool, struct device *device, uint64_t *ret_fence, bool wait, bool *ret_stalled)
{
    struct fence_mark *mark;

    lock_take(&pool->lock);
    mark = fence_at_least(&device->events, 0);
    if (mark) {
        fence_turn(&device->events, mark);
        fence_use(mark);
        *ret_fence = mark->fence;
        *ret_stalled = device->events.stalled;
        pool->counters.host_waits += wait;
    }
    lock_drop(&pool->lock);
    return mark;
}

static uint32_t count_events(struct pool *pool, const struct device *device)
{
    uint32_t count;

    lock_take(&pool->lock);
    count = device->events.marks;
    lock_drop(&pool->lock);
    return count;
}

/* Queries each event separately, since one may pass before older ones; at most `most` in vain.
 * `patience`: for the first only. Results as reclaim_ask. */
static int ask_events(
        struct pool *pool, struct device *device, struct reclaim_patience *patience, uint32_t most)
{
    uint32_t left;
    struct puts puts = {.count = 0};
    struct fence_chain chain;
    struct fence_mark *mark;
    uint64_t fence = 0;
    bool is_stalled, waits;
    int r = -ENOENT;

    patience = patience_now(pool, device, patience);
    waits = patience && !patience->is_over;
    left = patience ? 1 : count_events(pool, device);
    for (; left > 0 && most > 0; left--) {
        mark = reclaim_next_event(pool, device, &fence, patience != NULL, &is_stalled);
        if (!mark)
            break;
        r = ask_fence(pool, fence, patience, is_stalled);
        most -= r != 0;
        lock_take(&pool->lock);
        if (r == 0) {
            device->events.stalled = false;
            fence_failed(&device->events, mark, &chain); /* off the list, with its blocks */
            retire_chain(pool, chain.head);
        }
        note_failure(pool, &device->events, r, waits);
        unuse(mark, &puts);
        lock_drop(&pool->lock);
        put_all(pool, &puts);
    }
    return r;
}

/* The driver operation on the storage of a hinted block. */
enum removal_kind {
    REMOVE_STORAGE,
    REMOVE_ACCESS,
    REMOVE_CONTENT, /* fill with poison */
    REMOVE_POISON,  /* it is freed: check the content */
    REMOVE_NOTHING, /* it is freed: too late for poison */
    REMOVE_SEGMENT, /* it is freed: its managed memory returns to the driver */
};

/* One hinted block whose storage is being removed. */
struct removal {
    uint32_t index;
    struct heap *heap;
    devptr_t base;
    uint64_t size, requested;
    devptr_t range; /* range mapped by one call */
    uint64_t range_size;
    uint64_t intact;  /* REMOVE_POISON: bytes that are unchanged */
    uint64_t context; /* REMOVE_SEGMENT: of `range` */
    bool waited;      /* the fence that the release needs has passed */
    enum removal_kind kind;
};

static struct outcome outcome_of(
        struct pool *pool, uint32_t index, enum outcome_kind kind) POOL_LOCKED
{
    const struct block *block = block_at(pool, index);
    const struct holder *holder = holder_at(pool, block->holder);
    struct outcome outcome = block_outcome(pool, block, kind, records_next_seq(pool));

    outcome.rule = holder->rule;
    outcome.how = OUTCOME_HINTED;
    outcome.mode = holder->mode;
    return outcome;
}

static void tell_husk(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct outcome husk = outcome_of(pool, index, OUTCOME_HUSK);

    outcome_queue_tell(pool, &husk);
}

/* Ends the check of a freed block's content, which may have failed (r). */
static void looked_at(struct pool *pool, const struct removal *removal, int r) POOL_LOCKED
{
    struct block *block = block_at(pool, removal->index);
    bool is_written = removal->intact < removal->requested;
    struct outcome outcome;

    if (block_segment(pool, block)->dead)
        return;
    outcome = outcome_of(pool, removal->index, is_written ? OUTCOME_WRITTEN : OUTCOME_CLEAN);
    if (is_written)
        outcome.rounded = removal->intact;
    if (r == 0)
        outcome_queue_tell(pool, &outcome);
    block->flags &= (uint8_t)~BLOCK_POISONED;
    holder_drop(pool, block);
    if (block->flags & BLOCK_SHARED)
        block_chain(pool, &pool->removals, removal->index);
    else
        rest(pool, removal->index);
}

/* True if the program has freed the block and no release is pending: only its mapping is left. */
static bool is_freed(const struct block *block)
{
    return block->flags & BLOCK_TRAPPED || (block->flags & BLOCK_SHARED && !block->holder);
}

/* The handle that no block uses any more, after the block was unmapped; 0 = others use it. */
static uint64_t reclaim_take_handle(const struct segment *segment, const struct block *block)
{
    uint64_t *at, handle;

    if (block->flags & BLOCK_SHARED)
        return alias_end(segment->heap, alias_range(segment, block));
    at = &segment->handles[(block->node.base - segment->base) / segment->slot];
    handle = *at;
    *at = 0;
    return handle;
}

/* The driver has done it: updates sums and states. Returns a handle that does not fit the shelf, 0
 * = none. */
static uint64_t removed(struct pool *pool, const struct removal *removal) POOL_LOCKED
{
    struct block *block = block_at(pool, removal->index);
    struct segment *segment = block_segment(pool, block);
    struct holder *holder = block->holder ? holder_at(pool, block->holder) : NULL;
    bool was_freed = is_freed(block);
    uint64_t handle = 0;

    if (removal->kind == REMOVE_STORAGE) {
        handle = reclaim_take_handle(segment, block);
        if (!handle || handles_put(removal->heap, removal->range_size, handle) == 0)
            handle = 0;
        else
            tally_reserved(removal->heap, -(int64_t)removal->range_size);
    } else if (removal->kind == REMOVE_ACCESS) {
        block->flags |= BLOCK_TRAPPED;
    }
    if (segment->dead)
        return handle; /* its sums are no longer kept */
    if (was_freed) {
        removal->heap->tally.pending -= removal->size;
        holder_drop(pool, block);
        put_addresses(pool, removal->index);
        return handle;
    }
    removal->heap->tally.limbo -= removal->size;
    if (holder && holder_step(holder, HOLDER_EVENT_REMOVED) == 0 && holder->state == HOLDER_HUSK) {
        removal->heap->tally.husk += removal->size;
        if (removal->kind == REMOVE_CONTENT)
            block->flags |= BLOCK_POISONED;
        if (removal->kind != REMOVE_NOTHING)
            tell_husk(pool, removal->index);
        return handle;
    }
    /* The program freed it meanwhile. Work that was submitted since the fence may still name the
     * address, so the block waits for one more epoch. */
    holder_drop(pool, block);
    if (removal->kind == REMOVE_STORAGE)
        block->flags |= BLOCK_GONE;
    block_push_open(pool, removal->index);
    return handle;
}

/* If so, the driver was not called, so it did not refuse. */
static bool reclaim_is_frozen(const struct pool *pool)
{
    return atomic_load_explicit(&pool->frozen, memory_order_relaxed) != FROZEN_NOT;
}

/* The driver refused, and everything is mapped as before: undoes the release. The program keeps its
 * block as if unhinted, or has freed it meanwhile, and then it is retired like others. A block
 * freed before the release stays as it is for good. */
static void stuck(struct pool *pool, const struct removal *removal) POOL_LOCKED
{
    struct block *block = block_at(pool, removal->index);
    struct outcome refused;

    if (block_segment(pool, block)->dead)
        return;
    if (is_freed(block)) {
        removal->heap->tally.pending -= removal->size;
        holder_drop(pool, block);
        tally_keep(pool, block);
        return;
    }
    removal->heap->tally.limbo -= removal->size;
    if (block->state == BLOCK_LIVE) {
        refused = outcome_of(pool, removal->index, OUTCOME_REFUSED);
        if (!reclaim_is_frozen(pool))
            outcome_queue_tell(pool, &refused);
        tally_stored(removal->heap, (int64_t)removal->size);
        holder_drop(pool, block);
    } else {
        holder_drop(pool, block);
        block_push_open(pool, removal->index);
    }
}

/* Removes a managed block from the pool before the driver can give its addresses to others. */
static void forget_managed(struct pool *pool, struct removal *removal) POOL_LOCKED
{
    const struct block *block = block_at(pool, removal->index);
    const struct segment *segment = block_segment(pool, block);

    removal->range = segment->raw_base;
    removal->context = segment->context;
    removal->heap->tally.pending -= block->node.size;
    if (swapset_is_held(pool, block))
        tally_reserved(removal->heap, -(int64_t)block->node.size);
    segment_remove(pool, block->segment);
}

/* The first waiting removal; its block is BUSY for the caller. */
static bool take_removal(struct pool *pool, struct removal *ret) POOL_LOCKED
{
    const struct segment *segment;
    const struct holder *holder;
    const struct block *block;

    ret->index = pool->removals.head;
    if (!ret->index)
        return false;
    block = block_at(pool, ret->index);
    holder = block->holder ? holder_at(pool, block->holder) : NULL;
    pool->removals.head = block->chain;
    if (!block->chain)
        pool->removals.tail = 0;
    pool->removals.count--;
    pool->removals.bytes -= block->node.size;
    segment = block_segment(pool, block);
    ret->heap = segment->heap;
    ret->base = block->node.base;
    ret->size = block->node.size;
    ret->range = alias_range(segment, block);
    ret->range_size = max_of(ret->size, segment->slot);
    ret->requested = ret->size - block->slack;
    ret->kind = segment->kind == SEGMENT_MANAGED ? REMOVE_SEGMENT : REMOVE_STORAGE;
    ret->waited = holder && holder->waited;
    if (block->flags & BLOCK_POISONED)
        ret->kind = REMOVE_POISON;
    else if (holder && holder->mode == HINT_POISON)
        ret->kind = holder->freed ? REMOVE_NOTHING : REMOVE_CONTENT;
    else if (holder && holder->mode == HINT_TRAP && !(block->flags & BLOCK_TRAPPED))
        ret->kind = REMOVE_ACCESS;
    else if (ret->kind == REMOVE_SEGMENT)
        forget_managed(pool, ret);
    ret->heap->busy++;
    return true;
}

/* Writes poison after all work submitted so far: the program's writes before the edge are not
 * late. */
static int put_poison(struct pool *pool, const struct removal *removal)
{
    const struct heap *heap = removal->heap;
    uint64_t fence = 0;
    int r = removal->waited ? 0 : DRIVE(pool, fence_record, heap->device->number, &fence);

    if (r != 0)
        return r;
    r = DRIVE(pool, poison, heap->kind, heap->owner, heap->device->number, removal->base,
            removal->size, fence);
    if (fence)
        drive_fence_put(pool, fence);
    return r;
}

/* A refusal may mean that a peer has lost its access, so access is granted to all again: the
 * program still holds the block. If that fails, too, the state is unknown and counts as removed:
 * the guard reports it, and the program's free unmaps the block. */
static int take_access(struct pool *pool, const struct removal *removal)
{
    const struct heap *heap = removal->heap;
    int r = drive_set_access(pool, heap, removal->range, removal->range_size, DRIVER_ACCESS_NONE);

    if (r == 0 || reclaim_is_frozen(pool))
        return r;
    return drive_set_access(pool, heap, removal->range, removal->range_size, DRIVER_ACCESS_RW) == 0
            ? r
            : 0;
}

static int remove_from(struct pool *pool, struct removal *removal)
{
    const struct heap *heap = removal->heap;

    switch (removal->kind) {
    case REMOVE_STORAGE:
        return DRIVE(pool, unmap, removal->range, removal->range_size);
    case REMOVE_SEGMENT:
        return DRIVE(pool, mem_free, removal->context, removal->range);
    case REMOVE_ACCESS:
        return take_access(pool, removal);
    case REMOVE_CONTENT:
        return put_poison(pool, removal);
    case REMOVE_POISON:
        return DRIVE(pool, poison_read, heap->kind, heap->owner, heap->device->number,
                removal->base, removal->requested, &removal->intact);
    default:
        return 0;
    }
}

/* Handles the driver's answer. Returns a handle as removed. */
static uint64_t reclaim_settle(struct pool *pool, struct removal *removal, int r) POOL_LOCKED
{
    bool is_poison = removal->kind == REMOVE_CONTENT || removal->kind == REMOVE_POISON;

    removal->heap->busy--;
    if (removal->kind == REMOVE_SEGMENT)
        return 0;
    if (r == -EBUSY && is_poison && !block_segment(pool, block_at(pool, removal->index))->dead) {
        block_chain(pool, &pool->removals, removal->index);
        return 0;
    }
    if (removal->kind == REMOVE_POISON) {
        looked_at(pool, removal, r);
        return 0;
    }
    if (r != 0 && is_poison) {
        removal->kind = REMOVE_NOTHING;
        pool->counters.fence_errors++;
    } else if (r != 0) {
        stuck(pool, removal);
        return 0;
    }
    return removed(pool, removal);
}

/* 0 = one was removed or given up, -ENOENT = none, -EBUSY = try again. */
static int remove_one(struct pool *pool)
{
    struct removal removal = {.intact = 0};
    uint64_t handle;
    bool is_there;
    int r;

    lock_take(&pool->lock);
    is_there = take_removal(pool, &removal);
    lock_drop(&pool->lock);
    if (!is_there)
        return -ENOENT;

    r = remove_from(pool, &removal);

    lock_take(&pool->lock);
    handle = reclaim_settle(pool, &removal, r);
    lock_drop(&pool->lock);
    if (handle)
        (void)DRIVE(pool, handle_release, handle);
    return r == -EBUSY ? r : 0;
}

static void remove_all(struct pool *pool)
{
    while (remove_one(pool) == 0)
        ;
}

/* ── polling and waiting ── */

void reclaim_events(struct pool *pool, int device)
{
    (void)ask_events(pool, &pool->devices[device], NULL, UINT32_MAX);
}

static int poll_device(struct pool *pool, struct device *device, bool close)
{
    int r = 0;

    (void)close_epoch(pool, device, close);
    while (r == 0)
        r = reclaim_ask(pool, device, &device->epochs, 0, NULL);
    (void)ask_events(pool, device, NULL, EVENTS_LOOK);
    return r;
}

static int devices_top(struct pool *pool)
{
    int top;

    lock_take(&pool->lock);
    top = pool->devices_top;
    lock_drop(&pool->lock);
    return top;
}

void reclaim_close(struct pool *pool)
{
    int top = devices_top(pool);

    for (int i = 0; i < top; i++)
        (void)close_epoch(pool, &pool->devices[i], true);
}

int reclaim_poll(struct pool *pool, int device, bool close)
{
    int top = device < 0 ? devices_top(pool) : device + 1;
    int r = 0;

    while (poll_grace(pool) == 0)
        ;
    for (int i = device < 0 ? 0 : device; i < top; i++) {
        int one = poll_device(pool, &pool->devices[i], close);

        r = one > 0 ? one : r;
    }
    remove_all(pool);
    vacate_clear(pool);
    reclaim_leaving(pool);
    return r;
}

/* Submissions in progress end soon; waiting for the device does not help. */
static int wait_grace(struct pool *pool)
{
    int r = -EAGAIN;

    for (int i = 0; i < GRACE_PATIENCE && r == -EAGAIN; i++) {
        r = poll_grace(pool);
        if (r == -EAGAIN)
            (void)sched_yield();
    }
    return r;
}

/* The number of the epoch with which three quarters of the waiting bytes become free. */
static uint64_t most_waiting(const struct pool *pool, const struct device *device) POOL_LOCKED
{
    uint64_t number = 0;
    uint64_t bytes = 0;

    (void)pool;
    for (const struct fence_mark *mark = device->epochs.first;
            mark && bytes < device->epochs.bytes / 4 * 3; mark = mark->next) {
        bytes += mark->chain.bytes;
        if (mark->recorded)
            number = mark->number;
    }
    return number;
}

/* While contexts are being ended, epochs may wait for that: query the young events first. True: one
 * has passed. */
static bool pass_young(struct pool *pool, struct device *device)
{
    bool is_ending;

    lock_take(&pool->lock);
    is_ending = device->ending > 0;
    lock_drop(&pool->lock);
    return is_ending && ask_events(pool, device, NULL, EVENTS_LOOK) == 0;
}

static int wait_for_epoch(
        struct pool *pool, struct device *device, bool most, struct reclaim_patience *patience)
{
    bool waited_grace = wait_grace(pool) == 0;
    uint64_t number = 0;
    int r;

    r = close_epoch(pool, device, true);
    if (r == -ECANCELED)
        return -ETIMEDOUT;
    if (pass_young(pool, device))
        return 0;
    if (most) {
        lock_take(&pool->lock);
        number = most_waiting(pool, device);
        lock_drop(&pool->lock);
    }
    r = reclaim_ask(pool, device, &device->epochs, number, patience);
    if (r == -ENOENT)
        r = ask_events(pool, device, patience, 1);
    remove_all(pool);
    vacate_clear(pool);
    if (r == -ENOENT)
        return waited_grace ? 0 : -ENOENT;
    if (r < 0)
        return -ETIMEDOUT;
    return r;
}

int reclaim_wait(struct pool *pool, int device, struct reclaim_patience *patience)
{
    return wait_for_epoch(pool, &pool->devices[device], false, patience);
}

int reclaim_wait_for_most(struct pool *pool, int device, struct reclaim_patience *patience)
{
    return wait_for_epoch(pool, &pool->devices[device], true, patience);
}

int reclaim_wait_closed(struct pool *pool, int device, struct reclaim_patience *patience)
{
    struct device *at = &pool->devices[device];
    uint64_t number;
    int r;

    lock_take(&pool->lock);
    number = at->epochs.recorded;
    lock_drop(&pool->lock);
    r = reclaim_ask(pool, at, &at->epochs, number, patience);
    remove_all(pool);
    vacate_clear(pool);
    return r == -ENOENT || r >= 0 ? r : -ETIMEDOUT;
}

bool reclaim_is_stalled(struct pool *pool, int device)
{
    bool stalled;

    lock_take(&pool->lock);
    stalled = pool->devices[device].epochs.stalled || pool->devices[device].events.stalled;
    lock_drop(&pool->lock);
    return stalled;
}

/* ── points ── */

static int record(struct pool *pool, uint32_t index, bool beside, uint64_t *ret_number)
{
    struct puts puts = {.count = 0};
    struct stream *stream;
    struct fence_mark *mark;
    uint64_t fence = 0;
    uint64_t key;
    int r;

    lock_take(&pool->lock);
    stream = streams_at(pool, index);
    key = stream->key;
    stream->refs++; /* keeps the record meanwhile */
    mark = fence_begin(&stream->timeline, NULL);
    lock_drop(&pool->lock);

    if (!mark)
        r = -ENOMEM;
    else if (beside && pool->driver.stream_record_beside)
        r = DRIVE(pool, stream_record_beside, key, &fence);
    else
        r = DRIVE(pool, stream_record, key, &fence);

    lock_take(&pool->lock);
    stream->refs--;
    if (mark) {
        struct fence_chain none;

        *ret_number = mark->number;
        if (r == 0) {
            fence_recorded(&stream->timeline, mark, fence);
            pool->counters.points++;
        } else {
            fence_failed(&stream->timeline, mark, &none);
            stream->newest =
                    /* blocks that needed this number need a later one */
                    fence_next(&stream->timeline);
            pool->counters.fence_errors++;
        }
        unuse(mark, &puts);
    }
    lock_drop(&pool->lock);
    put_all(pool, &puts);
    return r;
}

int reclaim_record(struct pool *pool, uint32_t index, uint64_t *ret_number)
{
    return record(pool, index, false, ret_number);
}

int reclaim_record_beside(struct pool *pool, uint32_t index, uint64_t *ret_number)
{
    return record(pool, index, true, ret_number);
}

int reclaim_cover(struct pool *pool, uint32_t index, bool beside)
{
    const struct stream *stream = streams_at(pool, index);
    uint64_t number;
    bool needed;

    lock_take(&pool->lock);
    needed = stream->index == index && reclaim_is_open(stream);
    lock_drop(&pool->lock);
    return needed ? record(pool, index, beside, &number) : 0;
}

int reclaim_ask_point(struct pool *pool, uint32_t index, uint64_t point)
{
    struct stream *stream = streams_at(pool, index);
    bool is_begun, is_over;
    uint64_t number;
    int r;

    lock_take(&pool->lock);
    is_over = point <= stream->timeline.passed;
    is_begun = point <= stream->timeline.begun;
    lock_drop(&pool->lock);
    if (is_over)
        return 0;
    r = is_begun ? 0 : reclaim_record(pool, index, &number);
    if (r != 0)
        return r;
    r = reclaim_ask(pool, NULL, &stream->timeline, point, NULL);
    if (r != -ENOENT)
        return r;
    lock_take(&pool->lock);
    r = point <= stream->timeline.passed ? 0 : -EAGAIN; /* still being recorded */
    lock_drop(&pool->lock);
    return r;
}

static void lose_in_fit(
        struct pool *pool, const struct bestfit *fit, const struct stream *stream) POOL_LOCKED
{
    uint64_t size = 0;
    devptr_t base = 0;
    uint32_t index;

    while ((index = bestfit_lower_bound(fit, size, base)) != 0) {
        struct block *block = block_at(pool, index);

        size = block->node.size;
        base = block->node.base + 1;
        if (block->seq <= stream->timeline.recorded)
            continue;
        freelist_pull(pool, index);
        block_name_stream(pool, block, 0);
        block_push_open(pool, index);
    }
}

static void lose_in_heap(
        struct pool *pool, const struct heap_stream *class, const struct stream *stream) POOL_LOCKED
{
    struct heap *heap = class->heap;

    freecache_settle(pool, heap);
    vacate_lose(pool, heap, stream, stream->timeline.recorded, &heap->device->open);
    lose_in_fit(pool, &class->fit, stream);
    lose_in_fit(pool, &class->fragments, stream);
}

void reclaim_lose_stream(struct pool *pool, uint32_t index)
{
    struct stream *stream = streams_at(pool, index);

    for (const struct heap_stream *at = heap_next_of_stream(stream, NULL); at;
            at = heap_next_of_stream(stream, at))
        lose_in_heap(pool, at, stream);
    stream->newest = stream->timeline.recorded;
}

void reclaim_passed(struct pool *pool, uint32_t index, uint64_t born, uint64_t point)
{
    struct puts puts = {.count = 0};
    struct stream *stream = streams_at(pool, index);
    bool more;

    do {
        lock_take(&pool->lock);
        more = stream->index == index && stream->born == born
                && reclaim_pass(pool, &stream->timeline, point, &puts);
        lock_drop(&pool->lock);
        put_all(pool, &puts);
    } while (more);
}

/* Streams with free blocks take turns: a query begins after the last queried stream, so that each
 * gets its turn within as many queries as there are streams, independent of the others. */
static const struct heap_stream *next_turn(struct heap *heap, const struct heap_stream *last)
{
    const struct heap_stream *at = heap_next_filled(heap, last);

    return at ? at : heap_next_filled(heap, NULL);
}

/* Streams to query: not `but`, and not those that this look has queried (0: all); `vacated`: also
 * those that only have slots to be unmapped. */
struct choice {
    uint32_t but;
    uint64_t look;
    bool vacated;
};

static bool is_chosen(const struct pool *pool, const struct heap_stream *at,
        const struct choice *choice) POOL_LOCKED
{
    return at->stream != choice->but
            && (!choice->look || streams_at(pool, at->stream)->look != choice->look)
            && (heap_class_count(at) > 0 || (choice->vacated && at->vacated > 0));
}

/* Lists the chosen streams that have free blocks here, or slots; returns their number. Each is held
 * (let_streams_go): its record must not be reused while its fences are queried without the lock. */
static uint32_t list_streams(struct pool *pool, struct heap *heap, const struct choice *choice,
        uint32_t list[STREAMS_LOOK]) POOL_LOCKED
{
    const struct heap_stream *at, *first;
    uint32_t count = 0;

    freecache_settle(pool, heap);
    at = first = next_turn(heap, heap_class(heap, heap->looked_at));
    while (at && count < STREAMS_LOOK) {
        if (is_chosen(pool, at, choice)) {
            streams_at(pool, at->stream)->refs++;
            streams_at(pool, at->stream)->look = choice->look;
            list[count++] = at->stream;
        }
        at = next_turn(heap, at);
        if (at == first)
            break;
    }
    return count;
}

/* `looked`: number of streams at the beginning of the list that were queried. */
static void let_streams_go(struct pool *pool, struct heap *heap, const uint32_t *list,
        uint32_t count, uint32_t looked) POOL_LOCKED
{
    if (looked > 0)
        heap->looked_at = list[looked - 1];
    for (uint32_t i = 0; i < count; i++)
        streams_at(pool, list[i])->refs--;
}

/* Covers a stream by a fence; if it has none, the stream's blocks wait for all streams. */
static void reclaim_cover_or_wait_for_all(struct pool *pool, uint32_t index)
{
    int r = reclaim_cover(pool, index, false);

    if (r == 0 || r == -EBUSY || r == -ENOMEM || r == -ECANCELED)
        return;
    lock_take(&pool->lock);
    reclaim_lose_stream(pool, index);
    lock_drop(&pool->lock);
}

/* Blocks of classes become idle if their points have passed. */
static void sweep(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    bool vacated = false;
    uint32_t index;

    freecache_settle(pool, heap);
    while (heap->moved) {
        struct heap_stream *at = heap->moved;

        heap_unmove(at);
        while ((index = freelist_passed(pool, at, at->timeline_of->timeline.passed)) != 0) {
            freelist_pull(pool, index);
            block_at(pool, index)->last = (uint16_t)at->stream;
            (void)freelist_put(pool, index, 0, 0);
        }
        if (heap_class_count(at) || at->vacated)
            heap_fill(at);
        vacated |= at->vacated > 0;
    }
    if (vacated)
        vacate_sweep(pool, heap);
}

/* Is there another stream to wait for? A stalled one is given up soon. */
static bool goes_on(int r, const struct reclaim_patience *patience)
{
    return r == -ENOENT || (r == -EAGAIN && !patience->is_over);
}

/* A stream's work after its wait for the host completes when the program likes: natively no thread
 * waits for that (R104, no useless waits). */
static void expect_little(struct pool *pool, struct stream *stream)
{
    const struct fence_mark *mark;

    lock_take(&pool->lock);
    mark = stream->stalled ? fence_at_least(&stream->timeline, 0) : NULL;
    if (mark && mark->number >= stream->stalled && !POOL_IS_WITHOUT(STALL))
        stream->timeline.stalled = true;
    lock_drop(&pool->lock);
}

/* Queries the fences of the chosen streams, or (`patience`) waits for one of them; then sweeps.
 * Results as reclaim_ask. */
static int look_at_streams(struct pool *pool, struct heap *heap, const struct choice *choice,
        struct reclaim_patience *patience)
{
    uint32_t list[STREAMS_LOOK];
    bool wait = patience != NULL;
    uint32_t count, i;
    int r = -ENOENT;

    lock_take(&pool->lock);
    heap->busy++;
    count = list_streams(pool, heap, choice, list);
    lock_drop(&pool->lock);
    for (i = 0; i < count && (wait ? goes_on(r, patience) : r <= 0); i++) {
        struct stream *stream = streams_at(pool, list[i]);

        reclaim_cover_or_wait_for_all(pool, list[i]);
        if (wait)
            expect_little(pool, stream);
        do
            r = reclaim_ask(pool, heap->device, &stream->timeline, 0, patience);
        while (r == 0 && !wait);
    }
    lock_take(&pool->lock);
    heap->busy--;
    heap->looked_frees = heap->frees;
    sweep(pool, heap);
    if (!heap->recent && !heap->large && !heap_next_filled(heap, NULL))
        heap_delist(heap, HEAPS_WAITING);
    let_streams_go(pool, heap, list, count, i);
    heap_forget_streams(pool);
    lock_drop(&pool->lock);
    vacate_clear(pool);
    return r;
}

/* destroyed streams that keep their records, so that other streams can wait for them */
#define GONE_STAY  16
#define GONE_LOOKS 4 /* destroyed streams that are queried when a stream is destroyed */

/* Its free blocks become idle if their points have passed. */
static void sweep_stream(struct pool *pool, const struct stream *stream) POOL_LOCKED
{
    for (const struct heap_stream *at = heap_next_of_stream(stream, NULL); at;
            at = heap_next_of_stream(stream, at)) {
        if (!at->heap->dropped)
            sweep(pool, at->heap);
    }
}

static bool ask_gone(struct pool *pool)
{
    struct stream *stream;

    lock_take(&pool->lock);
    stream = pool->gone ? streams_next_gone(pool, &pool->gone_at) : NULL;
    if (stream)
        stream->refs++; /* keeps the record meanwhile */
    lock_drop(&pool->lock);
    if (!stream)
        return false;
    while (reclaim_ask(pool, NULL, &stream->timeline, 0, NULL) == 0)
        ;
    lock_take(&pool->lock);
    streams_look(pool, stream);
    stream->refs--;
    sweep_stream(pool, stream);
    lock_drop(&pool->lock);
    return true;
}

static void lump_fit(
        struct pool *pool, const struct bestfit *fit, struct fence_chain *chain) POOL_LOCKED
{
    uint32_t index;

    while ((index = bestfit_lower_bound(fit, 0, 0)) != 0) {
        struct block *block = block_at(pool, index);

        freelist_pull(pool, index);
        block_name_stream(pool, block, 0);
        block->state = BLOCK_PENDING;
        block_segment(pool, block)->heap->tally.pending += block->node.size;
        block_chain(pool, chain, index);
    }
}

static void lump_in_heap(struct pool *pool, const struct heap_stream *class,
        const struct stream *stream, struct fence_chain *chain) POOL_LOCKED
{
    freecache_settle(pool, class->heap);
    vacate_lose(pool, class->heap, stream, 0, chain);
    lump_fit(pool, &class->fit, chain);
    lump_fit(pool, &class->fragments, chain);
}

/* Removes all marks of a stream that have a fence, without a query. */
static void drop_marks(struct pool *pool, struct stream *stream, struct puts *puts) POOL_LOCKED
{
    struct fence_mark *mark;
    struct fence_chain none;

    (void)pool;
    while (puts->count < PUTS_MAX - 1 && (mark = fence_at_least(&stream->timeline, 0)) != NULL) {
        fence_use(mark);
        fence_failed(&stream->timeline, mark, &none);
        unuse(mark, puts);
    }
}

/* The last mark if it covers all frees on the stream, else NULL. */
static struct fence_mark *last_mark(const struct stream *stream)
{
    struct fence_mark *mark = stream->timeline.last;

    return mark && mark->recorded && mark->number >= stream->newest ? mark : NULL;
}

/* Blocks of the first device wait for the stream's last mark; those of other devices wait for an
 * epoch. */
static void lump(struct pool *pool, struct stream *stream, struct fence_mark *mark,
        struct fence_chain chain) POOL_LOCKED
{
    struct device *device = block_device(pool, block_at(pool, chain.head));
    struct fence_chain own = reclaim_split(pool, &chain, device);

    fence_move(&stream->timeline, mark, &device->events, &own);
    open_soon(pool, chain);
}

void reclaim_lump(struct pool *pool, uint32_t index)
{
    struct stream *stream = streams_at(pool, index);
    struct fence_chain chain = {.head = 0};
    struct puts puts = {.count = 0};
    struct fence_mark *mark;

    lock_take(&pool->lock);
    if (stream->index == index && stream->gone && !stream->stalled && pool->streams_gone > GONE_STAY
            && !POOL_IS_WITHOUT(GONE) && (mark = last_mark(stream)) != NULL) {
        for (const struct heap_stream *at = heap_next_of_stream(stream, NULL); at;
                at = heap_next_of_stream(stream, at))
            lump_in_heap(pool, at, stream, &chain);
        stream->newest = 0;
        if (chain.head)
            lump(pool, stream, mark, chain);
        drop_marks(pool, stream, &puts);
        heap_forget_streams(pool);
    }
    lock_drop(&pool->lock);
    put_all(pool, &puts);
}

void reclaim_gone_streams(struct pool *pool)
{
    int top = devices_top(pool);

    for (int i = 0; i < GONE_LOOKS && !POOL_IS_WITHOUT(GONE) && ask_gone(pool); i++)
        ;
    for (int i = 0; i < top; i++)
        (void)ask_events(pool, &pool->devices[i], NULL, GONE_LOOKS);
    lock_take(&pool->lock);
    heap_forget_streams(pool);
    lock_drop(&pool->lock);
}

int reclaim_points(struct pool *pool, struct heap *heap, uint32_t but)
{
    const struct choice choice = {.but = but, .vacated = true};
    int r = look_at_streams(pool, heap, &choice, NULL);

    return r > 0 ? r : 0;
}

uint64_t reclaim_begin_look(struct pool *pool)
{
    uint64_t look;

    lock_take(&pool->lock);
    look = ++pool->looks;
    lock_drop(&pool->lock);
    return look;
}

int reclaim_points_once(struct pool *pool, struct heap *heap, uint64_t look)
{
    const struct choice choice = {.look = look, .vacated = true};
    int r = look_at_streams(pool, heap, &choice, NULL);

    return r > 0 ? r : 0;
}

static int wait_for_a_stream(
        struct pool *pool, struct heap *heap, bool vacated, struct reclaim_patience *patience)
{
    const struct choice choice = {.vacated = vacated};

    return patience->is_over ? -EAGAIN : look_at_streams(pool, heap, &choice, patience);
}

int reclaim_wait_point(struct pool *pool, struct heap *heap, struct reclaim_patience *patience)
{
    int r = wait_for_a_stream(pool, heap, false, patience);

    return r == 0 || r == -ENOENT || r > 0 ? r : -ETIMEDOUT;
}

int reclaim_device_points(struct pool *pool, int device)
{
    uint64_t look = reclaim_begin_look(pool);
    struct heap *heap;
    int r = 0;

    for (heap = heap_walk_list(pool, NULL, device, HEAPS_WAITING); heap && r == 0;
            heap = heap_walk_list(pool, heap, device, HEAPS_WAITING))
        r = reclaim_points_once(pool, heap, look);
    if (heap)
        heap_let_go(pool, heap);
    return r;
}

void reclaim_wait_device_points(struct pool *pool, int device, struct reclaim_patience *patience)
{
    for (struct heap *heap = heap_walk_list(pool, NULL, device, HEAPS_WAITING); heap;
            heap = heap_walk_list(pool, heap, device, HEAPS_WAITING)) {
        while (wait_for_a_stream(pool, heap, true, patience) == 0)
            ;
    }
}

/* ── leaving heaps ── */

/* True if a block of the heap was let go while a call in progress may use it. */
static bool lets_go(struct pool *pool, const struct heap *heap) POOL_LOCKED
{
    for (const struct grace *grace = pool->grace_first; grace; grace = grace->next) {
        for (uint32_t at = grace->holders; at; at = holder_at(pool, at)->next) {
            const struct holder *holder = holder_at(pool, at);

            if (holder->state == HOLDER_LET_GO
                    && block_segment(pool, block_at(pool, holder->block))->heap == heap)
                return true;
        }
    }
    return false;
}

/* True if no work and no program can touch the heap's memory any more. */
static bool is_done(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    const struct tally *tally = &heap->tally;

    if (heap->busy)
        return false;
    if (heap->dropped)
        return true;
    freecache_settle(pool, heap);
    for (const struct heap_stream *at = heap->streams; at; at = at->next) {
        if (heap_class_count(at))
            return false;
    }
    return heap->vacating == 0 && tally->live_count == 0 && tally->pending == 0 && tally->limbo == 0
            && tally->held == 0 && !lets_go(pool, heap);
}

/* A leaving heap without live blocks, which may only wait for points of streams; busy for the
 * caller. */
static struct heap *next_leaving(struct pool *pool, const struct heap *after) POOL_LOCKED
{
    struct heap *heap = after ? after->next : pool->leaving;

    while (heap && (heap->busy || heap->dropped || heap->tally.live_count))
        heap = heap->next;
    if (heap)
        heap->busy++;
    return heap;
}

static struct heap *take_done(struct pool *pool) POOL_LOCKED
{
    for (struct heap **link = &pool->leaving; *link; link = &(*link)->next) {
        struct heap *heap = *link;

        if (is_done(pool, heap)) {
            *link = heap->next;
            heap_unlist(pool, heap);
            return heap;
        }
    }
    return NULL;
}

void reclaim_leaving(struct pool *pool)
{
    struct heap *heap, *next;

    lock_take(&pool->lock);
    heap = pool->leaving ? next_leaving(pool, NULL) : NULL;
    lock_drop(&pool->lock);
    while (heap) {
        (void)reclaim_points(pool, heap, 0);
        lock_take(&pool->lock);
        heap->busy--;
        next = next_leaving(pool, heap);
        lock_drop(&pool->lock);
        heap = next;
    }
    do {
        lock_take(&pool->lock);
        heap = pool->leaving ? take_done(pool) : NULL;
        lock_drop(&pool->lock);
        if (heap)
            trim_whole_heap(pool, heap);
    } while (heap);
}

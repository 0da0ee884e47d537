/* SPDX-License-Identifier: MIT */
#include "alloc/swap/swap.h"

#include "alloc/base/meta.h"
#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/handles.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/outcome_queue.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/grow.h"
#include "alloc/storage/reclaim.h"
#include "alloc/storage/trim.h"
#include "alloc/swap/swapqueue.h"

#include <sched.h>
#include <string.h>

enum {
    REFUSALS_MAX = 2, /* then the block stays in for good */
};

/* ---- time ---- */

static uint64_t clock_now(struct pool *pool)
{
    return pool->driver.clock_ns(pool->driver.self);
}

void swap_spend(struct pool *pool, struct swap_set *set, enum swap_time what, uint64_t ns)
{
    lock_take(&pool->lock);
    if (what == SWAP_LAYOUT)
        set->now.layout_ns += ns;
    else if (what == SWAP_EVICT)
        set->now.evict_ns += ns;
    else
        set->now.stall_ns += ns;
    lock_drop(&pool->lock);
}

void swap_pause(struct pool *pool, struct swap_set *set)
{
    uint64_t begin = clock_now(pool);

    (void)sched_yield();
    if (set)
        swap_spend(pool, set, SWAP_STALL, clock_now(pool) - begin);
}

/* ---- copies ---- */

void swap_flush(struct pool *pool)
{
    struct swap_copy *spent;

    lock_take(&pool->lock);
    spent = pool->swap_spent;
    pool->swap_spent = NULL;
    lock_drop(&pool->lock);
    while (spent) {
        struct swap_copy *copy = spent;

        spent = copy->next;
        for (uint32_t i = 0; i < copy->count; i++)
            drive_fence_put(pool, copy->fence[i]);
        meta_put(copy, sizeof(*copy));
    }
}

/* 0: all its fences have passed. */
static int ask_copy(struct pool *pool, struct swap_copy *copy, bool wait)
{
    int r = 0;

    for (uint32_t i = 0; i < copy->count && r == 0 && !POOL_IS_WITHOUT(COPY); i++)
        r = wait ? DRIVE(pool, fence_wait, copy->fence[i], pool->opts.fence_timeout_ms)
                 : DRIVE(pool, fence_query, copy->fence[i]);
    if (r == 0) {
        lock_take(&pool->lock);
        copy->is_over = true;
        lock_drop(&pool->lock);
    }
    if (r == -EAGAIN && wait)
        return -ETIMEDOUT;
    return r == -EBUSY ? -EAGAIN : r;
}

int swap_wait_copy(struct pool *pool, struct swap_set *set, struct swap_copy *copy)
{
    uint64_t begin = clock_now(pool);
    int r = ask_copy(pool, copy, true);

    swap_spend(pool, set, SWAP_STALL, clock_now(pool) - begin);
    return r;
}

/* ---- one block and its storage ---- */

/* A block that this thread is busy with. */
struct busy {
    struct swap_set *set;
    struct heap *heap;
    uint64_t *handle; /* where its segment stores its handle, unless it is managed */
    devptr_t base;
    uint64_t size;
    struct swap_room *room;
    struct swap_copy *copy;
    uint64_t stream[SWAP_STREAMS];
    uint32_t stream_count;
    uint32_t index; /* of its record */
    bool has_content, is_saved, is_mapped, is_managed;
};

/* Marks the block of a move as busy; it must exist. */
static void swap_take(struct pool *pool, uint32_t index, struct busy *ret) POOL_LOCKED
{
    struct swap *swap = swap_at(pool, index);
    const struct block *block;
    struct segment *segment;

    block = block_at(pool, swap->block);
    segment = block_segment(pool, block);
    *ret = (struct busy){.set = swap->set,
            .heap = segment->heap,
            .base = block->node.base,
            .size = swap->size,
            .room = swap->room,
            .copy = swap->copy ? swap_copy_use(swap->copy) : NULL,
            .stream_count = swap->stream_count,
            .index = index,
            .has_content = swap->has_content,
            .is_saved = swap->is_saved,
            .is_mapped = swap->is_mapped,
            .is_managed = swap->is_managed};
    if (!swap->is_managed)
        ret->handle = &segment->handles[(block->node.base - segment->base) / segment->slot];
    for (uint32_t i = 0; i < SWAP_STREAMS; i++)
        ret->stream[i] = swap->stream[i];
    swap->is_busy = true;
    ret->heap->busy++;
}

/* The program has freed it meanwhile: finishes its free. */
static void go_on_freeing(struct pool *pool, struct swap *swap) POOL_LOCKED
{
    struct block *block = block_at(pool, swap->block);
    uint32_t number = swap->block;

    block->flags |= swapset_is_stored(swap) ? BLOCK_TRAPPED : BLOCK_GONE;
    swap->is_freed = false;
    holder_drop(pool, block);
    if (!pin_keep(pool, number))
        block_push_open(pool, number);
}

/* The driver has answered: the record has the block's new state. */
static void leave_busy(struct pool *pool, const struct busy *busy) POOL_LOCKED
{
    struct swap *swap = swap_at(pool, busy->index);

    swap_copy_drop(pool, busy->copy);
    busy->heap->busy--;
    swap->is_busy = false;
    if (!swap->block)
        swapset_leave(pool, busy->index);
    else if (swap->is_freed)
        go_on_freeing(pool, swap);
}

/* Counts storage that a block got or lost. */
static void note_storage(struct pool *pool, const struct busy *busy, bool comes) POOL_LOCKED
{
    const struct swap *swap = swap_at(pool, busy->index);
    int64_t by = comes ? (int64_t)busy->size : -(int64_t)busy->size;

    if (!swap->block)
        return; /* its sums are no longer kept */
    busy->set->storage += (uint64_t)by;
    if (busy->is_managed)
        tally_reserved(busy->heap, by);
    if (!swap->is_freed)
        tally_stored(busy->heap, by);
}

/* Counts a refusal of the driver. After repeated ones the block stays in. */
static void swap_refuse(struct pool *pool, const struct busy *busy, enum pool_kept why) POOL_LOCKED
{
    struct swap *swap = swap_at(pool, busy->index);

    if (++swap->refusals >= REFUSALS_MAX || why == POOL_KEPT_HOST)
        swapset_keep(pool, swap, why);
}

/* ---- copying out ---- */

/* Records fences after all work that may use the block. */
static int fence_uses(struct pool *pool, const struct busy *busy, struct swap_copy *ret)
{
    int r = 0;

    ret->count = 0;
    if (POOL_IS_WITHOUT(USES))
        return 0;
    for (uint32_t i = 0; i < busy->stream_count && busy->stream_count <= SWAP_STREAMS; i++) {
        r = DRIVE(pool, stream_record, busy->stream[i], &ret->fence[ret->count]);
        if (r != 0)
            break;
        ret->count++;
    }
    if (r == 0 && busy->stream_count <= SWAP_STREAMS)
        return 0;
    if (r == -EBUSY || r == -ECANCELED)
        return -EAGAIN;
    /* a destroyed or unknown stream */
    for (; ret->count > 0; ret->count--)
        drive_fence_put(pool, ret->fence[ret->count - 1]);
    r = DRIVE(pool, fence_record, busy->set->device->number, &ret->fence[0]);
    ret->count = r == 0;
    return r == -EBUSY ? -EAGAIN : r;
}

/* Managed memory is not available everywhere: a set without it uses pinned memory. */
static bool is_pinned_host(const struct swap_set *set)
{
    return set->rule->evict.backing != RULE_BACKING_MMAP;
}

/* Has the copy that uses the oldest host buffer of this size completed? */
static void swap_ask_room(struct pool *pool, const struct swap_set *set, uint64_t size)
{
    struct swap_copy *copy = NULL;

    lock_take(&pool->lock);
    for (const struct swap_room *room = set->rooms; room; room = room->next)
        if (room->size == size)
            copy = room->copy;
    if (copy)
        copy = swap_copy_use(copy);
    lock_drop(&pool->lock);
    if (!copy)
        return;
    (void)ask_copy(pool, copy, false);
    lock_take(&pool->lock);
    swap_copy_drop(pool, copy);
    lock_drop(&pool->lock);
}

/* Allocates a new host buffer. NULL = no memory. */
static struct swap_room *new_room(struct pool *pool, const struct swap_set *set, uint64_t size)
{
    struct swap_room *room = meta_get(sizeof(*room));

    if (!room)
        return NULL;
    room->size = size;
    if (DRIVE(pool, host_take, size, is_pinned_host(set), &room->host) == 0)
        return room;
    meta_put(room, sizeof(*room));
    return NULL;
}

/* False: no more are needed, or none could be allocated. */
static bool reserve_room(struct pool *pool, struct swap_set *set, uint64_t size)
{
    struct swap_room *room;
    bool is_wanted;

    lock_take(&pool->lock);
    is_wanted = swapset_lacks_room(set, size);
    set->host += is_wanted ? size : 0;
    lock_drop(&pool->lock);
    if (!is_wanted)
        return false;
    room = new_room(pool, set, size);
    lock_take(&pool->lock);
    if (room)
        swapset_put_room(set, room);
    else
        set->host -= size;
    lock_drop(&pool->lock);
    return room != NULL;
}

void swap_reserve_host(struct pool *pool, struct swap_set *set, uint64_t size)
{
    while (reserve_room(pool, set, size))
        ;
}

/* Finds a host buffer for its content. -ENOMEM: none. */
static int find_host(struct pool *pool, struct busy *busy)
{
    struct swap_set *set = busy->set;
    uint64_t budget = set->rule->evict.host_budget;
    bool may_take;

    if (busy->room)
        return 0;
    swap_ask_room(pool, set, busy->size);
    lock_take(&pool->lock);
    busy->room = swapset_take_room(pool, set, busy->size);
    may_take = !busy->room && (!budget || set->host + busy->size <= budget);
    set->host += may_take ? busy->size : 0;
    lock_drop(&pool->lock);
    if (!may_take)
        return busy->room ? 0 : -ENOMEM;
    busy->room = new_room(pool, set, busy->size);
    if (busy->room)
        return 0;
    lock_take(&pool->lock);
    set->host -= busy->size;
    lock_drop(&pool->lock);
    return -ENOMEM;
}

/* Starts copying its content, or its pages, to the host, after the fences `after`. *ret: fences
 * that must pass. */
static int copy_out(
        struct pool *pool, struct busy *busy, const struct swap_copy *after, struct swap_copy *ret)
{
    uint64_t all[2 * SWAP_FENCES];
    uint32_t count = 0;
    int r = busy->is_managed ? 0 : find_host(pool, busy);

    for (uint32_t i = 0; i < after->count; i++)
        all[count++] = after->fence[i];
    for (uint32_t i = 0; busy->copy && i < busy->copy->count; i++)
        all[count++] = busy->copy->fence[i];
    if (r == 0)
        r = DRIVE(pool, content, busy->heap->kind, busy->heap->owner, busy->set->device->number,
                DRIVER_OUT, busy->base, busy->is_managed ? NULL : busy->room->host, busy->size, all,
                count, &ret->fence[0]);
    ret->count = r == 0;
    return r == -EBUSY ? -EAGAIN : r;
}

/* Starts the copy after which the storage can go: the copy out; for content that need not be
 * copied, its uses; for a block that was never used, the copy in. */
static int swap_begin_copy(struct pool *pool, struct busy *busy, struct swap_copy *ret)
{
    struct swap_copy uses = {.count = 0};
    int r = fence_uses(pool, busy, &uses);

    if (r == 0 && (busy->is_managed || (busy->has_content && !busy->is_saved))) {
        r = copy_out(pool, busy, &uses, ret);
    } else if (r == 0) {
        ret->count = uses.count;
        memcpy(ret->fence, uses.fence, sizeof(uses.fence));
        return 0;
    }
    for (uint32_t i = 0; i < uses.count; i++)
        drive_fence_put(pool, uses.fence[i]);
    return r;
}

static void note_begun(
        struct pool *pool, struct busy *busy, struct swap_copy *copy, int r) POOL_LOCKED
{
    struct swap *swap = swap_at(pool, busy->index);

    swap->room = busy->room;
    if (r == 0 && busy->is_managed) {
        swap_copy_drop(pool, busy->set->left);
        busy->set->left = swap_copy_use(copy);
    }
    if (r == 0 && (busy->is_managed || busy->stream_count > 0 || !swap->copy)) {
        swap_copy_drop(pool, swap->copy);
        swap->copy = copy;
        copy = NULL;
    }
    if (r == 0)
        swap->state = SWAP_LEAVING;
    else if (r == -ENOMEM)
        swap_refuse(pool, busy, POOL_KEPT_HOST);
    else if (r > 0)
        swap_refuse(pool, busy, POOL_KEPT_DRIVER);
    swap_copy_drop(pool, copy);
    leave_busy(pool, busy);
}

/* The block of a move begins to leave. 0, -EAGAIN, or the error. */
static int begin_out(struct pool *pool, struct swap_set *set, uint64_t number)
{
    struct swap_copy *copy = meta_get(sizeof(*copy));
    struct busy busy;
    uint32_t index;
    bool is_in;
    int r;

    if (!copy)
        return -EAGAIN;
    copy->users = 1;
    lock_take(&pool->lock);
    index = swapset_move(set, number)->swap;
    is_in = index && swap_at(pool, index)->state == SWAP_IN;
    if (is_in)
        swap_take(pool, index, &busy);
    lock_drop(&pool->lock);
    if (!is_in) {
        meta_put(copy, sizeof(*copy));
        return index ? -EAGAIN : 0;
    }
    r = swap_begin_copy(pool, &busy, copy);
    lock_take(&pool->lock);
    note_begun(pool, &busy, copy, r);
    lock_drop(&pool->lock);
    return r;
}

/* Begins the decided moves out, up to the first block that has to come in before. The first error,
 * 0 = none. */
static int begin_outs(struct pool *pool, struct swap_set *set)
{
    uint64_t number;
    int r = 0;

    do {
        bool is_out = false;

        lock_take(&pool->lock);
        while (set->started < set->queued && !is_out) {
            const struct swap_move *move = swapset_move(set, set->started + 1);

            is_out = move->swap && !move->in;
            set->started += !is_out;
        }
        number = is_out ? set->started + 1 : 0;
        lock_drop(&pool->lock);
        r = number ? begin_out(pool, set, number) : 0;
        lock_take(&pool->lock);
        set->started += number && r == 0;
        lock_drop(&pool->lock);
    } while (number && r == 0);
    return r;
}

/* Reports it like storage that is released for good. */
static void tell_released(struct pool *pool, const struct swap *swap) POOL_LOCKED
{
    struct outcome husk =
            block_outcome(pool, block_at(pool, swap->block), OUTCOME_HUSK, records_next_seq(pool));

    husk.rule = swap->set->number;
    husk.how = OUTCOME_HINTED;
    husk.mode = HINT_LIVE;
    outcome_queue_tell(pool, &husk);
}

/* Records that it was unmapped, or that its pages are being sent. */
static void note_out(struct pool *pool, struct busy *busy) POOL_LOCKED
{
    struct swap *swap = swap_at(pool, busy->index);
    struct pool_evict_step *now = &busy->set->now;

    swap->state = busy->has_content ? SWAP_OUT : SWAP_BARE;
    swap->stream_count = 0;
    swap_copy_drop(pool, swap->copy);
    swap->copy = NULL;
    if (busy->has_content && busy->is_saved) {
        now->dropped += busy->size;
    } else if (busy->has_content) {
        now->moved_out += busy->size;
        now->count_out++;
    }
    swap->is_saved = busy->has_content && !busy->is_managed;
    note_storage(pool, busy, false);
    if (swapset_releases(busy->set) && swap->block)
        tell_released(pool, swap);
}

/* Takes the handle of an unmapped block. */
static uint64_t swap_take_handle(const struct busy *busy)
{
    uint64_t handle = *busy->handle;

    *busy->handle = 0;
    return handle;
}

static int unmap_out(struct pool *pool, struct busy *busy)
{
    uint64_t handle = 0;
    int r = DRIVE(pool, unmap, busy->base, busy->size);

    lock_take(&pool->lock);
    if (r == 0) {
        handle = swap_take_handle(busy);
        note_out(pool, busy);
    } else if (r > 0) {
        swap_at(pool, busy->index)->state = SWAP_IN;
        swap_refuse(pool, busy, POOL_KEPT_DRIVER);
    }
    lock_drop(&pool->lock);
    if (handle)
        trim_put_handle(pool, busy->heap, busy->size, handle);
    return r == -ECANCELED ? -EAGAIN : r;
}

/* Nothing is unmapped, so no thread waits for the leaving pages. */
static int leave_pages(struct pool *pool, struct busy *busy)
{
    lock_take(&pool->lock);
    note_out(pool, busy);
    lock_drop(&pool->lock);
    return 0;
}

/* Waits for its copy, then releases its storage. `begun`: result of begin_outs. */
static int swap_go_out(struct pool *pool, struct swap_set *set, int begun, bool wait)
{
    enum swap_state state = SWAP_OUT;
    struct busy busy;
    uint32_t index;
    int r = 0;

    lock_take(&pool->lock);
    index = swapset_move(set, set->done + 1)->swap;
    if (index)
        state = swap_at(pool, index)->state;
    if (state == SWAP_LEAVING)
        swap_take(pool, index, &busy);
    lock_drop(&pool->lock);
    if (state == SWAP_IN)
        return begun ? begun : -EAGAIN;
    if (state != SWAP_LEAVING)
        return 0;
    if (busy.copy && !busy.is_managed)
        r = wait ? swap_wait_copy(pool, set, busy.copy) : ask_copy(pool, busy.copy, false);
    if (r == 0)
        r = busy.is_managed ? leave_pages(pool, &busy) : unmap_out(pool, &busy);
    lock_take(&pool->lock);
    leave_busy(pool, &busy);
    lock_drop(&pool->lock);
    return r;
}

/* ---- copying in ---- */

/* Bytes by which the handles of the set's heap would exceed the cap with this one. `waits`: count
 * handles that wait for the device or the driver, too. */
static uint64_t over_cap(struct pool *pool, const struct busy *busy, bool waits)
{
    const struct tally *tally = &busy->heap->tally;
    uint64_t held;

    lock_take(&pool->lock);
    held = busy->set->storage + busy->size + tally->cached
            + (waits ? tally->pending + tally->going : 0);
    held = excess_of(held, busy->set->cap);
    lock_drop(&pool->lock);
    return held;
}

/* Waits for freed blocks, and for handles that other threads are returning to the driver. */
static void wait_for_storage(struct pool *pool, const struct busy *busy)
{
    uint64_t end = clock_now(pool) + swap_patience(pool);
    struct reclaim_patience patience = {.end_ns = 0};
    int device = busy->set->device->number;
    int r = 0;

    while (over_cap(pool, busy, true) > 0 && r == 0) {
        r = reclaim_wait(pool, device, &patience);
        if (r == -ENOENT && clock_now(pool) < end) { /* another thread is at work */
            swap_pause(pool, busy->set);
            r = 0;
        }
        (void)trim_shelves(pool, busy->heap, over_cap(pool, busy, false));
    }
}

/* Returns shelf handles of other sizes to the driver before getting one more. */
static void keep_cap(struct pool *pool, const struct busy *busy, bool wait)
{
    (void)trim_shelves(pool, busy->heap, over_cap(pool, busy, false));
    if (over_cap(pool, busy, true) == 0)
        return;
    (void)reclaim_poll(pool, busy->set->device->number, true);
    (void)trim_shelves(pool, busy->heap, over_cap(pool, busy, false));
    if (wait)
        wait_for_storage(pool, busy);
}

/* The device has none: first returns free memory, then evicts blocks of other sets. */
static int force_handle(struct pool *pool, const struct busy *busy, uint64_t *ret_handle)
{
    struct reclaim_patience patience = {.end_ns = 0};
    int device = busy->set->device->number;
    int r = DRIVER_OUT_OF_MEMORY;

    do {
        if (trim_device(pool, device, busy->size) > 0)
            r = grow_handle(pool, busy->heap, busy->size, ret_handle);
    } while (r == DRIVER_OUT_OF_MEMORY && reclaim_wait(pool, device, &patience) == 0);
    return r;
}

static int swap_get_handle(
        struct pool *pool, const struct busy *busy, bool wait, uint64_t *ret_handle)
{
    int r;

    lock_take(&pool->lock);
    *ret_handle = handles_take(busy->heap, busy->size);
    lock_drop(&pool->lock);
    if (*ret_handle)
        return 0;
    keep_cap(pool, busy, wait);
    if (!wait && over_cap(pool, busy, true) > 0)
        return -EAGAIN;
    lock_take(&pool->lock);
    *ret_handle = handles_take(busy->heap, busy->size);
    lock_drop(&pool->lock);
    if (*ret_handle)
        return 0;
    r = grow_handle(pool, busy->heap, busy->size, ret_handle);
    return r == DRIVER_OUT_OF_MEMORY && wait ? force_handle(pool, busy, ret_handle) : r;
}

/* 0, or the error; then nothing has changed. */
static int map_in(struct pool *pool, struct busy *busy, bool wait)
{
    uint64_t handle;
    int r = swap_get_handle(pool, busy, wait, &handle);

    if (r != 0)
        return r;
    r = DRIVE(pool, map, busy->base, busy->size, handle);
    if (r != 0) {
        trim_put_handle(pool, busy->heap, busy->size, handle);
        return r;
    }
    lock_take(&pool->lock);
    *busy->handle = handle;
    busy->is_mapped = swap_at(pool, busy->index)->is_mapped = true;
    pool->counters.remaps++;
    note_storage(pool, busy, true);
    lock_drop(&pool->lock);
    return 0;
}

/* Counts it as stored from here on. Freed blocks keep their pages until their fence has passed. */
static int take_pages(struct pool *pool, struct busy *busy, bool wait)
{
    const struct device *device = busy->heap->device;
    bool is_over;

    keep_cap(pool, busy, wait);
    if (!wait && over_cap(pool, busy, true) > 0)
        return -EAGAIN;
    lock_take(&pool->lock);
    is_over = pool->opts.cap && device->reserved + device->asked + busy->size > pool->opts.cap;
    if (!is_over) {
        busy->is_mapped = swap_at(pool, busy->index)->is_mapped = true;
        note_storage(pool, busy, true);
    }
    lock_drop(&pool->lock);
    return is_over ? DRIVER_OUT_OF_MEMORY : 0;
}

/* Pages come after those that make space for them have left: then the device does not choose which
 * leave. */
static int fetch_pages(struct pool *pool, struct busy *busy, bool wait, struct swap_copy *ret)
{
    struct swap_copy *left;
    int r = busy->is_mapped ? 0 : take_pages(pool, busy, wait);

    if (r != 0)
        return r;
    lock_take(&pool->lock);
    left = busy->set->left ? swap_copy_use(busy->set->left) : NULL;
    lock_drop(&pool->lock);
    r = DRIVE(pool, content, busy->heap->kind, busy->heap->owner, busy->set->device->number,
            DRIVER_IN, busy->base, NULL, busy->size, left ? left->fence : NULL,
            left ? left->count : 0, &ret->fence[0]);
    ret->count = r == 0;
    lock_take(&pool->lock);
    swap_copy_drop(pool, left);
    lock_drop(&pool->lock);
    return r;
}

/* Storage, access, content. */
static int fill_in(struct pool *pool, struct busy *busy, bool wait, struct swap_copy *ret)
{
    int r = busy->is_mapped ? 0 : map_in(pool, busy, wait);

    if (r == 0)
        r = drive_set_access(pool, busy->heap, busy->base, busy->size, DRIVER_ACCESS_RW);
    if (r != 0 || !busy->has_content)
        return r;
    r = DRIVE(pool, content, busy->heap->kind, busy->heap->owner, busy->set->device->number,
            DRIVER_IN, busy->base, busy->room->host, busy->size, NULL, 0, &ret->fence[0]);
    ret->count = r == 0;
    return r;
}

static void note_in(struct pool *pool, struct busy *busy, struct swap_copy *copy) POOL_LOCKED
{
    struct swap *swap = swap_at(pool, busy->index);
    struct pool_evict_step *now = &busy->set->now;

    swap->state = SWAP_IN;
    swap->is_mapped = false;
    swap->stream_count = 0;
    swap_copy_drop(pool, swap->copy);
    swap->copy = copy;
    if (!busy->has_content)
        return;
    now->moved_in += busy->size;
    now->count_in++;
    swap->is_saved = !busy->is_managed;
    if (swapset_releases(busy->set) && swap->block)
        swapset_came_back(pool, swap);
}

static int swap_come_in(struct pool *pool, struct swap_set *set, bool wait)
{
    struct swap_copy *copy = meta_get(sizeof(*copy));
    struct busy busy;
    uint32_t index;
    bool is_out;
    int r;

    if (!copy)
        return -ENOMEM;
    copy->users = 1;
    lock_take(&pool->lock);
    index = swapset_move(set, set->done + 1)->swap;
    is_out = index && swap_at(pool, index)->state != SWAP_IN;
    if (is_out)
        swap_take(pool, index, &busy);
    lock_drop(&pool->lock);
    if (!is_out) {
        meta_put(copy, sizeof(*copy));
        return 0;
    }
    r = busy.is_managed ? fetch_pages(pool, &busy, wait, copy) : fill_in(pool, &busy, wait, copy);
    lock_take(&pool->lock);
    if (r == 0)
        note_in(pool, &busy, copy);
    else
        swap_copy_drop(pool, copy);
    leave_busy(pool, &busy);
    lock_drop(&pool->lock);
    return r == -EBUSY || r == -ECANCELED || (r != 0 && !wait) ? -EAGAIN : r;
}

/* ---- the queue ---- */

/* This thread takes the first move of the queue. */
static int begin_move(struct pool *pool, struct swap_set *set, bool *ret_in)
{
    int r = 0;

    lock_take(&pool->lock);
    if (set->queued == set->done)
        r = -ENOENT;
    else if (set->is_moving)
        r = -EAGAIN;
    if (r == 0) {
        set->is_moving = true;
        *ret_in = swapset_move(set, set->done + 1)->in;
    }
    lock_drop(&pool->lock);
    return r;
}

static void end_move(struct pool *pool, struct swap_set *set, int r)
{
    lock_take(&pool->lock);
    if (r == 0) {
        set->done++;
        set->started = max_of(set->started, set->done);
    } else if (r != -EAGAIN && r != -ETIMEDOUT) {
        swapqueue_reset(pool, set);
    }
    set->is_moving = false;
    swapqueue_tell_ahead(pool);
    lock_drop(&pool->lock);
}

static uint64_t stalled(struct pool *pool, const struct swap_set *set)
{
    uint64_t ns;

    lock_take(&pool->lock);
    ns = set->now.stall_ns;
    lock_drop(&pool->lock);
    return ns;
}

int swap_advance(struct pool *pool, struct swap_set *set, bool wait)
{
    uint64_t begin = clock_now(pool);
    uint64_t stall = stalled(pool, set);
    bool in = false;
    int begun;
    int r = begin_move(pool, set, &in);

    if (r != 0)
        return r;
    begun = begin_outs(pool, set);
    r = in ? swap_come_in(pool, set, wait) : swap_go_out(pool, set, begun, wait);
    end_move(pool, set, r);
    swap_flush(pool);
    stall = excess_of(stalled(pool, set), stall);
    swap_spend(pool, set, SWAP_EVICT, excess_of(clock_now(pool) - begin, stall));
    return r == -EAGAIN || r == -ETIMEDOUT || in ? r : 0;
}

/* ---- evicting for others ---- */

uint64_t swap_patience(const struct pool *pool)
{
    return pool->opts.fence_timeout_ms * UINT64_C(1000000);
}

/* Bytes that have left when it returns. */
static uint64_t send_out(struct pool *pool, struct swap_set *set, uint64_t want, uint64_t end)
{
    uint64_t before, until, after;
    int r = 0;

    lock_take(&pool->lock);
    before = set->storage;
    /* blocks that a hint has released are queued already */
    until = swapqueue_make_room(pool, set, want) > 0 || swapset_releases(set) ? set->queued : 0;
    lock_drop(&pool->lock);
    do {
        lock_take(&pool->lock);
        after = set->storage;
        r = set->done < until ? 0 : -ENOENT;
        lock_drop(&pool->lock);
        if (r == 0)
            r = swap_advance(pool, set, true);
        if (r == -EAGAIN)
            swap_pause(pool, set);
    } while ((r == 0 || r == -EAGAIN) && clock_now(pool) < end);
    return excess_of(before, after);
}

uint64_t swap_make_room(struct pool *pool, int device, uint64_t want, const struct swap_set *but)
{
    uint64_t end = clock_now(pool) + swap_patience(pool);
    uint64_t bytes = 0;
    struct swap_set *set;

    lock_take(&pool->lock);
    set = pool->swap_sets;
    lock_drop(&pool->lock);
    for (; set && bytes < want; set = set->next)
        if (set->device->number == device && !set->is_paper && set != but)
            bytes += send_out(pool, set, want - bytes, end);
    return bytes;
}

/* ---- the end ---- */

static void give_room(struct pool *pool, const struct swap_set *set, struct swap_room *room)
{
    pool->driver.host_give(pool->driver.self, room->host, room->size, is_pinned_host(set));
    meta_put(room, sizeof(*room));
}

void swap_give_host(struct pool *pool) TSA(no_thread_safety_analysis)
{
    for (uint32_t i = 1; i < pool->swaps.top; i++) {
        struct swap *swap = swap_at(pool, i);

        if (swap->room)
            give_room(pool, swap->set, swap->room);
        swap->room = NULL;
    }
    for (struct swap_set *set = pool->swap_sets; set; set = set->next) {
        swap_copy_drop(pool, set->left);
        set->left = NULL;
        while (set->rooms) {
            struct swap_room *room = set->rooms;

            set->rooms = room->next;
            swap_copy_drop(pool, room->copy);
            give_room(pool, set, room);
        }
    }
}

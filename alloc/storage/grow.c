/* SPDX-License-Identifier: MIT */
#include "alloc/storage/grow.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/alias.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/handles.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/segment.h"
#include "alloc/heap/swapset.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/commit.h"
#include "alloc/storage/pace.h"
#include "alloc/storage/remap.h"
#include "alloc/storage/runs.h"
#include "alloc/storage/spot.h"
#include "alloc/storage/trim.h"
#include "alloc/storage/vacate.h"

/* Bytes of the address range of a mapped heap if the driver does not report the device's memory. */
#define RANGE_UNKNOWN (UINT64_C(64) << 30)

/* From this size on it is cheaper to query the free memory than to find out by creating a handle
 * for each granule. */
#define GUESS_MIN (UINT64_C(128) << 20)

/*
 * The smallest size. On the eight real traces of more than 200 allocations (E eager / E lazy at 1.05 x
 * over four passes / calls of the first pass): 2 MiB 0.985 / 0.975 / 38,000; 4 MiB 0.980 / 0.974 /
 * 20,000; 8 MiB 0.975 / 0.971 and two traces above 1.05 x; 16 MiB 0.970 / 0.965. Fewer calls save
 * little: a handle of 2 MiB costs 193 us to create and 63 us to move (A100), once; the steady state
 * has no such calls.
 */
uint64_t grow_unit(const struct heap *heap)
{
    return max_of(heap->device->granularity, GRANULE_SIZE);
}

static bool grow_is_plain(const struct serve *serve)
{
    return serve->heap->kind == HEAP_PLAIN;
}

/* ── ranges ── */

static int reserve_range(struct pool *pool, struct heap *heap, struct segment *ret_like)
{
    uint64_t align = max_of(GRANULE_SIZE, ret_like->slot);
    /* a gap at the end, as at the beginning (R110, gap between blocks) */
    uint64_t behind = ret_like->kind == SEGMENT_HINT ? align : 0;
    int device = heap->device->number;
    uint64_t total = RANGE_UNKNOWN / 2;
    uint64_t size, unused;
    int r;

    (void)DRIVE(pool, memory, device, &total, &unused);
    /* Twice the memory, so that holes in the address range do not matter, and as much again for
     * gaps; less if the driver does not have it. */
    size = round_up((ret_like->kind == SEGMENT_HINT ? 4 : 2) * total, align) + behind;
    do {
        r = DRIVE(pool, address_reserve, device, size, align, &ret_like->base);
        if (r == 0 || r == DRIVER_NOT_SUPPORTED || r < 0)
            break;
        size = round_up(size / 2, align);
    } while (size > total / 4 && size > align + behind);
    ret_like->size = size - behind;
    ret_like->raw_base = ret_like->base;
    ret_like->raw_size = size;
    return r;
}

/* Requests between two tries to get a heap's first range: this many after the first failure, twice
 * as many after each further one, so that a device without free addresses costs few requests a
 * driver call. */
#define RANGE_WAIT_FIRST 16
#define RANGE_WAIT_MAX   (1u << 16)

static void note_no_range(struct pool *pool, struct heap *heap, int r) POOL_LOCKED
{
    uint64_t wait = (uint64_t)RANGE_WAIT_FIRST
            << (heap->range_errors < 16 ? heap->range_errors : 16);

    heap->no_range = true;
    heap->range_errors++;
    heap->range_wait = r == DRIVER_NOT_SUPPORTED ? 0 : (uint32_t)min_of(wait, RANGE_WAIT_MAX);
    pool->counters.range_errors++;
}

/* Counts a request without a range: after enough of them the driver is asked again. */
static void count_to_try(struct heap *heap)
{
    if (heap->no_range && heap->range_wait && --heap->range_wait == 0)
        heap->no_range = false;
}

/* Queries the handle size of a device once. */
static int find_granularity(struct pool *pool, struct device *device)
{
    uint64_t granularity;
    int r;

    lock_take(&pool->lock);
    granularity = device->granularity;
    lock_drop(&pool->lock);
    if (granularity != 0)
        return 0;
    r = DRIVE(pool, granularity, device->number, &granularity);
    if (r != 0)
        return r;
    if (granularity == 0 || (granularity & (granularity - 1)) != 0)
        return -EINVAL;
    lock_take(&pool->lock);
    device->granularity = granularity;
    lock_drop(&pool->lock);
    return 0;
}

/* The first range of a heap, or another one to replace segment `full`. */
static int grow_first_range(struct pool *pool, struct heap *heap, bool hinted, uint32_t full)
{
    struct segment like = {.kind = hinted ? SEGMENT_HINT : SEGMENT_ARENA};
    uint32_t number = 0;
    uint32_t *slot;
    int r = find_granularity(pool, heap->device);

    if (r == 0) {
        lock_take(&pool->lock);
        like.slot = grow_unit(heap);
        lock_drop(&pool->lock);
        r = reserve_range(pool, heap, &like);
    }
    lock_take(&pool->lock);
    slot = hinted ? &heap->hint : &heap->arena;
    if (r == 0 && heap->dropped)
        r = -EAGAIN;
    if (r == 0 && *slot == full) {
        r = segment_add(pool, heap, &like, &number);
        *slot = r == 0 ? number : full;
    }
    if (r != 0 && r != -ECANCELED && !heap->dropped && !hinted && heap->arena == 0)
        note_no_range(pool, heap, r);
    if (r > 0 && hinted)
        heap->no_hints = true;
    lock_drop(&pool->lock);
    if (number == 0 && like.raw_size != 0 && like.raw_base != 0)
        (void)DRIVE(pool, address_free, like.raw_base, like.raw_size);
    return r;
}

int grow_prepare(struct pool *pool, struct heap *heap, bool hinted)
{
    return grow_first_range(pool, heap, hinted, 0);
}

/* The arena's addresses have no stretch long enough for the request. Adds another range if that
 * could hold the request at all; the old range stays, and its free parts are reused. */
static int add_range(struct pool *pool, struct serve *serve)
{
    const struct segment *segment;
    uint32_t full;
    bool helps;

    lock_take(&pool->lock);
    full = serve->heap->arena;
    segment = segment_at(pool, full);
    helps = full && serve->want.size + serve->want.align <= segment->size - segment->slot;
    lock_drop(&pool->lock);
    return helps ? grow_first_range(pool, serve->heap, false, full) : -ENOSPC;
}

/* True if `size` more bytes stay below the cap. A request that may_grow admitted may need more than
 * estimated: storage did not move, or another thread was faster. True: the bytes count in `asked`
 * until the driver has answered. */
static bool may_ask(struct pool *pool, struct device *device, uint64_t size)
{
    bool may;

    lock_take(&pool->lock);
    may = !pool->opts.cap || device->reserved + device->asked + size <= pool->opts.cap;
    device->asked += may ? size : 0;
    lock_drop(&pool->lock);
    return may;
}

/* ── plain segments ── */

static uint64_t plain_size(struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    const struct device *device = serve->heap->device;
    uint64_t exact = round_up(serve->want.size, GRANULE_SIZE);
    uint64_t high = max_of(device->stored_high, device->stored + serve->want.size);
    uint64_t chunk = serve->want.small ? 0 : round_up(pool->opts.chunk, GRANULE_SIZE);

    if (serve->want.whole || serve->full) /* a full device may have the exact size, but no chunk */
        return exact;
    /* A chunk only while its surplus is small compared with live memory. */
    if (chunk > exact && device->reserved + chunk <= high + high / 20)
        return chunk;
    return exact;
}

/* Gets memory that begins and ends on granules, so that each granule has one segment. The driver's
 * memory begins there; where it does not, one more granule is requested. In every case raw_size is
 * the number that may_ask has counted. */
static int get_plain(struct pool *pool, struct segment *like, struct device *device)
{
    int number = device->number;
    int r;

    like->raw_size = like->size;
    r = DRIVE(pool, mem_alloc, like->context, number, like->raw_size, &like->raw_base);
    if (r == 0 && (like->raw_base & (GRANULE_SIZE - 1)) != 0) {
        (void)DRIVE(pool, mem_free, like->context, like->raw_base);
        if (!may_ask(pool, device, GRANULE_SIZE))
            return DRIVER_OUT_OF_MEMORY;
        like->raw_size += GRANULE_SIZE;
        r = DRIVE(pool, mem_alloc, like->context, number, like->raw_size, &like->raw_base);
    }
    if (r != 0)
        return r;
    like->base = round_up(like->raw_base, GRANULE_SIZE);
    if (like->base + like->size > like->raw_base + like->raw_size) {
        (void)DRIVE(pool, mem_free, like->context, like->raw_base);
        return -EINVAL;
    }
    return 0;
}

/* noinline: as add_wide_range. */
__attribute__((noinline)) static int grow_plain(struct pool *pool, struct serve *serve)
{
    const struct pool_request *request = serve->request;
    struct segment like = {.kind = SEGMENT_PLAIN, .small = serve->want.small};
    struct heap *heap = serve->heap;
    struct device *device = heap->device; /* outlives its heaps */
    uint32_t number;
    int r;

    lock_take(&pool->lock);
    like.size = plain_size(pool, serve);
    like.context = request->owner;
    lock_drop(&pool->lock);

    trim_sealed(pool, heap);
    trim_spares_for(pool, device, like.size);
    if (!may_ask(pool, device, like.size))
        return DRIVER_OUT_OF_MEMORY;
    r = get_plain(pool, &like, device);
    if (r == DRIVER_OUT_OF_MEMORY && trim_spares(pool, device, like.size) > 0) {
        lock_take(&pool->lock);
        device->asked -= like.raw_size - like.size;
        lock_drop(&pool->lock);
        r = get_plain(pool, &like, device);
    }

    lock_take(&pool->lock);
    device->asked -= like.raw_size;
    if (r != 0) {
        lock_drop(&pool->lock);
        return r;
    }
    if (pool->contexts_gone != serve->contexts_gone || heap->dropped)
        r = -EAGAIN; /* this very context may have ended: not worth checking */
    else if (slab_prepare(&pool->blocks, 3) != 0)
        r = -ENOMEM;
    else
        r = segment_add(pool, heap, &like, &number);
    if (r == 0) {
        tally_reserved(heap, (int64_t)like.raw_size);
        commit_piece(pool, serve, segment_at(pool, number)->first);
    }
    lock_drop(&pool->lock);
    if (r != 0)
        (void)DRIVE(pool, mem_free, like.context, like.raw_base);
    return r;
}

/* ── physical handles ── */

/* Where the handles of one request come from. */
struct source {
    struct remap remap;
    bool is_alias; /* the last one is still mapped elsewhere */
    uint64_t lack; /* bytes of the request that still have no storage */
    uint64_t made; /* handles created */
};

/* Takes a spare handle, which counts as held again; 0 = none of the size. */
static uint64_t take_spare(struct pool *pool, struct heap *heap, uint64_t size)
{
    uint64_t handle;

    lock_take(&pool->lock);
    handle = handles_take_spare(heap, size);
    if (handle) {
        tally_reserved(heap, (int64_t)size);
        pool->counters.remaps++;
    }
    lock_drop(&pool->lock);
    return handle;
}

int grow_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t *ret_handle)
{
    int r;

    *ret_handle = take_spare(pool, heap, size);
    if (*ret_handle)
        return 0;
    trim_spares_for(pool, heap->device, size);
    if (!may_ask(pool, heap->device, size))
        return DRIVER_OUT_OF_MEMORY;
    r = DRIVE(pool, handle_create, heap->device->number, size, ret_handle);
    if (r == DRIVER_OUT_OF_MEMORY && trim_spares(pool, heap->device, size) > 0)
        r = DRIVE(pool, handle_create, heap->device->number, size, ret_handle);
    lock_take(&pool->lock);
    heap->device->asked -= size;
    if (r == 0)
        tally_reserved(heap, (int64_t)size);
    lock_drop(&pool->lock);
    return r;
}

static int move_handle(struct pool *pool, struct source *source, uint64_t *ret_handle)
{
    int r = remap_next(pool, &source->remap, ret_handle);

    source->is_alias = r == 0 && source->remap.is_alias;
    return r;
}

/* A handle for a slot or a hinted block: from the shelf, from free blocks (if the source allows
 * moves), else from the driver; and if that has none, from free blocks in any case. */
static int grow_get_handle(struct pool *pool, struct heap *heap, uint64_t size,
        struct source *source, uint64_t *ret_handle)
{
    uint64_t handle;
    int r;

    source->is_alias = false;
    lock_take(&pool->lock);
    handle = handles_take(heap, size);
    if (handle)
        pool->counters.remaps++;
    lock_drop(&pool->lock);
    if (handle) {
        *ret_handle = handle;
        return 0;
    }
    if (move_handle(pool, source, ret_handle) == 0)
        return 0;
    r = grow_handle(pool, heap, size, ret_handle);
    if (r == 0)
        source->made++;
    /* blocks with handles of their own have other sizes than slots */
    if (r != DRIVER_OUT_OF_MEMORY || pool->opts.remap == POOL_REMAP_NEVER || !source->remap.heap)
        return r;
    source->remap.left = source->lack;
    return move_handle(pool, source, ret_handle) == 0 ? 0 : r;
}

/* Puts away a handle that was not mapped: an alias returns to where it is still mapped, others go
 * to the shelf. */
static void put_away(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle)
{
    bool is_home;

    lock_take(&pool->lock);
    is_home = vacate_return(pool, heap, handle);
    lock_drop(&pool->lock);
    if (!is_home)
        trim_put_handle(pool, heap, size, handle);
}

/* Ends the moves of the request. */
static void end_moves(struct pool *pool, struct heap *heap, uint64_t size, struct remap *remap)
{
    uint64_t handle;

    while (remap_rest(pool, remap, &handle))
        put_away(pool, heap, size, handle);
    remap_end(pool, remap);
}

/* The driver does not map a handle a second time: the request goes on without aliases, and so does
 * the device if it has never made one. */
static bool goes_on_without(struct pool *pool, struct heap *heap, struct source *source, int r)
{
    if (!source->is_alias || r <= 0)
        return false;
    source->remap.stream = 0;
    source->remap.moved--;
    source->remap.aliased--;
    remap_end(pool, &source->remap);
    lock_take(&pool->lock);
    heap->device->no_aliases |= !heap->device->has_aliases && r != DRIVER_OUT_OF_MEMORY;
    lock_drop(&pool->lock);
    return true;
}

/* Maps storage for the slots of a BUSY block; all or nothing. *ret_stuck: mapped slots could not be
 * unmapped again. */
static int map_slots(struct pool *pool, struct heap *heap, uint64_t *handles,
        const struct bestfit_node *node, uint64_t each, struct source *source, bool *ret_stuck)
{
    uint64_t done = 0;
    uint64_t handle;
    int r = 0;

    *ret_stuck = false;
    while (done < node->size) {
        r = grow_get_handle(pool, heap, each, source, &handle);
        if (r != 0)
            break;
        r = DRIVE(pool, map, node->base + done, each, handle);
        if (r == 0) {
            handles[done / each] = handle;
            source->lack -= each;
            done += each;
            continue;
        }
        put_away(pool, heap, each, handle);
        if (!goes_on_without(pool, heap, source, r))
            break;
    }
    if (r == 0)
        r = drive_set_access(pool, heap, node->base, node->size, DRIVER_ACCESS_RW);
    if (r == 0)
        return 0;
    *ret_stuck = !trim_unmap(pool, heap, handles,
            &(struct bestfit_node){.base = node->base, .size = done}, each, put_away);
    return r;
}

/* ── the arena ── */

/* Bytes of storage that a spot needs from sources other than the shelf. */
static uint64_t spot_need(const struct serve *serve, const struct spot *spot, uint64_t slot)
{
    return spot->missing - min_of(spot->missing, handles_count(serve->heap, slot) * slot);
}

/* Bytes of `need` to take from free blocks rather than from the driver. */
static uint64_t moves_for(
        struct pool *pool, const struct serve *serve, uint64_t need, uint64_t slot) POOL_LOCKED
{
    uint64_t after = serve->heap->device->reserved + need;
    uint64_t above;

    if (pool->opts.remap == POOL_REMAP_NEVER)
        return 0;
    if (pool->opts.remap == POOL_REMAP_EAGER || serve->full)
        return need;
    above = min_of(need, round_up(excess_of(after, commit_move_budget(pool, serve)), slot));
    if (above < need && pace_is_ready(pool, serve->heap))
        above = max_of(above, remap_finished(pool, serve->heap, need));
    return above;
}

/* Undoes a spot whose storage did not all come: blocks with storage become free, `failed` (0 =
 * none) is given up, and the blocks not reached are gaps again. */
static void give_up_spot(struct pool *pool, uint32_t first, uint32_t last, uint32_t failed,
        bool is_stuck) POOL_LOCKED
{
    uint32_t at = first;

    for (;;) {
        const struct block *block = block_at(pool, at);
        uint32_t next = block->next;
        bool is_last = at == last;

        if (at == failed)
            trim_settle(pool, at, is_stuck);
        else if (*spot_handles(pool, block))
            spot_put_back(pool, at);
        else
            trim_settle(pool, at, false);
        if (is_last)
            return;
        at = next;
    }
}

/* A gap has storage now: free after the points that the storage needs, until it is allocated. */
static void note_filled(
        struct pool *pool, uint32_t index, const struct serve *serve, const struct source *source)
{
    lock_take(&pool->lock);
    if (source->remap.aliased) {
        block_name_stream(pool, block_at(pool, index), serve->stream);
        block_at(pool, index)->seq = source->remap.point;
        serve->heap->device->has_aliases = true;
    }
    lock_drop(&pool->lock);
}

/* Maps storage into the gaps of a spot. *ret_failed: the gap that got none. */
static int fill_spot(struct pool *pool, const struct serve *serve, uint32_t first, uint32_t last,
        struct source *source, uint32_t *ret_failed, bool *ret_stuck)
{
    struct heap *heap = serve->heap;
    uint32_t at = first;
    int r = 0;

    for (;;) {
        struct bestfit_node node;
        uint64_t *handles;
        uint64_t slot;
        uint32_t next;

        lock_take(&pool->lock);
        node = block_at(pool, at)->node;
        next = block_at(pool, at)->next;
        handles = spot_handles(pool, block_at(pool, at));
        slot = block_segment(pool, block_at(pool, at))->slot;
        lock_drop(&pool->lock);
        if (!*handles) {
            r = map_slots(pool, heap, handles, &node, slot, source, ret_stuck);
            if (r == 0)
                note_filled(pool, at, serve, source);
        }
        if (r != 0)
            *ret_failed = at;
        if (r != 0 || at == last)
            return r;
        at = next;
    }
}

/* Ends growth: merges the spot into one block and commits the request's piece; or nothing has
 * changed. */
static int settle_spot(
        struct pool *pool, struct serve *serve, uint32_t first, uint32_t last, int r) POOL_LOCKED
{
    struct heap *heap = serve->heap;

    if (r == 0 && (block_segment(pool, block_at(pool, first))->dead || heap->leaving))
        r = -EAGAIN; /* mapped, and returned with the heap */
    else if (r == 0 && slab_prepare(&pool->blocks, 2) != 0)
        r = -ENOMEM;
    if (r == 0) {
        serve->want.align = spot_align(pool, heap, &serve->want);
        commit_piece(pool, serve, runs_join(pool, first, last));
    }
    return r;
}

/* The free storage that may move for a request, at most `left` bytes of it. */
static struct remap moves_of(
        struct pool *pool, const struct serve *serve, uint64_t left) POOL_LOCKED
{
    struct remap remap = {.heap = serve->heap, .left = left};

    if (vacate_may(serve->heap, serve->stream)
            && heap_prepare_class(pool, serve->heap, serve->stream))
        remap.stream = serve->stream;
    return remap;
}

/* Takes a spot. 0 and BUSY blocks in *ret_first .. *ret_last; -ENOSPC: no addresses; -ENOMEM. */
static int take_spot(struct pool *pool, struct serve *serve, struct source *source,
        uint32_t *ret_first, uint32_t *ret_last) POOL_LOCKED
{
    struct spot spot;
    uint64_t slot, need;

    if (spot_find(pool, serve->heap, &serve->want, &spot) != 0)
        return -ENOSPC;
    *ret_first = spot_take(pool, &spot, ret_last);
    if (!*ret_first)
        return -ENOMEM;
    slot = segment_at(pool, spot.segment)->slot;
    source->lack = spot.missing;
    need = spot_need(serve, &spot, slot);
    source->remap = moves_of(pool, serve, moves_for(pool, serve, need, slot));
    return 0;
}

static int grow_arena(struct pool *pool, struct serve *serve)
{
    struct source source = {.lack = 0};
    struct heap *heap = serve->heap;
    uint32_t failed = 0;
    bool is_stuck = false;
    uint32_t first = 0;
    uint32_t last = 0;
    uint64_t slot;
    int r;

    lock_take(&pool->lock);
    slot = segment_at(pool, heap->arena)->slot;
    r = take_spot(pool, serve, &source, &first, &last);
    if (r == 0)
        heap->busy++;
    lock_drop(&pool->lock);
    if (r != 0)
        return r;

    r = fill_spot(pool, serve, first, last, &source, &failed, &is_stuck);
    end_moves(pool, heap, slot, &source.remap);

    lock_take(&pool->lock);
    heap->busy--;
    pool->counters.granules_moved += source.remap.moved;
    pool->counters.granules_aliased += source.remap.aliased;
    pool->counters.moved_bytes += source.remap.moved * slot;
    pool->counters.remaps += source.remap.moved;
    if (serve->request->ladder)
        serve->request->ladder->moved_bytes += source.remap.moved * slot;
    if (!source.made)
        serve->how &= ~(uint32_t)OUTCOME_GROWN;
    r = settle_spot(pool, serve, first, last, r);
    if (r != 0)
        give_up_spot(pool, first, last, failed, is_stuck);
    lock_drop(&pool->lock);
    return r;
}

/* ── hinted blocks ── */

/* A BUSY block of addresses without storage; 0 = none, or no memory for the records. */
static uint32_t grow_take_range(struct pool *pool, struct heap *heap, uint64_t size) POOL_LOCKED
{
    uint32_t index = bestfit_lower_bound(&heap->hint_decommitted, size, 0);

    if (!index)
        return segment_extend(pool, heap->hint, size);
    freelist_pull(pool, index);
    if (block_at(pool, index)->node.size > size)
        freelist_put_decommitted(pool, block_cut(pool, index, size));
    return index;
}

/* The same after a gap, which is returned with it (freelist.h): the block's beginning is not the
 * end of another block (R110). */
static uint32_t take_addresses(struct pool *pool, struct heap *heap, uint64_t size) POOL_LOCKED
{
    uint64_t gap = POOL_IS_WITHOUT(GAP) ? 0 : segment_at(pool, heap->hint)->slot;
    uint32_t index, block;

    if (slab_prepare(&pool->blocks, 3) != 0)
        return 0;
    index = grow_take_range(pool, heap, gap + size);
    if (!index || !gap)
        return index;
    block = block_cut(pool, index, gap);
    block_at(pool, index)->state = BLOCK_MARGIN;
    return block;
}

static int grow_hinted(struct pool *pool, struct serve *serve)
{
    struct heap *heap = serve->heap;
    struct segment *segment;
    struct source source = {.lack = serve->want.size};
    struct bestfit_node node;
    uint64_t *handle;
    uint32_t index;
    bool is_stuck;
    int r;

    lock_take(&pool->lock);
    segment = segment_at(pool, heap->hint);
    index = take_addresses(pool, heap, serve->want.size);
    if (!index) {
        lock_drop(&pool->lock);
        return -ENOSPC;
    }
    node = block_at(pool, index)->node;
    handle = spot_handles(pool, block_at(pool, index));
    heap->busy++;
    lock_drop(&pool->lock);

    r = map_slots(pool, heap, handle, &node, node.size, &source, &is_stuck);

    lock_take(&pool->lock);
    heap->busy--;
    /* Mapped, and returned with the heap. `r` alone cannot say so: a driver table may fail with any
     * number. */
    if (r == 0 && (segment->dead || heap->leaving)) {
        r = -EAGAIN;
        if (!segment->dead) {
            block_at(pool, index)->state = BLOCK_IDLE;
            bestfit_insert(&heap->idle, index);
            heap_list(heap, HEAPS_GIVING);
        }
    } else if (r == 0) {
        commit_block(pool, serve, index);
    } else {
        trim_settle(pool, index, is_stuck);
    }
    lock_drop(&pool->lock);
    return r;
}

/* ── evictable blocks ── */

static int take_swap(struct pool *pool, struct serve *serve) POOL_LOCKED
{
    const struct device *device = serve->heap->device;

    serve->set =
            swapset_get(pool, serve->request->plan->rule, device->number, false, device->total);
    serve->swap = serve->set ? swapset_add(pool, serve->set, serve->want.size) : 0;
    return serve->swap ? 0 : -ENOMEM;
}

static int make_bare(struct pool *pool, struct serve *serve) POOL_LOCKED
{
    struct heap *heap = serve->heap;
    uint32_t index;

    if (slab_prepare(&pool->holders, 1) != 0 || take_swap(pool, serve) != 0)
        return -ENOMEM;
    index = take_addresses(pool, heap, serve->want.size);
    if (!index) {
        swapset_drop(pool, serve->swap);
        return -ENOSPC;
    }
    commit_block(pool, serve, index);
    return 0;
}

/* Bytes of the device that are available to the program: other processes may use some already. */
static int ask_total(struct pool *pool, struct device *device)
{
    uint64_t total = 0;
    uint64_t available = 0;
    bool is_known;
    int r;

    lock_take(&pool->lock);
    is_known = device->total > 0;
    lock_drop(&pool->lock);
    if (is_known)
        return 0;
    r = DRIVE(pool, memory, device->number, &total, &available);
    lock_take(&pool->lock);
    if (r == 0)
        device->total = available + device->reserved;
    lock_drop(&pool->lock);
    return r;
}

int grow_bare(struct pool *pool, struct serve *serve)
{
    struct heap *heap = serve->heap;
    int r = ask_total(pool, heap->device);

    if (r != 0)
        return r;
    lock_take(&pool->lock);
    r = heap->hint && !heap->leaving && !heap->dropped ? make_bare(pool, serve) : -ENOTSUP;
    lock_drop(&pool->lock);
    return r;
}

/* ── evictable blocks in managed memory ── */

/* Whole granules of managed memory, as with get_plain, and one before them as a gap (R110): its
 * pages are never used. */
static int get_managed(struct pool *pool, const struct heap *heap, struct segment *like)
{
    uint64_t gap = POOL_IS_WITHOUT(GAP) ? 0 : GRANULE_SIZE;
    uint64_t most = like->size + gap + GRANULE_SIZE;
    int r;

    trim_spares_for(pool, heap->device, most);
    for (like->raw_size = like->size + gap; like->raw_size <= most;
            like->raw_size += GRANULE_SIZE) {
        r = DRIVE(pool, managed_alloc, heap->kind, heap->owner, heap->device->number,
                like->raw_size, &like->raw_base, &like->context);
        if (r != 0)
            return r;
        like->base = round_up(like->raw_base, GRANULE_SIZE) + gap;
        if (like->base + like->size <= like->raw_base + like->raw_size)
            return 0;
        (void)DRIVE(pool, mem_free, like->context, like->raw_base);
    }
    return -EINVAL;
}

static int make_managed(
        struct pool *pool, struct serve *serve, const struct segment *like) POOL_LOCKED
{
    struct heap *heap = serve->heap;
    uint32_t number;
    int r;

    if (pool->contexts_gone != serve->contexts_gone || heap->dropped || heap->leaving)
        return -EAGAIN; /* as in grow_plain */
    if (slab_prepare(&pool->holders, 1) != 0 || take_swap(pool, serve) != 0)
        return -ENOMEM;
    r = segment_add(pool, heap, like, &number);
    if (r != 0) {
        swapset_drop(pool, serve->swap);
        return r;
    }
    swap_at(pool, serve->swap)->is_managed = true;
    commit_block(pool, serve, segment_at(pool, number)->first);
    return 0;
}

static int ask_managed(struct pool *pool, const struct serve *serve, struct segment *like)
{
    struct device *device = serve->heap->device;
    bool is_refused;
    int r;

    lock_take(&pool->lock);
    is_refused = device->no_managed;
    lock_drop(&pool->lock);
    if (is_refused)
        return DRIVER_NOT_SUPPORTED;
    r = get_managed(pool, serve->heap, like);
    lock_take(&pool->lock);
    device->no_managed |= r == DRIVER_NOT_SUPPORTED;
    lock_drop(&pool->lock);
    return r;
}

int grow_managed(struct pool *pool, struct serve *serve)
{
    struct segment like = {.kind = SEGMENT_MANAGED, .size = serve->want.size};
    int r = ask_total(pool, serve->heap->device);

    if (r == 0)
        r = ask_managed(pool, serve, &like);
    if (r != 0)
        return r;
    lock_take(&pool->lock);
    r = make_managed(pool, serve, &like);
    lock_drop(&pool->lock);
    if (r != 0)
        (void)DRIVE(pool, mem_free, like.context, like.raw_base);
    return r;
}

/* ── small hinted blocks on shared handles ── */

/* Parts of a shared handle for a range; if no handle has enough, of a new one. *ret_handle: the
 * handle. */
static int get_parts(struct pool *pool, const struct serve *serve, devptr_t range, uint64_t unit,
        uint64_t *ret_handle)
{
    struct source source = {.lack = unit};
    struct heap *heap = serve->heap;
    int r;

    lock_take(&pool->lock);
    r = alias_begin(heap, range, serve->want.size, unit);
    if (r == 0)
        *ret_handle = alias_find(heap, range)->handle;
    lock_drop(&pool->lock);
    if (r != -ENOENT)
        return r;
    r = grow_get_handle(pool, heap, unit, &source, ret_handle);
    if (r != 0)
        return r;
    lock_take(&pool->lock);
    r = alias_open(heap, range, serve->want.size, unit, *ret_handle);
    lock_drop(&pool->lock);
    if (r != 0)
        trim_put_handle(pool, heap, unit, *ret_handle);
    return r;
}

/* Maps a handle that may be mapped elsewhere, too. *ret_is_mapped: it is mapped, and could not be
 * unmapped again. */
static int map_alias(struct pool *pool, const struct heap *heap, devptr_t range, uint64_t unit,
        uint64_t handle, bool *ret_is_mapped)
{
    int r = DRIVE(pool, map, range, unit, handle);

    if (r != 0)
        return r;
    r = drive_set_access(pool, heap, range, unit, DRIVER_ACCESS_RW);
    if (r != 0)
        *ret_is_mapped = DRIVE(pool, unmap, range, unit) != 0;
    return r;
}

/* Commits the block, if its heap still exists. */
static int settle_alias(struct pool *pool, struct serve *serve, uint32_t index) POOL_LOCKED
{
    if (block_segment(pool, block_at(pool, index))->dead || serve->heap->leaving)
        return -EAGAIN;
    if (slab_prepare(&pool->blocks, 2) != 0)
        return -ENOMEM;
    commit_block(pool, serve, alias_cut(pool, index, serve->want.size));
    return 0;
}

/* Undoes a failed shared block. */
static void undo_alias(struct pool *pool, struct heap *heap, uint32_t index, devptr_t range,
        uint64_t unit, bool is_mapped)
{
    uint64_t handle = 0;

    lock_take(&pool->lock);
    if (!is_mapped)
        handle = alias_end(heap, range);
    trim_settle(pool, index, is_mapped);
    lock_drop(&pool->lock);
    if (handle)
        trim_put_handle(pool, heap, unit, handle);
}

static int grow_alias(struct pool *pool, struct serve *serve)
{
    struct heap *heap = serve->heap;
    bool is_mapped = false;
    uint64_t unit, handle;
    devptr_t range = 0;
    uint32_t index;
    int r;

    lock_take(&pool->lock);
    unit = grow_unit(heap);
    index = take_addresses(pool, heap, unit);
    if (index) {
        range = block_at(pool, index)->node.base;
        heap->busy++;
    }
    lock_drop(&pool->lock);
    if (!index)
        return -ENOSPC;
    r = get_parts(pool, serve, range, unit, &handle);
    if (r == 0)
        r = map_alias(pool, heap, range, unit, handle, &is_mapped);
    if (r == 0) {
        lock_take(&pool->lock);
        r = settle_alias(pool, serve, index);
        lock_drop(&pool->lock);
        if (r != 0)
            is_mapped = DRIVE(pool, unmap, range, unit) != 0;
    }
    if (r != 0)
        undo_alias(pool, heap, index, range, unit, is_mapped);
    lock_take(&pool->lock);
    heap->busy--;
    lock_drop(&pool->lock);
    return r;
}

/* ── entry points ── */

uint64_t grow_need(struct pool *pool, const struct serve *serve)
{
    const struct heap *heap = serve->heap;
    uint64_t need = serve->want.size;
    struct spot spot;

    if (!serve->hinted && grow_is_plain(serve))
        return plain_size(pool, serve);
    if (serve->shares)
        need = alias_fits(heap, need, grow_unit(heap)) ? 0 : grow_unit(heap);
    if (serve->hinted || !heap->arena)
        return need - min_of(need, handles_count(heap, need) * need);
    if (spot_find(pool, serve->heap, &serve->want, &spot) != 0)
        return need;
    return spot_need(serve, &spot, segment_at(pool, spot.segment)->slot);
}

/* Bytes of whole slots, idle or of `stream`, in the blocks of a spot: growth takes these, so they
 * cannot move. The part of the last block that it leaves can. */
static uint64_t grow_slots_of(
        const struct pool *pool, const struct spot *spot, uint32_t stream) POOL_LOCKED
{
    const struct segment *segment = segment_at(pool, spot->segment);
    uint64_t left = spot->skip + spot->bytes;
    uint64_t bytes = 0;

    for (uint32_t at = spot->first; at && left; at = block_at(pool, at)->next) {
        const struct block *block = block_at(pool, at);
        uint64_t part = min_of(left, block->node.size);
        struct bestfit_node rest = {
                .base = block->node.base + part, .size = block->node.size - part};

        if (block->state == BLOCK_FREE && (!block->stream || block->stream == stream))
            bytes += slots_bytes(slots_in(segment, &block->node))
                    - slots_bytes(slots_in(segment, &rest));
        left -= part;
    }
    return bytes;
}

uint64_t grow_moves(struct pool *pool, const struct serve *serve, uint64_t need)
{
    const struct heap *heap = serve->heap;
    struct remap remap;
    uint64_t own = 0;
    struct spot spot;

    if (serve->hinted || grow_is_plain(serve) || !heap->arena)
        return 0;
    remap = moves_of(pool, serve, 0);
    if (spot_find(pool, serve->heap, &serve->want, &spot) == 0)
        own = grow_slots_of(pool, &spot, remap.stream);
    need = moves_for(pool, serve, need, segment_at(pool, heap->arena)->slot);
    if (!need)
        return 0;
    return remap_available(pool, &remap, need + own) - own;
}

/* The driver memory that a request needs. */
struct ask {
    uint64_t need;     /* additional bytes to hold */
    uint64_t spared;   /* part of them that free blocks could supply if necessary */
    uint64_t reserved; /* current bytes */
    bool many;
};

/* `need`: bytes that no shelf has. */
static struct ask ask_for(struct pool *pool, struct serve *serve, uint64_t need) POOL_LOCKED
{
    uint64_t moves = grow_moves(pool, serve, need);
    bool full = serve->full;
    struct ask ask = {.need = need - moves, .reserved = serve->heap->device->reserved};

    serve->full = true;
    ask.spared = grow_moves(pool, serve, need) - moves;
    serve->full = full;
    ask.many = !serve->hinted && !grow_is_plain(serve) && ask.need >= GUESS_MIN;
    return ask;
}

/* Refuses growth that the options forbid, that would use the reserve, or that cannot succeed, with
 * the error of a full device. */
static int may_grow(struct pool *pool, struct serve *serve, const struct ask *ask)
{
    uint64_t reserve = serve->last ? 0 : pool->opts.reserve;
    uint64_t total = 0;
    uint64_t available = 0;

    if (ask->need == 0)
        return 0;
    if (pool->opts.cap && ask->reserved + ask->need > pool->opts.cap)
        return DRIVER_OUT_OF_MEMORY;
    if ((!reserve && !ask->many)
            || DRIVE(pool, memory, serve->request->device, &total, &available) != 0
            || available >= ask->need + reserve)
        return 0;
    available += trim_spares(pool, serve->heap->device, excess_of(ask->need + reserve, available));
    if (available >= ask->need + reserve)
        return 0;
    serve->full = true; /* free storage moves before more is requested */
    if (available + ask->spared >= ask->need + reserve)
        return 0;
    /* Only our own estimate while another attempt follows: the driver has not refused anything
     * yet. */
    return serve->last ? DRIVER_OUT_OF_MEMORY : -ENOSPC;
}

int grow_serve(struct pool *pool, struct serve *serve)
{
    struct heap *heap = serve->heap;
    struct ask ask = {.need = 0};
    bool ready;
    int r;

    lock_take(&pool->lock);
    if (!serve->hinted)
        count_to_try(heap);
    ready = serve->hinted ? heap->hint || heap->no_hints
                          : grow_is_plain(serve) || heap->arena || heap->no_range;
    lock_drop(&pool->lock);
    if (!ready) {
        r = grow_prepare(pool, heap, serve->hinted);
        if (r == -ECANCELED || r == -EAGAIN)
            return r;
    }
    lock_take(&pool->lock);
    ready = serve->hinted ? heap->hint != 0 : grow_is_plain(serve) || heap->arena != 0;
    if (ready)
        ask = ask_for(pool, serve, grow_need(pool, serve));
    lock_drop(&pool->lock);
    if (!ready)
        return -ENOTSUP;
    r = may_grow(pool, serve, &ask);
    if (r != 0)
        return r;
    lock_take(&pool->lock);
    pool->counters.grows++;
    heap->grows++;
    lock_drop(&pool->lock);
    serve->how |= OUTCOME_GROWN;
    if (serve->hinted)
        return serve->shares ? grow_alias(pool, serve) : grow_hinted(pool, serve);
    if (grow_is_plain(serve))
        return grow_plain(pool, serve);
    r = grow_arena(pool, serve);
    /* The addresses have holes, but none is long enough: add a range to the old one. */
    if (r == -ENOSPC && add_range(pool, serve) == 0)
        r = grow_arena(pool, serve);
    return r;
}

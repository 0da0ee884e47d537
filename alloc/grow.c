/* SPDX-License-Identifier: MIT */
#include "alloc/grow.h"

#include "alloc/drive.h"
#include "alloc/trim.h"

/* Addresses reserved for a mapped heap if the driver does not say how much memory there is. */
#define RANGE_UNKNOWN (UINT64_C(64) << 30)

/* From here on it is cheaper to ask how much memory there is than to find out by creating a handle for each granule. */
#define GUESS_LEAST (UINT64_C(128) << 20)

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t grow_unit(const struct heap *heap)
{
    return most(heap->device->granularity, GRANULE_SIZE);
}

uint64_t grow_slot(const struct pool *pool, const struct heap *heap)
{
    return heap_round(most(pool->opts.handle, grow_unit(heap)), grow_unit(heap));
}

static bool is_plain(const struct serve *serve)
{
    return serve->heap->kind == HEAP_PLAIN || serve->heap->no_vmm;
}

/* ── ranges ── */

static int reserve_range(struct pool *pool, struct heap *heap, struct segment *ret_like)
{
    uint64_t align = most(pool->opts.align_large, most(GRANULE_SIZE, ret_like->slot));
    int device = heap->device->number;
    uint64_t total = RANGE_UNKNOWN / 2;
    uint64_t size, unused;
    int r;

    (void)drive_memory(pool, device, &total, &unused);
    /* Twice the memory, so that holes in the addresses do not matter; less if the driver has not got it. */
    size = heap_round(2 * total, most(align, ret_like->slot));
    do {
        r = drive_address_reserve(pool, device, size, align, &ret_like->base);
        if (r == 0 || r == DRIVER_NOT_SUPPORTED || r < 0)
            break;
        size = heap_round(size / 2, most(align, ret_like->slot));
    } while (size > total / 4 && size > ret_like->slot);
    ret_like->size = size;
    ret_like->raw_base = ret_like->base;
    ret_like->raw_size = size;
    return r;
}

int grow_prepare(struct pool *pool, struct heap *heap, bool hinted)
{
    struct segment like = {.kind = hinted ? SEGMENT_HINT : SEGMENT_ARENA};
    uint64_t granularity;
    uint32_t number = 0;
    uint32_t *slot;
    int r = 0;

    lock_take(&pool->lock);
    granularity = heap->device->granularity;
    lock_drop(&pool->lock);
    if (granularity == 0) {
        r = drive_granularity(pool, heap->device->number, &granularity);
        if (r == 0 && (granularity == 0 || (granularity & (granularity - 1)) != 0))
            r = -EINVAL;
    }
    if (r == 0) {
        lock_take(&pool->lock);
        heap->device->granularity = granularity;
        like.slot = hinted ? grow_unit(heap) : grow_slot(pool, heap);
        lock_drop(&pool->lock);
        r = reserve_range(pool, heap, &like);
    }
    lock_take(&pool->lock);
    slot = hinted ? &heap->hint : &heap->arena;
    if (r == 0 && heap->dropped)
        r = -EAGAIN;
    if (r == 0 && *slot == 0) {
        r = heap_add_segment(pool, heap, &like, &number);
        *slot = number;
    }
    /* Without address ranges there is no mapped memory: the arena's part is taken by plain segments. */
    if (r != 0 && r != -ECANCELED && !hinted && heap->arena == 0)
        heap->no_vmm = true;
    if (r > 0 && hinted)
        heap->no_hints = true;
    lock_drop(&pool->lock);
    if (number == 0 && like.raw_size != 0 && like.raw_base != 0)
        (void)drive_address_free(pool, like.raw_base, like.raw_size);
    return r;
}

/* ── plain segments ── */

static uint64_t plain_size(struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    const struct device *device = serve->heap->device;
    uint64_t exact = heap_round(serve->want.size, GRANULE_SIZE);
    uint64_t high = most(device->stored_high, device->stored + serve->want.size);
    uint64_t chunk =
            heap_round(serve->want.small ? pool->opts.small_chunk : pool->opts.chunk, GRANULE_SIZE);

    if (serve->want.whole)
        return exact;
    /* A chunk only as long as what it holds too much is small beside what is live anyway. */
    if (chunk > exact && device->reserved + chunk <= high + high / 20)
        return chunk;
    return exact;
}

/* Memory that begins and ends on granules, so that a granule has one segment. The driver's own begins there; where one
 * does not, a granule more is asked for. */
static int get_plain(struct pool *pool, struct segment *like, int device)
{
    uint64_t size = like->size;
    int r = drive_mem_alloc(pool, like->context, device, size, &like->raw_base);

    if (r == 0 && (like->raw_base & (GRANULE_SIZE - 1)) != 0) {
        (void)drive_mem_free(pool, like->context, like->raw_base);
        size += GRANULE_SIZE;
        r = drive_mem_alloc(pool, like->context, device, size, &like->raw_base);
    }
    if (r != 0)
        return r;
    like->raw_size = size;
    like->base = heap_round(like->raw_base, GRANULE_SIZE);
    if (like->base + like->size > like->raw_base + size) {
        (void)drive_mem_free(pool, like->context, like->raw_base);
        return -EINVAL;
    }
    return 0;
}

static int grow_plain(struct pool *pool, struct serve *serve)
{
    const struct pool_request *request = serve->request;
    struct segment like = {.kind = SEGMENT_PLAIN, .small = serve->want.small};
    struct heap *heap = serve->heap;
    uint32_t number;
    int r;

    lock_take(&pool->lock);
    like.size = plain_size(pool, serve);
    like.context = heap->kind != HEAP_PLAIN && request->context ? request->context : request->owner;
    lock_drop(&pool->lock);

    trim_sealed(pool, heap);
    r = get_plain(pool, &like, request->device);
    if (r != 0)
        return r;

    lock_take(&pool->lock);
    if (pool->contexts_gone != serve->contexts_gone || heap->dropped)
        r = -EAGAIN; /* perhaps this very context: not worth finding out */
    else if (slab_prepare(&pool->blocks, 3) != 0)
        r = -ENOMEM;
    else
        r = heap_add_segment(pool, heap, &like, &number);
    if (r == 0) {
        heap_count_reserved(heap, (int64_t)like.raw_size);
        serve_hand_out(
                pool, serve, heap_carve(pool, heap_segment(pool, number)->first, &serve->want));
    }
    lock_drop(&pool->lock);
    if (r != 0)
        (void)drive_mem_free(pool, like.context, like.raw_base);
    return r;
}

/* ── physical handles ── */

/* A handle for a slot or a hinted block: from the shelf, else from the driver. */
static int get_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t *ret_handle)
{
    uint64_t handle;
    int r;

    lock_take(&pool->lock);
    handle = heap_unshelve(heap, size);
    if (handle)
        pool->counters.remaps++;
    lock_drop(&pool->lock);
    if (handle) {
        *ret_handle = handle;
        return 0;
    }
    r = drive_handle_create(pool, heap->device->number, size, ret_handle);
    if (r == 0) {
        lock_take(&pool->lock);
        heap_count_reserved(heap, (int64_t)size);
        lock_drop(&pool->lock);
    }
    return r;
}

static void put_handle(struct pool *pool, struct heap *heap, uint64_t size, uint64_t handle)
{
    int r;

    lock_take(&pool->lock);
    r = heap_shelve(heap, size, handle);
    if (r != 0)
        heap_count_reserved(heap, -(int64_t)size);
    lock_drop(&pool->lock);
    if (r != 0)
        (void)drive_handle_release(pool, handle);
}

/* Storage for the slots of a BUSY block; all or nothing. *ret_stuck: what was mapped could not be unmapped again. */
static int map_slots(struct pool *pool, struct heap *heap, uint64_t *handles,
        const struct bestfit_node *node, uint64_t each, bool *ret_stuck)
{
    uint64_t done = 0;
    uint64_t handle;
    int r = 0;

    *ret_stuck = false;
    for (; done < node->size; done += each) {
        r = get_handle(pool, heap, each, &handle);
        if (r != 0)
            break;
        r = drive_map(pool, node->base + done, each, handle);
        if (r != 0) {
            put_handle(pool, heap, each, handle);
            break;
        }
        handles[done / each] = handle;
    }
    if (r == 0)
        r = drive_set_access(pool, heap, node->base, node->size, DRIVER_ACCESS_RW);
    if (r == 0)
        return 0;
    while (done > 0 && !*ret_stuck) {
        done -= each;
        if (drive_unmap(pool, node->base + done, each) != 0) {
            *ret_stuck = true;
            break;
        }
        put_handle(pool, heap, each, handles[done / each]);
        handles[done / each] = 0;
    }
    return r;
}

/* The storage of a BUSY block did not come. */
static void give_up(struct pool *pool, struct heap *heap, uint32_t index, bool is_stuck) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);

    if (heap_segment_of(pool, block)->dead) {
        block->state = BLOCK_KEPT;
    } else if (is_stuck) {
        block->state = BLOCK_KEPT;
        heap_count_kept(heap, (int64_t)block->node.size);
    } else {
        heap_put_gap(pool, index);
    }
}

/* ── the arena ── */

/* The free block at the top that growth can begin in, 0 = none. */
static uint32_t free_tail(const struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    uint32_t index = heap_segment(pool, serve->heap->arena)->last;
    const struct block *block = heap_block(pool, index);

    if (!index || block->state != BLOCK_FREE || (block->stream && block->stream != serve->stream))
        return 0;
    return index;
}

/* Bytes that must be added behind `tail` (or at the top) so that the request fits; 0 = it fits as it is. */
static uint64_t tail_need(
        const struct pool *pool, const struct serve *serve, uint32_t tail) POOL_LOCKED
{
    const struct segment *segment = heap_segment(pool, serve->heap->arena);
    devptr_t top = segment->base + segment->top;
    devptr_t from = tail ? heap_block(pool, tail)->node.base : top;
    devptr_t end = heap_round(from, serve->want.align) + serve->want.size;

    return end > top ? heap_round(end - top, segment->slot) : 0;
}

static uint32_t fitting_gap(const struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    uint64_t slot = heap_segment(pool, serve->heap->arena)->slot;

    return bestfit_find(
            &serve->heap->gaps, heap_round(serve->want.size, slot), most(serve->want.align, slot));
}

/* The free tail is large enough: another thread freed it since the look for a block, or the look passed over it for its
 * alignment. */
static bool tail_fits(struct pool *pool, struct serve *serve) POOL_LOCKED
{
    uint32_t tail = free_tail(pool, serve);

    if (!tail || tail_need(pool, serve, tail) > 0 || slab_prepare(&pool->blocks, 3) != 0)
        return false;
    heap_pull(pool, tail);
    serve->how &= ~(uint32_t)OUTCOME_GROWN;
    serve_hand_out(pool, serve, heap_carve(pool, tail, &serve->want));
    return true;
}

/* The addresses for growth: a BUSY block to be mapped, and in *ret_tail the free block before it that it will be joined
 * to (BUSY too). */
static uint32_t place_growth(struct pool *pool, struct serve *serve, uint32_t *ret_tail) POOL_LOCKED
{
    uint64_t slot = heap_segment(pool, serve->heap->arena)->slot;
    uint32_t tail = free_tail(pool, serve);
    uint32_t gap = tail ? 0 : fitting_gap(pool, serve);
    uint32_t index;

    *ret_tail = 0;
    if (slab_prepare(&pool->blocks, 3) != 0)
        return 0;
    if (gap) {
        uint64_t size = heap_round(serve->want.size, slot);
        uint64_t skip;

        heap_pull(pool, gap);
        skip = -heap_block(pool, gap)->node.base & (serve->want.align - 1);
        if (skip) {
            index = heap_cut(pool, gap, skip);
            heap_put_gap(pool, gap);
            gap = index;
        }
        if (heap_block(pool, gap)->node.size > size)
            heap_put_gap(pool, heap_cut(pool, gap, size));
        return gap;
    }
    index = heap_extend(pool, serve->heap->arena, tail_need(pool, serve, tail));
    if (index && tail) {
        heap_pull(pool, tail);
        *ret_tail = tail;
    }
    return index;
}

static int grow_arena(struct pool *pool, struct serve *serve)
{
    struct heap *heap = serve->heap;
    struct bestfit_node node;
    uint64_t *handles;
    uint64_t slot;
    uint32_t tail, index;
    bool is_stuck;
    int r;

    lock_take(&pool->lock);
    if (tail_fits(pool, serve)) {
        lock_drop(&pool->lock);
        return 0;
    }
    index = place_growth(pool, serve, &tail);
    if (!index) {
        lock_drop(&pool->lock);
        return -ENOSPC;
    }
    node = heap_block(pool, index)->node;
    slot = heap_segment(pool, heap->arena)->slot;
    handles = &heap_segment(pool, heap->arena)
                       ->handles[(node.base - heap_segment(pool, heap->arena)->base) / slot];
    heap->busy++;
    lock_drop(&pool->lock);

    r = map_slots(pool, heap, handles, &node, slot, &is_stuck);

    lock_take(&pool->lock);
    heap->busy--;
    if (r == 0 && (heap_segment_of(pool, heap_block(pool, index))->dead || heap->leaving))
        r = -EAGAIN; /* mapped, and given back with the heap */
    else if (r == 0 && slab_prepare(&pool->blocks, 2) != 0)
        r = -ENOMEM;
    if (r == 0) {
        if (tail) {
            heap_join(pool, tail);
            index = tail;
        }
        serve_hand_out(pool, serve, heap_carve(pool, index, &serve->want));
    } else {
        if (tail)
            (void)heap_put(pool, tail, heap_block(pool, tail)->stream, heap_block(pool, tail)->seq);
        if (r == -EAGAIN || r == -ENOMEM)
            (void)heap_put(pool, index, 0, 0);
        else
            give_up(pool, heap, index, is_stuck);
    }
    lock_drop(&pool->lock);
    return r;
}

int grow_back(struct pool *pool, struct heap *heap, uint32_t index)
{
    struct segment *segment;
    struct bestfit_node node;
    bool is_stuck;
    int r;

    lock_take(&pool->lock);
    segment = heap_segment_of(pool, heap_block(pool, index));
    node = heap_block(pool, index)->node;
    pool->counters.grows++;
    heap->grows++;
    lock_drop(&pool->lock);

    r = map_slots(pool, heap, &segment->handles[(node.base - segment->base) / segment->slot], &node,
            segment->slot, &is_stuck);

    lock_take(&pool->lock);
    if (r != 0)
        give_up(pool, heap, index, is_stuck);
    else if (segment->dead)
        heap_block(pool, index)->state = BLOCK_KEPT; /* mapped, and given back with the heap */
    else
        (void)heap_put(pool, index, 0, 0);
    lock_drop(&pool->lock);
    return r;
}

/* ── hinted blocks ── */

static int grow_hinted(struct pool *pool, struct serve *serve)
{
    struct heap *heap = serve->heap;
    struct segment *segment;
    struct bestfit_node node;
    uint64_t *handle;
    uint32_t index;
    bool is_stuck;
    int r;

    lock_take(&pool->lock);
    segment = heap_segment(pool, heap->hint);
    index = slab_prepare(&pool->blocks, 2) == 0
            ? bestfit_lower_bound(&heap->hint_gaps, serve->want.size, 0)
            : 0;
    if (index) {
        heap_pull(pool, index);
        if (heap_block(pool, index)->node.size > serve->want.size)
            heap_put_gap(pool, heap_cut(pool, index, serve->want.size));
    } else {
        index = heap_extend(pool, heap->hint, serve->want.size);
    }
    if (!index) {
        lock_drop(&pool->lock);
        return -ENOSPC;
    }
    node = heap_block(pool, index)->node;
    handle = &segment->handles[(node.base - segment->base) / segment->slot];
    heap->busy++;
    lock_drop(&pool->lock);

    r = map_slots(pool, heap, handle, &node, node.size, &is_stuck);

    lock_take(&pool->lock);
    heap->busy--;
    if (r == 0 && (segment->dead || heap->leaving))
        r = -EAGAIN;
    if (r == 0) {
        serve_hand_out(pool, serve, index);
    } else if (r == -EAGAIN && !segment->dead) {
        heap_block(pool, index)->state = BLOCK_IDLE;
        bestfit_insert(&heap->idle, index);
    } else if (r != -EAGAIN) {
        give_up(pool, heap, index, is_stuck);
    }
    lock_drop(&pool->lock);
    return r;
}

/* ── the door ── */

uint64_t grow_need(struct pool *pool, const struct serve *serve)
{
    const struct heap *heap = serve->heap;
    uint64_t need = serve->want.size;
    uint64_t each = serve->want.size;

    if (!serve->hinted && is_plain(serve))
        return plain_size(pool, serve);
    if (!serve->hinted && heap->arena) {
        each = heap_segment(pool, heap->arena)->slot;
        need = free_tail(pool, serve) || !fitting_gap(pool, serve)
                ? tail_need(pool, serve, free_tail(pool, serve))
                : heap_round(need, each);
    }
    return need - least(need, heap_shelved(heap, each) * each);
}

/* Growth that the program's options forbid, that would eat the reserve, or that cannot succeed: as if the device had said
 * so. */
static int may_grow(struct pool *pool, const struct serve *serve)
{
    uint64_t reserve = serve->last ? 0 : pool->opts.reserve;
    uint64_t total = 0;
    uint64_t available = 0;
    uint64_t need, reserved;
    bool many;

    lock_take(&pool->lock);
    need = grow_need(pool, serve);
    reserved = serve->heap->device->reserved;
    many = !serve->hinted && !is_plain(serve) && need >= GUESS_LEAST;
    lock_drop(&pool->lock);
    if (need == 0)
        return 0;
    if (pool->opts.cap && reserved + need > pool->opts.cap)
        return DRIVER_OUT_OF_MEMORY;
    /* Our own opinion as long as there is another attempt: the driver has not refused anything yet. */
    if ((reserve || many) && drive_memory(pool, serve->request->device, &total, &available) == 0
            && available < need + reserve)
        return serve->last ? DRIVER_OUT_OF_MEMORY : -ENOSPC;
    return 0;
}

int grow_serve(struct pool *pool, struct serve *serve)
{
    struct heap *heap = serve->heap;
    bool ready, plain;
    int r;

    lock_take(&pool->lock);
    ready = serve->hinted ? heap->hint != 0 || heap->no_hints : is_plain(serve) || heap->arena != 0;
    lock_drop(&pool->lock);
    if (!ready) {
        r = grow_prepare(pool, heap, serve->hinted);
        if (r == -ECANCELED || r == -EAGAIN)
            return r;
    }
    r = may_grow(pool, serve);
    if (r != 0)
        return r;
    lock_take(&pool->lock);
    ready = !serve->hinted || heap->hint != 0;
    plain = is_plain(serve);
    if (plain && heap->kind != HEAP_PLAIN && pool->opts.mapped_only)
        ready = false;
    if (ready) {
        pool->counters.grows++;
        heap->grows++;
    }
    lock_drop(&pool->lock);
    if (!ready)
        return -ENOTSUP;
    serve->how |= OUTCOME_GROWN;
    if (serve->hinted)
        return grow_hinted(pool, serve);
    return plain ? grow_plain(pool, serve) : grow_arena(pool, serve);
}

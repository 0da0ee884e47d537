/* SPDX-License-Identifier: MIT */
#include "alloc/area.h"

#include "alloc/drive.h"
#include "alloc/grow.h"
#include "alloc/reclaim.h"

/* Pieces that one request maps: other threads may take away what it has mapped, but not for ever. */
#define PIECES_MOST 64

/* What stands where a planned block is to stand. */
enum ground {
    GROUND_FREE,
    GROUND_BARE,  /* free where there is storage, which is not everywhere */
    GROUND_LATE,  /* free, but for points of other streams */
    GROUND_TAKEN, /* somebody is there */
};

/* ── making one ── */

int pool_set_plan(struct pool *pool, const struct pool_plan *plan)
{
    struct area *area;
    int r;

    if (plan->quantum != pool->opts.quantum || plan->count == 0 || plan->device < 0
            || plan->device >= POOL_DEVICES_MAX || plan->area > UINT64_MAX / 4)
        return -EINVAL;
    if (plan->entrance != ENTRANCE_STREAM)
        return -EOPNOTSUPP;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct planned *block = &plan->block[i];

        if (block->size > plan->area || block->offset > plan->area - block->size
                || (block->offset | block->size) & (plan->quantum - 1) || block->size == 0)
            return -EINVAL;
    }
    if (pool->area)
        return -EEXIST;
    area = meta_get(sizeof(*area));
    if (!area)
        return -ENOMEM;
    r = follow_init(&area->follow, plan->block, plan->count);
    if (r != 0) {
        meta_put(area, sizeof(*area));
        return r;
    }
    area->follow.all_streams = plan->all_streams;
    area->size = plan->area;
    area->device = plan->device;
    pool->area = area;
    return 0;
}

void area_leave(struct pool *pool, const struct heap *heap)
{
    struct area *area = pool->area;

    if (!area || area->heap != heap)
        return;
    area->heap = NULL;
    area->segment = 0; /* goes with its heap */
}

void area_count(const struct pool *pool, struct pool_plan_stats *ret)
{
    const struct area *area = pool->area;
    const struct follow_counts *counts = area ? &area->follow.counts : NULL;

    *ret = (struct pool_plan_stats){0};
    if (!area)
        return;
    *ret = (struct pool_plan_stats){
            .steps = counts->steps,
            .matched = counts->matched,
            .placed = area->placed,
            .fell_back = area->fell_back,
            .unmatched = counts->unmatched,
            .skipped = counts->skipped,
            .resyncs = counts->resyncs,
    };
}

void pool_plan_stats(struct pool *pool, struct pool_plan_stats *ret)
{
    lock_take(&pool->lock);
    area_count(pool, ret);
    lock_drop(&pool->lock);
}

bool area_is_idle(const struct pool *pool)
{
    return !pool->area || follow_is_lost(&pool->area->follow);
}

uint64_t area_spare(const struct pool *pool, const struct device *device)
{
    const struct heap *heap = pool->area ? pool->area->heap : NULL;
    uint64_t bytes;

    if (!heap || heap->device != device || area_is_idle(pool))
        return 0;
    bytes = heap->planned.bytes;
    for (const struct heap_stream *at = heap->streams; at; at = at->next)
        bytes += at->planned.bytes;
    return bytes;
}

/* Addresses for the plan. 0, or -errno and the plan is off where it cannot be helped. */
static int reserve(struct pool *pool, struct area *area, struct heap *heap)
{
    struct segment like = {.kind = SEGMENT_ARENA, .planned = true};
    bool ready;
    uint64_t align;
    uint32_t number = 0;
    int r = 0;

    lock_take(&pool->lock);
    ready = heap->arena != 0 || heap->no_vmm;
    lock_drop(&pool->lock);
    if (!ready)
        r = grow_prepare(pool, heap, false);
    lock_take(&pool->lock);
    if (r == 0 && !heap->arena)
        r = -ENOTSUP; /* no mapped memory here */
    like.slot = r == 0 ? heap_segment(pool, heap->arena)->slot : 0;
    lock_drop(&pool->lock);
    if (r == 0) {
        align = like.slot > pool->opts.align_stream ? like.slot : pool->opts.align_stream;
        like.size = like.raw_size = heap_round(area->size, like.slot);
        r = drive_address_reserve(pool, heap->device->number, like.size, align, &like.base);
        like.raw_base = like.base;
    }
    lock_take(&pool->lock);
    if (r == 0 && !area->segment && area->heap == heap && !heap->leaving) {
        r = heap_add_segment(pool, heap, &like, &number);
        area->segment = number;
    }
    if (r != 0 && r != -ECANCELED && r != -EAGAIN)
        area->off = true;
    lock_drop(&pool->lock);
    if (!number && like.raw_base)
        (void)drive_address_free(pool, like.raw_base, like.raw_size);
    return r;
}

/* ── placing ── */

static bool is_usable(
        const struct pool *pool, const struct serve *serve, const struct block *block) POOL_LOCKED
{
    uint32_t class = heap_class_of(pool, block->stream, block->seq);

    return !class || class == serve->stream;
}

static enum ground survey(
        const struct pool *pool, const struct serve *serve, devptr_t base) POOL_LOCKED
{
    const struct segment *segment = heap_segment(pool, pool->area->segment);
    devptr_t end = base + serve->want.size;
    enum ground ground = end > segment->base + segment->top ? GROUND_BARE : GROUND_FREE;
    uint32_t index = heap_find(pool, base);

    for (; index && heap_block(pool, index)->node.base < end;
            index = heap_block(pool, index)->next) {
        const struct block *block = heap_block(pool, index);

        if (block->state == BLOCK_GAP && ground == GROUND_FREE)
            ground = GROUND_BARE;
        else if (block->state == BLOCK_FREE && !is_usable(pool, serve, block))
            ground = GROUND_LATE;
        else if (block->state != BLOCK_FREE && block->state != BLOCK_GAP)
            return GROUND_TAKEN;
    }
    return ground;
}

/* Takes [base, + the wanted size), all of it free and usable; what lies around it keeps its class and point. */
static void take(struct pool *pool, struct serve *serve, devptr_t base) POOL_LOCKED
{
    devptr_t end = base + serve->want.size;
    uint32_t first = heap_find(pool, base);
    uint32_t last = heap_find(pool, end - 1);
    struct block *block = heap_block(pool, first);
    uint32_t rest;

    heap_pull(pool, first);
    if (block->node.base < base) {
        rest = heap_cut(pool, first, base - block->node.base);
        (void)heap_put(pool, first, block->stream, block->seq);
        last = last == first ? rest : last;
        first = rest;
    }
    if (last != first)
        heap_pull(pool, last);
    block = heap_block(pool, last);
    if (block->node.base + block->node.size > end) {
        rest = heap_cut(pool, last, end - block->node.base);
        (void)heap_put(pool, rest, block->stream, heap_block(pool, rest)->seq);
    }
    serve_hand_out(pool, serve, heap_join_run(pool, first, last));
    pool->area->placed++;
}

/* The first bytes without storage that a planned block needs, as a BUSY block of whole slots; 0 = no memory for our
 * records, or no addresses. */
static uint32_t bare_piece(struct pool *pool, devptr_t base, uint64_t size) POOL_LOCKED
{
    const struct segment *segment = heap_segment(pool, pool->area->segment);
    devptr_t lo = base & ~(segment->slot - 1);
    devptr_t hi = heap_round(base + size, segment->slot);
    devptr_t top = segment->base + segment->top;
    const struct block *block;
    uint32_t index = heap_find(pool, base);

    while (index && heap_block(pool, index)->state != BLOCK_GAP)
        index = heap_block(pool, index)->next;
    if (index && heap_block(pool, index)->node.base < hi) {
        heap_pull(pool, index);
    } else {
        index = heap_extend(pool, pool->area->segment, hi - top);
        if (!index)
            return 0;
    }
    block = heap_block(pool, index);
    if (block->node.base < lo) {
        uint32_t rest = heap_cut(pool, index, lo - block->node.base);

        heap_put_gap(pool, index);
        index = rest;
        block = heap_block(pool, index);
    }
    if (block->node.base + block->node.size > hi)
        heap_put_gap(pool, heap_cut(pool, index, hi - block->node.base));
    return index;
}

/* The area may have left its heap while the lock was not held. */
static bool is_there(const struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    return pool->area->heap == serve->heap && pool->area->segment;
}

/* Bytes of whole slots that the planned block lacks. */
static uint64_t bare_bytes(
        const struct pool *pool, const struct serve *serve, uint64_t offset) POOL_LOCKED
{
    const struct segment *segment = heap_segment(pool, pool->area->segment);
    uint64_t need = 0;
    uint64_t at;

    for (at = offset / segment->slot; at * segment->slot < offset + serve->want.size; at++) {
        if (at * segment->slot >= segment->top || !segment->handles[at])
            need += segment->slot;
    }
    return need;
}

/* Storage for the first piece that lacks it. Where more would pass the budget, what is free outside moves in: for that the host
 * must know what is over on the device. */
static int back(struct pool *pool, struct serve *serve, uint64_t offset)
{
    uint32_t index = 0;
    bool over = false;

    lock_take(&pool->lock);
    if (is_there(pool, serve))
        over = serve->heap->device->reserved + bare_bytes(pool, serve, offset)
                > serve_budget(pool, serve);
    lock_drop(&pool->lock);
    if (over && serve->request->may_fence)
        (void)reclaim_points(pool, serve->heap, 0);
    lock_take(&pool->lock);
    if (is_there(pool, serve) && slab_prepare(&pool->blocks, 3) == 0) {
        devptr_t base = heap_segment(pool, pool->area->segment)->base + offset;

        if (survey(pool, serve, base) == GROUND_BARE)
            index = bare_piece(pool, base, serve->want.size);
    }
    lock_drop(&pool->lock);
    return index ? grow_back(pool, serve, index) : -ENOSPC;
}

/* ── a request ── */

/* Is this a request that the plan is about? Then the heap is known from here on. */
static bool is_followed(struct pool *pool, const struct pool_request *request) POOL_LOCKED
{
    struct area *area = pool->area;

    if (area->off || request->entrance != ENTRANCE_STREAM || request->device != area->device)
        return false;
    if (!area->heap)
        area->heap = heap_get(pool, HEAP_MAPPED, request->owner, request->device);
    return area->heap && area->heap->owner == request->owner
            && area->heap->device->number == request->device;
}

/* The planned block of the request. False: there is none. */
static bool ask(
        struct pool *pool, const struct pool_request *request, uint64_t *ret_offset) POOL_LOCKED
{
    struct area *area = pool->area;
    uint32_t number;

    if (request->size > UINT64_MAX / 4 || !is_followed(pool, request))
        return false;
    number = follow_ask(&area->follow, request->stream,
            heap_round(request->size, pool->opts.quantum), request->site);
    if (number == FOLLOW_NONE)
        return false;
    *ret_offset = area->follow.block[number].offset;
    return true;
}

/* Takes the place if that needs no driver call. */
static enum ground place(struct pool *pool, struct serve *serve, uint64_t offset) POOL_LOCKED
{
    const struct area *area = pool->area;
    enum ground ground;
    devptr_t base;

    if (!area->segment)
        return GROUND_BARE;
    if (slab_prepare(&pool->blocks, 3) != 0)
        return GROUND_TAKEN;
    base = heap_segment(pool, area->segment)->base + offset;
    ground = survey(pool, serve, base);
    if (ground == GROUND_FREE)
        take(pool, serve, base);
    return ground;
}

/* The long way to the place: the addresses, what stands there, its storage. Ends as it began: the heap is held. */
static int fetch(struct pool *pool, struct serve *serve, uint64_t offset)
{
    bool asked = false;
    bool ready;
    int r = 0;

    lock_take(&pool->lock);
    ready = pool->area->segment != 0;
    lock_drop(&pool->lock);
    serve->how = 0;
    if (!ready)
        r = reserve(pool, pool->area, serve->heap);
    for (int i = 0; i < PIECES_MOST && r == 0; i++) {
        enum ground ground = GROUND_TAKEN;

        lock_take(&pool->lock);
        if (is_there(pool, serve))
            ground = place(pool, serve, offset);
        lock_drop(&pool->lock);
        if (ground == GROUND_FREE)
            return 0;
        if (ground == GROUND_BARE) {
            r = back(pool, serve, offset);
        } else if (ground == GROUND_LATE && serve->request->may_fence && !asked) {
            asked = true;
            r = reclaim_points(pool, serve->heap, serve->stream);
        } else {
            r = -EBUSY;
        }
    }
    return r ? r : -EBUSY;
}

bool area_serve(struct pool *pool, const struct pool_request *request, struct outcome *ret)
{
    struct serve serve = {.request = request, .ret = ret, .how = OUTCOME_HIT};
    enum ground ground = GROUND_TAKEN;
    uint64_t offset = 0;
    bool planned, served;

    lock_take(&pool->lock);
    planned = ask(pool, request, &offset);
    /* A hint that acts wants a handle of its own for the block, and a place says less than a hint. */
    if (planned && !(request->plan && hint_acts(request->plan)) && serve_begin(pool, &serve) == 0
            && !(offset & (serve.want.align - 1))) {
        ground = place(pool, &serve, offset);
        if (ground == GROUND_TAKEN)
            follow_taken(&pool->area->follow);
    }
    served = ground == GROUND_FREE;
    if (!served && ground != GROUND_TAKEN && request->may_call)
        serve.heap->busy++;
    else
        pool->area->fell_back += planned && !served;
    lock_drop(&pool->lock);
    if (served || ground == GROUND_TAKEN || !request->may_call)
        return served;
    served = fetch(pool, &serve, offset) == 0;
    lock_take(&pool->lock);
    serve.heap->busy--;
    pool->area->fell_back += !served;
    lock_drop(&pool->lock);
    return served;
}

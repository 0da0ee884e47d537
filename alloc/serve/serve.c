/* SPDX-License-Identifier: MIT */
#include "alloc/serve/serve.h"

#include "alloc/base/mutation.h"
#include "alloc/heap/alias.h"
#include "alloc/heap/block.h"
#include "alloc/heap/drive.h"
#include "alloc/heap/freecache.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/stream_wait.h"
#include "alloc/heap/streams.h"
#include "alloc/heap/tally.h"
#include "alloc/serve/stall.h"
#include "alloc/storage/commit.h"
#include "alloc/storage/fit.h"
#include "alloc/storage/grow.h"
#include "alloc/storage/headroom.h"
#include "alloc/storage/pace.h"
#include "alloc/storage/reclaim.h"
#include "alloc/storage/runs.h"
#include "alloc/storage/spot.h"
#include "alloc/storage/stream_order.h"
#include "alloc/storage/stream_take.h"
#include "alloc/storage/trim.h"
#include "alloc/swap/swap.h"

/* A result between two stages: nothing found, try the next stage. */
#define NEXT (-EAGAIN)

#define HELD_PART  256 /* part of the highest live size that is held beyond it without waits */
#define ADOPT_MOST 16  /* streams that one request is made to wait for */

/* ── records of the ladder ── */

static void serve_note_wait(struct serve *serve)
{
    serve->how |= OUTCOME_WAITED;
    if (serve->request->ladder)
        serve->request->ladder->waits++;
}

static void serve_note_trim(struct serve *serve, uint64_t bytes)
{
    if (!bytes)
        return;
    serve->how |= OUTCOME_TRIMMED;
    if (serve->request->ladder) {
        serve->request->ladder->trims++;
        serve->request->ladder->trimmed_bytes += bytes;
    }
}

static int serve_grow(struct pool *pool, struct serve *serve)
{
    if (serve->request->ladder)
        serve->request->ladder->attempts++;
    return grow_serve(pool, serve);
}

/* Results of growth without memory, by the driver or by our own estimate. */
static bool serve_is_refused(int r)
{
    return r == DRIVER_OUT_OF_MEMORY || r == -ENOSPC;
}

static uint64_t need_of(struct pool *pool, const struct serve *serve)
{
    uint64_t need;

    lock_take(&pool->lock);
    need = grow_need(pool, serve);
    lock_drop(&pool->lock);
    return need;
}

/* ── hits ── */

static uint32_t take_idle(struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    uint32_t index =
            serve->shares ? 0 : bestfit_lower_bound(&serve->heap->idle, serve->want.size, 0);

    /* Only the exact size: a larger block's surplus would be held unused. */
    if (!index || block_at(pool, index)->node.size != serve->want.size)
        return 0;
    freelist_pull(pool, index);
    return index;
}

/* 0, NEXT, or -ENOMEM. */
static int hit_locked(struct pool *pool, struct serve *serve) POOL_LOCKED
{
    uint32_t index;

    if (slab_prepare(&pool->blocks, 3) != 0)
        return -ENOMEM;
    index = serve->hinted ? take_idle(pool, serve) : fit_take(pool, serve->heap, &serve->want);
    if (!index)
        return NEXT;
    commit_block(pool, serve, index);
    return 0;
}

static int hit(struct pool *pool, struct serve *serve)
{
    int r;

    lock_take(&pool->lock);
    r = hit_locked(pool, serve);
    lock_drop(&pool->lock);
    return r;
}

/* Free neighbours of different classes that fit together, all of this stream or idle. */
static int hit_run(struct pool *pool, struct serve *serve)
{
    uint32_t first, last;
    int r = NEXT;

    lock_take(&pool->lock);
    if (slab_prepare(&pool->blocks, 3) != 0) {
        r = -ENOMEM;
    } else if (runs_find(pool, serve->heap, &serve->want, RUNS_OWN, &first, &last) == 0) {
        commit_piece(pool, serve, runs_join(pool, first, last));
        r = 0;
    }
    lock_drop(&pool->lock);
    return r;
}

/* Small requests may take the rests of large segments that are too small for any large request, but
 * only when the alternative is to hold more: a small block there keeps the whole segment from being
 * returned. With `any`, on a full device, takes any free block. */
static int hit_other(struct pool *pool, struct serve *serve, bool any)
{
    int r = NEXT;
    uint32_t index;

    if (!serve->want.small)
        return NEXT;
    lock_take(&pool->lock);
    index = bestfit_lower_bound(&serve->heap->clean, serve->want.size, 0);
    if (any || (index && block_at(pool, index)->node.size < pool->opts.large)) {
        serve->want.small = false;
        r = hit_locked(pool, serve);
        serve->want.small = true;
    }
    lock_drop(&pool->lock);
    return r;
}

/* ── the budget ── */

/* Bytes by which growth now would exceed the budget; 0 = it would not. `spare`: subtract storage
 * that can move. */
static uint64_t excess(struct pool *pool, const struct serve *serve, bool spare)
{
    uint64_t need, after, budget;

    lock_take(&pool->lock);
    budget = commit_budget(pool, serve);
    need = grow_need(pool, serve);
    if (spare)
        need -= grow_moves(pool, serve, need);
    after = serve->heap->device->reserved + need;
    lock_drop(&pool->lock);
    return excess_of(after, budget);
}

/* Would storage of a lazy heap move for growth now? An eager heap has queried all fences by then
 * (poll_streams). */
static bool would_move(struct pool *pool, const struct serve *serve)
{
    uint64_t after, budget;

    lock_take(&pool->lock);
    budget = commit_move_budget(pool, serve);
    after = serve->heap->device->reserved + grow_need(pool, serve);
    lock_drop(&pool->lock);
    return after > budget && pool->opts.remap != POOL_REMAP_EAGER
            && pool->opts.remap != POOL_REMAP_NEVER;
}

/* ── other streams' memory, after an inserted wait ── */

/* Blocks taken for a stream before it is known that it can wait for them. */
struct borrowed {
    uint32_t first, last;
    struct fence_set set;
    bool whole; /* too many streams: a full fence instead of points */
};

/* Takes the shortest run that fits, cut to the request, every block BUSY and separate. */
static int borrow(struct pool *pool, struct serve *serve, enum runs_whose whose,
        struct borrowed *ret) POOL_LOCKED
{
    const struct want *want = &serve->want;
    uint64_t skip, bytes;

    *ret = (struct borrowed){.whole = false};
    if (slab_prepare(&pool->blocks, 3) != 0)
        return -ENOMEM;
    if (runs_find(pool, serve->heap, want, whose, &ret->first, &ret->last) != 0)
        return NEXT;
    for (uint32_t at = ret->first;; at = block_at(pool, at)->next) {
        freelist_pull(pool, at);
        if (at == ret->last)
            break;
    }
    skip = -block_at(pool, ret->first)->node.base & (want->align - 1);
    if (skip) {
        struct block *block = block_at(pool, ret->first);
        uint32_t rest = block_cut(pool, ret->first, skip);

        (void)freelist_put(pool, ret->first, block->stream, block->seq);
        if (ret->last == ret->first)
            ret->last = rest;
        ret->first = rest;
    }
    bytes = 0;
    for (uint32_t at = ret->first;; at = block_at(pool, at)->next) {
        struct block *block = block_at(pool, at);

        if (block->stream && fence_set_add(&ret->set, block->stream, block->seq) != 0)
            ret->whole = true;
        if (bytes + block->node.size > want->size) {
            uint32_t rest = block_cut(pool, at, want->size - bytes);

            (void)freelist_put(pool, rest, block->stream, block_at(pool, rest)->seq);
            ret->last = at;
        }
        if (at == ret->last)
            return 0;
        bytes += block->node.size;
    }
}

static void give_up_borrowed(struct pool *pool, const struct borrowed *borrowed) POOL_LOCKED
{
    uint32_t at = borrowed->first;
    uint32_t last = borrowed->last;

    for (;;) {
        uint32_t next = block_at(pool, at)->next;
        bool is_last = at == last;

        spot_put_back(pool, at);
        if (is_last)
            return;
        at = next;
    }
}

static int wait_for_set(
        struct pool *pool, const struct serve *serve, const struct borrowed *borrowed)
{
    uint32_t count = borrowed->set.count;
    int r = 0;

    /* a stream that waits for the host may not be among those that the request needs */
    if (borrowed->whole)
        return stall_is_possible(pool)
                ? -EAGAIN
                : stream_order_behind_all(pool, serve->request->stream, serve->request->device);
    if (POOL_IS_WITHOUT(DROP) && count > 0)
        count--;
    for (uint32_t i = 0; i < count && r == 0; i++) {
        if (borrowed->set.stream[i] != serve->stream)
            r = stream_order_behind(
                    pool, serve->request->stream, borrowed->set.stream[i], borrowed->set.point[i]);
    }
    return r;
}

/* Streams that the program has made this stream wait for; NULL: none, or the pool must not follow
 * them. */
static const struct fence_set *told_of(
        const struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    const struct fence_set *told = stream_wait_set(pool, serve->stream);

    return serve->stream && serve->heap->attrs.reuse_follow && told->count ? told : NULL;
}

static int hit_told_locked(struct pool *pool, struct serve *serve) POOL_LOCKED
{
    const struct fence_set *told = told_of(pool, serve);
    struct borrowed borrowed;
    int r = NEXT;

    if (told && stream_take_ordered(pool, serve->heap, serve->stream, told, false))
        r = hit_locked(pool, serve);
    if (!told || r != NEXT)
        return r;
    r = borrow(pool, serve, RUNS_TOLD, &borrowed);
    if (r == 0)
        commit_block(pool, serve, runs_join(pool, borrowed.first, borrowed.last));
    return r;
}

/* Memory of streams that the program has made this one wait for (R72, order of supply). `is_early`:
 * not before a query of fences that is due, since blocks merge once their fences have passed. */
static int hit_told(struct pool *pool, struct serve *serve, bool is_early)
{
    int r = NEXT;

    lock_take(&pool->lock);
    if (!is_early || !heap_look_is_due(serve->heap))
        r = hit_told_locked(pool, serve);
    pool->counters.followed += r == 0;
    lock_drop(&pool->lock);
    return r;
}

/* Memory of other streams, used by this one only after them; the host does not wait. */
static int hit_ordered(struct pool *pool, struct serve *serve)
{
    struct borrowed borrowed;
    struct heap *heap = serve->heap;
    int r;

    if (!serve->stream)
        return NEXT;
    lock_take(&pool->lock);
    r = heap->attrs.reuse_internal_dependencies ? borrow(pool, serve, RUNS_ANY, &borrowed) : NEXT;
    if (r == 0)
        heap->busy++;
    lock_drop(&pool->lock);
    if (r != 0)
        return r;

    r = wait_for_set(pool, serve, &borrowed);

    lock_take(&pool->lock);
    heap->busy--;
    if (block_segment(pool, block_at(pool, borrowed.first))->dead) {
        r = NEXT;
    } else if (r == 0) {
        serve->how |= OUTCOME_ORDERED;
        commit_block(pool, serve, runs_join(pool, borrowed.first, borrowed.last));
        (void)stream_take_ordered(pool, heap, serve->stream, &borrowed.set, false);
    } else {
        give_up_borrowed(pool, &borrowed);
        r = NEXT;
    }
    lock_drop(&pool->lock);
    return r;
}

/* Fits the request with one block or several. */
static int hit_any(struct pool *pool, struct serve *serve)
{
    int r = hit(pool, serve);

    return r == NEXT ? hit_run(pool, serve) : r;
}

/* Takes memory of other streams, with waits, until the stream has enough. */
static int hit_adopted(struct pool *pool, struct serve *serve)
{
    bool may = serve->stream && serve->heap->attrs.reuse_internal_dependencies;
    int r = NEXT;

    for (int i = 0; r == NEXT && i < ADOPT_MOST; i++) {
        if (!may || !stream_take_most(pool, serve->heap, serve->stream))
            break;
        serve->how |= OUTCOME_ORDERED;
        r = hit_any(pool, serve);
    }
    return r;
}

/* Makes blocks idle that the device has left, so that they can move: the stream's own memory,
 * too. */
static int hit_clean(struct pool *pool, struct serve *serve)
{
    int r = reclaim_points(pool, serve->heap, 0);

    return r > 0 ? r : hit_any(pool, serve);
}

/* Give these blocks to this stream, so that they can merge and their storage can move. */
static int hit_all_told(struct pool *pool, struct serve *serve)
{
    const struct fence_set *told;
    bool any;

    lock_take(&pool->lock);
    told = told_of(pool, serve);
    any = told && stream_take_ordered(pool, serve->heap, serve->stream, told, true);
    lock_drop(&pool->lock);
    return any ? hit_any(pool, serve) : NEXT;
}

/* Memory that needs no wait. */
static int hit_unwaited(struct pool *pool, struct serve *serve)
{
    int r = hit_all_told(pool, serve);

    return r == NEXT ? hit_clean(pool, serve) : r;
}

/* Memory that the stream has to wait for. */
static int hit_waited(struct pool *pool, struct serve *serve)
{
    int r = hit_ordered(pool, serve);

    return r == NEXT ? hit_adopted(pool, serve) : r;
}

/* Instead of holding more: other streams' memory, with a wait where the device still uses it. */
static int hit_others(struct pool *pool, struct serve *serve)
{
    int r = hit_unwaited(pool, serve);

    return r == NEXT && !stall_goes_on(pool, 0) ? hit_waited(pool, serve) : r;
}

/* ── a full device (R31, retries before OOM) ── */

/* Parts of a shared handle, or a whole one, have become free: the request only needs a mapping. */
static int serve_share(struct pool *pool, struct serve *serve)
{
    int r = serve->shares && need_of(pool, serve) == 0 ? serve_grow(pool, serve) : NEXT;

    return serve_is_refused(r) ? NEXT : r;
}

static int wait_and_hit(struct pool *pool, struct serve *serve)
{
    bool streams = serve->request->api == API_STREAM && !serve->hinted;
    int r = 0;

    if (!serve->request->may_wait || !serve->request->may_fence || serve->no_waits)
        return NEXT;
    while (r == 0) {
        r = reclaim_wait(pool, serve->request->device, &serve->patience);
        if ((r == -ENOENT || r == -ETIMEDOUT) && streams)
            r = reclaim_wait_point(pool, serve->heap, &serve->patience);
        if (r != 0)
            break;
        serve_note_wait(serve);
        r = hit(pool, serve);
        if (r == NEXT)
            r = streams ? hit_run(pool, serve) : serve_share(pool, serve);
        if (r != NEXT)
            return r;
        r = 0;
    }
    return r > 0 ? r : NEXT;
}

/* Makes blocks of streams idle, in any heap: only idle memory can be returned. */
static int clean_device(struct pool *pool, struct serve *serve)
{
    int r;

    if (serve->request->may_wait && !serve->no_waits)
        reclaim_wait_device_points(pool, serve->request->device, &serve->patience);
    r = reclaim_device_points(pool, serve->request->device);
    if (r != 0)
        return r;
    /* Frees of streams destroyed since then wait for an epoch from here on. */
    r = wait_and_hit(pool, serve);
    reclaim_leaving(pool);
    if (r != NEXT)
        return r;
    return serve->stream && !serve->hinted ? hit_run(pool, serve) : NEXT;
}

/* Natively a freed block is gone even if a graph names it: before an OOM kedge keeps no more than
 * that. */
static void let_graphs_go(struct pool *pool, const struct serve *serve)
{
    lock_take(&pool->lock);
    (void)pin_let_graphs_go(pool, serve->request->device);
    lock_drop(&pool->lock);
}

/* Reuse storage that is idle by now before returning it to the driver. */
static int move_and_grow(struct pool *pool, struct serve *serve)
{
    bool any;
    int r;

    lock_take(&pool->lock);
    any = grow_moves(pool, serve, serve->want.size) > 0;
    lock_drop(&pool->lock);
    if (!any)
        return NEXT;
    r = serve_grow(pool, serve);
    return serve_is_refused(r) ? NEXT : r;
}

/* A piece cut from a wholly free segment would keep the segment from being returned, to the other
 * API as well (R22, free memory; R78, pool attributes). If the segment is larger than the request
 * needs, it is returned now, and the request gets memory of its own; while the reserve lacks
 * memory, the next segment is returned too, which would be cut otherwise (R46, memory reserve). If
 * the driver has no memory even then, others have taken it: the next segment stays, since it would
 * be lost as well. */
static int regrow(struct pool *pool, struct serve *serve)
{
    uint64_t need = need_of(pool, serve);
    struct want any = serve->want;
    uint64_t given;
    int r;

    any.small = false;
    while ((given = trim_segment(pool, serve->heap, &any, need)) != 0) {
        serve_note_trim(serve, given);
        r = serve_grow(pool, serve);
        if (!serve_is_refused(r))
            return r;
        if (r != -ENOSPC)
            return NEXT;
    }
    return NEXT;
}

/* Before an OOM evictable blocks go out, but not for the sake of the reserve. */
static int evict_and_grow(struct pool *pool, struct serve *serve)
{
    int device = serve->request->device;
    int r;

    if (!serve->request->may_wait || swap_is_idle(pool))
        return NEXT;
    serve->last = true;
    r = serve_grow(pool, serve);
    if (!serve_is_refused(r) || swap_make_room(pool, device, need_of(pool, serve), NULL) == 0)
        return serve_is_refused(r) ? NEXT : r;
    serve_note_trim(serve, trim_device(pool, device, UINT64_MAX));
    return NEXT;
}

/* True if the device would lack memory even with all its pending frees. Evictable blocks do not
 * count. */
static bool is_hopeless(struct pool *pool, const struct serve *serve)
{
    uint64_t most;

    if (!swap_is_idle(pool) || !serve->request->may_wait || POOL_IS_WITHOUT(PATIENCE))
        return false;
    return headroom_most(pool, serve->heap->device, &most) == 0 && serve->request->size > most;
}

static int serve_measure(const struct pool *pool, struct serve *serve) POOL_LOCKED;

/* Takes free memory of the calling context's plain heap that cannot be returned while the context
 * has work in progress (R104, no useless waits). */
static int hit_plain(struct pool *pool, struct serve *serve)
{
    struct pool_request request = *serve->request;
    struct serve plain = {.request = &request, .ret = serve->ret, .how = serve->how};
    bool is_held_up;
    int r = NEXT;

    if (request.api != API_STREAM || serve->hinted || !request.context)
        return NEXT;
    request.api = API_SYNC;
    request.owner = request.context;
    request.stream = 0;
    request.may_call = false;
    lock_take(&pool->lock);
    plain.heap = heap_get(pool, HEAP_PLAIN, request.owner, -1);
    if (plain.heap && plain.heap->device != serve->heap->device)
        plain.heap = NULL;
    if (plain.heap)
        plain.heap->busy++;
    lock_drop(&pool->lock);
    if (!plain.heap)
        return NEXT;
    is_held_up = trim_is_held_up(pool, plain.heap);
    lock_take(&pool->lock);
    plain.heap->busy--;
    if (is_held_up && !plain.heap->dropped && serve_measure(pool, &plain) == 0) {
        plain.want.small = false;
        r = hit_locked(pool, &plain);
    }
    lock_drop(&pool->lock);
    return r;
}

/* A stream may be waiting for the host. Natively another stream is made to wait for it when the
 * device has no memory left, so memory of other heaps, or the reserve, is used first (R104). */
static int hit_stalled(struct pool *pool, struct serve *serve)
{
    int r;

    if (!stall_goes_on(pool, 0))
        return NEXT;
    r = reclaim_device_points(pool, serve->request->device);
    if (r != 0)
        return r;
    serve_note_trim(serve, trim_device(pool, serve->request->device, UINT64_MAX));
    serve->last = true;
    r = serve_grow(pool, serve);
    serve->last = false;
    if (serve_is_refused(r))
        r = hit_plain(pool, serve);
    return r == NEXT ? hit_waited(pool, serve) : r;
}

/* The last step: memory that returns only after contexts have completed their work. */
static int free_and_grow(struct pool *pool, struct serve *serve)
{
    uint64_t given;
    int r = hit_plain(pool, serve);

    if (r != NEXT || !serve->request->may_wait || serve->no_waits)
        return r;
    given = trim_busy(pool, serve->request->device, reclaim_patience_left(pool, &serve->patience));
    serve_note_trim(serve, given);
    return given ? serve_grow(pool, serve) : NEXT;
}

/* Other streams' frees, and movable storage. */
static int hit_elsewhere(struct pool *pool, struct serve *serve)
{
    int r;

    if (!serve->stream || serve->hinted || !serve->request->may_fence)
        return NEXT;
    r = hit_others(pool, serve);
    if (r == NEXT)
        r = move_and_grow(pool, serve);
    return r == NEXT && !serve->no_waits ? hit_stalled(pool, serve) : r;
}

/* Memory of the device that can be returned, made idle, moved or evicted. */
static int hit_cleaned(struct pool *pool, struct serve *serve)
{
    int r = clean_device(pool, serve);

    if (r == NEXT)
        r = move_and_grow(pool, serve);
    if (r != NEXT)
        return r;
    serve_note_trim(serve, trim_device(pool, serve->request->device, UINT64_MAX));
    return evict_and_grow(pool, serve);
}

static int serve_full(struct pool *pool, struct serve *serve, bool may_wait)
{
    int again;
    int r;

    serve->full = true;
    serve->no_waits = !may_wait;
    serve->want.on_slot = false;
    serve->want.rests = serve->heap->kind == HEAP_PLAIN;
    if (serve->request->may_fence)
        reclaim_events(pool, serve->request->device);
    r = hit_elsewhere(pool, serve);
    if (r == NEXT)
        r = wait_and_hit(pool, serve);
    if (r == NEXT && serve->request->may_wait && serve->request->may_fence) {
        let_graphs_go(pool, serve);
        r = wait_and_hit(pool, serve);
    }
    serve->want.most = 0;
    if (r == NEXT && serve->request->may_fence && !serve->hinted && serve->heap->kind == HEAP_PLAIN)
        r = regrow(pool, serve);
    if (r == NEXT)
        r = hit(pool, serve);
    if (r == NEXT)
        r = hit_other(pool, serve, true);
    if (r == NEXT && serve->request->may_fence)
        r = hit_cleaned(pool, serve);
    if (r != NEXT)
        return r;
    serve->last = true;
    r = serve_grow(pool, serve);
    if (!serve_is_refused(r) || !serve->request->may_fence)
        return r;
    again = free_and_grow(pool, serve);
    return again == NEXT ? r : again;
}

/* ── the ladders ── */

/* Growth, by a chunk if the budget allows one. If that is refused, the exact size may still be
 * available without a wait or a return of memory (R31). */
static int grow_by_chunk(struct pool *pool, struct serve *serve)
{
    bool is_plain = serve->heap->kind == HEAP_PLAIN;
    uint64_t need = is_plain ? need_of(pool, serve) : 0;
    int r = serve_grow(pool, serve);

    if (!is_plain || !serve_is_refused(r))
        return r;
    serve->full = true; /* no chunk is requested any more */
    return need_of(pool, serve) < need ? serve_grow(pool, serve) : r;
}

/* Uses the reserve before the host waits for anything: the driver would have served the request
 * (R73, R104). */
static int grow_or_full(struct pool *pool, struct serve *serve)
{
    int r = grow_by_chunk(pool, serve);
    bool may_wait;
    int again;

    if (!serve_is_refused(r))
        return r;
    may_wait = !is_hopeless(pool, serve);
    again = serve_full(pool, serve, may_wait && r != -ENOSPC);
    if (may_wait && r == -ENOSPC && serve_is_refused(again)) {
        serve->last = false;
        again = serve_full(pool, serve, true);
    }
    if (serve_is_refused(again)
            && serve->patience.missed) { /* another thread may end its context */
        serve->last = false;
        serve->patience.for_ends = true;
        again = serve_full(pool, serve, may_wait);
    }
    /* The first attempt's error is the answer, not a later one's. */
    return again > 0 && r > 0 ? r : again;
}

/* Above the budget: wait for pending frees before holding more (R74, peak against run-ahead). Work
 * that has outlasted one wait (a kernel that never ends) is not waited for again before something
 * has passed: the driver can still serve (R6, bounded waits). */
static int wait_in_budget(struct pool *pool, struct serve *serve)
{
    int r = NEXT;

    while (r == NEXT && excess(pool, serve, true) > 0
            && !reclaim_is_stalled(pool, serve->request->device)) {
        if (!serve->request->may_wait || !serve->request->may_fence)
            return NEXT;
        r = reclaim_wait_for_most(pool, serve->request->device, &serve->patience);
        if (r != 0)
            return r > 0 ? r : NEXT;
        serve_note_wait(serve);
        r = hit(pool, serve);
    }
    return r;
}

/* The request's own free slots stay, since they move, when memory of others is returned. */
static uint64_t trim_others(struct pool *pool, const struct serve *serve, uint64_t bytes)
{
    if (serve->hinted || serve->heap->kind == HEAP_PLAIN)
        return trim_device(pool, serve->request->device, bytes);
    return trim_for(pool, serve->heap, bytes);
}

static int trim_to_budget(struct pool *pool, struct serve *serve)
{
    uint64_t over = excess(pool, serve, true);
    int r;

    if (!over || !serve->request->may_fence)
        return NEXT;
    r = reclaim_device_points(pool, serve->request->device);
    if (r > 0)
        return r;
    if (pool->opts.trim != POOL_TRIM_NEVER)
        serve_note_trim(serve, trim_others(pool, serve, over));
    return excess(pool, serve, true) ? hit_other(pool, serve, false) : NEXT;
}

/* Is the request better placed once the pending frees have passed? On mapped memory a block in the
 * second best place leaves parts of slots unused for as long as it lives, which nothing can move.
 * Not if a free block has just its size, nor if it is small, nor while nearly all that is held is
 * needed, or within a budget of the user's (DESIGN.md). */
static bool wants_places(const struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    const struct heap *heap = serve->heap;
    const struct device *device = heap->device;
    uint64_t needed = device->stored_high + device->stored_high / HELD_PART;

    return heap->kind == HEAP_PRIVATE && device->epochs.bytes > 0
            && heap->tally.pending > device->open.bytes && !device->epochs.stalled
            && serve->want.size >= FIT_JOINED_MIN
            && device->reserved > (pool->opts.budget ? pool->opts.budget : needed)
            && !fit_is_exact(pool, serve->heap, &serve->want);
}

/* Waits for the places of pending frees. Not while a stream may wait for the host: natively an
 * allocation would not wait for it. */
static int hit_in_places(struct pool *pool, struct serve *serve)
{
    bool wants;
    int r;

    lock_take(&pool->lock);
    wants = !serve->hinted && wants_places(pool, serve);
    lock_drop(&pool->lock);
    if (!wants || !serve->request->may_wait || stall_goes_on(pool, 0))
        return NEXT;
    r = reclaim_wait_closed(pool, serve->request->device, &serve->patience);
    if (r != 0)
        return r > 0 ? r : NEXT;
    serve_note_wait(serve);
    return hit(pool, serve);
}

static int serve_sync(struct pool *pool, struct serve *serve)
{
    int r = NEXT;

    if (serve->request->may_fence)
        r = hit_in_places(pool, serve);
    if (r == NEXT && serve->request->may_fence) {
        r = reclaim_poll(pool, serve->request->device, true);
        if (r > 0)
            return r;
        r = hit(pool, serve);
    }
    if (r == NEXT)
        r = wait_in_budget(pool, serve);
    if (r == NEXT)
        r = trim_to_budget(pool, serve);
    if (r == NEXT)
        r = grow_or_full(pool, serve);
    return r;
}

/* Queries points of other streams, so that their blocks become available; of the own stream only if
 * its blocks are to be moved, or merged with those. */
static int poll_streams(struct pool *pool, struct serve *serve)
{
    uint32_t but = serve->stream;
    struct heap *heap = serve->heap;
    bool others;
    int r;

    lock_take(&pool->lock);
    if (pool->opts.remap == POOL_REMAP_EAGER || heap_look_is_due(heap)
            || (pace_is_ready(pool, heap) && heap->attrs.reuse_opportunistic))
        but = 0;
    others = (heap->attrs.reuse_opportunistic || !but) && heap->stream_count > 0;
    lock_drop(&pool->lock);
    r = reclaim_poll(pool, serve->request->device, true);
    if (r == 0 && others)
        r = reclaim_points(pool, heap, but);
    return r;
}

/* Above the budget: other streams' memory, then unused memory of other heaps. */
static int stay_in_budget(struct pool *pool, struct serve *serve)
{
    uint64_t over;
    int r;

    if (excess(pool, serve, false) == 0)
        return would_move(pool, serve) ? hit_unwaited(pool, serve) : NEXT;
    r = hit_others(pool, serve);
    if (r != NEXT)
        return r;
    over = excess(pool, serve, true);
    if (over)
        serve_note_trim(serve, trim_for(pool, serve->heap, over));
    return NEXT;
}

static int serve_stream(struct pool *pool, struct serve *serve)
{
    int r = hit_told(pool, serve, true);

    if (r == NEXT && serve->request->may_fence) {
        r = poll_streams(pool, serve);
        if (r > 0)
            return r;
        r = hit(pool, serve);
    }
    if (r == NEXT)
        r = hit_run(pool, serve);
    if (r == NEXT)
        r = hit_told(pool, serve, false);
    if (r == NEXT && serve->request->may_fence)
        r = stay_in_budget(pool, serve);
    return r == NEXT ? grow_or_full(pool, serve) : r;
}

/* ── one request ── */

/* Aligned as the driver's own memory. In an arena that would leave the last slot of each large
 * block half empty (13.144 GiB live in the demo would need 15.090), so there only blocks with slots
 * of their own are. */
static bool starts_on_granule(const struct pool *pool, const struct serve *serve)
{
    if (serve->request->size < pool->opts.large || serve->heap->kind == HEAP_MAPPED)
        return false;
    return serve->heap->kind == HEAP_PLAIN || serve->hinted || pool->opts.export_safe;
}

/* The largest block of a plain heap that is cut for a request. While more is free than the budget
 * allows, cut segments are what may lead above it, so then a block is at most the granules that the
 * driver would give the request. */
static uint64_t most_cut(const struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    const struct device *device = serve->heap->device;
    uint64_t high = max_of(device->stored_high, device->stored + serve->want.size);
    uint64_t spare = excess_of(commit_budget(pool, serve), high);

    if (excess_of(device->reserved, device->stored) > spare)
        return round_up(serve->want.size, GRANULE_SIZE);
    return serve->want.size * pool->opts.cut;
}

/* True for whole slots whose storage can move. */
static bool is_of_slots(const struct pool *pool, const struct serve *serve) POOL_LOCKED
{
    uint64_t slot = grow_unit(serve->heap);

    return serve->heap->kind != HEAP_PLAIN && !serve->hinted && pool->opts.remap != POOL_REMAP_NEVER
            && (serve->want.size & (slot - 1)) == 0;
}

/* Rounds size and alignment of the request (R15). */
static int serve_measure(const struct pool *pool, struct serve *serve) POOL_LOCKED
{
    const struct pool_opts *opts = &pool->opts;
    uint64_t size = serve->request->size;
    uint64_t unit = serve->hinted ? grow_unit(serve->heap) : opts->quantum;
    bool alone;

    if (size > UINT64_MAX / 4)
        return -EOVERFLOW;
    serve->shares = serve->hinted && serve->request->plan->shares
            && round_up(size, alias_part(unit)) < unit;
    serve->want.size = round_up(size, serve->shares ? alias_part(unit) : unit);
    if (serve->want.size - size > UINT32_MAX)
        return -EOVERFLOW;
    serve->want.align = starts_on_granule(pool, serve) ? GRANULE_SIZE : opts->quantum;
    serve->want.stream = serve->stream;
    serve->want.small =
            serve->heap->kind == HEAP_PLAIN && !serve->hinted && serve->want.size <= opts->small;
    serve->want.most = 0;
    serve->want.on_slot = is_of_slots(pool, serve);
    serve->want.rests = serve->heap->kind == HEAP_PLAIN && !serve->request->may_call;
    alone = opts->export_safe && serve->heap->kind != HEAP_MAPPED && !serve->hinted
            && size >= opts->large;
    serve->want.whole = alone && serve->heap->kind == HEAP_PLAIN;
    if (alone)
        serve->want.size = round_up(size, GRANULE_SIZE);
    else if (serve->heap->kind == HEAP_PLAIN && !serve->want.small && serve->request->may_call)
        serve->want.most = most_cut(pool, serve);
    return 0;
}

/* Notes that a request of the stream needs a fit. */
static void note_asked(struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED
{
    struct heap_stream *class = heap_class(heap, stream);

    if (!class)
        return;
    class->asked = heap->allocs;
    stream_take_judge(pool, class);
}

static int serve_begin(struct pool *pool, struct serve *serve, enum heap_kind kind) POOL_LOCKED
{
    const struct pool_request *request = serve->request;

    serve->heap = heap_get(pool, kind, request->owner, request->device);
    if (!serve->heap)
        return -ENOMEM;
    if (serve->heap->device->number != request->device)
        return -EINVAL; /* a key belongs to one device */
    serve->stream = kind == HEAP_MAPPED ? streams_get(pool, request->stream) : 0;
    note_asked(pool, serve->heap, serve->stream);
    serve->reserved_before = serve->heap->device->reserved;
    serve->contexts_gone = pool->contexts_gone;
    return serve_measure(pool, serve);
}

uint32_t serve_fit(struct pool *pool, struct heap *heap, uint64_t size)
{
    const struct pool_request request = {.size = size, .may_call = true};
    struct serve serve = {.request = &request, .heap = heap};

    if (serve_measure(pool, &serve) != 0 || slab_prepare(&pool->blocks, 3) != 0
            || wants_places(pool, &serve))
        return 0;
    return fit_fit(pool, heap, &serve.want);
}

/* The heap is held while a request is in the ladder, so that it is not freed meanwhile. */
static int climb(struct pool *pool, struct serve *serve, bool streams)
{
    int r;

    if (serve->request->may_call) {
        pace_look(pool, grow_unit(serve->heap));
        r = streams ? serve_stream(pool, serve) : serve_sync(pool, serve);
    } else {
        r = -EAGAIN;
    }
    lock_take(&pool->lock);
    serve->heap->busy--;
    if (r == DRIVER_OUT_OF_MEMORY)
        pool->counters.ooms++;
    lock_drop(&pool->lock);
    if (r == -ECANCELED)
        return -EAGAIN;
    /* Less than a granule may still fit into a page that the driver has opened. */
    if (r == DRIVER_OUT_OF_MEMORY && !streams && !serve->hinted && !pool->opts.cap
            && serve->want.size < GRANULE_SIZE)
        return -ENOSPC;
    return r;
}

/* Serves an evictable block. */
static int serve_evicted(struct pool *pool, struct serve *serve)
{
    const struct pool_request *request = serve->request;
    const struct rule *rule;
    int r;

    if (!request->may_call)
        return -EAGAIN;
    lock_take(&pool->lock);
    rule = hint_rule(pool->hints, request->plan->rule);
    lock_drop(&pool->lock);
    if (rule->evict.backing == RULE_BACKING_MANAGED && grow_managed(pool, serve) == 0)
        return 0;
    r = grow_bare(pool, serve);
    if (r == 0)
        swap_reserve_host(pool, serve->set, serve->want.size);
    return r;
}

static int serve_hinted(struct pool *pool, const struct pool_request *request, struct outcome *ret)
{
    enum heap_kind kind = request->api == API_STREAM ? HEAP_MAPPED : HEAP_PRIVATE;
    struct serve serve = {.request = request, .hinted = true, .ret = ret};
    bool prepared;
    int r;

    lock_take(&pool->lock);
    r = serve_begin(pool, &serve, kind);
    prepared = r == 0 && (serve.heap->hint || serve.heap->no_hints);
    if (r == 0)
        serve.heap->busy++;
    lock_drop(&pool->lock);
    if (r != 0)
        return r;
    /* The granularity decides how the size is rounded, so it is queried first. */
    if (!prepared && request->may_call) {
        (void)grow_prepare(pool, serve.heap, true);
        lock_take(&pool->lock);
        r = serve_measure(pool, &serve);
        lock_drop(&pool->lock);
    }
    if (r == 0 && request->plan->action == ACTION_EVICT && !serve.shares) {
        r = serve_evicted(pool, &serve);
        heap_let_go(pool, serve.heap);
        return r;
    }
    if (r == 0) {
        serve.how = OUTCOME_HIT;
        r = hit(pool, &serve);
        serve.how &= ~(uint32_t)OUTCOME_HIT;
    }
    if (r == NEXT)
        return climb(pool, &serve, false);
    heap_let_go(pool, serve.heap);
    return r;
}

/* Closes an epoch that is due first: its blocks may be just what the request needs once it has
 * passed. An error of the device shows at the next miss. */
static void close_due(struct pool *pool, const struct pool_request *request)
{
    bool is_due;

    if (!request->may_call || !request->may_fence)
        return;
    lock_take(&pool->lock);
    is_due = reclaim_is_due(pool, &pool->devices[request->device]);
    lock_drop(&pool->lock);
    if (is_due)
        (void)reclaim_poll(pool, request->device, true);
}

/* Serves from a heap of this kind, and the sync API from its suitable heap. *io_kind: the kind
 * used. */
static int serve_from(struct pool *pool, const struct pool_request *request, struct outcome *ret,
        enum heap_kind *io_kind)
{
    bool streams = request->api == API_STREAM;
    struct serve serve = {.request = request, .ret = ret, .how = OUTCOME_HIT};
    bool may_ask = request->may_call && request->may_fence;
    bool looks;
    int r;

    close_due(pool, request);
    lock_take(&pool->lock);
    if (!streams && *io_kind != HEAP_PLAIN)
        *io_kind = heap_sync_kind(pool, request->owner);
    r = serve_begin(pool, &serve, *io_kind);
    if (r == 0) {
        looks = may_ask
                && (streams ? heap_look_is_due(serve.heap)
                            : request->may_wait && wants_places(pool, &serve));
        r = looks ? NEXT : hit_locked(pool, &serve);
        if (r == NEXT)
            serve.heap->busy++;
    }
    lock_drop(&pool->lock);
    if (r != NEXT)
        return r;
    serve.how = 0;
    return climb(pool, &serve, streams);
}

int serve_request(struct pool *pool, const struct pool_request *request, struct outcome *ret)
{
    enum heap_kind kind = request->api == API_STREAM ? HEAP_MAPPED : HEAP_PRIVATE;
    int r;

    /* A block that cannot be placed as its hint asks is served as if the hint were in shadow. */
    if (request->plan && hint_acts(request->plan) && serve_hinted(pool, request, ret) == 0)
        return 0;
    r = serve_from(pool, request, ret, &kind);
    if (r != -ENOTSUP || kind != HEAP_PRIVATE)
        return r;
    kind = HEAP_PLAIN; /* there was no address range for a mapped heap */
    return serve_from(pool, request, ret, &kind);
}

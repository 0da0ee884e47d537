/* SPDX-License-Identifier: MIT */
#include "alloc/storage/commit.h"

#include "alloc/heap/block.h"
#include "alloc/heap/expect.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/holder.h"
#include "alloc/heap/pin.h"
#include "alloc/heap/tally.h"
#include "alloc/storage/fit.h"

/* Memory may be held above the high mark of live memory by this fraction. Programs of even sizes
 * hold up to it on a plain heap, which cannot move cut storage: with a 30th 24 of 228 runs of
 * variants hold 0.005 more than both native allocations and PyTorch's model, with a 128th 6; with a
 * 160th one variant comes from 1.044 to 1.046 times native allocations (DESIGN.md). Chunks need
 * more room than that. */
#define SPARE_PLAIN  128
#define SPARE_CHUNKS 30
#define SPARE_MAPPED 20
/* At most this much on mapped memory: of 20 GiB and more a 20th is more than a wait is worth. */
#define SPARE_MOST (UINT64_C(1) << 30)
/* An additional allowance before storage moves: free parts of slots need some space, whatever the
 * size of a large program (DESIGN.md). Below 512 MiB there are fewer of them: a part of the size is
 * enough, and a small program (heap.h) needs none. The sync API gets at least a slot, and waits for
 * its pending frees above the same allowance, since natively each of its frees waits for the
 * device. */
#define SPARE_SLOTS (8 * GRANULE_SIZE)
#define SPARE_PART  32

/* The high mark of live memory if this request is served. */
static uint64_t commit_high_of(const struct serve *serve)
{
    const struct device *device = serve->heap->device;

    return max_of(device->stored_high, device->stored + serve->want.size);
}

static uint64_t spare_for_slots(const struct heap *heap, uint64_t high)
{
    uint64_t least = heap->kind == HEAP_MAPPED ? 0 : GRANULE_SIZE;

    return min_of(SPARE_SLOTS, max_of(high / SPARE_PART, least));
}

/* The fraction for a heap of this kind. */
static uint64_t spare_part(const struct pool *pool, enum heap_kind kind)
{
    if (kind != HEAP_PLAIN)
        return SPARE_MAPPED;
    return pool->opts.chunk ? SPARE_CHUNKS : SPARE_PLAIN;
}

uint64_t commit_budget(const struct pool *pool, const struct serve *serve)
{
    uint64_t high = commit_high_of(serve);
    uint64_t spare = high / spare_part(pool, serve->heap->kind);
    uint64_t budget = pool->opts.budget;

    if (serve->heap->kind == HEAP_PRIVATE && !serve->hinted)
        spare = min_of(spare, spare_for_slots(serve->heap, high));
    if (serve->heap->kind == HEAP_MAPPED)
        spare = heap_is_below(serve->heap, HEAP_SMALL) ? 0 : min_of(spare, SPARE_MOST);
    if (!budget)
        budget = high + spare + GRANULE_SIZE;
    return pool->opts.cap ? min_of(budget, pool->opts.cap) : budget;
}

uint64_t commit_move_budget(const struct pool *pool, const struct serve *serve)
{
    uint64_t budget = commit_budget(pool, serve);
    uint64_t high = commit_high_of(serve);

    if (pool->opts.budget || pool->pace.now == POOL_PACE_SPARING)
        return budget;
    if (heap_is_below(serve->heap, HEAP_SMALL))
        return min_of(budget, round_up(high, GRANULE_SIZE));
    return min_of(budget, high + spare_for_slots(serve->heap, high) + GRANULE_SIZE);
}

/* The mode of the plan for this block: shadow if the block got no handle of its own. */
static enum hint_mode commit_mode_of(const struct serve *serve)
{
    const struct plan *plan = serve->request->plan;

    if (!plan || plan->rule < 0 || plan->small
            || (!action_releases(plan->action) && plan->action != ACTION_HOLD
                    && plan->action != ACTION_EVICT))
        return HINT_OFF;
    if (plan->mode == HINT_SHADOW || (hint_acts(plan) && !serve->hinted))
        return HINT_SHADOW;
    return plan->mode;
}

/* Binds the block to its eviction record. In shadow, and without a record, the block is an ordinary
 * one. */
static void may_go_out(struct pool *pool, const struct serve *serve, uint32_t number) POOL_LOCKED
{
    struct block *block = block_at(pool, number);
    uint32_t swap = serve->swap;

    if (!swap) {
        struct swap_set *set = swapset_get(pool, serve->request->plan->rule,
                serve->heap->device->number, true, serve->heap->device->total);

        swap = set ? swapset_add(pool, set, block->node.size) : 0;
    }
    if (swap) {
        swapset_bind(pool, swap, number);
    } else {
        slab_put(&pool->holders, block->holder);
        block->holder = 0;
    }
}

/* Blocks that a hint releases may be restored for a while. */
static void keep_content(struct pool *pool, const struct serve *serve, uint32_t block) POOL_LOCKED
{
    const struct plan *plan = serve->request->plan;
    struct swap_set *set;

    if (!hint_rule(pool->hints, plan->rule)->keep_content || serve->shares
            || plan->action != ACTION_RELEASE)
        return;
    set = swapset_get(pool, plan->rule, serve->heap->device->number, false, 0);
    if (set && swapset_keeps_content(set))
        swapset_add_stored(pool, set, block);
}

static void expect(struct pool *pool, const struct serve *serve, uint32_t block,
        enum hint_mode mode) POOL_LOCKED
{
    const struct plan *plan = serve->request->plan;
    struct holder *holder;
    uint32_t index;

    if (!pool->due || (size_t)plan->rule >= hint_count(pool->hints))
        return;
    /* Never reset, and set before the program can have the address: see pool_is_armed. */
    atomic_store_explicit(&pool->gate.armed, 1, memory_order_seq_cst);
    if (plan->action != ACTION_EVICT)
        expect_count(pool, plan, serve->request->size);
    index = slab_take(&pool->holders);
    if (!index)
        return; /* no hint acts on this block */
    holder = holder_at(pool, index);
    holder->hold = plan->action == ACTION_HOLD;
    if (holder->hold && mode != HINT_SHADOW && pin_add(pool, block, POOL_PIN_HELD) != 0) {
        slab_put(&pool->holders, index);
        return;
    }
    holder->block = block;
    holder->rule = plan->rule;
    hint_wait_begin(
            hint_rule(pool->hints, plan->rule), plan, &pool->due[plan->rule].passed, &holder->wait);
    holder->mode = mode;
    holder->state = HOLDER_LIVE;
    block_at(pool, block)->holder = index;
    if (plan->action == ACTION_EVICT)
        may_go_out(pool, serve, block);
    else if (!holder->hold)
        holder_expect(pool, index);
    if (mode == HINT_LIVE)
        keep_content(pool, serve, block);
}

/* Hands the block to the program. */
static inline void give_birth(struct pool *pool, struct heap *heap,
        const struct pool_request *request, struct block *block, uint32_t stream) POOL_LOCKED
{
    uint16_t last = block->stream ? (uint16_t)block->stream : block->last;

    block->state = BLOCK_LIVE;
    block->flags = request->api == API_STREAM ? BLOCK_STREAMED : 0;
    block->last = 0;
    block->holder = 0;
    block->slack = (uint32_t)(block->node.size - request->size);
    block->seq = records_next_seq(pool);
    block_name_stream(pool, block, stream);
    heap->allocs++;
    if (last && last != (uint16_t)stream)
        pool->counters.cross_reuses++;
}

void commit_block(struct pool *pool, struct serve *serve, uint32_t index)
{
    const struct pool_request *request = serve->request;
    const struct plan *plan = request->plan;
    struct block *block = block_at(pool, index);
    struct heap *heap = serve->heap;
    enum hint_mode mode = commit_mode_of(serve);

    give_birth(pool, heap, request, block, serve->stream);
    if (serve->hinted) {
        block->flags |= serve->shares ? BLOCK_HINTED | BLOCK_SHARED : BLOCK_HINTED;
        serve->how |= OUTCOME_HINTED;
    }
    if (mode != HINT_OFF)
        expect(pool, serve, index, mode);
    if (plan && plan->action == ACTION_PIN)
        (void)pin_add(pool, index, POOL_PIN_HINT); /* on failure no hint takes the block either */
    tally_birth(pool, heap, block, request->size, holder_is_stored(pool, block));
    if (!(serve->how & OUTCOME_HIT))
        heap->misses++;
    if (plan && plan->rule >= 0 && plan->small) {
        serve->how |= OUTCOME_SMALL;
        pool->counters.small_count++;
        pool->counters.small_bytes += request->size;
    }
    *serve->ret = block_outcome(pool, block, OUTCOME_ALLOC, block->seq);
    serve->ret->stream = request->stream;
    serve->ret->reserved_delta = (int64_t)(heap->device->reserved - serve->reserved_before);
    serve->ret->rule = plan ? plan->rule : -1;
    serve->ret->how = serve->how;
    serve->ret->mode = block->holder ? mode : HINT_OFF;
}

void commit_piece(struct pool *pool, struct serve *serve, uint32_t index)
{
    uint64_t skip = fit_skip(pool, block_at(pool, index), &serve->want);

    commit_block(pool, serve, freelist_carve(pool, index, skip, serve->want.size));
}

/* SPDX-License-Identifier: MIT */
#include "alloc/swap/swapcall.h"

#include "alloc/base/meta.h"
#include "alloc/base/mutation.h"
#include "alloc/heap/block.h"
#include "alloc/heap/swapset.h"
#include "alloc/swap/swapqueue.h"

#include <errno.h>
#include <string.h>

static struct pool_named *swapcall_named_of(struct pool_call *call)
{
    return call->more ? call->more : call->few;
}

static const struct pool_named *named_in(const struct pool_call *call)
{
    return call->more ? call->more : call->few;
}

static bool is_there(const struct pool *pool, const struct pool_named *named)
{
    const struct swap *swap = swap_at(pool, named->swap);

    return swap->block && swap->seq == named->seq && !swap->is_freed;
}

static int add_named(struct pool_call *call, const struct pool_named *named)
{
    struct pool_named *list = swapcall_named_of(call);
    uint32_t room = call->more ? call->room : POOL_NAMED_MAX;

    for (uint32_t i = call->count; i-- > 0 && call->count - i <= POOL_NAMED_MAX;) {
        if (list[i].swap == named->swap && list[i].seq == named->seq) {
            list[i].is_written |= named->is_written;
            return 0;
        }
    }
    if (call->count == room) {
        uint32_t had = call->room;

        if (!meta_grow(&call->more, &call->room, (uint64_t)room + 1, sizeof(*named)))
            return -ENOMEM;
        if (!had)
            memcpy(call->more, call->few, sizeof(call->few));
        list = call->more;
    }
    list[call->count++] = *named;
    return 0;
}

static int name_block(struct pool *pool, const struct block *block, bool is_written,
        struct pool_call *call) POOL_LOCKED
{
    uint32_t index = block->holder ? holder_at(pool, block->holder)->swap : 0;

    if (block->state != BLOCK_LIVE || !index)
        return 0;
    return add_named(call,
            &(struct pool_named){.seq = block->seq,
                    .swap = index,
                    .set = swap_at(pool, index)->set,
                    .is_written = is_written});
}

/* For a call whose buffers are unknown. */
static int name_all(struct pool *pool, struct pool_call *call) POOL_LOCKED
{
    int r = 0;

    for (uint32_t i = 1; i < pool->swaps.top && r == 0; i++)
        if (swap_at(pool, i)->block)
            r = name_block(pool, block_at(pool, swap_at(pool, i)->block), false, call);
    return r;
}

int swapcall_name(
        struct pool *pool, devptr_t lo, uint64_t len, bool is_written, struct pool_call *call)
{
    devptr_t at = lo;
    int r = 0;

    if (len == UINT64_MAX)
        return name_all(pool, call);
    while (at - lo < len && r == 0) {
        uint32_t index = block_find(pool, at);
        const struct block *block = block_at(pool, index);

        if (!index) {
            at = (at | (GRANULE_SIZE - 1)) + 1; /* a segment fills its granules */
            continue;
        }
        if (at - block->node.base < block->node.size - block->slack)
            r = name_block(pool, block, is_written, call);
        at = block->node.base + block->node.size;
    }
    return r;
}

/* Lists the units of a set that the call names; returns their number. UINT32_MAX: no memory. */
static uint32_t list_units(
        const struct pool *pool, struct swap_set *set, const struct pool_call *call)
{
    const struct pool_named *named = named_in(call);
    uint32_t count = 0;

    if (!meta_grow(&set->units, &set->units_room, call->count, sizeof(uint32_t)))
        return UINT32_MAX;
    for (uint32_t i = 0; i < call->count; i++) {
        const struct swap *swap = swap_at(pool, named[i].swap);

        if (is_there(pool, &named[i]) && swap->set == set && !named[i].is_held)
            set->units[count++] = swap->unit;
    }
    return count;
}

/* Evicts all other units. */
static bool swapcall_send_others_out(
        struct pool *pool, struct swap_set *set, uint32_t count) POOL_LOCKED
{
    struct evict_moves moves;

    for (uint32_t i = 0; i < count; i++)
        evict_hold(set->evict, set->units[i]);
    (void)evict_make_room(set->evict, UINT64_MAX, &moves);
    for (uint32_t i = 0; i < count; i++)
        evict_let_go(set->evict, set->units[i]);
    return swapqueue_push(pool, set, &moves);
}

static int decide_in(struct pool *pool, struct swap_set *set, uint32_t count,
        struct pool_short *ret_short) POOL_LOCKED
{
    struct evict_moves moves;
    int r;

    swapset_see_others(pool, set);
    if (hint_learnt(pool->hints, set->number) >= HINT_LEARNT_STOPPED && set->cap != UINT64_MAX)
        swapset_put_cap(set, UINT64_MAX);
    if (set->is_alone && !swapcall_send_others_out(pool, set, count))
        return -ENOMEM;
    r = evict_use(set->evict, set->units, count, &moves);
    if (r == -ENOSPC && swapset_let_unused_go(pool, set))
        r = evict_use(set->evict, set->units, count, &moves);
    if (r == -ENOSPC)
        *ret_short = (struct pool_short){.needed = moves.needed,
                .room = moves.room,
                .cap = set->cap,
                .rule = set->number,
                .device = set->device->number,
                .is_waiting = set->calls > 0};
    if (r != 0)
        return r;
    return swapqueue_push(pool, set, &moves) ? 0 : -ENOMEM;
}

static void hold_named(struct pool *pool, struct swap_set *set, struct pool_call *call) POOL_LOCKED
{
    struct pool_named *named = swapcall_named_of(call);

    for (uint32_t i = 0; i < call->count; i++) {
        struct swap *swap = swap_at(pool, named[i].swap);

        if (!is_there(pool, &named[i]) || swap->set != set || named[i].is_held)
            continue;
        if (!POOL_IS_WITHOUT(STAY))
            evict_hold(set->evict, swap->unit);
        swapset_let_go(swap);
        swap->used_in = set->now.step;
        set->calls++;
        named[i].is_held = true;
        /* where no other block stays in, the call waits until all of them are out */
        named[i].move = set->is_alone ? set->queued : swap->moves;
    }
}

int swapcall_decide(struct pool *pool, struct pool_call *call, struct pool_short *ret_short)
{
    int r = 0;

    for (struct swap_set *set = pool->swap_sets; set && r == 0; set = set->next) {
        uint32_t count = list_units(pool, set, call);

        if (count == 0)
            continue;
        r = count == UINT32_MAX ? -ENOMEM : decide_in(pool, set, count, ret_short);
        if (set->is_paper)
            r = 0; /* natively there is no cap */
        if (r == 0)
            hold_named(pool, set, call);
    }
    if (r != 0)
        swapcall_end(pool, call);
    swapqueue_tell_ahead(pool);
    return r;
}

int swapcall_ready(const struct pool *pool, const struct pool_call *call)
{
    const struct pool_named *named = named_in(call);

    for (uint32_t i = 0; i < call->count; i++) {
        const struct swap *swap = swap_at(pool, named[i].swap);

        if (!is_there(pool, &named[i]))
            continue;
        if (!named[i].is_held)
            return -ESTALE;
        if (swap->set->is_paper)
            continue;
        if (swap->set->done < named[i].move)
            return -EAGAIN;
        if (swap->state != SWAP_IN)
            return -ESTALE;
    }
    return 0;
}

void swapcall_late(struct pool *pool, struct pool_call *call)
{
    const struct pool_named *named = named_in(call);
    struct swap_set *last = NULL;

    for (uint32_t i = 0; i < call->count && !call->is_late; i++) {
        struct swap *swap = swap_at(pool, named[i].swap);

        if (!is_there(pool, &named[i]) || swap->set->is_paper || swap->set->done >= named[i].move
                || !swap->has_content)
            continue;
        if (!swap->set->is_alone) /* such a set brings nothing in ahead of a call */
            evict_late(swap->set->evict, swap->unit);
        swap->set->now.late += swap->set != last;
        last = swap->set;
    }
    call->is_late = true;
}

/* An unknown stream makes the block wait for all streams. */
static void swapcall_add_stream(struct swap *swap, uint64_t stream)
{
    for (uint32_t i = 0; i < swap->stream_count && i < SWAP_STREAMS; i++)
        if (swap->stream[i] == stream)
            return;
    if (stream && swap->stream_count < SWAP_STREAMS)
        swap->stream[swap->stream_count++] = stream;
    else
        swap->stream_count = SWAP_STREAMS + 1;
}

bool swapcall_has_stream(const struct swap *swap, uint64_t stream)
{
    for (uint32_t i = 0; i < swap->stream_count && i < SWAP_STREAMS; i++)
        if (swap->stream[i] == stream)
            return true;
    return false;
}

void swapcall_use(struct pool *pool, const struct pool_call *call)
{
    const struct pool_named *named = named_in(call);

    for (uint32_t i = 0; i < call->count; i++) {
        struct swap *swap = swap_at(pool, named[i].swap);

        if (!is_there(pool, &named[i]))
            continue;
        if (!swap->set->is_paper)
            swapcall_add_stream(swap, call->stream);
        swap->has_content = true;
        if (!named[i].is_written && swap->set->rule->evict.clean)
            continue;
        swap->is_saved = false;
        if (!swap->set->is_paper)
            swapset_leave_room(swap);
    }
}

void swapcall_end(struct pool *pool, struct pool_call *call)
{
    struct pool_named *named = swapcall_named_of(call);

    for (uint32_t i = 0; i < call->count; i++) {
        struct swap *swap = swap_at(pool, named[i].swap);

        if (!named[i].is_held)
            continue;
        named[i].is_held = false;
        named[i].set->calls--;
        if (is_there(pool, &named[i]) && !POOL_IS_WITHOUT(STAY))
            evict_let_go(swap->set->evict, swap->unit);
    }
}

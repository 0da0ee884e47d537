/* SPDX-License-Identifier: MIT */
#include "alloc/swap/swapqueue.h"

#include "alloc/base/meta.h"

enum {
    QUEUE_FIRST = 16,
};

/* Makes space in the ring for `more` moves. */
static bool grow_queue(struct swap_set *set, uint64_t more)
{
    uint64_t room = set->queue_room ? set->queue_room : QUEUE_FIRST;
    struct swap_move *queue;

    if (swapset_pending(set) + more < set->queue_room)
        return true;
    while (room <= swapset_pending(set) + more)
        room *= 2;
    queue = room > UINT32_MAX / 2 ? NULL : meta_get(room * sizeof(*queue));
    if (!queue)
        return false;
    for (uint64_t i = set->done + 1; i <= set->queued; i++)
        queue[i & (room - 1)] = *swapset_move(set, i);
    meta_put(set->queue, set->queue_room * sizeof(*queue));
    set->queue = queue;
    set->queue_room = (uint32_t)room;
    return true;
}

/* In shadow: counts the move as done. */
static void move_on_paper(struct swap *swap, bool in)
{
    struct pool_evict_step *now = &swap->set->now;

    if (!swap->has_content)
        return;
    if (in) {
        now->moved_in += swap->size;
        now->count_in++;
        swap->is_saved = !swap->is_managed;
    } else if (swap->is_saved) {
        now->dropped += swap->size;
    } else {
        now->moved_out += swap->size;
        now->count_out++;
    }
}

static void push_move(struct pool *pool, struct swap_set *set, uint32_t unit, bool in)
{
    uint32_t index = set->swap_of[unit];
    struct swap *swap = swap_at(pool, index);

    set->in_bytes += in ? swap->size : -swap->size;
    if (set->in_bytes > set->now.in_bytes_high)
        set->now.in_bytes_high = set->in_bytes;
    if (set->is_paper) {
        move_on_paper(swap, in);
        return;
    }
    swap->moves = ++set->queued;
    *swapset_move(set, set->queued) = (struct swap_move){.swap = index, .in = in};
}

bool swapqueue_push(struct pool *pool, struct swap_set *set, const struct evict_moves *moves)
{
    uint32_t count = moves->count + moves->ahead;

    if (!set->is_paper && !grow_queue(set, count)) {
        for (uint32_t i = count; i-- > 0;)
            evict_undo(set->evict, moves->move[i].unit);
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        push_move(pool, set, moves->move[i].unit, moves->move[i].in);
    return true;
}

void swapqueue_tell_ahead(struct pool *pool)
{
    uint32_t waits = 0;

    for (const struct swap_set *set = pool->swap_sets; set; set = set->next)
        waits += swapset_pending(set) > 0;
    atomic_store_explicit(&pool->gate.ahead, waits, memory_order_relaxed);
}

void swapqueue_reset(struct pool *pool, struct swap_set *set)
{
    for (uint64_t i = set->queued; i > set->done; i--) {
        const struct swap_move *move = swapset_move(set, i);
        struct swap *swap = swap_at(pool, move->swap);

        if (!move->swap)
            continue;
        if (!move->in && swap->state == SWAP_LEAVING && !swap->is_busy)
            swap->state = SWAP_IN; /* its copy is not needed */
        evict_undo(set->evict, swap->unit);
        set->in_bytes += move->in ? -swap->size : swap->size;
    }
    set->done = set->started = set->queued;
}

uint64_t swapqueue_make_room(struct pool *pool, struct swap_set *set, uint64_t want)
{
    struct evict_moves moves;
    uint64_t bytes = evict_make_room(set->evict, want, &moves);

    return swapqueue_push(pool, set, &moves) ? bytes : 0;
}

void swapqueue_send(struct pool *pool, struct swap *swap)
{
    swapset_is_due(swap);
    (void)swapqueue_make_room(pool, swap->set, UINT64_MAX); /* all others are held */
    swapqueue_tell_ahead(pool);
}

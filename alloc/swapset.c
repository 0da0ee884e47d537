/* SPDX-License-Identifier: MIT */
#include "alloc/swapset.h"

#include "alloc/block.h"
#include "alloc/meta.h"
#include "alloc/mutation.h"
#include "alloc/news.h"

#include <errno.h>
#include <string.h>

enum {
    ROOM_FIRST = 16,
    BOUND_USES = 8192, /* a longer order has its bound worked out once only, under the lock */
};

/* ---- memory that grows ---- */

/* An array of so many records at least. False: no memory, and it is as it was. */
static bool grow_array(void *io_array, uint32_t *io_room, uint64_t count, size_t record)
{
    void **array = io_array;
    uint32_t room = *io_room ? *io_room : ROOM_FIRST;
    void *at;

    if (count <= *io_room)
        return true;
    while (room < count && room <= UINT32_MAX / 2)
        room *= 2;
    at = room < count ? NULL : meta_get(room * record);
    if (!at)
        return false;
    if (*io_room)
        memcpy(at, *array, *io_room * record);
    meta_put(*array, *io_room * record);
    *array = at;
    *io_room = room;
    return true;
}

static uint64_t pending(const struct swap_set *set)
{
    return set->queued - set->done;
}

struct swap_move *swapset_move(const struct swap_set *set, uint64_t number)
{
    return &set->queue[number & (set->queue_room - 1)];
}

/* Room in the ring for so many moves more. */
static bool grow_queue(struct swap_set *set, uint64_t more)
{
    uint64_t room = set->queue_room ? set->queue_room : ROOM_FIRST;
    struct swap_move *queue;

    if (pending(set) + more < set->queue_room)
        return true;
    while (room <= pending(set) + more)
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

/* ---- copies ---- */

struct swap_copy *swap_copy_use(struct swap_copy *copy)
{
    copy->users++;
    return copy;
}

void swap_copy_drop(struct pool *pool, struct swap_copy *copy)
{
    if (!copy || --copy->users > 0)
        return;
    copy->next = pool->swap_spent;
    pool->swap_spent = copy;
}

/* ---- sets ---- */

struct swap_set *swapset_find(const struct pool *pool, int rule, int device, bool is_paper)
{
    struct swap_set *set = pool->swap_sets;

    while (set
            && (set->number != rule || set->device->number != device || set->is_paper != is_paper))
        set = set->next;
    return set;
}

static uint64_t percent_of(uint64_t bytes, uint32_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

/* What the hint states, as things are now. */
static uint64_t stated_cap(const struct swap_set *set)
{
    const struct rule_evict *opts = &set->rule->evict;
    uint64_t cap = opts->cap ? opts->cap : percent_of(set->total, opts->cap_percent);

    if (opts->policy == RULE_POLICY_CUDA || (!opts->cap && !opts->cap_percent))
        return UINT64_MAX;
    return opts->less_other ? excess_of(cap, set->other_high) : cap;
}

static uint64_t warmup_of(const struct swap_set *set, uint64_t cap)
{
    uint32_t percent = set->rule->evict.warmup_percent;

    return percent && percent < 100 && cap != UINT64_MAX ? percent_of(cap, percent) : 0;
}

static void put_cap(struct swap_set *set, uint64_t cap)
{
    set->cap = cap;
    evict_set_cap(set->evict, cap, warmup_of(set, cap));
}

void swapset_limit(struct swap_set *set, uint64_t cap)
{
    if (cap < set->cap)
        put_cap(set, cap);
}

static struct swap_set *new_set(
        struct pool *pool, int rule, int device, bool is_paper, uint64_t total)
{
    struct swap_set *set = meta_get(sizeof(*set));
    struct evict_opts opts;

    if (!set)
        return NULL;
    set->rule = hint_rule(pool->hints, rule);
    set->number = rule;
    set->device = &pool->devices[device];
    set->is_paper = is_paper;
    set->is_alone = set->rule->evict.policy == RULE_POLICY_CPU
            || (set->rule->mode == HINT_TRAP && !is_paper);
    set->total = total;
    set->cap = stated_cap(set);
    opts = (struct evict_opts){.cap = set->cap,
            .warmup_cap = warmup_of(set, set->cap),
            .victim = set->rule->evict.victim,
            .prefetch = set->is_alone ? 0 : set->rule->evict.prefetch,
            .cyclic = set->rule->evict.cyclic,
            .order = set->rule->evict.order,
            .order_count = set->rule->evict.order_count};
    if (evict_new(&opts, &set->evict) != 0) {
        meta_put(set, sizeof(*set));
        return NULL;
    }
    return set;
}

struct swap_set *swapset_get(struct pool *pool, int rule, int device, bool is_paper, uint64_t total)
{
    struct swap_set *set = swapset_find(pool, rule, device, is_paper);

    if (set)
        return set;
    set = new_set(pool, rule, device, is_paper, total);
    if (!set)
        return NULL;
    set->next = pool->swap_sets;
    pool->swap_sets = set;
    return set;
}

/* ---- blocks ---- */

struct swap *swapset_of(const struct pool *pool, const struct block *block)
{
    uint32_t index = block->holder ? holder_at(pool, block->holder)->swap : 0;

    return index ? swap_at(pool, index) : NULL;
}

uint32_t swapset_add(struct pool *pool, struct swap_set *set, uint64_t size)
{
    uint32_t index = slab_take(&pool->swaps);
    struct swap *swap;
    uint32_t unit;

    if (!index)
        return 0;
    if (evict_add(set->evict, size, &unit) != 0) {
        slab_put(&pool->swaps, index);
        return 0;
    }
    if (!grow_array(&set->swap_of, &set->swap_of_room, (uint64_t)unit + 1, sizeof(uint32_t))) {
        evict_remove(set->evict, unit);
        slab_put(&pool->swaps, index);
        return 0;
    }
    set->swap_of[unit] = index;
    swap = swap_at(pool, index);
    swap->set = set;
    swap->unit = unit;
    swap->size = size;
    swap->made_in = set->now.step;
    return index;
}

void swapset_drop(struct pool *pool, uint32_t index)
{
    struct swap *swap = swap_at(pool, index);

    evict_remove(swap->set->evict, swap->unit);
    slab_put(&pool->swaps, index);
}

void swapset_bind(struct pool *pool, uint32_t index, uint32_t number)
{
    struct block *block = block_at(pool, number);
    struct swap *swap = swap_at(pool, index);

    swap->block = number;
    swap->seq = block->seq;
    swap->requested = block->node.size - block->slack;
    swap->set->bytes += swap->size;
    holder_at(pool, block->holder)->swap = index;
    granule_swap(&pool->granules, block->node.base, swap->requested, 1);
    /* The count comes after the marks, and before the program can have the address. */
    atomic_store_explicit(&pool->gate.evicts, 1, memory_order_seq_cst);
}

void swapset_put_room(struct swap_set *set, struct swap_room *room)
{
    room->next = set->rooms;
    set->rooms = room;
}

/* The host memory is another block's from here on, once the copy is over: the block has written what was in it, or is gone. */
static void leave_room(struct swap *swap)
{
    if (!swap->room)
        return;
    swap->room->copy = swap->copy ? swap_copy_use(swap->copy) : NULL;
    swapset_put_room(swap->set, swap->room);
    swap->room = NULL;
}

static void leave_host(struct pool *pool, struct swap *swap) POOL_LOCKED
{
    leave_room(swap);
    swap_copy_drop(pool, swap->copy);
    swap->copy = NULL;
}

static void leave_queue(struct swap_set *set, uint32_t index, uint64_t last)
{
    for (uint64_t i = set->done + 1; i <= last && i <= set->queued; i++)
        if (swapset_move(set, i)->swap == index)
            swapset_move(set, i)->swap = 0;
}

void swapset_forget(struct pool *pool, uint32_t index)
{
    struct swap *swap = swap_at(pool, index);
    const struct block *block = block_at(pool, swap->block);
    struct swap_set *set = swap->set;

    granule_swap(&pool->granules, block->node.base, swap->requested, -1);
    leave_queue(set, index, swap->moves);
    if (evict_is_in(set->evict, swap->unit))
        set->in_bytes -= swap->size;
    evict_remove(set->evict, swap->unit);
    set->bytes -= swap->size;
    if (!set->is_paper && swapset_is_stored(swap))
        set->storage -= swap->size;
    swap->block = 0;
    if (swap->is_busy)
        return; /* the record goes with the driver call */
    leave_host(pool, swap);
    slab_put(&pool->swaps, index);
}

void swapset_leave(struct pool *pool, uint32_t index)
{
    leave_host(pool, swap_at(pool, index));
    slab_put(&pool->swaps, index);
}

bool swapset_free(struct pool *pool, uint32_t number, bool is_quarantined)
{
    struct block *block = block_at(pool, number);
    struct swap *swap = swapset_of(pool, block);

    if (!swap || swap->set->is_paper)
        return false;
    if (swap->is_busy) {
        swap->is_freed = true;
        swap->is_quarantined = is_quarantined;
        block->state = BLOCK_PENDING;
        return true;
    }
    block->flags |= swapset_is_stored(swap) ? BLOCK_TRAPPED : BLOCK_GONE;
    return false;
}

bool swapset_lacks_room(const struct swap_set *set, uint64_t size)
{
    uint64_t budget = set->rule->evict.host_budget;

    return set->bytes > set->cap && set->host < set->bytes - set->cap + 2 * size
            && (!budget || set->host + size <= budget);
}

struct swap_room *swapset_take_room(struct pool *pool, struct swap_set *set, uint64_t size)
{
    for (struct swap_room **link = &set->rooms; *link; link = &(*link)->next) {
        struct swap_room *room = *link;

        if (room->size != size || (room->copy && !room->copy->is_over))
            continue;
        *link = room->next;
        swap_copy_drop(pool, room->copy);
        room->copy = NULL;
        return room;
    }
    return NULL;
}

/* ---- who stays ---- */

static void hold(struct swap *swap, bool *io_reason, bool is_held)
{
    if (*io_reason == is_held)
        return;
    *io_reason = is_held;
    if (is_held)
        evict_hold(swap->set->evict, swap->unit);
    else
        evict_let_go(swap->set->evict, swap->unit);
}

void swapset_pin(struct pool *pool, const struct block *block, bool is_pinned)
{
    struct swap *swap = swapset_of(pool, block);

    if (swap)
        hold(swap, &swap->is_pinned, is_pinned);
}

void swapset_keep(struct pool *pool, struct swap *swap, enum pool_kept why)
{
    struct outcome kept;

    if (swap->is_kept || !swap->block)
        return;
    hold(swap, why == POOL_KEPT_UNUSED ? &swap->is_unused : &swap->is_kept, true);
    kept = block_outcome(pool, block_at(pool, swap->block), OUTCOME_KEPT, records_next_seq(pool));
    kept.rule = swap->set->number;
    kept.rounded = (uint64_t)why;
    kept.mode = swap->set->is_paper ? HINT_SHADOW : swap->set->rule->mode;
    news_tell(pool, &kept);
}

/* ---- the queue ---- */

/* On paper: as if it were done. */
static void move_on_paper(struct swap *swap, bool in)
{
    struct pool_evict_step *now = &swap->set->now;

    if (!swap->has_content)
        return;
    if (in) {
        now->moved_in += swap->size;
        now->count_in++;
        swap->is_saved = true;
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

/* All that was decided. False: no memory, and nothing of it is. */
static bool push_moves(struct pool *pool, struct swap_set *set, const struct evict_moves *moves)
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

void swapset_tell_ahead(struct pool *pool)
{
    uint32_t waits = 0;

    for (const struct swap_set *set = pool->swap_sets; set; set = set->next)
        waits += pending(set) > 0;
    atomic_store_explicit(&pool->gate.ahead, waits, memory_order_relaxed);
}

void swapset_reset(struct pool *pool, struct swap_set *set)
{
    for (uint64_t i = set->queued; i > set->done; i--) {
        const struct swap_move *move = swapset_move(set, i);
        struct swap *swap = swap_at(pool, move->swap);

        if (!move->swap)
            continue;
        if (!move->in && swap->state == SWAP_LEAVING && !swap->is_busy)
            swap->state = SWAP_IN; /* what was copied is a copy too many */
        evict_undo(set->evict, swap->unit);
        set->in_bytes += move->in ? -swap->size : swap->size;
    }
    set->done = set->started = set->queued;
}

uint64_t swapset_make_room(struct pool *pool, struct swap_set *set, uint64_t want)
{
    struct evict_moves moves;
    uint64_t bytes = evict_make_room(set->evict, want, &moves);

    return push_moves(pool, set, &moves) ? bytes : 0;
}

/* ---- calls ---- */

static struct pool_named *named_of(struct pool_call *call)
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
    struct pool_named *list = named_of(call);
    uint32_t room = call->more ? call->room : POOL_NAMED_MAX;

    for (uint32_t i = call->count; i-- > 0 && call->count - i <= POOL_NAMED_MAX;) {
        if (list[i].swap == named->swap && list[i].seq == named->seq) {
            list[i].is_written |= named->is_written;
            return 0;
        }
    }
    if (call->count == room) {
        uint32_t had = call->room;

        if (!grow_array(&call->more, &call->room, (uint64_t)room + 1, sizeof(*named)))
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

/* For a call of which nobody knows what it uses. */
static int name_all(struct pool *pool, struct pool_call *call) POOL_LOCKED
{
    int r = 0;

    for (uint32_t i = 1; i < pool->swaps.top && r == 0; i++)
        if (swap_at(pool, i)->block)
            r = name_block(pool, block_at(pool, swap_at(pool, i)->block), false, call);
    return r;
}

int swapset_name(
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

/* The units of a set that the call names; how many. UINT32_MAX: no memory. */
static uint32_t list_units(
        const struct pool *pool, struct swap_set *set, const struct pool_call *call)
{
    const struct pool_named *named = named_in(call);
    uint32_t count = 0;

    if (!grow_array(&set->units, &set->units_room, call->count, sizeof(uint32_t)))
        return UINT32_MAX;
    for (uint32_t i = 0; i < call->count; i++) {
        const struct swap *swap = swap_at(pool, named[i].swap);

        if (is_there(pool, &named[i]) && swap->set == set && !named[i].is_held)
            set->units[count++] = swap->unit;
    }
    return count;
}

/* What other parts of the device hold beside the sets: the most in this step. */
static void see_others(struct pool *pool, struct swap_set *set)
{
    uint64_t others = set->device->reserved;

    if (!set->rule->evict.less_other)
        return;
    for (const struct swap_set *at = pool->swap_sets; at; at = at->next)
        if (at->device == set->device)
            others = excess_of(others, at->storage);
    set->other_now = max_of(set->other_now, others);
}

/* Everything but these goes out. */
static bool send_others_out(struct pool *pool, struct swap_set *set, uint32_t count)
{
    struct evict_moves moves;

    for (uint32_t i = 0; i < count; i++)
        evict_hold(set->evict, set->units[i]);
    (void)evict_make_room(set->evict, UINT64_MAX, &moves);
    for (uint32_t i = 0; i < count; i++)
        evict_let_go(set->evict, set->units[i]);
    return push_moves(pool, set, &moves);
}

/* What was kept because no call had named it goes as all others, before a call is refused. False: there is no such block. */
static bool let_unused_go(struct pool *pool, struct swap_set *set) POOL_LOCKED
{
    bool any = false;

    for (uint32_t i = 1; set->has_unused && i < pool->swaps.top; i++) {
        struct swap *swap = swap_at(pool, i);

        if (!swap->block || swap->set != set || !swap->is_unused)
            continue;
        hold(swap, &swap->is_unused, false);
        any = true;
    }
    set->has_unused = false;
    return any;
}

static int decide_in(struct pool *pool, struct swap_set *set, uint32_t count,
        struct pool_short *ret_short) POOL_LOCKED
{
    struct evict_moves moves;
    int r;

    see_others(pool, set);
    if (hint_learnt(pool->hints, set->number) >= HINT_LEARNT_STOPPED && set->cap != UINT64_MAX)
        put_cap(set, UINT64_MAX);
    if (set->is_alone && !send_others_out(pool, set, count))
        return -ENOMEM;
    r = evict_use(set->evict, set->units, count, &moves);
    if (r == -ENOSPC && let_unused_go(pool, set))
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
    return push_moves(pool, set, &moves) ? 0 : -ENOMEM;
}

static void hold_named(struct pool *pool, struct swap_set *set, struct pool_call *call) POOL_LOCKED
{
    struct pool_named *named = named_of(call);

    for (uint32_t i = 0; i < call->count; i++) {
        struct swap *swap = swap_at(pool, named[i].swap);

        if (!is_there(pool, &named[i]) || swap->set != set || named[i].is_held)
            continue;
        if (!POOL_IS_WITHOUT(STAY))
            evict_hold(set->evict, swap->unit);
        hold(swap, &swap->is_unused, false);
        swap->used_in = set->now.step;
        set->calls++;
        named[i].is_held = true;
        /* where nothing else stays in, the call waits until all of it is out */
        named[i].move = set->is_alone ? set->queued : swap->moves;
    }
}

int swapset_decide(struct pool *pool, struct pool_call *call, struct pool_short *ret_short)
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
        swapset_end(pool, call);
    swapset_tell_ahead(pool);
    return r;
}

int swapset_ready(const struct pool *pool, const struct pool_call *call)
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

void swapset_late(struct pool *pool, struct pool_call *call)
{
    const struct pool_named *named = named_in(call);
    struct swap_set *last = NULL;

    for (uint32_t i = 0; i < call->count && !call->is_late; i++) {
        struct swap *swap = swap_at(pool, named[i].swap);

        if (!is_there(pool, &named[i]) || swap->set->is_paper || swap->set->done >= named[i].move
                || !swap->has_content)
            continue;
        if (!swap->set->is_alone) /* there nothing may come in ahead of its call */
            evict_late(swap->set->evict, swap->unit);
        swap->set->now.late += swap->set != last;
        last = swap->set;
    }
    call->is_late = true;
}

/* A stream that it does not know makes it wait for all. */
static void add_stream(struct swap *swap, uint64_t stream)
{
    for (uint32_t i = 0; i < swap->stream_count && i < SWAP_STREAMS; i++)
        if (swap->stream[i] == stream)
            return;
    if (stream && swap->stream_count < SWAP_STREAMS)
        swap->stream[swap->stream_count++] = stream;
    else
        swap->stream_count = SWAP_STREAMS + 1;
}

bool swapset_has_stream(const struct swap *swap, uint64_t stream)
{
    for (uint32_t i = 0; i < swap->stream_count && i < SWAP_STREAMS; i++)
        if (swap->stream[i] == stream)
            return true;
    return false;
}

void swapset_use(struct pool *pool, const struct pool_call *call)
{
    const struct pool_named *named = named_in(call);

    for (uint32_t i = 0; i < call->count; i++) {
        struct swap *swap = swap_at(pool, named[i].swap);

        if (!is_there(pool, &named[i]))
            continue;
        if (!swap->set->is_paper)
            add_stream(swap, call->stream);
        swap->has_content = true;
        if (!named[i].is_written && swap->set->rule->evict.clean)
            continue;
        swap->is_saved = false;
        if (!swap->set->is_paper)
            leave_room(swap);
    }
}

void swapset_end(struct pool *pool, struct pool_call *call)
{
    struct pool_named *named = named_of(call);

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

/* ---- steps ---- */

void swapset_fill(struct swap_set *set, struct pool_evict_step *ret)
{
    struct evict_figures figures;
    bool is_new;

    evict_figures(set->evict, &figures);
    is_new = figures.is_planned && (!set->now.bound || !figures.is_replayed);
    if (is_new && (figures.uses <= BOUND_USES || !set->now.bound))
        set->now.bound = evict_bound(set->evict);
    set->now.rule = set->number;
    set->now.device = set->device->number;
    set->now.cap = set->cap;
    set->now.bytes = figures.bytes;
    set->now.units = figures.units;
    set->now.uses = figures.uses;
    set->now.looks = figures.looks;
    set->now.is_planned = figures.is_planned;
    set->now.is_replayed = figures.is_replayed;
    set->now.is_paper = set->is_paper;
    memcpy(set->now.state_bytes, figures.state_bytes, sizeof(figures.state_bytes));
    *ret = set->now;
}

/* The first step has ended that was seen whole: what no call has named in it is perhaps used by what no call names, and stays as long as
 * there is room. What was out all the time has been used by nobody, or the device would have faulted. With several threads a step of
 * one of them is no whole step, so this must not be what a call fails of: the trap run of verify knows more. */
static void keep_unused(struct pool *pool, struct swap_set *set) POOL_LOCKED
{
    for (uint32_t i = 1; i < pool->swaps.top; i++) {
        struct swap *swap = swap_at(pool, i);

        if (swap->block && swap->set == set && swap->state == SWAP_IN
                && swap->made_in < set->now.step && swap->used_in < set->now.step) {
            swapset_keep(pool, swap, POOL_KEPT_UNUSED);
            set->has_unused = true;
        }
    }
}

static void end_step(struct pool *pool, struct swap_set *set) POOL_LOCKED
{
    struct swap_step *step = meta_get(sizeof(*step));
    struct pool_evict_step was;

    swapset_fill(set, &was);
    if (step) {
        step->what = was;
        if (set->step_last)
            set->step_last->next = step;
        else
            set->step_first = step;
        set->step_last = step;
    }
    if (set->now.step == 1 && !set->is_paper && !set->is_alone)
        keep_unused(pool, set);
    evict_step(set->evict);
    see_others(pool, set);
    set->other_high = set->other_now;
    set->other_now = 0;
    set->now = (struct pool_evict_step){
            .step = was.step + 1, .bound = was.bound, .in_bytes_high = set->in_bytes};
    put_cap(set, stated_cap(set));
}

static void bring(struct pool *pool, struct swap_set *set) POOL_LOCKED
{
    struct evict_moves moves;

    (void)evict_bring(set->evict, &moves);
    (void)push_moves(pool, set, &moves);
}

void swapset_edge(struct pool *pool, const struct edge *edge)
{
    for (struct swap_set *set = pool->swap_sets; set; set = set->next)
        if (hint_edge_matches(&set->rule->when, edge))
            end_step(pool, set);
    for (int i = 0; (size_t)i < hint_count(pool->hints); i++) {
        const struct rule *rule = hint_rule(pool->hints, i);

        if (rule->action != ACTION_RESTORE || rule->mode == HINT_OFF
                || !hint_edge_matches(&rule->when, edge))
            continue;
        for (struct swap_set *set = pool->swap_sets; set; set = set->next)
            if (set->number == rule->of)
                bring(pool, set);
    }
    swapset_tell_ahead(pool);
}

/* ---- ends ---- */

void swapset_done(struct pool *pool)
{
    while (pool->swap_sets) {
        struct swap_set *set = pool->swap_sets;

        pool->swap_sets = set->next;
        while (set->step_first) {
            struct swap_step *step = set->step_first;

            set->step_first = step->next;
            meta_put(step, sizeof(*step));
        }
        evict_free(set->evict);
        meta_put(set->swap_of, set->swap_of_room * sizeof(uint32_t));
        meta_put(set->units, set->units_room * sizeof(uint32_t));
        meta_put(set->queue, set->queue_room * sizeof(struct swap_move));
        meta_put(set, sizeof(*set));
    }
}

static const char *check_set(struct pool *pool, const struct swap_set *set) POOL_LOCKED
{
    uint64_t storage = 0;
    uint64_t in = 0;

    for (uint32_t i = 1; i < pool->swaps.top; i++) {
        const struct swap *swap = swap_at(pool, i);

        if (!swap->block || swap->set != set)
            continue;
        if (set->swap_of[swap->unit] != i)
            return "a block that may go out is not its unit's";
        in += evict_is_in(set->evict, swap->unit) ? swap->size : 0;
        storage += !set->is_paper && swapset_is_stored(swap) ? swap->size : 0;
        if (!set->is_moving && pending(set) == 0 && !set->is_paper
                && evict_is_in(set->evict, swap->unit) != (swap->state == SWAP_IN))
            return "a block is not where it was decided to be";
    }
    if (in != set->in_bytes)
        return "bytes that are in are miscounted";
    return !set->is_moving && storage != set->storage ? "storage of a set is miscounted" : NULL;
}

const char *swapset_check(struct pool *pool)
{
    const char *what = NULL;

    for (const struct swap_set *set = pool->swap_sets; set && !what; set = set->next)
        what = check_set(pool, set);
    return what;
}

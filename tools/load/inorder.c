/* SPDX-License-Identifier: MIT */
#include "tools/load/inorder.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

/* The place for all anchors of a stack without a place of their own (capture/capplace.c). */
#define ANYWHERE "(other anchors)"

struct level {
    uint64_t now, most;
};

/* Bytes of a place; the last entry is for blocks without a place. */
struct share {
    struct level bytes, count;
    uint64_t high_bytes, high_count;
};

struct order {
    const struct load *load;
    uint32_t at; /* event index of the walk */
    struct level total, hinted, stored;
    uint64_t reserved; /* the maximum */
    struct level device[FORMAT_DEVICES_MAX], device_hinted[FORMAT_DEVICES_MAX];
    struct level memclass[FORMAT_CLASSES_MAX];
    uint32_t peak_at[FORMAT_DEVICES_MAX]; /* event index */
    struct share *shares;
    uint32_t *path_of;      /* per anchor: its number in `paths`, TRACE_NONE */
    uint32_t anywhere;      /* the same for ANYWHERE */
    struct keytable paths;  /* path -> number */
    struct keytable places; /* (stack, path, device) -> place */
};

bool inorder_is_needed(const struct read_capture *capture)
{
    return capture->counted_late > 0 && capture->has_all_events && !read_is_damaged(capture);
}

/* ---- the place of a block ---- */

static struct key place_key(uint32_t stack, uint32_t path, int device)
{
    return (struct key){stack, path, (uint64_t)(int64_t)device};
}

static struct key other_key(int device)
{
    return place_key(UINT32_MAX, UINT32_MAX, trace_has_totals(device) ? device : -1);
}

static void list_places(struct order *order)
{
    const struct load *load = order->load;

    for (uint32_t i = 0; i < load->place_count; i++) {
        const struct read_place *place = load->places[i].what;
        uint32_t path = keytable_number(&order->paths, keytable_text(place->path));
        struct key key = place->is_other ? other_key(place->device)
                                         : place_key(load->places[i].stack, path, place->device);
        (void)keytable_at(&order->places, key, i);
    }
    order->path_of = vec_new(load->trace->anchor_count, sizeof(*order->path_of));
    for (size_t i = 0; i < load->trace->anchor_count; i++)
        order->path_of[i] = keytable_get(
                &order->paths, keytable_text(load->trace->anchors[i].path), TRACE_NONE);
    order->anywhere = keytable_get(&order->paths, keytable_text(ANYWHERE), TRACE_NONE);
}

/* Searched in the run's order: its own place, else its stack's in any anchor, else the device's. */
static struct share *inorder_share_of(const struct order *order, const struct trace_block *block)
{
    const struct key keys[] = {
            place_key(block->stack, order->path_of[block->anchor], block->device),
            place_key(block->stack, order->anywhere, block->device), other_key(block->device)};
    uint32_t at = TRACE_NONE;

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && at == TRACE_NONE; i++)
        at = keytable_get(&order->places, keys[i], TRACE_NONE);
    return &order->shares[at == TRACE_NONE ? order->load->place_count : at];
}

/* ---- the walk ---- */

/* True: higher than ever. */
static bool inorder_rise(struct level *level, uint64_t by)
{
    level->now += by;
    if (level->now > INT64_MAX || level->now <= level->most)
        return false;
    level->most = level->now;
    return true;
}

static uint64_t inorder_stored(const struct trace_block *block)
{
    return block->memclass == MEMCLASS_POOLED ? (block->size + 511) & ~UINT64_C(511) : 0;
}

static void inorder_born(struct order *order, const struct trace_block *block)
{
    struct share *share = inorder_share_of(order, block);

    (void)inorder_rise(&order->total, block->size);
    (void)inorder_rise(&order->hinted, block->size);
    (void)inorder_rise(&order->stored, inorder_stored(block));
    (void)inorder_rise(&order->memclass[block->memclass], block->size);
    (void)inorder_rise(&share->bytes, block->size);
    (void)inorder_rise(&share->count, 1);
    if (!trace_has_totals(block->device))
        return;
    (void)inorder_rise(&order->device_hinted[block->device], block->size);
    if (inorder_rise(&order->device[block->device], block->size))
        order->peak_at[block->device] = order->at;
}

/* Its storage was released, by a hint or with the block. */
static void inorder_let_go(struct order *order, const struct trace_block *block)
{
    order->hinted.now -= block->size;
    order->stored.now -= inorder_stored(block);
    if (trace_has_totals(block->device))
        order->device_hinted[block->device].now -= block->size;
}

static void died(struct order *order, const struct trace_block *block)
{
    struct share *share = inorder_share_of(order, block);

    if (block->mode != HINT_LIVE || block->released > order->at)
        inorder_let_go(order, block);
    order->total.now -= block->size;
    order->memclass[block->memclass].now -= block->size;
    share->bytes.now -= block->size;
    share->count.now--;
    if (trace_has_totals(block->device))
        order->device[block->device].now -= block->size;
}

static void inorder_pass(struct order *order)
{
    const struct trace *trace = order->load->trace;
    const struct trace_event *event = &trace->events[order->at];
    const struct trace_block *block =
            event->block == TRACE_NONE ? NULL : &trace->blocks[event->block];

    if (event->kind == TRACE_RESERVED && trace_value(trace, event) > order->reserved)
        order->reserved = trace_value(trace, event);
    if (block && event->kind == TRACE_ALLOC)
        inorder_born(order, block);
    if (block && event->kind == TRACE_FREE)
        died(order, block);
    if (block && event->kind == TRACE_RELEASE && trace_value(trace, event) == HINT_LIVE)
        inorder_let_go(order, block);
}

/* The share of each place in its device's peak. */
static void share_peaks(struct order *order)
{
    const struct trace *trace = order->load->trace;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        uint32_t peak = trace_has_totals(block->device) ? order->peak_at[block->device] : 0;

        if (trace_has_totals(block->device) && block->born <= peak && block->died > peak) {
            inorder_share_of(order, block)->high_bytes += block->size;
            inorder_share_of(order, block)->high_count++;
        }
    }
}

/* ---- replacing the run's figures ---- */

static void set_mark(const struct order *order, struct read_capture *capture, unsigned device)
{
    const struct trace_event *event = &order->load->trace->events[order->peak_at[device]];

    capture->device_total[device].peak_bytes = order->device[device].most;
    capture->high[device] = (struct read_high){
            .bytes = order->device[device].most, .seq = event->seq, .time_ns = event->time_ns};
}

static void set_marks(const struct order *order, struct read_capture *capture)
{
    capture->total.peak_bytes = order->total.most;
    capture->total.peak_hinted_bytes = order->hinted.most;
    capture->total.peak_reserved_bytes = order->reserved;
    if (capture->peak_stored_512 != UINT64_MAX)
        capture->peak_stored_512 = order->stored.most;
    for (unsigned i = 0; i < MEMCLASS_DEVICE_END; i++)
        capture->class_total[i].peak_bytes = order->memclass[i].most;
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        capture->device_total[i].peak_hinted_bytes = order->device_hinted[i].most;
        if (order->device[i].most > 0)
            set_mark(order, capture, i);
    }
}

static int inorder_by_share(const void *left, const void *right)
{
    const struct read_place *a = ((const struct load_place *)left)->what;
    const struct read_place *b = ((const struct load_place *)right)->what;

    return vec_order(b->high_bytes, a->high_bytes, (a > b) - (a < b));
}

static void set_places(const struct order *order, struct load *load)
{
    for (size_t i = 0; i < load->place_count; i++) {
        const struct share *share = &order->shares[i];
        struct read_place *place = &load->capture->place[i];

        place->high_bytes = share->high_bytes;
        place->high_count = share->high_count;
        place->peak_bytes = share->bytes.most;
        place->peak_count = share->count.most;
    }
    VEC_SORT(load->places, load->place_count, inorder_by_share);
}

void inorder_settle(struct load *load)
{
    struct order order = {.load = load};

    if (!inorder_is_needed(load->capture))
        return;
    order.shares = vec_new(load->place_count + 1, sizeof(*order.shares));
    list_places(&order);
    for (; order.at < load->trace->event_count; order.at++)
        inorder_pass(&order);
    share_peaks(&order);
    set_marks(&order, load->capture);
    set_places(&order, load);
    free(order.shares);
    free(order.path_of);
    keytable_done(&order.paths);
    keytable_done(&order.places);
}

/* ---- the peaks alone ---- */

/* Live and reserved bytes, from the sums of the events alone. */
struct sum {
    struct level live, hinted, held;
    struct level memclass[FORMAT_CLASSES_MAX];
    struct keytable released;     /* addresses of blocks whose storage a hint has released */
    struct keytable_values heaps; /* (device, heap) -> bytes */
};

static void sum_block(struct sum *sum, const struct read_event *event)
{
    struct key key = {event->addr, 0, 0};
    bool is_birth = event->kind == FORMAT_EVENT_ALLOC;
    uint64_t by = is_birth ? event->size : 0 - event->size;

    (void)inorder_rise(&sum->live, by);
    (void)inorder_rise(&sum->memclass[event->memclass], by);
    if (is_birth || !keytable_find(&sum->released, key))
        (void)inorder_rise(&sum->hinted, by);
    keytable_remove(&sum->released, key);
}

static void sum_release(struct sum *sum, const struct read_event *event)
{
    struct key key = {event->addr, 0, 0};

    if (event->what != FORMAT_HINT_DEAD || event->mode != HINT_LIVE
            || keytable_find(&sum->released, key))
        return;
    (void)keytable_at(&sum->released, key, 0);
    (void)inorder_rise(&sum->hinted, 0 - event->size);
}

static void sum_heap(struct sum *sum, const struct read_event *event)
{
    uint64_t *heap = keytable_value(
            &sum->heaps, (struct key){(uint64_t)(int64_t)event->device, event->heap, 0});

    (void)inorder_rise(&sum->held, event->size - *heap);
    *heap = event->size;
}

static void sum_events(struct sum *sum, struct read_capture *capture)
{
    struct read_walk *walk = read_walk_new(capture, true);
    const struct read_event *event;

    if (!walk)
        vec_out_of_memory();
    while ((event = read_walk_next(walk)) != NULL) {
        if (event->kind == FORMAT_EVENT_ALLOC || event->kind == FORMAT_EVENT_FREE)
            sum_block(sum, event);
        if (event->kind == FORMAT_EVENT_HINT)
            sum_release(sum, event);
        if (event->kind == FORMAT_EVENT_RESERVED)
            sum_heap(sum, event);
    }
    read_walk_free(walk);
    keytable_done(&sum->released);
    keytable_values_done(&sum->heaps);
}

struct read_capture *inorder_totals(const char *path)
{
    struct sum sum = {.live = {0}};
    struct read_capture *capture;
    struct read_error error;

    if (read_begin(path, &capture, &error) < 0)
        return NULL;
    if (!inorder_is_needed(capture))
        return capture;
    sum_events(&sum, capture);
    capture->total.peak_bytes = sum.live.most;
    capture->total.peak_hinted_bytes = sum.hinted.most;
    capture->total.peak_reserved_bytes = sum.held.most;
    for (unsigned i = 0; i < MEMCLASS_DEVICE_END; i++)
        capture->class_total[i].peak_bytes = sum.memclass[i].most;
    return capture;
}

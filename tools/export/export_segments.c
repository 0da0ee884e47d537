/* SPDX-License-Identifier: MIT */
#include "tools/export/export_segments.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/export/export_live.h"

#define STUB 512u /* rest of a block whose storage was released */
/* events: the greatest distance of a recorded growth after the first allocation from it */
#define LATE 256u

struct pool {
    struct export_segment_list *list;
    uint64_t held[2];       /* from the driver: by this device; by an unknown one */
    int64_t spare;          /* the part without a segment; below 0: segments have more */
    uint64_t shown;         /* size of the spare segment in the last step */
    uint64_t spare_address; /* its address */
    size_t first, behind;   /* its blocks in ranges->order */
    uint32_t taken;         /* changes of `held` before this event are counted */
};

struct work {
    const struct load *load;
    const struct trace *trace;
    const struct export_ranges *ranges;
    struct export_segments *ret;
    struct pool *pools;
    size_t *place; /* per block, its index in ranges->order */
    struct export_live live;
    uint64_t spare_begin; /* the first address of a spare segment */
    uint32_t at;          /* the event */
};

struct interval {
    uint64_t low, high;
};

/* ---- steps ----------------------------------------------------------------------------------- */

static void segments_tell(struct work *w, const struct pool *pool,
        const struct export_segment *segment, bool comes, bool is_after)
{
    VEC_PUSH(w->ret->steps, w->ret->step_count, w->ret->step_room) =
            (struct export_segment_step){.segment = *segment,
                    .at = w->at,
                    .device = (uint16_t)(pool - w->pools),
                    .comes = comes,
                    .is_after = is_after};
}

static struct export_segment spare_of(const struct pool *pool)
{
    return (struct export_segment){
            .address = pool->spare_address, .size = pool->shown, .block = TRACE_NONE};
}

static void hide_spare(struct work *w, struct pool *pool)
{
    const struct export_segment spare = spare_of(pool);

    if (pool->shown)
        segments_tell(w, pool, &spare, false, false);
    pool->shown = 0;
}

static void show_spare(struct work *w, struct pool *pool)
{
    uint64_t wanted = pool->spare > 0 ? (uint64_t)pool->spare : 0;

    if (pool->spare < 0 && (uint64_t)-pool->spare > w->ret->over)
        w->ret->over = (uint64_t)-pool->spare;
    if (pool->shown == wanted)
        return;
    hide_spare(w, pool);
    pool->shown = wanted;
    const struct export_segment spare = spare_of(pool);
    if (wanted)
        segments_tell(w, pool, &spare, true, false);
}

/* ---- segments, by address -------------------------------------------------------------------- */

/* The first segment that ends above the address. */
static size_t segment_at(const struct export_segment_list *list, uint64_t address)
{
    size_t low = 0, high = list->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (list->segments[mid].address + list->segments[mid].size > address)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static void export_segments_insert(
        struct export_segment_list *list, size_t at, struct export_segment segment)
{
    VEC_PUSH(list->segments, list->count, list->room) = segment;
    memmove(&list->segments[at + 1], &list->segments[at],
            (list->count - 1 - at) * sizeof(*list->segments));
    list->segments[at] = segment;
}

static void take_out(struct export_segment_list *list, size_t at)
{
    list->count--;
    memmove(&list->segments[at], &list->segments[at + 1],
            (list->count - at) * sizeof(*list->segments));
}

/* A part of a segment, recorded at once if the whole was. */
static void keep_part(struct work *w, struct pool *pool, size_t at,
        const struct export_segment *whole, struct interval part)
{
    struct export_segment segment = *whole;

    segment.address = part.low;
    segment.size = part.high - part.low;
    export_segments_insert(pool->list, at, segment);
    if (segment.is_told)
        segments_tell(w, pool, &segment, true, false);
}

/* Removes these addresses from the pool's segments; returns their bytes. */
static uint64_t carve(struct work *w, struct pool *pool, struct interval out)
{
    struct export_segment_list *list = pool->list;
    uint64_t taken = 0;

    for (size_t i = segment_at(list, out.low);
            i < list->count && list->segments[i].address < out.high;) {
        const struct export_segment whole = list->segments[i];
        uint64_t end = whole.address + whole.size;

        if (whole.is_native) {
            i++;
            continue;
        }
        if (whole.is_told)
            segments_tell(w, pool, &whole, false, false);
        take_out(list, i);
        if (whole.address < out.low)
            keep_part(w, pool, i++, &whole, (struct interval){whole.address, out.low});
        if (end > out.high)
            keep_part(w, pool, i++, &whole, (struct interval){out.high, end});
        taken += (end < out.high ? end : out.high) - max_of(whole.address, out.low);
    }
    return taken;
}

/* ---- live blocks ----------------------------------------------------------------------------- */

static uint64_t segments_block_begin(const struct work *w, size_t place)
{
    return w->ranges->address[w->ranges->order[place]];
}

static uint64_t segments_block_end(const struct work *w, size_t place)
{
    return segments_block_begin(w, place) + w->trace->blocks[w->ranges->order[place]].size;
}

/* The first block of the device, live or not, that begins there or above. */
static size_t place_from(const struct work *w, const struct pool *pool, uint64_t address)
{
    size_t low = pool->first, high = pool->behind;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (segments_block_begin(w, mid) >= address)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* The first part of `in` without a live block; false: there is none. */
static bool find_gap(
        const struct work *w, const struct pool *pool, struct interval in, struct interval *ret)
{
    while (in.low < in.high) {
        size_t next = place_from(w, pool, in.low + 1);
        size_t here = export_live_before(&w->live, next);

        if (here != EXPORT_LIVE_NONE && here >= pool->first
                && segments_block_end(w, here) > in.low) {
            in.low = segments_block_end(w, here);
            continue;
        }
        next = export_live_from(&w->live, next);
        *ret = in;
        if (next < pool->behind && segments_block_begin(w, next) < in.high)
            ret->high = segments_block_begin(w, next);
        return true;
    }
    return false;
}

static bool export_segments_is_free(
        const struct work *w, const struct pool *pool, struct interval all)
{
    struct interval gap;

    return find_gap(w, pool, all, &gap) && gap.low == all.low && gap.high == all.high;
}

/* Whether its storage was released, or may be while the block lives. */
static bool may_lack_storage(const struct work *w, const struct trace_block *block)
{
    bool is_evicted = block->rule >= 0 && (size_t)block->rule < w->load->hint_count
            && w->load->hints[block->rule].action == ACTION_EVICT;

    return is_evicted || (block->mode == HINT_LIVE && block->released <= w->at);
}

/* ---- returning memory ------------------------------------------------------------------------ */

static struct interval interval_of(const struct export_segment *segment)
{
    return (struct interval){segment->address, segment->address + segment->size};
}

/* Whole segments without live blocks, of exactly this size, or of at most the needed size. */
static uint64_t give_whole(struct work *w, struct pool *pool, uint64_t need, bool is_exact)
{
    uint64_t given = 0;

    for (size_t i = pool->list->count; i > 0 && given < need; i--) {
        const struct export_segment *segment = &pool->list->segments[i - 1];
        bool fits = is_exact ? segment->size == need : segment->size <= need - given;

        if (!segment->is_native && fits && export_segments_is_free(w, pool, interval_of(segment)))
            given += carve(w, pool, interval_of(segment));
    }
    return given;
}

/* Free parts of segments, from above; whole granules of them, or everything. */
static uint64_t give_gaps(struct work *w, struct pool *pool, uint64_t need, uint64_t unit)
{
    struct interval *gaps = NULL, gap;
    size_t count = 0, room = 0;
    uint64_t given = 0;

    for (size_t i = 0; i < pool->list->count; i++) {
        struct interval in = interval_of(&pool->list->segments[i]);

        for (; !pool->list->segments[i].is_native && find_gap(w, pool, in, &gap); in.low = gap.high)
            VEC_PUSH(gaps, count, room) =
                    (struct interval){(gap.low + unit - 1) / unit * unit, gap.high / unit * unit};
    }
    for (; count > 0 && given < need; count--) {
        gap = gaps[count - 1];
        if (gap.low >= gap.high)
            continue;
        if (gap.high - gap.low > need - given)
            gap.low = gap.high - (need - given);
        given += carve(w, pool, gap);
    }
    free(gaps);
    return given;
}

/* Returns at most `need` bytes of the segments' part of `all`. */
static uint64_t give_part(struct work *w, struct pool *pool, struct interval all, uint64_t need)
{
    uint64_t given = 0;

    for (size_t i = segment_at(pool->list, all.low); given < need && i < pool->list->count;
            i = segment_at(pool->list, all.low)) {
        struct interval part = interval_of(&pool->list->segments[i]);

        part.low = max_of(part.low, all.low);
        part.high = part.high < all.high ? part.high : all.high;
        if (part.low >= part.high)
            break;
        all.low = part.high;
        if (part.high - part.low > need - given)
            part.low = part.high - (need - given);
        given += carve(w, pool, part);
    }
    return given;
}

static uint64_t give_stubs(struct work *w, struct pool *pool, uint64_t need)
{
    uint64_t given = 0;

    for (size_t i = export_live_from(&w->live, pool->first); i < pool->behind && given < need;
            i = export_live_from(&w->live, i + 1)) {
        const struct trace_block *block = &w->trace->blocks[w->ranges->order[i]];

        if (!block->native && may_lack_storage(w, block))
            given += give_part(w, pool,
                    (struct interval){segments_block_begin(w, i) + STUB, segments_block_end(w, i)},
                    need - given);
    }
    return given;
}

/* Moves at most `need` bytes from segments to spare. */
static void reclaim(struct work *w, struct pool *pool, uint64_t need)
{
    uint64_t given = give_whole(w, pool, need, true);

    if (given < need)
        given += give_whole(w, pool, need - given, false);
    if (given < need)
        given += give_gaps(w, pool, need - given, EXPORT_RANGES_GRANULE);
    if (given < need)
        given += give_gaps(w, pool, need - given, 1);
    if (given < need)
        given += give_stubs(w, pool, need - given);
    pool->spare += (int64_t)given;
}

/* ---- held memory ----------------------------------------------------------------------------- */

static void export_segments_hold(
        struct work *w, struct pool *pool, const struct trace_reserved *reserved)
{
    uint64_t *held = &pool->held[reserved->device < 0];
    uint64_t less = excess_of(*held, reserved->on_device);

    if (less)
        show_spare(w, pool); /* its size until now */
    pool->spare += (int64_t)(reserved->on_device - *held);
    *held = reserved->on_device;
    if (pool->spare < 0 && less)
        reclaim(w, pool, (uint64_t)-pool->spare);
    if (less)
        show_spare(w, pool);
}

/* Growth is recorded after the allocation that caused it, and after those of faster threads. */
static bool hold_early(struct work *w, struct pool *pool, uint32_t limit)
{
    const struct trace *trace = w->trace;
    uint32_t from = pool->taken > w->at ? pool->taken : w->at + 1;

    for (uint32_t at = from; at < trace->event_count && at - w->at <= limit; at++) {
        const struct trace_event *event = &trace->events[at];
        if (limit == 1 && (event->seq == 0 || event->seq != trace->events[w->at].seq))
            return false; /* of another operation */
        if (event->kind != TRACE_RESERVED)
            continue;
        const struct trace_reserved *reserved = trace_reserved_of(trace, event);
        if (&w->pools[export_ranges_device(reserved->device)] != pool)
            continue;
        if (reserved->on_device < pool->held[reserved->device < 0])
            return false;
        export_segments_hold(w, pool, reserved);
        pool->taken = at + 1;
        return true;
    }
    return false;
}

/* ---- blocks without a segment ---------------------------------------------------------------- */

/* A new segment over `gap`, as large as spare memory and the next segment allow. */
static uint64_t cover_gap(struct work *w, struct pool *pool, struct interval gap, uint32_t block)
{
    uint64_t need = gap.high - gap.low, size = need;
    bool is_known = w->ret->is_known;

    if (is_known && pool->spare < (int64_t)need)
        reclaim(w, pool, need - (uint64_t)(pool->spare > 0 ? pool->spare : 0));
    while (is_known && pool->spare < (int64_t)need && hold_early(w, pool, LATE))
        ;
    size_t at = segment_at(pool->list, gap.low);
    uint64_t limit = gap.low < EXPORT_RANGES_REAL_END ? EXPORT_RANGES_REAL_END : w->spare_begin;
    if (at < pool->list->count)
        limit = pool->list->segments[at].address;
    if (is_known && pool->spare > (int64_t)need)
        size = (uint64_t)pool->spare;
    if (!is_known)
        size = (gap.high + EXPORT_RANGES_GRANULE - 1) / EXPORT_RANGES_GRANULE
                        * EXPORT_RANGES_GRANULE
                - gap.low;
    if (limit > gap.low && size > limit - gap.low)
        size = max_of(limit - gap.low, need);
    export_segments_insert(pool->list, at,
            (struct export_segment){.address = gap.low, .size = size, .block = block});
    if (is_known)
        pool->spare -= (int64_t)size;
    return size;
}

/* Joins the segments that a block reaches over. */
static void export_segments_join(struct work *w, struct pool *pool, struct interval all)
{
    struct export_segment_list *list = pool->list;
    size_t first = segment_at(list, all.low);

    while (first + 1 < list->count && list->segments[first + 1].address < all.high) {
        struct export_segment *one = &list->segments[first], *other = one + 1;

        if (one->is_native || other->is_native || one->address + one->size != other->address) {
            first++;
            continue;
        }
        if (one->is_told)
            segments_tell(w, pool, one, false, false);
        if (other->is_told)
            segments_tell(w, pool, other, false, false);
        one->size += other->size;
        one->is_told = false;
        take_out(list, first + 1);
    }
}

static void segments_tell_new(struct work *w, struct pool *pool, struct interval all)
{
    struct export_segment_list *list = pool->list;

    for (size_t i = segment_at(list, all.low);
            i < list->count && list->segments[i].address < all.high; i++) {
        if (list->segments[i].is_told)
            continue;
        list->segments[i].is_told = true;
        segments_tell(w, pool, &list->segments[i], true, false);
    }
}

static void export_segments_cover(
        struct work *w, struct pool *pool, struct interval all, uint32_t block)
{
    struct export_segment_list *list = pool->list;
    size_t i = segment_at(list, all.low);

    if (i < list->count && list->segments[i].address <= all.low
            && list->segments[i].address + list->segments[i].size >= all.high)
        return;
    hide_spare(w, pool);
    for (uint64_t at = all.low; at < all.high;) {
        i = segment_at(list, at);
        const struct export_segment *next = i < list->count ? &list->segments[i] : NULL;
        if (next && next->address <= at) {
            at = next->address + next->size;
            continue;
        }
        uint64_t end = next && next->address < all.high ? next->address : all.high;
        at += cover_gap(w, pool, (struct interval){at, end}, block);
    }
    export_segments_join(w, pool, all);
    segments_tell_new(w, pool, all);
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct pool *export_segments_pool_of(const struct work *w, uint32_t block)
{
    return &w->pools[export_ranges_device(w->trace->blocks[block].device)];
}

static void on_alloc(struct work *w, uint32_t id)
{
    struct pool *pool = export_segments_pool_of(w, id);
    const struct trace_block *block = &w->trace->blocks[id];
    struct interval all = {w->ranges->address[id], w->ranges->address[id] + block->size};

    if (block->size == 0)
        return;
    if (w->ret->is_known && !block->native)
        (void)hold_early(w, pool, 1);
    export_live_set(&w->live, w->place[id], true);
    if (block->native) {
        const struct export_segment segment = {all.low, block->size, id, true, true};

        pool->spare += (int64_t)carve(w, pool, all);
        export_segments_insert(pool->list, segment_at(pool->list, all.low), segment);
        segments_tell(w, pool, &segment, true, false);
    } else {
        export_segments_cover(w, pool, all, id);
    }
    show_spare(w, pool);
}

static void on_free(struct work *w, uint32_t id)
{
    struct pool *pool = export_segments_pool_of(w, id);
    const struct trace_block *block = &w->trace->blocks[id];
    struct export_segment_list *list = pool->list;

    if (block->size == 0)
        return;
    export_live_set(&w->live, w->place[id], false);
    show_spare(w, pool);
    if (!block->native)
        return;
    size_t i = segment_at(list, w->ranges->address[id]);
    while (i < list->count && list->segments[i].block != id)
        i++;
    if (i == list->count)
        return;
    segments_tell(w, pool, &list->segments[i], false, true);
    take_out(list, i);
}

static void on_reserved(struct work *w, const struct trace_reserved *reserved)
{
    struct pool *pool = &w->pools[export_ranges_device(reserved->device)];

    if (w->ret->is_known && w->at >= pool->taken)
        export_segments_hold(w, pool, reserved);
}

static void walk(struct work *w)
{
    for (w->at = 0; w->at < w->trace->event_count; w->at++) {
        const struct trace_event *event = &w->trace->events[w->at];

        if (event->kind == TRACE_ALLOC)
            on_alloc(w, event->block);
        if (event->kind == TRACE_FREE && event->block != TRACE_NONE)
            on_free(w, event->block);
        if (event->kind == TRACE_RESERVED)
            on_reserved(w, trace_reserved_of(w->trace, event));
        /* one of these events may be a failure */
        for (size_t i = 0; event->kind == TRACE_OTHER && i < w->ret->device_count; i++)
            show_spare(w, &w->pools[i]);
    }
    for (size_t i = 0; i < w->ret->device_count; i++)
        show_spare(w, &w->pools[i]);
}

/* ---- the whole trace ------------------------------------------------------------------------- */

static size_t count_devices(const struct work *w)
{
    size_t count = 1;

    for (size_t i = 0; i < w->ranges->count; i++)
        count = max_of(
                count, export_ranges_device(w->trace->blocks[w->ranges->order[i]].device) + 1u);
    for (size_t i = 0; i < w->trace->reserved_count; i++)
        count = max_of(count, export_ranges_device(w->trace->reserved[i].device) + 1u);
    return count;
}

/* Each pool's blocks, and address room for all memory that it ever holds. */
static bool make_pools(struct work *w)
{
    size_t count = w->ret->device_count;
    uint64_t next = w->ranges->next;

    w->pools = vec_new(count, sizeof(*w->pools));
    w->place = vec_new(w->trace->block_count, sizeof(*w->place));
    for (size_t i = 0; i < w->ranges->count; i++) {
        struct pool *pool = export_segments_pool_of(w, w->ranges->order[i]);

        w->place[w->ranges->order[i]] = i;
        if (pool->behind == 0)
            pool->first = i;
        pool->behind = i + 1;
    }
    w->spare_begin = next;
    for (size_t i = 0; i < count; i++) {
        uint64_t most = 0;

        for (size_t k = 0; k < w->trace->reserved_count; k++)
            if (export_ranges_device(w->trace->reserved[k].device) == i)
                most = max_of(most, w->trace->reserved[k].all);
        w->pools[i].list = &w->ret->devices[i];
        w->pools[i].spare_address = next;
        if (most > EXPORT_RANGES_END - next - EXPORT_RANGES_GRANULE)
            return false;
        next += most / EXPORT_RANGES_GRANULE * EXPORT_RANGES_GRANULE + EXPORT_RANGES_GRANULE;
    }
    return true;
}

/* At the end spare memory is a segment like others. */
static void end_pools(const struct work *w)
{
    for (size_t i = 0; i < w->ret->device_count; i++) {
        const struct pool *pool = &w->pools[i];

        if (pool->shown)
            export_segments_insert(
                    pool->list, segment_at(pool->list, pool->spare_address), spare_of(pool));
    }
}

bool export_segments_find(
        const struct load *load, const struct export_ranges *ranges, struct export_segments *ret)
{
    struct work w = {.load = load, .trace = load->trace, .ranges = ranges, .ret = ret};

    *ret = (struct export_segments){.is_known = load->trace->reserved_count > 0};
    ret->device_count = count_devices(&w);
    ret->devices = vec_new(ret->device_count, sizeof(*ret->devices));
    bool has_room = make_pools(&w);
    if (has_room) {
        export_live_begin(&w.live, ranges->count);
        walk(&w);
        end_pools(&w);
        export_live_done(&w.live);
    }
    free(w.pools);
    free(w.place);
    return has_room;
}

void export_segments_done(struct export_segments *segments)
{
    for (size_t i = 0; i < segments->device_count; i++)
        free(segments->devices[i].segments);
    free(segments->devices);
    free(segments->steps);
    *segments = (struct export_segments){0};
}

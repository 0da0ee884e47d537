/* SPDX-License-Identifier: MIT */
#include "tools/load/carried.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* State of the pass over the events. */
struct search {
    struct carried *carried;
    struct keytable seen; /* address -> 1: all later births at it are recorded */
    struct keytable rows; /* (address, number) of live rows -> 1: the birth is recorded */
    struct keytable heaps;
};

static struct key block_key(uint64_t address, uint64_t seq)
{
    return (struct key){address, seq, 0};
}

static void await_rows(struct search *s, const struct read_live *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)keytable_at(&s->rows, block_key(rows[i].addr, rows[i].seq), 0);
        /* no later event concerns another block at the address */
        if (rows[i].seq <= s->carried->since)
            (void)keytable_at(&s->seen, block_key(rows[i].addr, 0), 1);
    }
}

/* The freed block was born before; an older event of the address may concern an earlier block. */
static void note_free(struct search *s, const struct read_event *event)
{
    struct carried *carried = s->carried;
    uint32_t *seen = keytable_at(&s->seen, block_key(event->addr, 0), 0);

    if (!*seen && event->size)
        VEC_PUSH(carried->births, carried->count, carried->room) =
                (struct carried_birth){.what = {.addr = event->addr,
                                               .size = event->size,
                                               .path = "",
                                               .nth = UINT32_MAX,
                                               .flags = event->flags & FORMAT_ALLOC_NATIVE,
                                               .memclass = event->memclass,
                                               .device = event->device},
                        .thread = event->thread};
    *seen = 1;
}

static void carried_note_birth(struct search *s, const struct read_event *event)
{
    uint32_t *row = keytable_find(&s->rows, block_key(event->addr, event->seq));

    if (row)
        *row = 1;
    if (event->kind == FORMAT_EVENT_ALLOC)
        *keytable_at(&s->seen, block_key(event->addr, 0), 1) = 1;
}

static void note_heap(struct search *s, const struct read_event *event)
{
    struct carried *carried = s->carried;
    uint32_t at = keytable_number(
            &s->heaps, (struct key){(uint64_t)(int64_t)event->device, event->heap, 0});

    if (at == carried->heap_count)
        VEC_PUSH(carried->heaps, carried->heap_count, carried->heap_room) =
                (struct carried_heap){event->device, event->heap, event->size, 0};
    if (event->seq <= carried->since)
        carried->heaps[at].before = event->size;
    carried->heaps[at].last = event->size;
}

static void carried_note_event(struct search *s, const struct read_event *event)
{
    bool is_old = event->seq <= s->carried->since;

    if (event->kind == FORMAT_EVENT_RESERVED)
        note_heap(s, event);
    if (is_old)
        return;
    if (event->kind == FORMAT_EVENT_ALLOC || event->kind == FORMAT_EVENT_OTHER_ALLOC)
        carried_note_birth(s, event);
    if (event->kind == FORMAT_EVENT_FREE)
        note_free(s, event);
}

static void note_events(struct search *s, struct read_capture *capture)
{
    struct read_walk *walk = read_walk_new(capture, false);
    const struct read_event *event;

    if (!walk)
        vec_out_of_memory();
    while ((event = read_walk_next(walk)))
        carried_note_event(s, event);
    read_walk_free(walk);
}

static void add_rows(struct search *s, const struct read_live *rows, size_t count, bool is_other)
{
    struct carried *carried = s->carried;

    for (size_t i = 0; i < count; i++)
        if (!*keytable_find(&s->rows, block_key(rows[i].addr, rows[i].seq)))
            VEC_PUSH(carried->births, carried->count, carried->room) =
                    (struct carried_birth){.what = rows[i], .is_other = is_other};
}

static int by_seq(const void *left, const void *right)
{
    const struct carried_birth *a = left;
    const struct carried_birth *b = right;

    return vec_order(a->what.seq, b->what.seq, vec_order(a->what.addr, b->what.addr, 0));
}

/* Heaps without a remaining event hold what is not in the others. */
static void carried_silent(struct carried *carried, const struct read_capture *capture)
{
    uint64_t left = capture->total.reserved_bytes;
    uint64_t told[FORMAT_DEVICES_MAX] = {0};

    for (size_t i = 0; i < carried->heap_count; i++) {
        const struct carried_heap *heap = &carried->heaps[i];
        left = excess_of(left, heap->last);
        if ((unsigned)heap->device < FORMAT_DEVICES_MAX)
            told[heap->device] += heap->last;
    }
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        uint64_t on = excess_of(capture->device_total[i].reserved_bytes, told[i]);
        carried->silent[i] = on < left ? on : left;
        left -= carried->silent[i];
    }
    carried->silent[FORMAT_DEVICES_MAX] = left;
}

void carried_find(struct read_capture *capture, struct carried *ret)
{
    bool is_bounded = capture->complete_after_seq != UINT64_MAX;
    struct carried carried = {.since = is_bounded ? capture->complete_after_seq : 0};
    struct search s = {.carried = &carried};

    await_rows(&s, capture->live, capture->live_count);
    await_rows(&s, capture->other, capture->other_count);
    note_events(&s, capture);
    add_rows(&s, capture->live, capture->live_count, false);
    add_rows(&s, capture->other, capture->other_count, true);
    VEC_SORT(carried.births, carried.count, by_seq);
    carried_silent(&carried, capture);
    keytable_done(&s.seen);
    keytable_done(&s.rows);
    keytable_done(&s.heaps);
    *ret = carried;
}

void carried_done(struct carried *carried)
{
    free(carried->births);
    free(carried->heaps);
    *carried = (struct carried){0};
}

/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include "tracker/format/formatsum.h"
#include "tracker/reader/readevent.h"

#include <stdlib.h>
#include <string.h>

/* ---- live table ---- */

/* A live block has been live during all calls since its allocation. */
static unsigned use_flags_of(const struct read_capture *capture, const struct format_live *slot)
{
    bool lived = capture->unseen.count > 0 && capture->unseen.last_ns >= slot->time_ns;
    unsigned flags = slot->use_flags & FORMAT_USE_FLAGS;

    return flags | (lived && flags ? FORMAT_USE_UNSEEN : 0u);
}

/* The figures may be from different times: takes the gap's two ends from one time, and adds a first
 * use if there is a last. */
static struct format_uses readlive_uses_of(const struct format_live *slot)
{
    struct format_uses uses = slot->uses;

    if (slot->gap_begin != 0 && slot->gap_begin < uses.gap_end)
        uses.longest_gap = uses.gap_end - slot->gap_begin;
    if (uses.first_use == 0)
        uses.first_use = uses.last_use;
    return uses;
}

static struct read_live live_of(const struct read_capture *capture, const struct format_live *slot)
{
    return (struct read_live){
            .seq = slot->state >> 1,
            .addr = slot->addr,
            .size = slot->size,
            .stream = slot->stream,
            .time_ns = slot->time_ns,
            .path = "",
            .path_number = slot->path,
            .instance = slot->instance,
            .nth = slot->nth,
            .stack = slot->stack,
            .device = slot->device,
            .flags = readevent_plain_flags(slot->flags),
            .memclass = readevent_class(slot->flags),
            .hint = slot->hint < FORMAT_HINT_COUNT ? (enum format_hint_what)slot->hint
                                                   : FORMAT_HINT_NONE,
            .rule = slot->rule,
            .pystack = slot->pystack,
            .uses = readlive_uses_of(slot),
            .use_count = slot->use_count,
            .use_flags = use_flags_of(capture, slot),
    };
}

static int readlive_take_live(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_live slot;

    memcpy(&slot, at, sizeof slot);
    if (slot.state == 0)
        return 0;
    if ((slot.state & 1) == 0 || slot.sum != formatsum_live(&slot))
        return reader_leave_out(reader, READ_AREA_LIVE);
    capture->loose_sum += formatsum_loose_live(&slot);
    reader_note_numbers(reader, slot.path, slot.stack, slot.pystack);
    if (slot.state >> 1 > reader->logged.newest_seq)
        reader->logged.newest_seq = slot.state >> 1;
    bool is_other = readevent_class(slot.flags) >= MEMCLASS_DEVICE_END;
    struct read_live **list = is_other ? &capture->other : &capture->live;
    size_t *count = is_other ? &capture->other_count : &capture->live_count;
    size_t *size = is_other ? &reader->other_size : &reader->live_size;
    if (reader_make_room((void **)list, size, *count, sizeof **list) < 0)
        return reader_no_memory(reader);
    (*list)[(*count)++] = live_of(capture, &slot);
    return 0;
}

static int live_by_seq(const void *left, const void *right)
{
    const struct read_live *a = left;
    const struct read_live *b = right;

    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static int live_by_addr(const void *left, const void *right)
{
    const struct read_live *a = left;
    const struct read_live *b = right;

    if (a->addr != b->addr)
        return a->addr < b->addr ? -1 : 1;
    return live_by_seq(left, right);
}

/* Sorts by seq. Of a block that moved from slot to slot during the read, keeps the newest. */
static void sort_live(const struct reader *reader, struct read_live *live, size_t *count)
{
    size_t kept = 0;

    if (*count == 0)
        return;
    if (reader_is_moving(reader)) {
        qsort(live, *count, sizeof *live, live_by_addr);
        for (size_t i = 0; i < *count; i++) {
            if (kept > 0 && live[kept - 1].addr == live[i].addr)
                kept--;
            live[kept++] = live[i];
        }
        *count = kept;
    }
    qsort(live, *count, sizeof *live, live_by_seq);
}

int read_live_table(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    int r = reader_each(
            reader, FORMAT_EXTENT_LIVE, sizeof(struct format_live), 0, readlive_take_live);

    sort_live(reader, capture->live, &capture->live_count);
    sort_live(reader, capture->other, &capture->other_count);
    return r;
}

/* ---- failed allocations ---- */

static int take_oom(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct read_oom oom = {0};

    memcpy(&oom.what, at, sizeof oom.what);
    if (oom.what.state == 0)
        return 0;
    if ((oom.what.state & 1) == 0 || oom.what.sum != formatsum_oom(&oom.what))
        return reader_leave_out(reader, READ_AREA_FAILURES);
    if (reader_make_room((void **)&capture->oom, &reader->oom_size, capture->oom_record_count,
                sizeof *capture->oom)
            < 0)
        return reader_no_memory(reader);
    oom.number = oom.what.state >> 1;
    reader_note_numbers(reader, oom.what.path, oom.what.stack, oom.what.pystack);
    reader_note_numbers(reader, oom.what.call, 0, 0);
    for (unsigned i = 0; i < oom.what.holder_count && i < FORMAT_OOM_HOLDERS; i++)
        reader_note_numbers(reader, 0, oom.what.holder[i].stack, oom.what.holder[i].pystack);
    oom.call = oom.path = "";
    if (oom.what.holder_count > FORMAT_OOM_HOLDERS) {
        oom.what.holder_count = FORMAT_OOM_HOLDERS;
        capture->bad_records++;
    }
    capture->oom[capture->oom_record_count++] = oom;
    return 0;
}

static int oom_by_number(const void *left, const void *right)
{
    const struct read_oom *a = left;
    const struct read_oom *b = right;

    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->what.seq < b->what.seq ? -1 : a->what.seq > b->what.seq;
}

int read_failures(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    int r = reader_each(reader, FORMAT_EXTENT_OOM, sizeof(struct format_oom), 0, take_oom);

    if (capture->oom_record_count > 0)
        qsort(capture->oom, capture->oom_record_count, sizeof *capture->oom, oom_by_number);
    return r;
}

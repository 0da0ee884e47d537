/* SPDX-License-Identifier: MIT */
#include "tracker/readpart.h"

#include "tracker/formatsum.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES (1u << 20) /* read at once */

/* ---- records of one size ---- */

/*
 * What may change while its bytes are copied, if the process runs. A record's first 8 bytes never come back to an earlier
 * value other than 0, so a slot whose first 8 bytes are the same in a second copy was whole in the first one. What is behind
 * a chunk's head only grows while they stay, so what the first copy's head speaks of is whole in the second copy. Others are
 * emptied. A place changes behind its first 8 bytes: it is marked as one that was being changed.
 */
static void drop_torn(unsigned char *bytes, const unsigned char *again, size_t length, size_t unit,
        size_t log_head, enum format_extent_kind kind)
{
    static const uint64_t changing = FORMAT_PLACE_CHANGING;

    for (size_t at = 0; at < length; at += unit) {
        if (kind == FORMAT_EXTENT_PLACES && memcmp(bytes + at, again + at, unit) != 0)
            memcpy(bytes + at + offsetof(struct format_place, changing), &changing,
                    sizeof changing);
        if (memcmp(bytes + at, again + at, sizeof(uint64_t)) != 0)
            memset(bytes + at, 0, log_head > 0 ? log_head : sizeof(uint64_t));
        else if (log_head > 0)
            memcpy(bytes + at + log_head, again + at + log_head, unit - log_head);
    }
}

bool read_records(struct reader *reader, uint64_t offset, unsigned char *bytes, size_t length,
        size_t unit, size_t log_head, enum format_extent_kind kind)
{
    if (!read_fetch(&reader->source, offset, bytes, length))
        return false;
    if (read_is_moving(reader)) {
        if (!read_fetch(&reader->source, offset, bytes + length, length))
            return false;
        drop_torn(bytes, bytes + length, length, unit, log_head, kind);
    }
    return true;
}

static uint64_t longest_of(const struct reader *reader, enum format_extent_kind kind)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < reader->extents; i++)
        if (reader->extent[i].kind == (uint32_t)kind && reader->extent[i].length > longest)
            longest = reader->extent[i].length;
    return longest;
}

int read_each(struct reader *reader, enum format_extent_kind kind, size_t unit, size_t log_head,
        int (*take)(struct reader *reader, const unsigned char *at))
{
    uint64_t longest = longest_of(reader, kind);
    size_t part = longest < PART_BYTES ? (size_t)longest / unit * unit : PART_BYTES / unit * unit;
    unsigned char *bytes;
    int r = 0;

    if (part == 0)
        return 0;
    bytes = malloc(2 * part);
    if (!bytes)
        return read_no_memory(reader);
    for (uint32_t i = 0; r == 0 && i < reader->extents; i++) {
        const struct format_extent *extent = &reader->extent[i];

        if (extent->kind != (uint32_t)kind)
            continue;
        for (uint64_t at = 0; r == 0 && at < extent->length; at += part) {
            uint64_t left = extent->length - at;
            size_t length = left < part ? (size_t)left / unit * unit : part;

            if (length == 0
                    || !read_records(
                            reader, extent->offset + at, bytes, length, unit, log_head, kind))
                break;
            for (size_t j = 0; r == 0 && j < length; j += unit)
                r = take(reader, bytes + j);
        }
    }
    free(bytes);
    return r;
}

/* ---- live table ---- */

/* A class that is not known here counts as the driver's. */
enum memclass read_class(unsigned flags)
{
    unsigned memclass = flags >> FORMAT_ALLOC_CLASS_SHIFT & (FORMAT_CLASSES_MAX - 1);

    if (memclass >= MEMCLASS_COUNT || (memclass == 0 && (flags & FORMAT_ALLOC_NATIVE)))
        return MEMCLASS_DRIVER;
    return (enum memclass)memclass;
}

unsigned read_plain_flags(unsigned flags)
{
    return flags & ((1u << FORMAT_ALLOC_CLASS_SHIFT) - 1);
}

/* What is live lived through all calls since its birth. */
static unsigned use_flags_of(const struct read_capture *capture, const struct format_live *slot)
{
    bool lived = capture->unseen.count > 0 && capture->unseen.last_ns >= slot->time_ns;
    unsigned flags = slot->use_flags & FORMAT_USE_FLAGS;

    return flags | (lived && flags ? FORMAT_USE_UNSEEN : 0u);
}

/* The figures may be of several moments: the gap's two ends are of one, and a first use there is wherever there is a last. */
static struct format_uses uses_of(const struct format_live *slot)
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
            .flags = read_plain_flags(slot->flags),
            .memclass = read_class(slot->flags),
            .hint = slot->hint < FORMAT_HINT_COUNT ? (enum format_hint_what)slot->hint
                                                   : FORMAT_HINT_NONE,
            .rule = slot->rule,
            .pystack = slot->pystack,
            .uses = uses_of(slot),
            .use_count = slot->use_count,
            .use_flags = use_flags_of(capture, slot),
    };
}

static int take_live(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_live slot;

    memcpy(&slot, at, sizeof slot);
    if (slot.state == 0)
        return 0;
    if ((slot.state & 1) == 0 || slot.sum != formatsum_live(&slot))
        return read_leave_out(reader, READ_AREA_LIVE);
    capture->loose_sum += formatsum_loose_live(&slot);
    read_note_numbers(reader, slot.path, slot.stack, slot.pystack);
    if (slot.state >> 1 > reader->logged.newest_seq)
        reader->logged.newest_seq = slot.state >> 1;
    bool is_other = read_class(slot.flags) >= MEMCLASS_DEVICE_END;
    struct read_live **list = is_other ? &capture->other : &capture->live;
    size_t *count = is_other ? &capture->other_count : &capture->live_count;
    size_t *size = is_other ? &reader->other_size : &reader->live_size;
    if (read_make_room((void **)list, size, *count, sizeof **list) < 0)
        return read_no_memory(reader);
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

/* In the order of numbers. Of what went from slot to slot while the parts were read, the newest is kept. */
static void sort_live(const struct reader *reader, struct read_live *live, size_t *count)
{
    size_t kept = 0;

    if (*count == 0)
        return;
    if (read_is_moving(reader)) {
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
    int r = read_each(reader, FORMAT_EXTENT_LIVE, sizeof(struct format_live), 0, take_live);

    sort_live(reader, capture->live, &capture->live_count);
    sort_live(reader, capture->other, &capture->other_count);
    return r;
}

/* ---- why allocations failed ---- */

static int take_oom(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct read_oom oom = {0};

    memcpy(&oom.what, at, sizeof oom.what);
    if (oom.what.state == 0)
        return 0;
    if ((oom.what.state & 1) == 0 || oom.what.sum != formatsum_oom(&oom.what))
        return read_leave_out(reader, READ_AREA_FAILURES);
    if (read_make_room((void **)&capture->oom, &reader->oom_size, capture->oom_record_count,
                sizeof *capture->oom)
            < 0)
        return read_no_memory(reader);
    oom.number = oom.what.state >> 1;
    read_note_numbers(reader, oom.what.path, oom.what.stack, oom.what.pystack);
    read_note_numbers(reader, oom.what.call, 0, 0);
    for (unsigned i = 0; i < oom.what.holder_count && i < FORMAT_OOM_HOLDERS; i++)
        read_note_numbers(reader, 0, oom.what.holder[i].stack, oom.what.holder[i].pystack);
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
    int r = read_each(reader, FORMAT_EXTENT_OOM, sizeof(struct format_oom), 0, take_oom);

    if (capture->oom_record_count > 0)
        qsort(capture->oom, capture->oom_record_count, sizeof *capture->oom, oom_by_number);
    return r;
}

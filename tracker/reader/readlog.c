/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include "tracker/format/eventcode.h"
#include "tracker/format/formatsum.h"
#include "tracker/reader/readevent.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The length of the record at `from`, of `left` available bytes; 0 = invalid. */
static size_t record_length(const unsigned char *from, uint32_t left)
{
    return from[0] <= left ? from[0] : 0;
}

/* Are the records of a chunk unchanged? */
static bool readlog_is_whole(const unsigned char *records, uint64_t number, uint64_t published)
{
    uint64_t sum = formatsum_chunk(number);
    uint32_t end = (uint32_t)published;
    uint32_t at = 0;

    if (end > FORMAT_CHUNK_ROOM)
        return false;
    while (at < end) {
        size_t length = record_length(records + at, end - at);

        if (length == 0)
            return false;
        sum = formatsum_bytes(sum, records + at, length);
        at += (uint32_t)length;
    }
    return published == 0 || formatsum_used(end, sum) == published;
}

/* ---- keeping records ---- */

/* A valid record of a chunk, while it is being sorted. */
struct record {
    struct format_event event;
    uint32_t order;
};

static int record_by_seq(const void *left, const void *right)
{
    const struct record *a = left;
    const struct record *b = right;

    if (a->event.seq != b->event.seq)
        return a->event.seq < b->event.seq ? -1 : 1;
    if (a->event.time_ns != b->event.time_ns)
        return a->event.time_ns < b->event.time_ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Makes space for `bytes` more after the kept log. */
static int readlog_make_room(struct reader *reader, size_t bytes)
{
    struct read_private *into = reader->capture->private;
    size_t wanted = into->log_used + bytes;
    unsigned char *to;

    if (wanted <= reader->log_size)
        return 0;
    if (wanted < reader->log_size + reader->log_size / 2)
        wanted = reader->log_size + reader->log_size / 2;
    to = realloc(into->log, wanted);
    if (!to)
        return reader_no_memory(reader);
    into->log = to;
    reader->log_size = wanted;
    return 0;
}

/* Results of a scan of all records of a chunk. */
struct found {
    uint32_t end;          /* of the readable ones */
    uint32_t count;        /* of the valid ones */
    uint64_t seq, time_ns; /* of the first one */
    bool is_sorted;
};

static void readlog_note_event(struct reader *reader, const struct read_event *event)
{
    struct read_logged *logged = &reader->logged;
    bool is_alloc = event->kind == FORMAT_EVENT_ALLOC;

    logged->allocs += is_alloc;
    logged->alloc_bytes += is_alloc ? event->size : 0;
    logged->frees += event->kind == FORMAT_EVENT_FREE;
    logged->failures += event->kind == FORMAT_EVENT_OOM;
    if (is_alloc && event->size > logged->largest)
        logged->largest = event->size;
    if (event->seq > logged->newest_seq)
        logged->newest_seq = event->seq;
    reader_note_numbers(reader, event->path_number, event->stack, event->pystack);
    reader_note_numbers(reader, event->call, 0, 0);
    for (unsigned i = 0; i < FORMAT_CALL_BUFFERS; i++)
        reader_note_numbers(reader, event->arg[i], 0, 0);
}

static struct found look_through(struct reader *reader, const unsigned char *records, uint32_t end)
{
    struct found found = {.is_sorted = true};
    struct read_capture *capture = reader->capture;
    struct eventcode code = {{0}};
    uint64_t seq = 0, time_ns = 0;

    while (found.end < end) {
        struct format_event from;
        struct read_event event;
        size_t length = eventcode_get(&code, records + found.end, end - found.end, &from);

        if (length == 0) {
            capture->bad_records++; /* the records after it cannot be found */
            break;
        }
        found.end += (uint32_t)length;
        if (!readevent_decode(&from, &event)) {
            capture->bad_records++;
            continue;
        }
        if (found.count++ == 0) {
            found.seq = event.seq;
            found.time_ns = event.time_ns;
        } else if (event.seq < seq || (event.seq == seq && event.time_ns < time_ns)) {
            found.is_sorted = false;
        }
        seq = event.seq;
        time_ns = event.time_ns;
        capture->kind_count[event.kind]++;
        readlog_note_event(reader, &event);
    }
    return found;
}

/* Encodes the records anew in sorted order: most threads write theirs sorted, so this is rare. */
static int keep_sorted(struct reader *reader, const unsigned char *records, struct found *found)
{
    struct read_private *into = reader->capture->private;
    struct eventcode code = {{0}};
    struct record *list = malloc((found->count + 1) * sizeof *list); /* + 1 for an invalid one */
    uint32_t count = 0;
    int r = list ? readlog_make_room(reader, (size_t)found->count * EVENTCODE_ROOM) : -ENOMEM;

    for (uint32_t at = 0; r == 0 && at < found->end;) {
        struct read_event event;

        at += (uint32_t)eventcode_get(&code, records + at, found->end - at, &list[count].event);
        list[count].order = count;
        count += readevent_decode(&list[count].event, &event);
    }
    if (r == 0) {
        qsort(list, count, sizeof *list, record_by_seq);
        found->seq = list[0].event.seq;
        found->time_ns = list[0].event.time_ns;
        code = (struct eventcode){{0}};
    }
    for (uint32_t i = 0; r == 0 && i < count; i++)
        into->log_used += eventcode_put(&code, &list[i].event, into->log + into->log_used);
    free(list);
    return r < 0 ? reader_no_memory(reader) : 0;
}

static int readlog_keep(struct reader *reader, const unsigned char *records, struct found *found)
{
    struct read_private *into = reader->capture->private;
    size_t begin = into->log_used;
    int r = 0;

    if (reader_make_room(
                (void **)&into->chunk, &reader->chunk_size, into->chunks, sizeof *into->chunk)
            < 0)
        return reader_no_memory(reader);
    if (!found->is_sorted) {
        r = keep_sorted(reader, records, found);
    } else if ((r = readlog_make_room(reader, found->end)) == 0) {
        memcpy(into->log + begin, records, found->end);
        into->log_used += found->end;
    }
    if (r < 0)
        return r;
    into->chunk[into->chunks] = (struct read_chunk){.seq = found->seq,
            .time_ns = found->time_ns,
            .begin = begin,
            .end = into->log_used,
            .order = into->chunks};
    into->chunks++;
    reader->capture->event_count += found->count;
    return 0;
}

static int take_chunk(struct reader *reader, const unsigned char *at)
{
    const unsigned char *records = at + sizeof(struct format_chunk);
    struct format_chunk chunk;
    struct found found;

    memcpy(&chunk, at, sizeof chunk);
    if (chunk.number == 0) {
        reader->capture->damaged[READ_AREA_EVENTS] += chunk.used != 0;
        return 0;
    }
    if (!readlog_is_whole(records, chunk.number, chunk.used))
        return reader_leave_out(reader, READ_AREA_EVENTS);
    reader->logged.chunks++;
    if (chunk.number > reader->logged.newest_chunk)
        reader->logged.newest_chunk = chunk.number;
    found = look_through(reader, records, (uint32_t)chunk.used);
    return found.count > 0 ? readlog_keep(reader, records, &found) : 0;
}

/* ---- the newest events ---- */

#define NEWEST_CHUNKS 8u
#define HEADS_MOST    65536u /* chunks that are examined: the last 4 GiB of the log */

/* Chunks to be read, the newest first. */
struct newest {
    struct {
        uint64_t number, offset;
    } chunk[NEWEST_CHUNKS];
    unsigned count;
    uint64_t looks;
};

static void keep_newest(struct newest *newest, uint64_t number, uint64_t offset)
{
    unsigned at = newest->count;

    if (at == NEWEST_CHUNKS && newest->chunk[at - 1].number >= number)
        return;
    at = at < NEWEST_CHUNKS ? newest->count++ : at - 1;
    for (; at > 0 && newest->chunk[at - 1].number < number; at--)
        newest->chunk[at] = newest->chunk[at - 1];
    newest->chunk[at].number = number;
    newest->chunk[at].offset = offset;
}

/* A thread fills a chunk completely; an older unfilled one may belong to a thread that ended. */
static void look_at_head(struct reader *reader, uint64_t offset, struct newest *newest)
{
    struct format_chunk chunk;

    newest->looks++;
    if (!reader_fetch(&reader->source, offset, &chunk, sizeof chunk) || chunk.number == 0)
        return;
    if ((uint32_t)chunk.used <= FORMAT_CHUNK_ROOM - EVENTCODE_ROOM || newest->count == 0
            || chunk.number > newest->chunk[0].number)
        keep_newest(newest, chunk.number, offset);
}

static int read_newest(struct reader *reader)
{
    struct newest newest = {.count = 0};
    unsigned char *bytes;
    int r = 0;

    for (uint32_t i = reader->extents; i > 0; i--) {
        const struct format_extent *extent = &reader->extent[i - 1];
        uint64_t count = extent->length / FORMAT_CHUNK_BYTES;

        for (; extent->kind == FORMAT_EXTENT_EVENTS && count > 0 && newest.looks < HEADS_MOST;
                count--)
            look_at_head(reader, extent->offset + (count - 1) * FORMAT_CHUNK_BYTES, &newest);
    }
    bytes = malloc((size_t)2 * FORMAT_CHUNK_BYTES);
    if (!bytes)
        return reader_no_memory(reader);
    for (unsigned i = 0; r == 0 && i < newest.count; i++)
        if (reader_records(reader, newest.chunk[i].offset, bytes, FORMAT_CHUNK_BYTES,
                    FORMAT_CHUNK_BYTES, sizeof(struct format_chunk), FORMAT_EXTENT_EVENTS))
            r = take_chunk(reader, bytes);
    free(bytes);
    return r;
}

/* Reads all events, the newest ones, or none, depending on `parts`. */
static int read_log(struct reader *reader)
{
    if (reader->parts & READ_EVENTS)
        return reader_each(reader, FORMAT_EXTENT_EVENTS, FORMAT_CHUNK_BYTES,
                sizeof(struct format_chunk), take_chunk);
    return reader->parts & READ_NEWEST ? read_newest(reader) : 0;
}

int read_events(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    int r = read_log(reader);

    /* Chunks that were recycled meanwhile are lost to the reader, too. */
    (void)reader_fetch(&reader->source, offsetof(struct format_header, lost), &capture->lost,
            sizeof capture->lost);

    read_sort_chunks(capture->private);
    /* the events of a damaged chunk are unknown */
    bool is_known = reader->parts & READ_EVENTS && !capture->damaged[READ_AREA_EVENTS]
            && (capture->trace == FORMAT_TRACE_RING || capture->trace == FORMAT_TRACE_FULL);
    capture->complete_after_seq = is_known ? capture->lost.recycled_seq : UINT64_MAX;
    capture->has_all_events = is_known && capture->lost.recycled_seq == 0
            && capture->lost.events_recycled == 0 && capture->lost.events_dropped == 0;
    return r;
}

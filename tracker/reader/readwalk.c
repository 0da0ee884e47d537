/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include "tracker/format/eventcode.h"
#include "tracker/reader/readevent.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A chunk that the walk has begun. */
struct head {
    struct read_event event; /* the next one */
    struct eventcode code;
    size_t at, end; /* in the log: after `event` */
    const struct read_chunk *chunk;
};

/* Chunks overlap in time where threads wrote concurrently. Begun chunks are in a heap by their next
 * event; chunks whose first event is later wait. */
struct read_walk {
    struct read_capture *capture;
    size_t next_chunk;
    struct head **heap;
    size_t count, room;
    size_t listed;           /* index in capture->event, if that exists */
    struct read_event event; /* the event returned last */
    bool is_last;
};

static int readwalk_compare(uint64_t seq, uint64_t time_ns, size_t order, const struct head *b)
{
    if (seq != b->event.seq)
        return seq < b->event.seq ? -1 : 1;
    if (time_ns != b->event.time_ns)
        return time_ns < b->event.time_ns ? -1 : 1;
    return order < b->chunk->order ? -1 : 1;
}

static bool readwalk_is_before(const struct head *a, const struct head *b)
{
    return readwalk_compare(a->event.seq, a->event.time_ns, a->chunk->order, b) < 0;
}

static int readwalk_by_first(const void *left, const void *right)
{
    const struct read_chunk *a = left;
    const struct read_chunk *b = right;

    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void read_sort_chunks(struct read_private *private)
{
    if (private->chunks > 0)
        qsort(private->chunk, private->chunks, sizeof *private->chunk, readwalk_by_first);
}

static void readwalk_swap(struct read_walk *walk, size_t a, size_t b)
{
    struct head *kept = walk->heap[a];

    walk->heap[a] = walk->heap[b];
    walk->heap[b] = kept;
}

static void readwalk_rise(struct read_walk *walk, size_t at)
{
    for (; at > 0 && readwalk_is_before(walk->heap[at], walk->heap[(at - 1) / 2]);
            at = (at - 1) / 2)
        readwalk_swap(walk, at, (at - 1) / 2);
}

static void readwalk_sink(struct read_walk *walk, size_t at)
{
    for (;;) {
        size_t least = at;

        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < walk->count; child++)
            if (readwalk_is_before(walk->heap[child], walk->heap[least]))
                least = child;
        if (least == at)
            return;
        readwalk_swap(walk, at, least);
        at = least;
    }
}

/* Advances to the next valid record; false = none. */
static bool readwalk_advance(const struct read_walk *walk, struct head *head)
{
    const struct read_private *private = walk->capture->private;

    while (head->at < head->end) {
        struct format_event from;
        size_t length =
                eventcode_get(&head->code, private->log + head->at, head->end - head->at, &from);

        if (length == 0)
            return false;
        head->at += length;
        if (readevent_decode(&from, &head->event))
            return true;
    }
    return false;
}

/* Frees the whole pages of a passed chunk. */
static void readwalk_give_back(const struct read_walk *walk, const struct read_chunk *chunk)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t log = (uintptr_t)walk->capture->private->log;
    uintptr_t begin = (log + chunk->begin + page - 1) / page * page;
    uintptr_t end = (log + chunk->end) / page * page;

    if (walk->is_last && begin < end)
        (void)madvise(
                (void *)begin, end - begin, MADV_DONTNEED); /* NOLINT(performance-no-int-to-ptr) */
}

static bool readwalk_begin_chunk(struct read_walk *walk)
{
    const struct read_chunk *chunk = &walk->capture->private->chunk[walk->next_chunk];
    struct head *head = calloc(1, sizeof *head);

    if (!head
            || reader_make_room((void **)&walk->heap, &walk->room, walk->count, sizeof(void *))
                    < 0) {
        free(head);
        return false;
    }
    walk->next_chunk++;
    head->chunk = chunk;
    head->at = chunk->begin;
    head->end = chunk->end;
    (void)readwalk_advance(walk, head); /* no chunk is empty */
    walk->heap[walk->count] = head;
    readwalk_rise(walk, walk->count++);
    return true;
}

/* Is the first event of the next chunk earlier than those of all begun chunks? */
static bool is_next_due(const struct read_walk *walk)
{
    const struct read_private *private = walk->capture->private;
    const struct read_chunk *chunk;

    if (walk->next_chunk == private->chunks)
        return false;
    chunk = &private->chunk[walk->next_chunk];
    return walk->count == 0
            || readwalk_compare(chunk->seq, chunk->time_ns, chunk->order, walk->heap[0]) < 0;
}

static void readwalk_end_chunk(struct read_walk *walk)
{
    struct head *head = walk->heap[0];

    readwalk_give_back(walk, head->chunk);
    free(head);
    walk->heap[0] = walk->heap[--walk->count];
}

struct read_walk *read_walk_new(struct read_capture *capture, bool is_last)
{
    struct read_walk *walk = calloc(1, sizeof *walk);

    if (walk) {
        walk->capture = capture;
        walk->is_last = is_last;
    }
    return walk;
}

static const struct read_event *next_listed(struct read_walk *walk)
{
    return walk->listed < walk->capture->event_count ? &walk->capture->event[walk->listed++] : NULL;
}

const struct read_event *read_walk_next(struct read_walk *walk)
{
    struct read_event *event = &walk->event;

    if (walk->capture->event)
        return next_listed(walk);
    while (is_next_due(walk))
        if (!readwalk_begin_chunk(walk))
            return NULL;
    if (walk->count == 0)
        return NULL;
    *event = walk->heap[0]->event;
    if (!readwalk_advance(walk, walk->heap[0]))
        readwalk_end_chunk(walk);
    readwalk_sink(walk, 0);
    event->path = reader_string(walk->capture, event->path_number);
    event->stack = event->stack <= walk->capture->private->nodes ? event->stack : 0;
    return event;
}

void read_walk_free(struct read_walk *walk)
{
    for (size_t i = 0; walk && i < walk->count; i++)
        free(walk->heap[i]);
    if (walk)
        free(walk->heap);
    free(walk);
}

bool read_list(struct read_capture *capture)
{
    struct read_walk *walk = read_walk_new(capture, false);
    struct read_event *list = calloc(capture->event_count + 1, sizeof *list);
    const struct read_event *event;
    size_t count = 0;

    while (walk && list && (event = read_walk_next(walk)))
        list[count++] = *event;
    read_walk_free(walk);
    if (!list || count < capture->event_count) {
        free(list);
        return false;
    }
    capture->event = list;
    return true;
}

/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include "tracker/format/formatsum.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* True if the device is at its peak now. */
static bool is_high_now(const struct format_high *high)
{
    /* live bytes may be below 0 in a file that others changed */
    return high->live_bytes > high->peak_bytes && high->live_bytes <= INT64_MAX;
}

static void readplace_share(
        const struct reader *reader, const struct format_place *from, struct read_place *to)
{
    const struct format_high *high;

    if (from->device < 0 || from->device >= (int)FORMAT_DEVICES_MAX)
        return; /* its peaks are not counted */
    high = &reader->header.high[from->device];
    if (is_high_now(high) || from->peak < high->number) {
        to->high_bytes = from->live_bytes;
        to->high_count = from->live_count;
    } else {
        to->high_bytes = from->at_peak_bytes;
        to->high_count = from->at_peak_count;
    }
}

static int take_place(struct reader *reader, const unsigned char *at)
{
    struct read_capture *capture = reader->capture;
    struct format_place from;
    struct read_place *to;

    memcpy(&from, at, sizeof from);
    if (from.state == 0)
        return 0;
    if (from.changing != FORMAT_PLACE_CHANGING
            && (from.changing != 0 || from.sum != formatsum_place(&from)))
        return reader_leave_out(reader, READ_AREA_PLACES);
    capture->loose_sum += formatsum_loose_place(&from);
    reader_note_numbers(reader, from.path, from.stack, from.pystack);
    if ((from.state & 1) == 0)
        return 0;
    if (reader_make_room((void **)&capture->place, &reader->place_size, capture->place_count,
                sizeof *capture->place)
            < 0)
        return reader_no_memory(reader);
    to = &capture->place[capture->place_count++];
    *to = (struct read_place){
            .stack = from.stack,
            .pystack = from.pystack,
            .path_number = from.path,
            .path = "",
            .device = from.device,
            .is_other = from.flags & FORMAT_PLACE_OTHER,
            .allocated_bytes = from.allocated_bytes,
            .allocated_count = from.allocated_count,
            .live_bytes = from.live_bytes,
            .live_count = from.live_count,
            .peak_bytes = from.peak_bytes,
            .peak_count = from.peak_count,
            .temporary_bytes = from.temporary_bytes,
            .temporary_count = from.temporary_count,
    };
    readplace_share(reader, &from, to);
    return 0;
}

static int readplace_by_share(const void *left, const void *right)
{
    const struct read_place *a = left;
    const struct read_place *b = right;

    if (a->high_bytes != b->high_bytes)
        return a->high_bytes < b->high_bytes ? 1 : -1;
    if (a->allocated_bytes != b->allocated_bytes)
        return a->allocated_bytes < b->allocated_bytes ? 1 : -1;
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    return a->path_number < b->path_number ? -1 : a->path_number > b->path_number;
}

int read_places(struct reader *reader)
{
    struct read_capture *capture = reader->capture;
    int r;

    /* as late as possible: of a running process, places are read after it */
    (void)reader_fetch(&reader->source, offsetof(struct format_header, high), reader->header.high,
            sizeof reader->header.high);
    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++) {
        const struct format_high *high = &reader->header.high[i];

        capture->high[i].bytes = is_high_now(high) ? high->live_bytes : high->peak_bytes;
        capture->high[i].seq = high->seq;
        capture->high[i].time_ns = high->time_ns;
    }
    capture->places_lost = reader->header.places_lost;
    r = reader_each(reader, FORMAT_EXTENT_PLACES, sizeof(struct format_place), 0, take_place);
    if (capture->place_count > 0)
        qsort(capture->place, capture->place_count, sizeof *capture->place, readplace_by_share);
    return r;
}

/* SPDX-License-Identifier: MIT */
#include "tracker/reader/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART_BYTES (1u << 20) /* bytes of one read */

int reader_fail(struct reader *reader, int r, uint64_t offset, const char *text, ...)
{
    va_list args;

    if (!reader->error)
        return r;
    reader->error->offset = offset;
    va_start(args, text);
    (void)vsnprintf(reader->error->text, sizeof reader->error->text, text, args);
    va_end(args);
    return r;
}

int reader_no_memory(struct reader *reader)
{
    return reader_fail(reader, -ENOMEM, 0, "no memory");
}

int reader_pass_over(struct reader *reader)
{
    reader->capture->bad_records++;
    return 0;
}

int reader_leave_out(struct reader *reader, enum read_area area)
{
    reader->capture->damaged[area]++;
    return 0;
}

int reader_make_room(void **array, size_t *size, size_t count, size_t element)
{
    size_t wanted = *size ? 2 * *size : 64;
    void *to;

    if (count < *size)
        return 0;
    if (wanted > SIZE_MAX / element)
        return -ENOMEM;
    to = realloc(*array, wanted * element);
    if (!to)
        return -ENOMEM;
    *array = to;
    *size = wanted;
    return 0;
}

bool reader_fetch(const struct read_source *source, uint64_t offset, void *to, size_t length)
{
    size_t used = 0;

    if (offset > source->length || length > source->length - offset)
        return false;
    if (source->fd < 0) {
        memcpy(to, source->bytes + offset, length);
        return true;
    }
    while (used < length) {
        ssize_t got = pread(source->fd, (char *)to + used, length - used, (off_t)(offset + used));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false; /* the file was truncated */
        used += (size_t)got;
    }
    return true;
}

bool reader_is_moving(const struct reader *reader)
{
    return reader->source.fd >= 0 && reader->header.state != FORMAT_STATE_CLEAN;
}

void reader_note_numbers(struct reader *reader, uint32_t string, uint32_t stack, uint32_t pystack)
{
    struct read_logged *logged = &reader->logged;

    pystack &= ~FORMAT_PYSTACK_AMBIENT;
    logged->string = string > logged->string ? string : logged->string;
    logged->node = stack > logged->node ? stack : logged->node;
    logged->pynode = pystack > logged->pynode ? pystack : logged->pynode;
}

const char *reader_string(const struct read_capture *capture, uint32_t number)
{
    const struct read_private *private = capture->private;

    if (number == 0 || number > private->strings || !private->string[number])
        return "";
    return private->string[number];
}

/* ---- records of one size ---- */

/* Records may change while they are copied, if the process runs. A record's first 8 bytes never
 * return to an earlier nonzero value, so a slot whose first 8 bytes are the same in a second copy
 * was complete in the first one. The part after a chunk's head only grows while they stay, so the
 * length in the first copy's head is complete in the second copy. Other records are cleared. A
 * place changes after its first 8 bytes: it is marked as being changed. */
static void reader_drop_torn(unsigned char *bytes, const unsigned char *again, size_t length,
        size_t unit, size_t log_head, enum format_extent_kind kind)
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

bool reader_records(struct reader *reader, uint64_t offset, unsigned char *bytes, size_t length,
        size_t unit, size_t log_head, enum format_extent_kind kind)
{
    if (!reader_fetch(&reader->source, offset, bytes, length))
        return false;
    if (reader_is_moving(reader)) {
        if (!reader_fetch(&reader->source, offset, bytes + length, length))
            return false;
        reader_drop_torn(bytes, bytes + length, length, unit, log_head, kind);
    }
    return true;
}

static uint64_t reader_longest_of(const struct reader *reader, enum format_extent_kind kind)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < reader->extents; i++)
        if (reader->extent[i].kind == (uint32_t)kind && reader->extent[i].length > longest)
            longest = reader->extent[i].length;
    return longest;
}

int reader_each(struct reader *reader, enum format_extent_kind kind, size_t unit, size_t log_head,
        int (*take)(struct reader *reader, const unsigned char *at))
{
    uint64_t longest = reader_longest_of(reader, kind);
    size_t part = longest < PART_BYTES ? (size_t)longest / unit * unit : PART_BYTES / unit * unit;
    unsigned char *bytes;
    int r = 0;

    if (part == 0)
        return 0;
    bytes = malloc(2 * part);
    if (!bytes)
        return reader_no_memory(reader);
    for (uint32_t i = 0; r == 0 && i < reader->extents; i++) {
        const struct format_extent *extent = &reader->extent[i];

        if (extent->kind != (uint32_t)kind)
            continue;
        for (uint64_t at = 0; r == 0 && at < extent->length; at += part) {
            uint64_t left = extent->length - at;
            size_t length = left < part ? (size_t)left / unit * unit : part;

            if (length == 0
                    || !reader_records(
                            reader, extent->offset + at, bytes, length, unit, log_head, kind))
                break;
            for (size_t j = 0; r == 0 && j < length; j += unit)
                r = take(reader, bytes + j);
        }
    }
    free(bytes);
    return r;
}

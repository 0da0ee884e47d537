/* SPDX-License-Identifier: MIT */
#include "tracker/reader/readpart.h"

#include "tracker/format/formatsum.h"

#include <errno.h>
#include <stdlib.h>

/* Reads the record of an extent, if it is newer than the one that is there. */
static int readrecord_take(struct reader *reader, const struct format_extent *extent)
{
    struct read_record *newest = &reader->capture->record;
    struct format_record what;
    unsigned char *bytes;

    if (extent->length < sizeof what
            || !reader_fetch(&reader->source, extent->offset, &what, sizeof what)
            || (what.sum != 0 && what.bytes > extent->length - sizeof what))
        return reader_leave_out(reader, READ_AREA_RECORD);
    if (what.sum == 0 || (newest->bytes && what.time_ns < newest->what.time_ns))
        return 0; /* being written, or older */
    bytes = malloc(what.bytes + 1);
    if (!bytes)
        return reader_no_memory(reader);
    if (!reader_fetch(&reader->source, extent->offset + sizeof what, bytes, what.bytes)
            || what.sum != formatsum_record(&what, bytes)) {
        free(bytes);
        return reader_leave_out(reader, READ_AREA_RECORD);
    }
    free(newest->bytes);
    *newest = (struct read_record){what, bytes};
    return 0;
}

int read_record(struct reader *reader)
{
    int r = 0;

    for (uint32_t i = 0; i < reader->extents && r == 0; i++)
        if (reader->extent[i].kind == FORMAT_EXTENT_RECORD)
            r = readrecord_take(reader, &reader->extent[i]);
    return r;
}

/* SPDX-License-Identifier: MIT */
#include "tracker/reader/capmake.h"

#include "tracker/format/formatsum.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES FORMAT_CHUNK_BYTES
#ifndef EXTENT_MAX
#    define EXTENT_MAX \
        (UINT64_C(64) << 20) /* each is twice as long as the one before, up to this */
#endif

_Static_assert(FORMAT_DEFS_BLOCK == BLOCK_BYTES, "one size of block for all areas");

enum area_number {
    AREA_LIVE,
    AREA_DEFS,
    AREA_EVENTS,
    AREA_OOM,
    AREA_PLACES,
    AREAS,
};

/* The extents of one kind. */
struct area {
    enum format_extent_kind kind;
    unsigned char *block; /* records not yet in the file */
    size_t used;          /* bytes used in it */
    uint32_t extent;      /* index of the newest one */
    uint64_t size;        /* its size, 0 = none yet */
    uint64_t filled;      /* bytes of it that are written */
};

struct capmake {
    int fd;
    int error;
    uint64_t end; /* of the claimed part of the file */
    struct format_extent extent[FORMAT_EXTENTS_MAX];
    uint32_t extents;
    struct area area[AREAS];
    struct eventcode code; /* of the chunk being filled */
    uint64_t chunk_number, chunk_sum;
    uint64_t loose; /* formatsum_loose_* of the written records */
};

struct capmake *capmake_new(int fd)
{
    static const enum format_extent_kind kinds[AREAS] = {
            [AREA_LIVE] = FORMAT_EXTENT_LIVE,
            [AREA_DEFS] = FORMAT_EXTENT_DEFS,
            [AREA_EVENTS] = FORMAT_EXTENT_EVENTS,
            [AREA_OOM] = FORMAT_EXTENT_OOM,
            [AREA_PLACES] = FORMAT_EXTENT_PLACES,
    };
    struct capmake *make = calloc(1, sizeof *make);

    if (!make)
        return NULL;
    make->fd = fd;
    make->end = FORMAT_HEADER_BYTES;
    make->loose = FORMATSUM_FACTOR;
    for (unsigned i = 0; i < AREAS; i++) {
        make->area[i].kind = kinds[i];
        make->area[i].block = calloc(1, BLOCK_BYTES);
        if (!make->area[i].block) {
            capmake_free(make);
            return NULL;
        }
    }
    return make;
}

void capmake_free(struct capmake *make)
{
    if (!make)
        return;
    for (unsigned i = 0; i < AREAS; i++)
        free(make->area[i].block);
    free(make);
}

/* ---- blocks and extents ---- */

static int write_at(struct capmake *make, uint64_t offset, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length > 0 && make->error == 0) {
        ssize_t put = pwrite(make->fd, at, length, (off_t)offset);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            make->error = put < 0 ? -errno : -EIO;
            break;
        }
        at += put;
        offset += (uint64_t)put;
        length -= (size_t)put;
    }
    return make->error;
}

static void claim_extent(struct capmake *make, struct area *area)
{
    uint64_t size = area->size == 0 ? BLOCK_BYTES : 2 * area->size;

    if (make->extents == FORMAT_EXTENTS_MAX) {
        make->error = -EFBIG;
        return;
    }
    area->size = size < EXTENT_MAX ? size : EXTENT_MAX;
    area->extent = make->extents++;
    area->filled = 0;
    make->extent[area->extent] =
            (struct format_extent){.offset = make->end, .kind = (uint32_t)area->kind};
    make->end += area->size;
}

/* Writes the block to the file; the next one begins empty. */
static int flush(struct capmake *make, struct area *area)
{
    if (area->used == 0 || make->error < 0)
        return make->error;
    if (area->filled == area->size)
        claim_extent(make, area);
    if (write_at(make, make->extent[area->extent].offset + area->filled, area->block, BLOCK_BYTES)
            == 0) {
        area->filled += BLOCK_BYTES;
        make->extent[area->extent].length = area->filled;
    }
    memset(area->block, 0, BLOCK_BYTES);
    area->used = 0;
    return make->error;
}

/* Space for one record in a block; NULL after an error. */
static unsigned char *take_room(struct capmake *make, enum area_number number, size_t bytes)
{
    struct area *area = &make->area[number];
    unsigned char *room;

    if (make->error < 0 || (area->used + bytes > BLOCK_BYTES && flush(make, area) < 0))
        return NULL;
    room = area->block + area->used;
    area->used += bytes;
    return room;
}

/* ---- records ---- */

int capmake_def(
        struct capmake *make, struct format_def *def, size_t bytes, const void *text, size_t length)
{
    size_t total = (bytes + length + 7) / 8 * 8;
    unsigned char *room;
    uint32_t kind;

    if (total > BLOCK_BYTES || length > BLOCK_BYTES)
        return -E2BIG;
    room = take_room(make, AREA_DEFS, total);
    if (!room)
        return make->error;
    def->bytes = (uint32_t)total;
    def->length = (uint32_t)length;
    memcpy(room, def, bytes);
    if (length > 0)
        memcpy(room + bytes, text, length);
    kind = formatsum_def(def->kind, (const struct format_def *)(const void *)room);
    memcpy(room, &kind, sizeof kind);
    return 0;
}

static void capmake_begin_chunk(struct capmake *make)
{
    make->code = (struct eventcode){{0}};
    make->chunk_sum = formatsum_chunk(++make->chunk_number);
    make->area[AREA_EVENTS].used = sizeof(struct format_chunk);
}

static int capmake_end_chunk(struct capmake *make)
{
    struct area *area = &make->area[AREA_EVENTS];
    struct format_chunk head = {.number = make->chunk_number};

    if (area->used == 0)
        return make->error;
    head.used = formatsum_used((uint32_t)(area->used - sizeof head), make->chunk_sum);
    memcpy(area->block, &head, sizeof head);
    return flush(make, area);
}

int capmake_event(struct capmake *make, const struct format_event *event)
{
    struct area *area = &make->area[AREA_EVENTS];
    unsigned char *record;
    size_t length;

    if (area->used + EVENTCODE_ROOM > BLOCK_BYTES)
        (void)capmake_end_chunk(make);
    if (make->error < 0)
        return make->error;
    if (area->used == 0)
        capmake_begin_chunk(make);
    record = area->block + area->used;
    length = eventcode_put(&make->code, event, record);
    make->chunk_sum = formatsum_bytes(make->chunk_sum, record, length);
    area->used += length;
    return 0;
}

static int put_record(
        struct capmake *make, enum area_number number, const void *record, size_t bytes)
{
    unsigned char *room = take_room(make, number, bytes);

    if (room)
        memcpy(room, record, bytes);
    return make->error;
}

int capmake_live(struct capmake *make, struct format_live *slot)
{
    slot->sum = formatsum_live(slot);
    make->loose += formatsum_loose_live(slot);
    return put_record(make, AREA_LIVE, slot, sizeof *slot);
}

int capmake_place(struct capmake *make, struct format_place *place)
{
    place->sum = formatsum_place(place);
    make->loose += formatsum_loose_place(place);
    return put_record(make, AREA_PLACES, place, sizeof *place);
}

int capmake_oom(struct capmake *make, struct format_oom *oom)
{
    oom->sum = formatsum_oom(oom);
    return put_record(make, AREA_OOM, oom, sizeof *oom);
}

/* ---- the end ---- */

int capmake_done(struct capmake *make, struct format_header *header)
{
    (void)capmake_end_chunk(make);
    for (unsigned i = 0; i < AREAS; i++)
        (void)flush(make, &make->area[i]);
    for (uint32_t i = 0; i < make->extents; i++)
        make->extent[i].sum = formatsum_extent(&make->extent[i]);
    (void)write_at(make, FORMAT_DIRECTORY_OFFSET, make->extent,
            FORMAT_EXTENTS_MAX * sizeof make->extent[0]);
    /* the last extents may be claimed beyond the written part */
    if (make->error == 0 && ftruncate(make->fd, (off_t)make->end) != 0)
        make->error = -errno;
    memcpy(header->magic, FORMAT_MAGIC, sizeof header->magic);
    header->version = FORMAT_VERSION;
    header->header_bytes = FORMAT_HEADER_BYTES;
    header->directory_offset = FORMAT_DIRECTORY_OFFSET;
    header->extent_count = make->extents;
    header->file_bytes = make->end;
    header->sum = formatsum_header(header);
    header->loose_sum = make->loose;
    header->seal = formatsum_seal(header);
    return write_at(make, 0, header, sizeof *header);
}

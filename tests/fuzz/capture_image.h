/* SPDX-License-Identifier: MIT */
/*
 * capture_image.h - captures built by hand, for tests and fuzzing of the reader.
 *
 * The image has the header and one extent of each kind, as small as the format allows (about 200 KiB, nearly all of it
 * zero). A patch is {region, offset, length, bytes}; a fuzzer's input is a list of patches, so that a handful of bytes
 * reaches every field behind the magic. image_seal gives what was patched its sums, which would else keep patches from what
 * lies behind them.
 */
#ifndef KEDGE_TESTS_FUZZ_CAPTURE_IMAGE_H
#define KEDGE_TESTS_FUZZ_CAPTURE_IMAGE_H

#include "tracker/format/eventcode.h"
#include "tracker/format/formatsum.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE_LIVE_AT   FORMAT_HEADER_BYTES
#define IMAGE_LIVE_SIZE FORMAT_PAGE
#define IMAGE_DEFS_AT   (IMAGE_LIVE_AT + IMAGE_LIVE_SIZE)
#define IMAGE_EVENTS_AT (IMAGE_DEFS_AT + FORMAT_DEFS_BLOCK)
#define IMAGE_PLACES_AT (IMAGE_EVENTS_AT + FORMAT_CHUNK_BYTES)
#define IMAGE_BYTES     (IMAGE_PLACES_AT + FORMAT_PAGE)

enum image_region {
    IMAGE_HEADER,
    IMAGE_DIRECTORY,
    IMAGE_LIVE,
    IMAGE_DEFS,
    IMAGE_EVENTS,
    IMAGE_PLACES,
    IMAGE_REGIONS,
};

static const struct {
    uint32_t at, size;
} image_regions[IMAGE_REGIONS] = {
        [IMAGE_HEADER] = {0, sizeof(struct format_header)},
        [IMAGE_DIRECTORY] = {FORMAT_DIRECTORY_OFFSET, 16 * sizeof(struct format_extent)},
        [IMAGE_LIVE] = {IMAGE_LIVE_AT, IMAGE_LIVE_SIZE},
        [IMAGE_DEFS] = {IMAGE_DEFS_AT, FORMAT_DEFS_BLOCK},
        [IMAGE_EVENTS] = {IMAGE_EVENTS_AT, FORMAT_CHUNK_BYTES},
        [IMAGE_PLACES] = {IMAGE_PLACES_AT, FORMAT_PAGE},
};

static inline void image_put(unsigned char *image, enum image_region region, size_t offset,
        const void *bytes, size_t length)
{
    if (offset < image_regions[region].size && length <= image_regions[region].size - offset)
        memcpy(image + image_regions[region].at + offset, bytes, length);
}

/* An empty capture of a process that runs. NULL without memory. */
static inline unsigned char *image_new(void)
{
    const struct format_extent extents[] = {
            {IMAGE_LIVE_AT, IMAGE_LIVE_SIZE, FORMAT_EXTENT_LIVE, 0},
            {IMAGE_DEFS_AT, FORMAT_DEFS_BLOCK, FORMAT_EXTENT_DEFS, 0},
            {IMAGE_EVENTS_AT, FORMAT_CHUNK_BYTES, FORMAT_EXTENT_EVENTS, 0},
            {IMAGE_PLACES_AT, FORMAT_PAGE, FORMAT_EXTENT_PLACES, 0},
    };
    struct format_header header = {
            .magic = {'K', 'E', 'D', 'G', 'E', 'C', 'A', 'P'},
            .version = FORMAT_VERSION,
            .header_bytes = FORMAT_HEADER_BYTES,
            .state = FORMAT_STATE_OPEN,
            .trace = FORMAT_TRACE_FULL,
            .pid = 4711,
            .extent_count = 4,
            .file_bytes = IMAGE_BYTES,
            .directory_offset = FORMAT_DIRECTORY_OFFSET,
    };
    const struct format_chunk chunk = {.number = 1};
    unsigned char *image = calloc(1, IMAGE_BYTES);

    if (!image)
        return NULL;
    image_put(image, IMAGE_HEADER, 0, &header, sizeof header);
    image_put(image, IMAGE_DIRECTORY, 0, extents, sizeof extents);
    image_put(image, IMAGE_EVENTS, 0, &chunk, sizeof chunk);
    return image;
}

/* Puts records into the chunk, from its start. */
static inline void image_events(
        unsigned char *image, const struct format_event *events, size_t count)
{
    struct eventcode code = {{0}};
    struct format_chunk chunk = {.number = 1};
    unsigned char *at = image + IMAGE_EVENTS_AT + sizeof chunk;

    for (size_t i = 0; i < count && chunk.used <= FORMAT_CHUNK_ROOM - EVENTCODE_ROOM; i++)
        chunk.used += eventcode_put(&code, &events[i], at + chunk.used);
    image_put(image, IMAGE_EVENTS, 0, &chunk, sizeof chunk);
}

/* Applies patches: 1 byte region, 2 bytes offset, 1 byte length, then that many bytes; until the input ends. */
static inline void image_patch(unsigned char *image, const unsigned char *input, size_t length)
{
    while (length >= 4) {
        enum image_region region = (enum image_region)(input[0] % IMAGE_REGIONS);
        size_t offset = (size_t)input[1] | (size_t)input[2] << 8;
        size_t bytes = input[3];

        input += 4;
        length -= 4;
        if (bytes > length)
            bytes = length;
        image_put(image, region, offset, input, bytes);
        input += bytes;
        length -= bytes;
    }
}

static inline void image_seal_extents(unsigned char *image)
{
    for (size_t i = 0; i < 16; i++) {
        unsigned char *at = image + FORMAT_DIRECTORY_OFFSET + i * sizeof(struct format_extent);
        struct format_extent extent;

        memcpy(&extent, at, sizeof extent);
        extent.sum = formatsum_extent(&extent);
        memcpy(at, &extent, sizeof extent);
    }
}

/* The page of live slots as they are; what the directory says of that page does not matter: slots of area E lie there, too. */
static inline void image_seal_page(unsigned char *image)
{
    struct format_extent first;

    memcpy(&first, image + FORMAT_DIRECTORY_OFFSET, sizeof first);
    for (size_t i = 0; i < IMAGE_LIVE_SIZE; i += sizeof(struct format_live)) {
        struct format_live slot;

        memcpy(&slot, image + IMAGE_LIVE_AT + i, sizeof slot);
        slot.sum = formatsum_live(&slot);
        if (first.kind != FORMAT_EXTENT_OOM)
            memcpy(image + IMAGE_LIVE_AT + i, &slot, sizeof slot);
    }
    for (size_t i = 0; i < IMAGE_LIVE_SIZE; i += sizeof(struct format_oom)) {
        struct format_oom slot;

        memcpy(&slot, image + IMAGE_LIVE_AT + i, sizeof slot);
        slot.sum = formatsum_oom(&slot);
        if (first.kind == FORMAT_EXTENT_OOM)
            memcpy(image + IMAGE_LIVE_AT + i, &slot, sizeof slot);
    }
    for (size_t i = 0; i < FORMAT_PAGE; i += sizeof(struct format_place)) {
        struct format_place place;

        memcpy(&place, image + IMAGE_PLACES_AT + i, sizeof place);
        place.sum = formatsum_place(&place);
        memcpy(image + IMAGE_PLACES_AT + i, &place, sizeof place);
    }
}

/* As far as records have lengths that make sense. */
static inline void image_seal_defs(unsigned char *image)
{
    size_t at = 0;

    while (FORMAT_DEFS_BLOCK - at >= sizeof(struct format_def)) {
        unsigned char *record = image + IMAGE_DEFS_AT + at;
        struct format_def def;
        uint32_t kind;

        memcpy(&def, record, sizeof def);
        kind = def.kind & ((1u << FORMAT_DEF_KIND_BITS) - 1);
        if (def.kind == 0 || def.bytes % 8 != 0 || def.bytes < sizeof def
                || def.bytes > FORMAT_DEFS_BLOCK - at)
            break;
        def.kind = formatsum_def(kind, (const struct format_def *)(const void *)record);
        memcpy(record, &def.kind, sizeof def.kind);
        at += def.bytes;
    }
}

/* As far as the chunk says, and as records have lengths. */
static inline void image_seal_chunk(unsigned char *image)
{
    const unsigned char *records = image + IMAGE_EVENTS_AT + sizeof(struct format_chunk);
    struct format_chunk chunk;
    uint32_t used = 0, end;
    uint64_t sum;

    memcpy(&chunk, image + IMAGE_EVENTS_AT, sizeof chunk);
    end = (uint32_t)chunk.used < FORMAT_CHUNK_ROOM ? (uint32_t)chunk.used : FORMAT_CHUNK_ROOM;
    sum = formatsum_chunk(chunk.number);
    while (used < end && records[used] != 0 && records[used] <= end - used) {
        sum = formatsum_bytes(sum, records + used, records[used]);
        used += records[used];
    }
    chunk.used = used ? formatsum_used(used, sum) : 0;
    memcpy(image + IMAGE_EVENTS_AT, &chunk, sizeof chunk);
}

/* Gives everything the sum that it should have. */
static inline void image_seal(unsigned char *image)
{
    struct format_header header;

    memcpy(&header, image, sizeof header);
    header.sum = formatsum_header(&header);
    memcpy(image, &header, sizeof header);
    image_seal_extents(image);
    image_seal_page(image);
    image_seal_defs(image);
    image_seal_chunk(image);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * export_segments.h - the memory that blocks are cut from, as segments over time: their sum is the
 * memory held from the driver.
 *
 * A capture has the bytes that each device's pool held at each moment, but not their addresses.
 * Segments are made so that each live block begins in one, and that the pool's segments have the
 * recorded size together:
 *
 *     the pool grows by N     ─► spare: N bytes of which no address is known
 *     a block where no segment is ─► one there, as large as spare and the next segment allow
 *     the pool shrinks by N   ─► spare, free segments, what is free in others, in this order
 *
 *     segment [ block ][ block ][ free ....... ]    spare [ .... ]    driver's own [ block ]
 *
 * Memory that the driver served itself is a segment per block, of its size. Storage that a hint
 * released or evicted is no longer held while its block lives: the segment may contain only the
 * first bytes of such a block. A device whose blocks need more than the recorded bytes has more
 * (`over`), as with imported records that lack the held bytes.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORT_SEGMENTS_H
#define KEDGE_TOOLS_EXPORT_SEGMENTS_H

#include "tools/export/export_ranges.h"
#include "tools/load/load.h"

struct export_segment {
    uint64_t address, size;
    uint32_t block; /* the block that it was made for; TRACE_NONE: spare */
    bool is_native; /* the driver's own, of that block */
    bool is_told;   /* a step has recorded it */
};

/* A segment begins or ends with the event `at`: before its block is made, or after it was freed. */
struct export_segment_step {
    struct export_segment segment;
    uint32_t at;
    uint16_t device;
    bool comes, is_after;
};

/* Of one device, by address, without overlaps. */
struct export_segment_list {
    struct export_segment *segments;
    size_t count, room;
};

struct export_segments {
    struct export_segment_list *devices; /* at the end */
    size_t device_count;
    struct export_segment_step *steps; /* of each device in the order of time */
    size_t step_count, step_room;
    bool is_known; /* the record has the held bytes; else segments are as large as blocks need */
    uint64_t over; /* the most bytes that a pool's segments had beyond the held ones */
};

/* False: there are too few addresses. Call export_segments_done in any case. */
bool export_segments_find(
        const struct load *load, const struct export_ranges *ranges, struct export_segments *ret);
void export_segments_done(struct export_segments *segments);

#endif

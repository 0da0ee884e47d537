/* SPDX-License-Identifier: MIT */
/*
 * export_segments.h - the memory that blocks are cut from, as segments that come and go: their sum
 * is what was held from the driver.
 *
 * A capture tells how much each device's pool held, at each moment, and not at which addresses.
 * Segments are made so that each live block begins in one, and that those of the pool have together
 * the size that the capture tells:
 *
 *     the pool grows by N     ─► spare: N bytes of which no address is known
 *     a block where no segment is ─► one there, as large as spare and the next segment allow
 *     the pool shrinks by N   ─► spare, free segments, what is free in others, in this order
 *
 *     segment [ block ][ block ][ free ....... ]    spare [ .... ]    driver's own [ block ]
 *
 * Memory that the driver served itself is a segment for each block, of its size. What a hint
 * released or evicts is no longer held, while its block lives: of such a block the segment may have
 * the first bytes alone. A device whose blocks need more than the capture says has more (`over`):
 * so a record that does not say what was held, as some that are imported.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORT_SEGMENTS_H
#define KEDGE_TOOLS_EXPORT_SEGMENTS_H

#include "tools/export/export_ranges.h"
#include "tools/load/load.h"

struct export_segment {
    uint64_t address, size;
    uint32_t block; /* for which it came; TRACE_NONE: spare */
    bool is_native; /* the driver's own, of that block */
    bool is_told;   /* a step has told it */
};

/* One that comes or goes, with the event `at`: before its block is there, after it has gone. */
struct export_segment_step {
    struct export_segment segment;
    uint32_t at;
    uint16_t device;
    bool comes, is_after;
};

/* Of one device, by address; they do not overlap. */
struct export_segment_list {
    struct export_segment *segments;
    size_t count, room;
};

struct export_segments {
    struct export_segment_list *devices; /* as they are at the end */
    size_t device_count;
    struct export_segment_step *steps; /* of each device in the order of time */
    size_t step_count, step_room;
    bool is_known; /* the record says what was held; else segments are as large as blocks need */
    uint64_t over; /* the most bytes that a pool's segments had beyond what it held */
};

/* False: there are too few addresses. export_segments_done in any case. */
bool export_segments_find(
        const struct load *load, const struct export_ranges *ranges, struct export_segments *ret);
void export_segments_done(struct export_segments *segments);

#endif

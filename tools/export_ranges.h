/* SPDX-License-Identifier: MIT */
/*
 * export_ranges.h - where blocks stand in a snapshot, and the address ranges that hold them: its "segments".
 *
 * A capture says where blocks were, not where the memory that they were cut from begins. A range is as many whole 2 MiB as blocks
 * touch without a gap of that size. Blocks that have a handle instead of an address, and those that would lie over another live
 * one (its free was lost), get addresses of their own above all real ones.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORT_RANGES_H
#define KEDGE_TOOLS_EXPORT_RANGES_H

#include "tools/trace.h"

struct export_range {
    unsigned device;
    uint64_t address, size;
};

struct export_ranges {
    uint64_t *address;           /* by block; of those without `has` 0 */
    struct export_range *ranges; /* by device, then address; they do not overlap */
    size_t count, room;
    uint32_t *live; /* blocks with `has` that are live at the end, by device, then address */
    size_t live_count, live_room;
};

/* A block's device as an index; 0 where it is not known. */
unsigned export_ranges_device(int device);

/*
 * Of the blocks i with has[i], none of which has size 0. False: they need more addresses than the viewer's numbers can tell apart
 * (2^53). export_ranges_done in any case.
 */
bool export_ranges_find(const struct trace *trace, const bool *has, struct export_ranges *ret);
void export_ranges_done(struct export_ranges *ranges);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * export_ranges.h - where blocks stand in a snapshot.
 *
 * Where the capture says they were. Blocks that have a handle instead of an address, and those that
 * would lie over another live one (its free was lost), get addresses of their own above all real
 * ones. The memory that blocks are cut from: export_segments.h.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORT_RANGES_H
#define KEDGE_TOOLS_EXPORT_RANGES_H

#include "tools/trace/trace.h"

#define EXPORT_RANGES_GRANULE (UINT64_C(2) << 20)
/* Addresses of devices are below; handles of drivers are not. */
#define EXPORT_RANGES_REAL_END (UINT64_C(1) << 48)
#define EXPORT_RANGES_END      (UINT64_C(1) << 53) /* the viewer's numbers are doubles */

struct export_ranges {
    uint64_t *address; /* by block; of those of size 0 no address */
    uint64_t next;     /* nothing stands here or above */
    uint32_t *order;   /* the blocks that have a size, by device, then address, then number */
    size_t count;
};

/* A block's device as an index; 0 where it is not known. */
unsigned export_ranges_device(int device);

/*
 * False: the blocks need more addresses than the viewer's numbers can tell apart.
 * export_ranges_done in any case.
 */
bool export_ranges_find(const struct trace *trace, struct export_ranges *ret);
void export_ranges_done(struct export_ranges *ranges);

#endif

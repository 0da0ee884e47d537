/* SPDX-License-Identifier: MIT */
/*
 * export_ranges.h - the addresses of blocks in a snapshot.
 *
 * A block has its address from the capture. Blocks with a handle instead of an address, and blocks
 * that would overlap another live one (whose free was lost), get addresses of their own above all
 * real ones. The memory that blocks are cut from: export_segments.h.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPORT_RANGES_H
#define KEDGE_TOOLS_EXPORT_RANGES_H

#include "tools/trace/trace.h"

#define EXPORT_RANGES_GRANULE (UINT64_C(2) << 20)
/* Device addresses are below; the driver's handles are not. */
#define EXPORT_RANGES_REAL_END (UINT64_C(1) << 48)
#define EXPORT_RANGES_END      (UINT64_C(1) << 53) /* the viewer's numbers are doubles */

struct export_ranges {
    uint64_t *address; /* by block; blocks of size 0 have none */
    uint64_t next;     /* addresses from here on are free */
    uint32_t *order;   /* the blocks that have a size, by device, then address, then number */
    size_t count;
};

/* A block's device as an index; 0 if it is unknown. */
unsigned export_ranges_device(int device);

/* False: the viewer's numbers cannot tell so many addresses apart. Then export_ranges_done, too. */
bool export_ranges_find(const struct trace *trace, struct export_ranges *ret);
void export_ranges_done(struct export_ranges *ranges);

#endif

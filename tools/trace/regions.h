/* SPDX-License-Identifier: MIT */
/*
 * regions.h - the blocks of a run by address, and the blocks that keep memory from being returned
 * to the driver.
 *
 * A capture has the bytes that were held from the driver, not their addresses. It has the addresses
 * of blocks: blocks that were ever closer to each other than a granule form one region. A granule
 * (2 MiB) is the unit in which memory is returned: while it contains a block, all of it stays. A
 * granule that is partly live has free bytes, which its blocks keep.
 *
 *     regions_find    the regions of a window's blocks, cut into cells of one size
 *     regions_fill    the content of each cell at one moment, and keepers of partly live granules
 *
 * Blocks of the pool; in a run without one those that the driver served (trace_is_served). Prints
 * nothing. Threads: none. Pure apart from memory (vec.h).
 */
#ifndef KEDGE_TOOLS_REGIONS_H
#define KEDGE_TOOLS_REGIONS_H

#include "tools/trace/trace.h"

#define REGIONS_GRANULE (UINT64_C(2) << 20)

struct region {
    uint64_t address, bytes; /* from the first block's first byte to the last block's last */
    uint32_t cell, cells;    /* its first cell, and their number: the last cell may be cut */
};

struct regions {
    const struct trace *trace;
    struct region *list; /* by address */
    size_t count, room;
    uint64_t cell_bytes; /* a power of two */
    size_t cell_count;
    size_t left_out; /* smaller regions, not in the list */
    uint64_t left_out_bytes;
};

struct regions_cell {
    uint64_t live;    /* live bytes in the cell */
    uint32_t blocks;  /* blocks partly or wholly in the cell */
    uint32_t largest; /* block with most bytes in the cell; TRACE_NONE */
};

/* Partly live granules whose largest block has the same key. */
struct regions_keeper {
    uint64_t granules, free;
};

/*
 * Regions of the blocks born before event `behind`: at most `most` regions (the largest) and about
 * `cells` cells (at least one per region). regions_done frees it.
 */
struct regions regions_find(const struct trace *trace, uint32_t behind, size_t most, size_t cells);
void regions_done(struct regions *regions);

/*
 * Fills in the blocks live just before event `at`: `cells` has cell_count elements. Keepers are by
 * the key of a block, keys[block], with `keepers` large enough for all keys; both are added to, and
 * `keepers` may be NULL.
 */
void regions_fill(const struct regions *regions, uint32_t at, struct regions_cell *cells,
        const uint32_t *keys, struct regions_keeper *keepers);

#endif

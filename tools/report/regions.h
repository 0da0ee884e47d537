/* SPDX-License-Identifier: MIT */
/*
 * regions.h - where in the address space the blocks of a run lay, and which of them keep memory from being given back.
 *
 * A capture says how much was held from the driver, not which addresses. What it says are the addresses of blocks: those that lay
 * closer to each other than a granule, at any time, are of one region. A granule (2 MiB) is the unit in which memory is given
 * back: as long as one block lies in it, all of it stays. A granule that is live in part has free bytes, which its blocks keep.
 *
 *     regions_find    the regions of a window's blocks, cut into cells of one size
 *     regions_fill    what lay in each cell at one moment, and what keeps the granules that are live in part
 *
 * Blocks of the pool; in a run without one those that the driver served (trace_is_served). Prints nothing. Threads: none.
 * Pure apart from memory (vec.h).
 */
#ifndef KEDGE_TOOLS_REGIONS_H
#define KEDGE_TOOLS_REGIONS_H

#include "tools/trace/trace.h"

#define REGIONS_GRANULE (UINT64_C(2) << 20)

struct region {
    uint64_t address, bytes; /* from its first block's first byte to its last one's last */
    uint32_t cell, cells;    /* first of them, and how many: the last one may be cut */
};

struct regions {
    const struct trace *trace;
    struct region *list; /* by address */
    size_t count, room;
    uint64_t cell_bytes; /* a power of two */
    size_t cell_count;
    size_t left_out; /* smaller regions that are not in the list, */
    uint64_t left_out_bytes;
};

struct regions_cell {
    uint64_t live;    /* bytes of it */
    uint32_t blocks;  /* that lie in it, in part or whole */
    uint32_t largest; /* block with most bytes in it; TRACE_NONE */
};

/* Granules that are live in part, whose largest block is of one key. */
struct regions_keeper {
    uint64_t granules, free;
};

/*
 * Blocks born before event `behind`, in at most `most` regions (the largest) and about `cells` cells (no fewer than regions).
 * regions_done gives it back.
 */
struct regions regions_find(const struct trace *trace, uint32_t behind, size_t most, size_t cells);
void regions_done(struct regions *regions);

/*
 * What is live just before event `at`: `cells` has cell_count elements. Keepers by the key of a block, keys[block], with
 * `keepers` large enough for all of them; both are added to, and `keepers` may be NULL.
 */
void regions_fill(const struct regions *regions, uint32_t at, struct regions_cell *cells,
        const uint32_t *keys, struct regions_keeper *keepers);

#endif

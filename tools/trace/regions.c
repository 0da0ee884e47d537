/* SPDX-License-Identifier: MIT */
#include "tools/trace/regions.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* The address range of a block. */
struct span {
    uint64_t address, end;
    uint32_t block;
};

/* An end beyond the last address is cut to that address. */
static struct span span_of(const struct trace *trace, uint32_t block)
{
    uint64_t address = trace->blocks[block].address;
    uint64_t size = trace->blocks[block].size;

    return (struct span){address, size > UINT64_MAX - address ? UINT64_MAX : address + size, block};
}

static int by_block_address(const void *a, const void *b, void *of_trace)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    const struct trace_block *blocks = of_trace;

    if (blocks[x].address != blocks[y].address)
        return blocks[x].address < blocks[y].address ? -1 : 1;
    return (x > y) - (x < y);
}

/*
 * The served blocks born before `at`, by address; with `only_live` only those that have not died
 * before. Block numbers alone: there may be millions, and sorting needs as much memory again.
 */
static uint32_t *regions_list_blocks(
        const struct trace *trace, uint32_t at, bool only_live, size_t *ret_count)
{
    bool has_pool = trace_has_pool(trace);
    uint32_t *blocks = vec_new(trace->block_count, sizeof(*blocks));
    size_t count = 0;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        struct span span = span_of(trace, (uint32_t)i);

        if (trace_is_served(block, has_pool) && block->born < at
                && (!only_live || block->died >= at) && span.end != span.address)
            blocks[count++] = (uint32_t)i;
    }
    qsort_r(blocks, count, sizeof(*blocks), by_block_address, trace->blocks);
    *ret_count = count;
    return blocks;
}

/* ---- regions ---- */

static void join_blocks(struct regions *regions, const uint32_t *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct span span = span_of(regions->trace, blocks[i]);
        struct region *last = regions->count ? &regions->list[regions->count - 1] : NULL;
        uint64_t end = last ? last->address + last->bytes : 0;

        if (!last || (span.address > end && span.address - end >= REGIONS_GRANULE))
            VEC_PUSH(regions->list, regions->count, regions->room) =
                    (struct region){.address = span.address, .bytes = span.end - span.address};
        else if (span.end > end)
            last->bytes = span.end - last->address;
    }
}

static const struct vec_key regions_largest_first[] = {
        VEC_DOWN(struct region, bytes), VEC_UP(struct region, address)};

static const struct vec_key lowest_first[] = {VEC_UP(struct region, address)};

static void keep_largest(struct regions *regions, size_t most)
{
    VEC_SORT_BY(regions->list, regions->count, regions_largest_first);
    for (size_t i = most; i < regions->count; i++)
        regions->left_out_bytes += regions->list[i].bytes;
    if (regions->count > most) {
        regions->left_out = regions->count - most;
        regions->count = most;
    }
    VEC_SORT_BY(regions->list, regions->count, lowest_first);
}

static size_t count_cells(const struct regions *regions, uint64_t cell_bytes)
{
    uint64_t count = 0;

    for (size_t i = 0; i < regions->count; i++)
        count += (regions->list[i].bytes - 1) / cell_bytes + 1;
    return (size_t)count;
}

static void cut_cells(struct regions *regions, size_t cells)
{
    uint64_t size = 512;

    while (count_cells(regions, size) > cells && count_cells(regions, size) > regions->count)
        size *= 2;
    regions->cell_bytes = size;
    for (size_t i = 0; i < regions->count; i++) {
        struct region *region = &regions->list[i];

        region->cell = (uint32_t)regions->cell_count;
        region->cells = (uint32_t)((region->bytes - 1) / size + 1);
        regions->cell_count += region->cells;
    }
}

struct regions regions_find(const struct trace *trace, uint32_t behind, size_t most, size_t cells)
{
    struct regions regions = {.trace = trace};
    size_t count;
    uint32_t *blocks = regions_list_blocks(trace, behind, false, &count);

    join_blocks(&regions, blocks, count);
    keep_largest(&regions, most);
    cut_cells(&regions, cells);
    free(blocks);
    return regions;
}

void regions_done(struct regions *regions)
{
    free(regions->list);
    *regions = (struct regions){0};
}

/* ---- one moment ---- */

/* The region that contains this address; NULL: it is left out. */
static const struct region *region_at(const struct regions *regions, uint64_t address)
{
    size_t low = 0;
    size_t high = regions->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct region *region = &regions->list[mid];

        if (address < region->address)
            high = mid;
        else if (address - region->address >= region->bytes)
            low = mid + 1;
        else
            return region;
    }
    return NULL;
}

/* `most` has, for each cell, the bytes that its largest block has in it. */
static void add_to_cells(const struct regions *regions, const struct span *span,
        struct regions_cell *cells, uint64_t *most)
{
    const struct region *region = region_at(regions, span->address);

    if (!region)
        return;
    uint64_t size = regions->cell_bytes;
    uint64_t from = span->address - region->address;
    uint64_t to = span->end - region->address;

    for (uint64_t at = from; at < to;) {
        uint64_t number = region->cell + at / size;
        uint64_t room = size - at % size;
        uint64_t end = to - at > room ? at + room : to;
        struct regions_cell *cell = &cells[number];

        cell->live += end - at;
        cell->blocks++;
        if (end - at > most[number]) {
            most[number] = end - at;
            cell->largest = span->block;
        }
        at = end;
    }
}

/* The current granule, while spans are added in the order of their addresses. */
struct granule {
    uint64_t number, live, most;
    uint32_t key;
};

static void close_granule(const struct granule *granule, struct regions_keeper *keepers)
{
    if (granule->live == 0 || granule->live >= REGIONS_GRANULE)
        return;
    keepers[granule->key].granules++;
    keepers[granule->key].free += REGIONS_GRANULE - granule->live;
}

static void add_to_granule(struct granule *granule, uint64_t number, uint64_t bytes, uint32_t key,
        struct regions_keeper *keepers)
{
    if (granule->number != number) {
        close_granule(granule, keepers);
        *granule = (struct granule){.number = number};
    }
    granule->live += bytes;
    if (bytes <= granule->most)
        return;
    granule->most = bytes;
    granule->key = key;
}

/* Only a block's first and last granule can be partly live. */
static void add_to_granules(struct granule *granule, const struct span *span, uint32_t key,
        struct regions_keeper *keepers)
{
    uint64_t first = span->address / REGIONS_GRANULE;
    uint64_t last = (span->end - 1) / REGIONS_GRANULE;

    if (first == last) {
        add_to_granule(granule, first, span->end - span->address, key, keepers);
        return;
    }
    add_to_granule(granule, first, (first + 1) * REGIONS_GRANULE - span->address, key, keepers);
    add_to_granule(granule, last, span->end - last * REGIONS_GRANULE, key, keepers);
}

void regions_fill(const struct regions *regions, uint32_t at, struct regions_cell *cells,
        const uint32_t *keys, struct regions_keeper *keepers)
{
    uint64_t *most = vec_new(regions->cell_count, sizeof(*most));
    struct granule granule = {.number = UINT64_MAX};
    size_t count;
    uint32_t *blocks = regions_list_blocks(regions->trace, at, true, &count);

    for (size_t i = 0; i < regions->cell_count; i++)
        cells[i].largest = TRACE_NONE;
    for (size_t i = 0; i < count; i++) {
        struct span span = span_of(regions->trace, blocks[i]);

        add_to_cells(regions, &span, cells, most);
        if (keepers)
            add_to_granules(&granule, &span, keys[span.block], keepers);
    }
    if (keepers)
        close_granule(&granule, keepers);
    free(blocks);
    free(most);
}

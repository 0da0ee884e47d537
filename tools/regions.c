/* SPDX-License-Identifier: MIT */
#include "tools/regions.h"

#include <stdlib.h>

#include "tools/vec.h"

struct span {
    uint64_t address, end;
    uint32_t block;
};

static int by_block_address(const void *a, const void *b)
{
    const struct span *x = a;
    const struct span *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

/* An end behind the last address is that address. */
static uint64_t span_end(const struct trace_block *block)
{
    return block->size > UINT64_MAX - block->address ? UINT64_MAX : block->address + block->size;
}

/* The served blocks born before `at`, by address; with `only_live` those that have not died before. */
static struct span *list_spans(
        const struct trace *trace, uint32_t at, bool only_live, size_t *ret_count)
{
    bool has_pool = trace_has_pool(trace);
    struct span *spans = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (!trace_is_served(block, has_pool) || block->born >= at
                || (only_live && block->died < at) || span_end(block) == block->address)
            continue;
        VEC_PUSH(spans, count, room) = (struct span){block->address, span_end(block), (uint32_t)i};
    }
    VEC_SORT(spans, count, by_block_address);
    *ret_count = count;
    return spans;
}

/* ---- regions ---- */

static void join_spans(struct regions *regions, const struct span *spans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct region *last = regions->count ? &regions->list[regions->count - 1] : NULL;
        uint64_t end = last ? last->address + last->bytes : 0;

        if (!last || (spans[i].address > end && spans[i].address - end >= REGIONS_GRANULE))
            VEC_PUSH(regions->list, regions->count, regions->room) = (struct region){
                    .address = spans[i].address, .bytes = spans[i].end - spans[i].address};
        else if (spans[i].end > end)
            last->bytes = spans[i].end - last->address;
    }
}

static int largest_first(const void *a, const void *b)
{
    const struct region *x = a;
    const struct region *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->address > y->address) - (x->address < y->address);
}

static int lowest_first(const void *a, const void *b)
{
    const struct region *x = a;
    const struct region *y = b;

    return (x->address > y->address) - (x->address < y->address);
}

static void keep_largest(struct regions *regions, size_t most)
{
    VEC_SORT(regions->list, regions->count, largest_first);
    for (size_t i = most; i < regions->count; i++)
        regions->left_out_bytes += regions->list[i].bytes;
    if (regions->count > most) {
        regions->left_out = regions->count - most;
        regions->count = most;
    }
    VEC_SORT(regions->list, regions->count, lowest_first);
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
    struct span *spans = list_spans(trace, behind, false, &count);

    join_spans(&regions, spans, count);
    keep_largest(&regions, most);
    cut_cells(&regions, cells);
    free(spans);
    return regions;
}

void regions_done(struct regions *regions)
{
    free(regions->list);
    *regions = (struct regions){0};
}

/* ---- one moment ---- */

/* The region that has this address; NULL: it is left out. */
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

/* `most` is, for each cell, how much of it its largest block has. */
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

/* The granule that spans in order of their addresses are added to. */
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

/* Only a block's first and last granule can be live in part. */
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
    struct span *spans = list_spans(regions->trace, at, true, &count);

    for (size_t i = 0; i < regions->cell_count; i++)
        cells[i].largest = TRACE_NONE;
    for (size_t i = 0; i < count; i++) {
        add_to_cells(regions, &spans[i], cells, most);
        if (keepers)
            add_to_granules(&granule, &spans[i], keys[spans[i].block], keepers);
    }
    if (keepers)
        close_granule(&granule, keepers);
    free(spans);
    free(most);
}

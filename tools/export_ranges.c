/* SPDX-License-Identifier: MIT */
#include "tools/export_ranges.h"

#include <stdlib.h>

#include "tools/vec.h"

#define GRANULE (UINT64_C(2) << 20)
#define REAL_END \
    (UINT64_C(1) << 48) /* addresses of devices are below; handles of drivers are not */
#define ADDRESS_END (UINT64_C(1) << 53) /* the viewer's numbers are doubles */
#define DEVICES_MAX 1024u /* the file has a list for each: numbers beyond make no sense */

/* A block with what it is sorted by. */
struct item {
    unsigned device;
    uint64_t address;
    uint32_t block;
};

struct placing {
    const struct trace *trace;
    struct export_ranges *ranges;
    size_t last;   /* the newest range of real addresses, from 1; 0 = none */
    uint64_t next; /* free for blocks without an address */
    bool is_full;
};

unsigned export_ranges_device(int device)
{
    if (device < 0)
        return 0;
    return (unsigned)device < DEVICES_MAX ? (unsigned)device : DEVICES_MAX - 1;
}

static int by_device(const void *left, const void *right)
{
    const struct item *a = left;
    const struct item *b = right;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

static int range_by_address(const void *left, const void *right)
{
    const struct export_range *a = left;
    const struct export_range *b = right;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->address > b->address) - (a->address < b->address);
}

static bool is_real(const struct trace_block *block)
{
    return block->address < REAL_END && block->size <= REAL_END - block->address;
}

/* A range above all real addresses; 0 where none is left. */
static uint64_t take_range(struct placing *placing, unsigned device, uint64_t size)
{
    uint64_t address = placing->next;

    if (size > ADDRESS_END - placing->next - GRANULE) {
        placing->is_full = true;
        return 0;
    }
    size = (size + GRANULE - 1) / GRANULE * GRANULE;
    placing->next += size;
    VEC_PUSH(placing->ranges->ranges, placing->ranges->count, placing->ranges->room) =
            (struct export_range){device, address, size};
    return address;
}

/* The range that holds a real block: the last one, or a new one behind it. */
static void cover(struct placing *placing, const struct item *item)
{
    struct export_ranges *ranges = placing->ranges;
    uint64_t size = placing->trace->blocks[item->block].size;
    uint64_t begin = item->address / GRANULE * GRANULE;
    uint64_t end = (item->address + size + GRANULE - 1) / GRANULE * GRANULE;
    struct export_range *last = placing->last ? &ranges->ranges[placing->last - 1] : NULL;

    if (!last || last->device != item->device || begin > last->address + last->size) {
        VEC_PUSH(ranges->ranges, ranges->count, ranges->room) =
                (struct export_range){item->device, begin, end - begin};
        placing->last = ranges->count;
    } else if (end > last->address + last->size) {
        last->size = end - last->address;
    }
}

/* Blocks of one handle follow each other in time: they share a range. Returns how many they are. */
static size_t place_handle(struct placing *placing, const struct item *items, size_t count)
{
    uint64_t most = 0;
    size_t same = 0;

    for (; same < count && items[same].device == items->device
            && items[same].address == items->address;
            same++)
        if (placing->trace->blocks[items[same].block].size > most)
            most = placing->trace->blocks[items[same].block].size;
    uint64_t address = take_range(placing, items->device, most);
    for (size_t i = 0; i < same; i++)
        placing->ranges->address[items[i].block] = address;
    return same;
}

static void place_all(struct placing *placing, const struct item *items, size_t count)
{
    const struct trace_block *blocks = placing->trace->blocks;
    unsigned device = 0;
    uint64_t live_end = 0; /* of the live blocks so far, on the device */

    for (size_t i = 0; i < count && !placing->is_full;) {
        const struct item *item = &items[i];
        const struct trace_block *block = &blocks[item->block];
        bool is_live = block->died == TRACE_NEVER;

        if (item->device != device)
            live_end = 0;
        device = item->device;
        if (!is_real(block)) {
            i += place_handle(placing, item, count - i);
            continue;
        }
        if (is_live && block->address < live_end) {
            placing->ranges->address[item->block] = take_range(placing, item->device, block->size);
        } else {
            placing->ranges->address[item->block] = block->address;
            cover(placing, item);
            live_end = is_live ? block->address + block->size : live_end;
        }
        i++;
    }
}

static void list_live(struct placing *placing, struct item *items, size_t count)
{
    struct export_ranges *ranges = placing->ranges;

    for (size_t i = 0; i < count; i++)
        items[i].address = ranges->address[items[i].block];
    VEC_SORT(items, count, by_device);
    for (size_t i = 0; i < count; i++)
        if (placing->trace->blocks[items[i].block].died == TRACE_NEVER)
            VEC_PUSH(ranges->live, ranges->live_count, ranges->live_room) = items[i].block;
    VEC_SORT(ranges->ranges, ranges->count, range_by_address);
}

bool export_ranges_find(const struct trace *trace, const bool *has, struct export_ranges *ret)
{
    struct placing placing = {.trace = trace, .ranges = ret, .next = REAL_END};
    struct item *items = vec_new(trace->block_count, sizeof(*items));
    size_t count = 0;

    *ret = (struct export_ranges){.address = vec_new(trace->block_count, sizeof(*ret->address))};
    for (size_t i = 0; i < trace->block_count; i++)
        if (has[i])
            items[count++] = (struct item){export_ranges_device(trace->blocks[i].device),
                    trace->blocks[i].address, (uint32_t)i};
    VEC_SORT(items, count, by_device);
    place_all(&placing, items, count);
    list_live(&placing, items, count);
    free(items);
    return !placing.is_full;
}

void export_ranges_done(struct export_ranges *ranges)
{
    free(ranges->address);
    free(ranges->ranges);
    free(ranges->live);
    *ranges = (struct export_ranges){0};
}

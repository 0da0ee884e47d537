/* SPDX-License-Identifier: MIT */
#include "tools/export/export_ranges.h"

#include <stdlib.h>

#include "tools/base/vec.h"

#define DEVICES_MAX 1024u /* the file has a list for each device: larger numbers make no sense */

/* A block with its sort key. */
struct item {
    unsigned device;
    uint64_t address;
    uint32_t block;
};

struct placing {
    const struct trace *trace;
    struct export_ranges *ranges;
    bool is_full;
};

unsigned export_ranges_device(int device)
{
    if (device < 0)
        return 0;
    return (unsigned)device < DEVICES_MAX ? (unsigned)device : DEVICES_MAX - 1;
}

static int export_ranges_by_device(const void *left, const void *right)
{
    const struct item *a = left;
    const struct item *b = right;

    int order = vec_order(a->address, b->address, vec_order(a->block, b->block, 0));

    return vec_order(a->device, b->device, order);
}

static bool is_real(const struct trace_block *block)
{
    return block->address < EXPORT_RANGES_REAL_END
            && block->size <= EXPORT_RANGES_REAL_END - block->address;
}

/* Takes addresses above all real ones; 0 if none are left. */
static uint64_t export_ranges_take_range(struct placing *placing, uint64_t size)
{
    uint64_t address = placing->ranges->next;

    if (size > EXPORT_RANGES_END - address - EXPORT_RANGES_GRANULE) {
        placing->is_full = true;
        return 0;
    }
    placing->ranges->next +=
            (size + EXPORT_RANGES_GRANULE - 1) / EXPORT_RANGES_GRANULE * EXPORT_RANGES_GRANULE;
    return address;
}

/* Blocks of one handle follow each other in time and share an address. Returns their number. */
static size_t place_handle(struct placing *placing, const struct item *items, size_t count)
{
    uint64_t most = 0;
    size_t same = 0;

    for (; same < count && items[same].device == items->device
            && items[same].address == items->address;
            same++)
        most = max_of(most, placing->trace->blocks[items[same].block].size);
    uint64_t address = export_ranges_take_range(placing, most);
    for (size_t i = 0; i < same; i++)
        placing->ranges->address[items[i].block] = address;
    return same;
}

static void place_all(struct placing *placing, const struct item *items, size_t count)
{
    const struct trace_block *blocks = placing->trace->blocks;
    unsigned device = 0;
    uint64_t live_end = 0; /* end of the live blocks so far, on the device */

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
            placing->ranges->address[item->block] = export_ranges_take_range(placing, block->size);
        } else {
            placing->ranges->address[item->block] = block->address;
            live_end = is_live ? block->address + block->size : live_end;
        }
        i++;
    }
}

static void list_order(struct placing *placing, struct item *items, size_t count)
{
    struct export_ranges *ranges = placing->ranges;

    for (size_t i = 0; i < count; i++)
        items[i].address = ranges->address[items[i].block];
    VEC_SORT(items, count, export_ranges_by_device);
    ranges->order = vec_new(count, sizeof(*ranges->order));
    for (size_t i = 0; i < count; i++)
        ranges->order[i] = items[i].block;
    ranges->count = count;
}

bool export_ranges_find(const struct trace *trace, struct export_ranges *ret)
{
    struct placing placing = {.trace = trace, .ranges = ret};
    struct item *items = vec_new(trace->block_count, sizeof(*items));
    size_t count = 0;

    *ret = (struct export_ranges){.address = vec_new(trace->block_count, sizeof(*ret->address)),
            .next = EXPORT_RANGES_REAL_END};
    for (size_t i = 0; i < trace->block_count; i++)
        if (trace->blocks[i].size > 0)
            items[count++] = (struct item){export_ranges_device(trace->blocks[i].device),
                    trace->blocks[i].address, (uint32_t)i};
    VEC_SORT(items, count, export_ranges_by_device);
    place_all(&placing, items, count);
    list_order(&placing, items, count);
    free(items);
    return !placing.is_full;
}

void export_ranges_done(struct export_ranges *ranges)
{
    free(ranges->address);
    free(ranges->order);
    *ranges = (struct export_ranges){0};
}

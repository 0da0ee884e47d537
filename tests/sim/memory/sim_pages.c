/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_pages.h"

#include "tests/sim/driver/sim_device.h"

#include <stdlib.h>

enum {
    NOWHERE = -2,
    HOST = -1, /* others are devices */
};

struct sim_page {
    int at;
    uint64_t used; /* by the operation of that number of `now` */
};

static struct sim_block *first; /* of all managed blocks */
static uint64_t now;
static uint64_t in_use =
        UINT64_MAX; /* what has been used as late stays: `now` while an operation's pages come */

static size_t count_of(const struct sim_block *block)
{
    return block->va_size / SIM_GRANULE;
}

/* Of the program's bytes; the last page may have fewer than the others. */
static uint64_t bytes_of(const struct sim_block *block, size_t page)
{
    uint64_t left = block->size - page * SIM_GRANULE;

    return left < SIM_GRANULE ? left : SIM_GRANULE;
}

void sim_pages_add(struct sim_block *block)
{
    block->pages = sim_new(count_of(block) * sizeof(*block->pages));
    for (size_t i = 0; i < count_of(block); i++)
        block->pages[i].at = NOWHERE;
    block->next_managed = first;
    first = block;
}

void sim_pages_drop(struct sim_block *block)
{
    struct sim_block **link = &first;

    for (size_t i = 0; i < count_of(block); i++)
        if (block->pages[i].at >= 0)
            sim_device_drop(block->pages[i].at, SIM_GRANULE);
    while (*link != block)
        link = &(*link)->next_managed;
    *link = block->next_managed;
    free(block->pages);
}

static void move_out(struct sim_block *block, size_t page)
{
    sim_device_drop(block->pages[page].at, SIM_GRANULE);
    block->pages[page].at = HOST;
    sim_stats.migrated_out_bytes += bytes_of(block, page);
}

/* Stays where it is if the device has no room. */
static void move_in(struct sim_block *block, size_t page, int device)
{
    struct sim_page *at = &block->pages[page];
    bool has_content = at->at != NOWHERE;

    at->used = now;
    if (at->at == device)
        return;
    if (at->at >= 0)
        move_out(block, page); /* by way of the host */
    if (sim_device_hold(device, SIM_GRANULE) != 0) {
        at->at = HOST;
        return;
    }
    at->at = device;
    if (has_content)
        sim_stats.migrated_in_bytes += bytes_of(block, page);
}

/* The one of the device that was used longest ago, but not by an operation whose pages come now. */
static struct sim_block *find_oldest(int device, size_t *ret_page)
{
    struct sim_block *found = NULL;
    uint64_t oldest = in_use;

    for (struct sim_block *block = first; block; block = block->next_managed) {
        for (size_t i = 0; i < count_of(block); i++) {
            if (block->pages[i].at != device || block->pages[i].used >= oldest)
                continue;
            oldest = block->pages[i].used;
            found = block;
            *ret_page = i;
        }
    }
    return found;
}

void sim_pages_make_room(int device, uint64_t bytes)
{
    size_t page = 0;
    uint64_t done = 0;

    for (struct sim_block *block; done < bytes && (block = find_oldest(device, &page)) != NULL;
            done += SIM_GRANULE) {
        move_out(block, page);
        sim_stats.pages_evicted++;
    }
}

/* What of it is managed comes to the device. How many pages were elsewhere. */
static uint64_t bring(int device, uint64_t addr, uint64_t end)
{
    uint64_t faults = 0;

    in_use = now;
    while (addr < end) {
        struct sim_block *block = sim_ledger_find(addr);

        if (!block || block->kind != SIM_BLOCK_MANAGED) {
            addr = block ? block->addr + block->size : (addr | (SIM_GRANULE - 1)) + 1;
            continue;
        }
        faults += block->pages[(addr - block->addr) / SIM_GRANULE].at != device;
        move_in(block, (addr - block->addr) / SIM_GRANULE, device);
        addr = (addr | (SIM_GRANULE - 1)) + 1;
    }
    in_use = UINT64_MAX;
    return faults;
}

void sim_pages_use(const struct sim_op *op)
{
    if (!first || op->is_no_use)
        return;
    now++;
    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];

        if (range->certainty == SIM_WORD || range->rows == 0 || range->slices == 0)
            continue;
        sim_stats.page_faults += bring(range->device, range->addr,
                range->addr + (range->slices - 1) * range->slice + (range->rows - 1) * range->pitch
                        + range->size);
    }
}

void sim_pages_move(int device, uint64_t addr, uint64_t size)
{
    struct sim_block *block = sim_ledger_find(addr);

    now++;
    if (device >= 0) {
        (void)bring(device, addr, addr + size);
        return;
    }
    for (uint64_t at = addr; block && at < addr + size; at = (at | (SIM_GRANULE - 1)) + 1) {
        size_t page = (at - block->addr) / SIM_GRANULE;

        if (block->pages[page].at >= 0)
            move_out(block, page);
    }
}

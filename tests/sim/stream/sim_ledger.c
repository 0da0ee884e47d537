/* SPDX-License-Identifier: MIT */
#include "tests/sim/stream/sim_ledger.h"

#include "tests/sim/driver/sim_context.h"
#include "tests/sim/memory/sim_pool.h"
#include "tests/sim/memory/sim_va.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>

static void *tree; /* tsearch, blocks by address */
static uint64_t next_id = 1;

/* Overlap counts as equal: the blocks in the tree never overlap each other. */
static int order(const void *a, const void *b)
{
    const struct sim_block *x = a, *y = b;

    if (x->addr + x->size <= y->addr)
        return -1;
    return x->addr >= y->addr + y->size;
}

static void count_pinned(const struct sim_block *block)
{
    if (block->kind != SIM_BLOCK_HOST)
        return;
    sim_stats.pinned_bytes += block->size;
    if (sim_stats.pinned_peak < sim_stats.pinned_bytes)
        sim_stats.pinned_peak = sim_stats.pinned_bytes;
}

struct sim_block *sim_ledger_add(struct sim_block block)
{
    struct sim_block *added = sim_new(sizeof(*added));

    *added = block;
    added->id = next_id++;
    count_pinned(added);
    if (!tsearch(added, &tree, order)) {
        sim_say("out of host memory for the device's own tables");
        abort();
    }
    if (added->ctx) {
        added->next_of_context = added->ctx->blocks;
        added->link_of_context = &added->ctx->blocks;
        if (added->next_of_context)
            added->next_of_context->link_of_context = &added->next_of_context;
        added->ctx->blocks = added;
    }
    return added;
}

void sim_ledger_remove(struct sim_block *block)
{
    tdelete(block, &tree, order);
    if (block->kind == SIM_BLOCK_HOST)
        sim_stats.pinned_bytes -= block->size;
    if (block->link_of_context) {
        *block->link_of_context = block->next_of_context;
        if (block->next_of_context)
            block->next_of_context->link_of_context = block->link_of_context;
    }
    free(block->advice);
    free(block);
}

struct sim_block *sim_ledger_find(uint64_t addr)
{
    const struct sim_block key = {.addr = addr, .size = 1};
    struct sim_block *const *found = tfind(&key, &tree, order);

    return found ? *found : NULL;
}

struct sim_block *sim_ledger_live(uint64_t addr)
{
    struct sim_block *block = sim_ledger_find(addr);

    if (block && block->piece && !sim_pool_piece_is_live(block->piece))
        return NULL;
    return block;
}

static bool may_touch(const struct sim_block *block, int device, enum sim_side side, bool write)
{
    switch (block->kind) {
    case SIM_BLOCK_HOST:
    case SIM_BLOCK_MANAGED:
        return true;
    case SIM_BLOCK_MAPPED:
        return ((write ? block->writable : block->readable) >> device) & 1;
    case SIM_BLOCK_ORDERED:
    case SIM_BLOCK_GRAPH:
        return sim_pool_piece_may_touch(block->piece, device, write);
    case SIM_BLOCK_PLAIN:
    case SIM_BLOCK_IMPORTED:
        return block->device == device || side == SIM_SIDE_COPY
                || sim_context_is_peer(device, block->device);
    case SIM_BLOCK_COUNT:
        break;
    }
    return false;
}

bool sim_ledger_may(
        int device, enum sim_side side, uint64_t addr, uint64_t size, bool write, uint64_t *ret_bad)
{
    uint64_t end = addr + size;

    *ret_bad = addr;
    if (end < addr)
        return false;
    while (addr < end) {
        const struct sim_block *block = sim_ledger_find(addr);
        *ret_bad = addr;
        if (!block) {
            if (side == SIM_SIDE_COPY && !sim_va_has(addr))
                return true; /* pageable host memory: the host will say */
            return false;
        }
        if (!may_touch(block, device, side, write))
            return false;
        addr = block->addr + block->size;
    }
    return true;
}

void sim_ledger_describe(uint64_t addr, char *ret_text, size_t size)
{
    static const char *const names[SIM_BLOCK_COUNT] = {"cuMemAlloc block", "managed block",
            "pool block", "graph block", "mapping", "imported block", "host block"};
    const struct sim_block *block = sim_ledger_find(addr);

    if (!block)
        (void)snprintf(ret_text, size, "%s",
                sim_va_has(addr) ? "nothing stands there" : "not a device address");
    else
        (void)snprintf(ret_text, size, "%s of %llu bytes + %llu%s", names[block->kind],
                (unsigned long long)block->size, (unsigned long long)(addr - block->addr),
                sim_ledger_live(addr) ? "" : ", freed");
}

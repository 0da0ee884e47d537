/* SPDX-License-Identifier: MIT */
#include "tests/sim/kernel/sim_standing.h"

#include "tests/sim/memory/sim_pool_parts.h"
#include "tests/sim/memory/sim_va.h"

/* The block at an address if the device has it: what is freed on a stream stands until the stream has come there. */
static const struct sim_block *standing(uint64_t addr)
{
    const struct sim_block *block = sim_ledger_find(addr);

    return block && block->piece && sim_pool_is_freed(block->piece) ? NULL : block;
}

/*
 * How many of `most` bytes from `addr` on stand, 0: none. Blocks that touch each other count as one: a tensor may lie in
 * several mappings, and what a kernel reads and writes must not depend on where those end. The last unit of a block is
 * its own to the end, whatever size the program asked for: that differs between allocators, too.
 */
uint64_t sim_standing_room(uint64_t addr, uint64_t most)
{
    const struct sim_block *block;
    uint64_t room = 0;

    while (room < most && (block = standing(addr + room)) != NULL)
        room = block->addr + sim_round(block->size, SIM_ALIGN) - addr;
    return room < most ? room : most;
}

/*
 * The same without the rest of the last unit: what an operation may declare. That is asked when it is launched, and
 * what the program has freed counts no more; when it runs it does.
 */
uint64_t sim_standing_at(uint64_t addr, uint64_t most, bool is_running)
{
    const struct sim_block *block;
    uint64_t room = 0;

    while (room < most
            && (block = is_running ? standing(addr + room) : sim_ledger_live(addr + room)) != NULL)
        room = block->addr + block->size - addr;
    return room < most ? room : most;
}

uint64_t sim_standing_may(int device, uint64_t addr, uint64_t size, bool write)
{
    uint64_t bad, stands = size && sim_va_has(addr) ? sim_standing_at(addr, size, true) : 0;

    return stands && sim_ledger_may(device, SIM_SIDE_KERNEL, addr, stands, write, &bad) ? stands
                                                                                        : 0;
}

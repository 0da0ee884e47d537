/* SPDX-License-Identifier: MIT */
#include "tools/suggest/turns.h"

static struct key turns_key(const struct trace_block *block, uint32_t anchor)
{
    return (struct key){block->site, block->size, anchor};
}

void turns_find(struct keytable *turns, const struct trace *trace, const uint32_t *origin)
{
    struct keytable threads = {0}; /* the first thread that asked */

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (origin && origin[i] == TRACE_NONE)
            continue;
        if (*keytable_at(&threads, turns_key(block, block->anchor), block->thread) != block->thread)
            (void)keytable_at(turns, turns_key(block, 0), 1);
    }
    keytable_done(&threads);
}

bool turns_has(const struct keytable *turns, const struct trace_block *block)
{
    return keytable_count(turns) > 0 && keytable_find(turns, turns_key(block, 0));
}

/* SPDX-License-Identifier: MIT */
/*
 * pydump.c - every allocation of a capture with its Python lines, as the tools see them.
 *
 *     pydump --sites F     size and site key
 *     pydump F             "size ambient native" and for each Python line "\tfunction\tfile\tline", one allocation a line
 *
 * `native` counts the other lines. The reports show stacks, not allocations.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/load/load.h"
#include "tools/symbols/symbols.h"

int main(int argc, char **argv)
{
    bool sites = argc == 3 && strcmp(argv[1], "--sites") == 0;
    struct load load;
    struct symbols *symbols;

    if (argc != 2 + sites || load_open(argv[1 + sites], &load) != 0)
        return 2;
    for (size_t i = 0; sites && i < load.trace->block_count; i++)
        printf("%" PRIu64 " %016" PRIx64 "\n", load.trace->blocks[i].size,
                load.trace->blocks[i].site);
    symbols = symbols_new(load.trace);
    for (size_t i = 0; !sites && i < load.trace->block_count; i++) {
        const struct trace_block *block = &load.trace->blocks[i];
        const struct trace_stack *stack = &load.trace->stacks[block->stack];
        size_t count;
        const struct symbols_line *lines = symbols_stack(symbols, block->stack, &count);

        printf("%" PRIu64 " %d %u", block->size, stack->ambient, stack->count);
        for (size_t k = 0; k < count; k++)
            if (lines[k].is_python)
                printf("\t%s\t%s\t%u", lines[k].function, lines[k].file, lines[k].line);
        putchar('\n');
    }
    symbols_free(symbols);
    load_close(&load);
    return 0;
}

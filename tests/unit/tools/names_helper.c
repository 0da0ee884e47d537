/* SPDX-License-Identifier: MIT */
/*
 * What kedge calls an address, for names.sh.
 *
 *     names_helper PATH BUILD-ID|- IDENTITY FOLDERS ADDRESS...     numbers are hexadecimal
 *
 * Prints "function file:line" for each line of each address, "-" between two addresses, and "note: ..." at the end.
 * PATH "" is code in no module.
 */
#include "tools/base/filename.h"
#include "tools/symbols/symbols.h"
#include "tools/symbols/symfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_stack(struct symbols *symbols, uint32_t stack)
{
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, stack, &count);

    for (size_t i = 0; i < count; i++)
        printf("%s %s:%u\n", lines[i].function, lines[i].file ? filename_of(lines[i].file) : "",
                lines[i].line);
}

int main(int argc, char **argv)
{
    struct trace *trace = trace_new();
    struct trace_module module = {.is_program = true};
    struct symbols *symbols;
    const char *line;

    if (argc < 6)
        return 2;
    module.path = argv[1];
    if (strcmp(argv[2], "-") != 0)
        for (const char *at = argv[2]; at[0] && at[1]; at += 2)
            (void)sscanf(at, "%2hhx", &module.build_id[module.build_id_length++]); // NOLINT
    module.identity = strtoull(argv[3], NULL, 16);
    uint32_t number = *argv[1] ? trace_add_module(trace, &module) : TRACE_NONE;
    for (int i = 5; i < argc; i++) {
        struct trace_frame frame = {number, strtoull(argv[i], NULL, 16)};
        (void)trace_add_stack(trace, &frame, 1, false);
    }
    symfile_folders = argv[4];
    symbols = symbols_new(trace);
    for (uint32_t i = 1; i < trace->stack_count; i++) {
        if (i > 1)
            puts("-");
        print_stack(symbols, i);
    }
    for (size_t i = 0; (line = symbols_trouble(symbols, i)) != NULL; i++)
        printf("note: %s\n", line);
    symbols_free(symbols);
    trace_free(trace);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "tools/classes.h"

const char *classes_name(enum memclass memclass)
{
    static const char *const names[MEMCLASS_COUNT] = {
            [MEMCLASS_POOLED] = "pooled",
            [MEMCLASS_DRIVER] = "driver",
            [MEMCLASS_PITCHED] = "pitched",
            [MEMCLASS_MANAGED] = "managed",
            [MEMCLASS_VMM] = "vmm",
            [MEMCLASS_ARRAY] = "array",
            [MEMCLASS_ARRAY_GUESS] = "array-estimate",
            [MEMCLASS_GRAPH] = "graph",
            [MEMCLASS_HOST] = "host",
            [MEMCLASS_REGISTERED] = "registered",
            [MEMCLASS_IMPORTED] = "imported",
            [MEMCLASS_EXTERNAL] = "external",
            [MEMCLASS_MULTICAST] = "multicast",
            [MEMCLASS_VIRTUAL] = "virtual",
    };

    return (unsigned)memclass < MEMCLASS_COUNT ? names[memclass] : "?";
}

struct classes_overhead classes_overhead(const struct format_look *look)
{
    uint64_t known = look->held_bytes + look->native_bytes + look->graph_reserved;
    uint64_t used = look->total_bytes - look->free_bytes;

    if (look->looks == 0 || look->free_bytes > look->total_bytes)
        return (struct classes_overhead){0};
    if (known > used)
        return (struct classes_overhead){.is_known = true, .is_short = true};
    return (struct classes_overhead){.is_known = true, .bytes = used - known};
}

/* SPDX-License-Identifier: MIT */
#include "tools/import/import_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

/* As in tracker/where/anchor.h. */
#define NAME_MAX_BYTES 255u
#define PATH_MAX_BYTES 1023u

static const struct import_range *innermost_of(const struct import_ranges *ranges, uint32_t thread)
{
    for (size_t i = ranges->count; i > 0; i--)
        if (ranges->open[i - 1].thread == thread)
            return &ranges->open[i - 1];
    return NULL;
}

const struct import_range *import_ranges_here(const struct import_ranges *ranges, uint32_t thread)
{
    const struct import_range *own = innermost_of(ranges, thread);

    return own || ranges->count == 0 ? own : &ranges->open[ranges->count - 1];
}

const struct import_range *import_ranges_enter(struct import_ranges *ranges,
        struct import_names *names, uint32_t thread, uint32_t group, struct import_text name)
{
    const struct import_range *outer = innermost_of(ranges, thread);
    size_t length = name.length < NAME_MAX_BYTES ? name.length : NAME_MAX_BYTES;
    size_t outer_length = outer ? strlen(outer->text) + 1 : 0;

    if (length == 0)
        return NULL;
    if (ranges->count == IMPORT_RANGES_MAX || outer_length + length > PATH_MAX_BYTES) {
        ranges->lost++;
        return NULL;
    }
    struct import_range *range = &ranges->open[ranges->count];

    *range = (struct import_range){.thread = thread,
            .group = group,
            .name = import_names_text(names, name.at, length),
            .anchor = ++ranges->last_anchor,
            .text = vec_format(
                    "%s%s%.*s", outer ? outer->text : "", outer ? "/" : "", (int)length, name.at)};
    range->path = import_names_text(names, range->text, strlen(range->text));
    range->instance = (*keytable_at(&ranges->paths, (struct key){range->path, 0, 0}, 0))++;
    ranges->count++;
    return range;
}

bool import_ranges_leave(struct import_ranges *ranges, uint32_t thread, uint32_t group,
        uint32_t name, struct import_range *ret_range)
{
    for (size_t i = ranges->count; i > 0; i--) {
        struct import_range *range = &ranges->open[i - 1];

        if (range->thread != thread || range->group != group || (name && range->name != name))
            continue;
        *ret_range = *range;
        free(range->text);
        ret_range->text = NULL;
        memmove(range, range + 1, (ranges->count - i) * sizeof *range);
        ranges->count--;
        return true;
    }
    return false;
}

void import_ranges_done(struct import_ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++)
        free(ranges->open[i].text);
    keytable_done(&ranges->paths);
}

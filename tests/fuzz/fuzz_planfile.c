/* SPDX-License-Identifier: MIT */
/* Any bytes as a plan: a plan without two live blocks on one byte, or one error with words. What was read can be written,
 * and reads the same. */
#include "tracker/planfile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

/* The rule said the slow way: who is live when `at` comes, through two steps. */
static bool overlaps(const struct planfile *file)
{
    for (uint64_t at = 0; at < file->count * 2u; at++) {
        const struct planned *mine = &file->block[at % file->count];

        if (at >= file->count && mine->until == PLANNED_STAYS)
            continue;
        for (uint64_t before = 0; before < at; before++) {
            const struct planned *other = &file->block[before % file->count];
            uint64_t shift = before - before % file->count;

            if ((other->until == PLANNED_STAYS && shift == 0) || other->until + shift > at)
                if (mine->offset < other->offset + other->size
                        && other->offset < mine->offset + mine->size)
                    return true;
        }
    }
    return false;
}

static void write_and_read(const struct planfile *file)
{
    struct planfile *again = NULL;
    struct planfile_error error;
    char *text = NULL;
    size_t length = 0;

    if (planfile_write(file, "a\nb\x01", &text, &length, &error) < 0)
        __builtin_trap();
    if (planfile_read_bytes(text, length, "again", &again, &error) < 0)
        __builtin_trap();
    if (again->device != file->device || again->entrance != file->entrance
            || again->all_streams != file->all_streams || again->quantum != file->quantum
            || again->area != file->area || again->live != file->live
            || again->count != file->count)
        __builtin_trap();
    for (uint32_t i = 0; i < file->count; i++)
        if (again->block[i].size != file->block[i].size
                || again->block[i].offset != file->block[i].offset
                || again->block[i].until != file->block[i].until
                || again->block[i].site != file->block[i].site)
            __builtin_trap();
    planfile_free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    struct planfile *file = NULL;
    struct planfile_error error;

    if (planfile_read_bytes(input, length, "fuzz", &file, &error) == 0) {
        if (file->count <= 256 && overlaps(file))
            __builtin_trap();
        write_and_read(file);
    } else if (error.text[0] == '\0') {
        __builtin_trap();
    }
    planfile_free(file);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Csv files of allocations and logs of RMM, as steps.h reads them: with the figures that they have without an import. */
#include "tools/import.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cmd.h"
#include "tools/render.h"
#include "tools/steps.h"
#include "tools/vec.h"
#include "tracker/format.h"

#define THREAD 1u

/* Rows have ids: a block gets the least address that is free, so that few are in use. */
struct slots {
    uint64_t *address; /* by block */
    uint64_t *unused;
    size_t unused_count, unused_room;
    uint64_t last;
};

static uint64_t take_address(struct slots *slots)
{
    return slots->unused_count ? slots->unused[--slots->unused_count] : ++slots->last;
}

/* A stream is told by its number in the file: 0 is the default one. */
static uint64_t stream_of(const struct steps *steps, uint32_t index)
{
    uint64_t handle = steps->streams[index];

    return format_stream(handle, handle == 0 ? 1 : (uint16_t)(index + 2));
}

static void tell_row(
        struct import_job *job, const struct steps *steps, size_t number, struct slots *slots)
{
    const struct steps_row *row = &steps->rows[number];
    uint64_t stream = stream_of(steps, row->stream);
    uint64_t *address = &slots->address[row->block];

    if (row->time_us)
        import_time(job->import, row->time_us * 1000);
    if (row->is_free) {
        import_free(job->import, *address, 0, stream, THREAD);
        VEC_PUSH(slots->unused, slots->unused_count, slots->unused_room) = *address;
        return;
    }
    *address = take_address(slots);
    struct import_block block = {.address = *address,
            .size = steps->blocks[row->block].size,
            .stream = stream,
            .thread = THREAD,
            .by_stream = true};
    if (number < steps->before_count)
        import_before(job->import, &block);
    else
        import_alloc(job->import, &block);
}

bool import_is_rows(const char *line, bool *ret_rmm)
{
    size_t length = strcspn(line, "\r\n");

    *ret_rmm = length == strlen(STEPS_RMM_HEAD) && strncmp(line, STEPS_RMM_HEAD, length) == 0;
    return *ret_rmm || (length == strlen(STEPS_HEAD) && strncmp(line, STEPS_HEAD, length) == 0);
}

int import_rows(struct import_job *job)
{
    struct slots slots = {0};
    struct steps steps;
    int r = steps_read_stream(job->in, job->path, &steps);

    if (r == 0) {
        slots.address = vec_new(steps.block_count, sizeof *slots.address);
        (void)import_thread(job->import, THREAD);
        for (size_t i = 0; i < steps.row_count; i++) {
            tell_row(job, &steps, i, &slots);
            if ((i & 0xffff) == 0)
                progress_step(i, steps.row_count);
        }
        if (steps.failed_count)
            import_note(job->import, 1, "%zu allocations failed", steps.failed_count);
        import_note(job->import, 0, "the file does not say what the allocator held");
    } else {
        progress_end();
        (void)fprintf(stderr, "kedge import: %s\n", steps.error);
    }
    free(slots.address);
    free(slots.unused);
    steps_done(&steps);
    return r == 0 ? CMD_DONE : CMD_BAD;
}

/* SPDX-License-Identifier: MIT */
/*
 * Csv files of allocations and logs of RMM, read by rowtrace.h: with the same figures as without an
 * import. Invalid lines of a log of RMM are skipped and counted; an invalid csv, which is made for
 * kedge, is refused.
 */
#include "tools/import/import.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/rowtrace.h"
#include "tools/base/vec.h"
#include "tracker/format/format.h"

#define THREAD 1u

/* Rows have ids: a block gets the lowest free address, so that few are in use. */
struct slots {
    uint64_t *address; /* by block */
    uint64_t *unused;
    size_t unused_count, unused_room;
    uint64_t last;
};

/* A stream is identified by its number in the file: 0 is the default one. */
static uint64_t import_rows_stream_of(const struct rowtrace *steps, uint32_t index)
{
    uint64_t handle = steps->streams[index];

    return format_stream(handle, handle == 0 ? 1 : (uint16_t)(index + 2));
}

static void tell_row(
        struct import_job *job, const struct rowtrace *steps, size_t number, struct slots *slots)
{
    const struct rowtrace_row *row = &steps->rows[number];
    uint64_t stream = import_rows_stream_of(steps, row->stream);
    uint64_t *address = &slots->address[row->block];

    if (row->time_us)
        import_time(job->import, row->time_us * 1000);
    if (row->is_free) {
        import_free(job->import,
                &(struct import_block){.address = *address, .stream = stream, .thread = THREAD});
        VEC_PUSH(slots->unused, slots->unused_count, slots->unused_room) = *address;
        return;
    }
    *address = slots->unused_count ? slots->unused[--slots->unused_count] : ++slots->last;
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

static void import_rows_tell_failure(struct import_job *job, const struct rowtrace *steps,
        const struct rowtrace_failure *failure)
{
    struct import_block request = {.size = failure->size,
            .stream = import_rows_stream_of(steps, failure->stream),
            .thread = THREAD,
            .by_stream = true};

    import_oom(job->import, &request, UINT64_MAX);
}

static void tell_rows(struct import_job *job, const struct rowtrace *steps)
{
    struct slots slots = {.address = vec_new(steps->block_count, sizeof *slots.address)};
    size_t failure = 0;

    (void)import_thread(job->import, THREAD);
    for (size_t i = 0; i <= steps->row_count; i++) {
        while (failure < steps->failed_count && steps->failures[failure].row == i)
            import_rows_tell_failure(job, steps, &steps->failures[failure++]);
        if (i < steps->row_count)
            tell_row(job, steps, i, &slots);
        if ((i & 0xffff) == 0)
            progress_step(i, steps->row_count);
    }
    free(slots.address);
    free(slots.unused);
}

static void tell_what_is_missing(struct import_job *job, const struct rowtrace *steps)
{
    if (steps->odd_count) {
        progress_end();
        (void)fprintf(stderr, "kedge import: %s\n", steps->error);
        import_note(job->import, 2, "the first row that makes no sense: %s", steps->error);
    }
    if (steps->other_count)
        import_note(job->import, 0, "lines that are no rows of RMM are passed over: %zu",
                steps->other_count);
    for (size_t i = 0; i < steps->odd_count; i++)
        import_bad(job->import);
    if (steps->is_cut) {
        import_cut_off(job->import);
        import_note(job->import, 1, "the last row of the file is cut off, and passed over");
    }
    if (steps->failed_count)
        import_note(job->import, 1, "%zu allocations failed", steps->failed_count);
    import_note(job->import, 0, "the file does not say what the allocator held");
}

bool import_is_rows(const char *line, bool *ret_rmm)
{
    size_t length = strcspn(line, "\r\n");

    *ret_rmm = length == strlen(ROWTRACE_RMM_HEAD) && strncmp(line, ROWTRACE_RMM_HEAD, length) == 0;
    return *ret_rmm
            || (length == strlen(ROWTRACE_HEAD) && strncmp(line, ROWTRACE_HEAD, length) == 0);
}

static int import_steps(
        struct import_job *job, int (*read)(FILE *in, const char *name, struct rowtrace *ret_steps))
{
    struct rowtrace steps;
    int r = read(job->in, job->path, &steps);

    if (r == 0) {
        tell_rows(job, &steps);
        tell_what_is_missing(job, &steps);
    } else {
        progress_end();
        (void)fprintf(stderr, "kedge import: %s\n", steps.error);
    }
    rowtrace_done(&steps);
    return r == 0 ? CMD_DONE : CMD_BAD;
}

int import_rows(struct import_job *job)
{
    return import_steps(job, rowtrace_read_stream);
}

int import_rmm(struct import_job *job)
{
    return import_steps(job, rowtrace_read_rmm);
}

/* SPDX-License-Identifier: MIT */
#include "tools/load/load.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/base/cmdexit.h"
#include "tools/base/rowtrace.h"
#include "tools/base/vec.h"

bool load_is_csv(const char *path)
{
    char line[256] = "";
    size_t n = 0;
    struct stat status;
    /* a pipe can be read only once, and may have no writer */
    FILE *in = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;

    if (!in)
        return false;
    bool is_read = fgets(line, sizeof(line), in) != NULL;
    (void)fclose(in);
    while (line[n] >= ' ' && line[n] <= '~')
        n++;
    return is_read && strchr("\r\n", line[n]) && strchr(line, ',');
}

/* Blocks get addresses that no two of them share: their numbers. */
static void loadcsv_add_row(
        struct trace *trace, const struct rowtrace *steps, size_t number, bool sync)
{
    const struct rowtrace_row *row = &steps->rows[number];
    const struct rowtrace_block *block = &steps->blocks[row->block];
    uint64_t address = (uint64_t)row->block + 1;

    if (row->is_free)
        (void)trace_add_free(trace, address, 0);
    else
        (void)trace_add_alloc(trace,
                &(struct trace_block){.address = address,
                        .size = block->size,
                        .nth = TRACE_COUNT_NTH,
                        .rule = -1,
                        .stream = !sync});
    trace_set_stream(trace, steps->streams[row->stream], !sync);
}

struct trace *load_rowtrace(const struct rowtrace *steps, bool sync)
{
    struct trace *trace = trace_new();
    uint64_t began = 0;

    for (size_t i = 0; i < steps->row_count; i++) {
        uint64_t time = steps->rows[i].time_us;
        size_t before = trace->event_count;

        loadcsv_add_row(trace, steps, i, sync);
        began = began ? began : time;
        for (; before < trace->event_count; before++) {
            trace->events[before].seq = i + 1;
            trace->events[before].time_ns = time > began ? (time - began) * 1000 : 0;
        }
    }
    return trace;
}

int load_csv(const char *path, struct load *ret_load)
{
    struct rowtrace steps;
    int r = rowtrace_read(path, &steps);

    if (r == 0)
        *ret_load = (struct load){.path = vec_text(path),
                .trace = load_rowtrace(&steps, false),
                .complete_from = (uint32_t)steps.before_count,
                .failed_count = steps.failed_count};
    else
        (void)fprintf(stderr, "kedge: %s\n", steps.error);
    rowtrace_done(&steps);
    return r == 0 ? CMD_DONE : CMD_BAD;
}

/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

struct gathering {
    struct export_moment *moment;
    struct keytable paths; /* text -> number */
    struct keytable rows;  /* (stack or name, path, device) -> row */
};

static void export_moment_add(struct gathering *gathering, const struct export_row *row)
{
    struct export_moment *moment = gathering->moment;
    uint32_t path = keytable_number(&gathering->paths, keytable_text(row->path));
    uint64_t who = row->name ? UINT64_C(1) << 32 : row->stack;
    uint32_t at = keytable_number(
            &gathering->rows, (struct key){who, path, (uint64_t)(int64_t)row->device});

    if (at == moment->row_count) {
        VEC_PUSH(moment->rows, moment->row_count, moment->row_room) = *row;
    } else {
        moment->rows[at].bytes += row->bytes;
        moment->rows[at].count += row->count;
    }
    moment->sum.bytes += row->bytes;
    moment->sum.count += row->count;
}

#define ALL_DEVICES INT_MIN

/* The blocks live just before event `at`. */
static void gather_events(
        struct gathering *gathering, const struct trace *trace, uint32_t at, int device)
{
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (block->born < at && block->died >= at
                && (device == ALL_DEVICES || block->device == device))
            export_moment_add(gathering,
                    &(struct export_row){.path = trace->anchors[block->anchor].path,
                            .stack = block->stack,
                            .device = block->device,
                            .bytes = block->size,
                            .count = 1});
    }
    if (at > 0 && at <= trace->event_count)
        gathering->moment->time_ns = trace->events[at - 1].time_ns;
}

/* The blocks live at the high-water mark of each device, from the writer's own sums. */
static void gather_places(struct gathering *gathering, const struct load *load)
{
    const struct read_capture *capture = load->capture;
    uint64_t most = 0, marks = 0;

    for (size_t i = 0; i < load->place_count; i++) {
        const struct read_place *place = load->places[i].what;

        if (place->high_bytes)
            export_moment_add(gathering,
                    &(struct export_row){.name = place->is_other ? "(other places)" : NULL,
                            .path = place->path,
                            .stack = load->places[i].stack,
                            .device = place->device,
                            .bytes = place->high_bytes,
                            .count = place->high_count});
    }
    for (size_t i = 0; i < FORMAT_DEVICES_MAX; i++) {
        marks += capture->high[i].bytes;
        if (capture->high[i].bytes <= most)
            continue;
        most = capture->high[i].bytes;
        gathering->moment->time_ns = capture->high[i].time_ns;
    }
    gathering->moment->is_partial = gathering->moment->sum.bytes != marks;
}

/* From the record of a failure: the largest holders, and the rest in one row. */
static void gather_holders(struct gathering *gathering, const struct load_oom *oom)
{
    for (unsigned i = 0; i < oom->holder_count; i++)
        export_moment_add(gathering,
                &(struct export_row){.path = "",
                        .stack = oom->holder[i].stack,
                        .device = oom->device,
                        .bytes = oom->holder[i].bytes,
                        .count = oom->holder[i].count});
    if (oom->why->what.other_bytes)
        export_moment_add(gathering,
                &(struct export_row){.name = "(others)",
                        .path = "",
                        .device = oom->device,
                        .bytes = oom->why->what.other_bytes});
    gathering->moment->time_ns = oom->why->what.time_ns;
}

static void gather_oom(struct gathering *gathering, const struct load *load)
{
    const struct load_oom *oom = &load->ooms[load->oom_count - 1];
    bool is_known = oom->at != TRACE_NEVER && oom->at >= load->complete_from;

    if (is_known || !oom->why) {
        gather_events(gathering, load->trace, oom->at == TRACE_NEVER ? 0 : oom->at, oom->device);
        gathering->moment->is_partial = !is_known;
    } else {
        gather_holders(gathering, oom);
    }
}

static void gather_peak(struct gathering *gathering, const struct export_job *job)
{
    const struct trace *trace = job->load->trace;
    uint32_t at = job->figures.max_at;

    if (!job->is_partial)
        gather_events(gathering, trace, at == TRACE_NEVER ? (uint32_t)trace->event_count : at + 1,
                ALL_DEVICES);
    else
        gather_places(gathering, job->load);
}

static int export_moment_by_stack(const void *left, const void *right)
{
    const struct export_row *a = left;
    const struct export_row *b = right;

    if (!a->name != !b->name)
        return a->name ? 1 : -1;
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    int order = strcmp(a->path, b->path);
    return order ? order : (a->device > b->device) - (a->device < b->device);
}

bool export_moment_find(struct export_job *job, enum export_at at)
{
    const struct load *load = job->load;
    struct export_moment *moment = &job->moment;
    struct gathering gathering = {.moment = moment};

    *moment = (struct export_moment){.title = "live at the peak"};
    if (at == EXPORT_OOM && load->oom_count == 0)
        return false;
    if (at == EXPORT_PEAK) {
        gather_peak(&gathering, job);
    } else if (at == EXPORT_END) {
        moment->title = "live at the end";
        gather_events(&gathering, load->trace, (uint32_t)load->trace->event_count, ALL_DEVICES);
        moment->is_partial = moment->sum.bytes != job->figures.remaining;
    } else {
        moment->title = "live when memory ran out";
        gather_oom(&gathering, load);
    }
    moment->is_partial = moment->is_partial || read_is_damaged(load->capture);
    keytable_done(&gathering.paths);
    keytable_done(&gathering.rows);
    VEC_SORT(moment->rows, moment->row_count, export_moment_by_stack);
    return true;
}

size_t export_moment_stack(
        const struct export_moment *moment, size_t row, struct trace_sum *ret_sum)
{
    const struct export_row *first = &moment->rows[row];
    size_t count = 0;

    *ret_sum = (struct trace_sum){0};
    for (; row + count < moment->row_count; count++) {
        const struct export_row *next = &moment->rows[row + count];

        if (next->stack != first->stack || !next->name != !first->name)
            break;
        ret_sum->bytes += next->bytes;
        ret_sum->count += next->count;
    }
    return count;
}

void export_moment_done(struct export_moment *moment)
{
    free(moment->rows);
    *moment = (struct export_moment){0};
}

const struct symbols_line *export_moment_lines(
        struct export_job *job, const struct export_row *row, size_t *ret_count)
{
    const struct symbols_line *lines = NULL;

    *ret_count = 0;
    if (!row->name)
        lines = symbols_stack(job->symbols, row->stack, ret_count);
    if (*ret_count)
        return lines;
    job->stand_in =
            (struct symbols_line){.function = row->name ? row->name : "(no stack)", .module = ""};
    *ret_count = 1;
    return &job->stand_in;
}

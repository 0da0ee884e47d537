/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <stdlib.h>

#include "tools/base/cmdexit.h"
#include "tools/base/vec.h"
#include "tools/import/import_capture.h"
#include "tools/load/inside.h"

bool report_tensors_are_there(const struct report *report)
{
    const struct read_capture *capture = report->load.capture; /* NULL: of a csv */

    return capture && capture->record.bytes;
}

static int report_tensors_load(const char *who, const struct load *load, struct load *ret_load)
{
    struct read_capture *tensors;

    if (!load->capture->record.bytes) {
        render_print(stderr,
                "%s: %s: no record of tensors is in it; runs under PyTorch's own allocator have "
                "one (kedge run --api framework)\n",
                who, load->path);
        return CMD_BAD;
    }
    tensors = import_capture_tensors(load->path, load->capture, load->trace);
    if (!tensors)
        return CMD_BAD;
    load_capture(load->path, tensors, ret_load);
    inside_join(load, ret_load);
    return CMD_DONE;
}

int report_tensors_only(const char *who, struct load *io_load)
{
    struct load tensors;
    int r = report_tensors_load(who, io_load, &tensors);

    if (r != CMD_DONE)
        return r;
    load_close(io_load);
    *io_load = tensors;
    return CMD_DONE;
}

void report_tensors_find(struct report *report)
{
    struct report *tensors;

    if (!report_tensors_are_there(report) || report->from || report->to || report->made_to)
        return;
    tensors = vec_new(1, sizeof *tensors);
    if (report_tensors_load("kedge report", &report->load, &tensors->load) != CMD_DONE) {
        free(tensors);
        return;
    }
    tensors->path = report->path;
    tensors->top = report->top;
    tensors->rows = report->rows;
    tensors->ink = report->ink;
    tensors->window = model_whole(tensors->load.trace);
    tensors->symbols = symbols_new(tensors->load.trace);
    figures_of(&tensors->load, tensors->window, &tensors->figures, &tensors->partial);
    report_stated_find(tensors);
    tensors->kinds = datakind_find(&tensors->load);
    report->tensors = tensors;
}

void report_tensors_done(struct report *report)
{
    struct report *tensors = report->tensors;

    if (!tensors)
        return;
    stepview_done(&tensors->stated);
    datakind_done(&tensors->kinds);
    symbols_free(tensors->symbols);
    load_close(&tensors->load);
    free(tensors);
    report->tensors = NULL;
}

/* Bytes that the allocator held when tensors had most; UINT64_MAX: not known. */
static uint64_t report_tensors_segments(const struct report *tensors)
{
    const struct trace *trace = tensors->load.trace;
    uint64_t held = UINT64_MAX;

    for (size_t i = 0; i < trace->event_count && i <= tensors->figures.max_at; i++)
        if (trace->events[i].kind == TRACE_RESERVED)
            held = trace_reserved_of(trace, &trace->events[i])->all;
    return held;
}

/* The most bytes of tensors by PyTorch's own count, of all devices. */
static uint64_t report_tensors_counted(const struct report *report)
{
    const struct format_record *record = &report->load.capture->record.what;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < FORMAT_DEVICES_MAX; i++)
        bytes += record->peak[i];
    return bytes;
}

void report_tensors_print(const struct report *report)
{
    const struct report *tensors = report->tensors;
    const struct format_record *record = &report->load.capture->record.what;
    uint64_t held, counted;

    if (!tensors)
        return;
    held = report_tensors_segments(tensors);
    counted = report_tensors_counted(report);
    printf("\nSegments %s, of which tensors %s at the peak, cached %s; figures above are of "
           "segments, those below of tensors\n",
            render_bytes(held).text, render_bytes(tensors->figures.max).text,
            render_bytes(held == UINT64_MAX ? held : excess_of(held, tensors->figures.max)).text);
    if (record->flags & FORMAT_RECORD_OWN)
        puts("(by the history that the program itself let PyTorch record)");
    if (counted > tensors->figures.max && record->flags & (FORMAT_RECORD_CUT | FORMAT_RECORD_OWN))
        printf("The peak, %s by PyTorch's count, was before its record begins "
               "(KEDGE_TENSORS=events=N keeps more)\n",
                render_bytes(counted).text);
    report_timeline_print(tensors);
}

void report_tensors_note(const struct report *report)
{
    if (report_tensors_are_there(report))
        report_field(report, report->ink.yellow, "note",
                "these are segments of PyTorch's own allocator: --tensors shows the tensors in "
                "them");
}

void report_tensors_json(struct json *json, const struct report *report)
{
    static const char *const moments[FORMAT_RECORD_COUNT] = {[FORMAT_RECORD_OOM] = "failure",
            [FORMAT_RECORD_CHANGED] = "changed",
            [FORMAT_RECORD_END] = "end",
            [FORMAT_RECORD_ASKED] = "asked"};
    const struct report *tensors = report->tensors;
    struct answer_lines lines;
    uint64_t held;
    uint32_t why;

    if (!tensors)
        return;
    why = report->load.capture->record.what.why;
    lines = answer_lines_find(&tensors->load, tensors->symbols, tensors->window, &tensors->figures);
    held = report_tensors_segments(tensors);
    json_begin(json, "tensors", '{');
    json_known(json, "segments_bytes", held);
    json_uint(json, "max_bytes", tensors->figures.max);
    json_known(json, "cached_bytes",
            held == UINT64_MAX ? held : excess_of(held, tensors->figures.max));
    json_uint(json, "framework_max_bytes", report_tensors_counted(report));
    json_uint(json, "allocated_count", tensors->figures.allocated_count);
    json_bool(json, "complete",
            (report->load.capture->record.what.flags & (FORMAT_RECORD_CUT | FORMAT_RECORD_OWN))
                    == 0);
    json_text(json, "moment", why < FORMAT_RECORD_COUNT ? moments[why] : NULL);
    json_begin(json, "rows", '[');
    for (size_t i = 0; i < lines.count; i++) {
        const struct answer_line *line = &lines.list[i];

        json_begin(json, NULL, '{');
        json_text(json, "title", line->title);
        json_uint(json, "bytes", line->bytes);
        json_uint(json, "count", line->blocks);
        figures_json_stack(json, tensors->symbols, line->stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
    answer_lines_done(&lines);
}

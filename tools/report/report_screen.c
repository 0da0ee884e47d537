/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/trace/timeline.h"

/* ---- the answer, and the lines that held most ------------------------------------------------ */

void report_answer_print(const struct report *report, const struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        fputs(i == answer->failure ? report->ink.red : i == 0 ? report->ink.bold : "", stdout);
        render_label(stdout, answer->sentence[i], 0, 2);
        fputs(report->ink.off, stdout);
    }
    if (answer->count)
        putchar('\n');
}

static void print_line(
        const struct answer_lines *lines, uint64_t bytes, uint64_t blocks, const char *title)
{
    printf("  %11s %4u %%  %6" PRIu64 " block%-3s", render_bytes(bytes).text,
            answer_lines_percent(bytes, lines->peak), blocks, render_s(blocks));
    render_label(stdout, title, 40, 6);
}

void report_lines_print(const struct report *report, const struct answer_lines *lines)
{
    struct answer_line others = {0};
    size_t shown = lines->count < report->rows ? lines->count : report->rows;

    printf("\n%sAt the %s", report->ink.bold, report->window.is_named ? "window's peak" : "peak");
    if (lines->device >= 0)
        printf(" of device %d", lines->device);
    printf(", by line%s\n", report->ink.off);
    if (lines->peak == UINT64_MAX)
        printf("  not known: %s\n", load_lacks(report->load.capture));
    else if (lines->count == 0)
        puts("  nothing");
    for (size_t i = 0; i < lines->count; i++) {
        const struct answer_line *line = &lines->list[i];

        if (i < shown) {
            print_line(lines, line->bytes, line->blocks, line->title);
            continue;
        }
        others.bytes += line->bytes;
        others.blocks += line->blocks;
    }
    if (lines->count > shown) {
        char *text = vec_format(
                "%zu other line%s", lines->count - shown, render_s(lines->count - shown));
        print_line(lines, others.bytes, others.blocks, text);
        free(text);
    }
}

/* ---- the shape of the run -------------------------------------------------------------------- */

#define LEVELS      8
#define LABEL_WIDTH 11 /* "  reserved " */

static const char *level_text(unsigned level, bool utf8)
{
    static const char *const blocks[LEVELS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[LEVELS + 1] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};

    return utf8 ? blocks[level] : ascii[level];
}

/* Rounded up: bytes above 0 have a height. */
static unsigned level_of(uint64_t bytes, uint64_t most)
{
    return bytes == 0 ? 0 : (unsigned)(((double)bytes * LEVELS - 1) / (double)most) + 1;
}

static void report_timeline_print_line(
        const char *name, const struct timeline *line, bool reserved, uint64_t most)
{
    bool utf8 = render_is_utf8();

    printf("  %-8s ", name);
    for (size_t i = 0; i < line->bin_count; i++) {
        const struct timeline_bin *bin = &line->bins[i];
        unsigned level = level_of(reserved ? bin->reserved : bin->live, most);

        fputs(level_text(level < LEVELS ? level : LEVELS, utf8), stdout);
    }
    putchar('\n');
}

/* "peak 13.11 GiB in SOT_CALL_428 (2)"; the caller frees it. */
static char *peak_text(const struct report *report, const struct timeline *line)
{
    const struct trace *trace = report->load.trace;
    uint32_t block = trace->events[line->live.at].block;
    uint32_t anchor = block == TRACE_NONE ? 0 : trace->blocks[block].anchor;
    char *where = anchor ? figures_anchor_text(&trace->anchors[anchor]) : NULL;
    char *text = vec_format("peak %s%s%s", render_bytes(line->live.bytes).text, where ? " in " : "",
            where ? where : "");

    free(where);
    return text;
}

/* The mark below the peak, with its label on the side that has more room. */
static void print_peak(const struct report *report, const struct timeline *line)
{
    size_t at = LABEL_WIDTH + timeline_bin_of(line, line->live.at);
    char *text = peak_text(report, line);
    size_t length = strlen(text);

    if (length + 2 <= at) {
        render_print(stdout, "%*s%s ^\n", (int)(at - length - 1), "", text);
    } else {
        printf("%*s^ ", (int)at, "");
        render_label(stdout, text, (unsigned)at + 2, LABEL_WIDTH);
    }
    free(text);
}

void report_timeline_print(const struct report *report)
{
    unsigned columns = render_columns(stdout);
    struct timeline_job job = {.trace = report->load.trace,
            .window = report->window,
            .axis = TIMELINE_BY_TIME,
            .bins = columns > 2 * LABEL_WIDTH ? columns - LABEL_WIDTH : LABEL_WIDTH};
    struct timeline line;
    uint64_t most;

    if (report_lacks_events(report))
        return;
    line = timeline_make(&job);
    most = line.live.bytes > line.reserved.bytes ? line.live.bytes : line.reserved.bytes;
    if (line.bin_count && line.live.at != TRACE_NEVER) {
        putchar('\n');
        report_timeline_print_line("live", &line, false, most);
        if (line.reserved.bytes)
            report_timeline_print_line("reserved", &line, true, most);
        print_peak(report, &line);
    }
    timeline_done(&line);
}

/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/vec.h"

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

/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/steps/growth.h"

static const struct vec_key report_screen_most_first[] = {
        VEC_DOWN(struct report_line, bytes), VEC_UP(struct report_line, stack)};

/* The device with the highest peak; -1: nothing was allocated. */
static int highest_device(const struct read_capture *capture)
{
    int device = -1;

    for (int i = 0; i < (int)FORMAT_DEVICES_MAX; i++)
        if (capture->high[i].bytes > (device < 0 ? 0 : capture->high[device].bytes))
            device = i;
    return device;
}

/* What each stack had at the device's peak, as the run counted it by place. */
static void sums_of_places(
        const struct report *report, struct report_lines *lines, struct trace_sum *sums)
{
    const struct load *load = &report->load;

    for (size_t i = 0; lines->device >= 0 && i < load->place_count; i++) {
        const struct read_place *place = load->places[i].what;

        if (place->device != lines->device)
            continue;
        sums[load->places[i].stack].bytes += place->high_bytes;
        sums[load->places[i].stack].count += place->high_count;
    }
}

static void sums_of_events(const struct report *report, struct trace_sum *sums)
{
    const struct trace *trace = report->load.trace;
    uint32_t at = report_peak(report);

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (block->born < report->window.first || block->born >= at || block->died < at)
            continue;
        sums[block->stack].bytes += block->size;
        sums[block->stack].count++;
    }
}

/* Stacks of one title are one line. */
static void join_lines(
        const struct report *report, struct report_lines *lines, const struct trace_sum *sums)
{
    struct keytable index = {0};
    size_t count = 0;
    size_t room = 0;
    struct report_line *stacks = NULL;

    for (size_t i = 0; i < report->load.trace->stack_count; i++)
        if (sums[i].count)
            VEC_PUSH(stacks, count, room) =
                    (struct report_line){NULL, (uint32_t)i, sums[i].bytes, sums[i].count};
    char **titles = title_ways(report->symbols, TITLE_STACKS(stacks), count);
    lines->list = vec_new(count + 1, sizeof(*lines->list));
    for (size_t i = 0; i < count; i++) {
        struct report_line *line = &lines->list[keytable_number(&index, keytable_text(titles[i]))];

        if (!line->title) {
            *line = (struct report_line){.title = vec_text(titles[i]), .stack = stacks[i].stack};
            lines->count++;
        }
        line->bytes += stacks[i].bytes;
        line->blocks += stacks[i].blocks;
    }
    title_done(titles, count);
    keytable_done(&index);
    free(stacks);
    VEC_SORT_BY(lines->list, lines->count, report_screen_most_first);
}

struct report_lines report_lines_find(const struct report *report)
{
    struct report_lines lines = {.peak = report->figures.max, .device = -1};
    struct trace_sum *sums = vec_new(report->load.trace->stack_count + 1, sizeof(*sums));

    if (report_has_high(report)) {
        lines.device = highest_device(report->load.capture);
        lines.peak = lines.device < 0 ? 0 : report->load.capture->high[lines.device].bytes;
        sums_of_places(report, &lines, sums);
    } else if (report_lacks_events(report)) {
        lines.peak = UINT64_MAX;
    } else {
        sums_of_events(report, sums);
    }
    join_lines(report, &lines, sums);
    free(sums);
    return lines;
}

void report_lines_done(struct report_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->list[i].title);
    free(lines->list);
}

static unsigned screen_percent(uint64_t bytes, uint64_t all)
{
    return all ? (unsigned)(100.0 * (double)bytes / (double)all + 0.5) : 0;
}

/* "; +97.50 MiB a step" of the line's stack that grows most; "": none does, or it is not known. */
static char *screen_growth(const struct report *report, const struct report_line *line)
{
    struct key key = keytable_text(line->title);
    struct growth growth;
    char *text = NULL;

    growth_find(&report->load, report->window, &report->stated, &growth);
    const struct growth_site *sites = growth_first(&growth, TREND_GROWS);
    size_t count = sites ? growth.counts[TREND_GROWS] : 0;
    char **titles = title_ways(report->symbols, TITLE_STACKS(sites), count);
    for (size_t i = 0; i < count && !text; i++) {
        struct key other = keytable_text(titles[i]);

        if (sites[i].stack && key.a == other.a && key.b == other.b) {
            char *by = growth_text(&growth, &sites[i]);
            text = vec_format("; %s", by);
            free(by);
        }
    }
    title_done(titles, count);
    growth_done(&growth);
    return text ? text : vec_text("");
}

/* Max counts the blocks of the window alone. */
static const char *peak_word(const struct report *report)
{
    return report->window.is_named ? "window's peak" : "peak";
}

/* "out of memory: 8.12 MiB asked for by cuMemAllocAsync in step/backward (4) (2 times)" */
static void print_failure(const struct report *report)
{
    const struct load *load = &report->load;
    const struct load_oom *oom = &load->ooms[load->oom_count - 1];
    char *where = oom->anchor ? figures_anchor_text(&load->trace->anchors[oom->anchor]) : NULL;
    char *times = report_oom_times(load) > 1
            ? vec_format(" (%" PRIu64 " times)", report_oom_times(load))
            : vec_text("");
    char *text = vec_format("out of memory: %s asked for%s%s%s%s%s",
            oom->requested ? render_bytes(oom->requested).text : "memory",
            oom->why && *oom->why->call ? " by " : "", oom->why ? oom->why->call : "",
            where ? " in " : "", where ? where : "", times);

    fputs(report->ink.red, stdout);
    render_label(stdout, text, 0, 2);
    fputs(report->ink.off, stdout);
    free(text);
    free(times);
    free(where);
}

void report_answer_print(const struct report *report, const struct report_lines *lines)
{
    if (lines->count) {
        const struct report_line *line = &lines->list[0];
        char *more = screen_growth(report, line);
        char *text = vec_format("%s holds %u %% of the %s: %s of %s%s", line->title,
                screen_percent(line->bytes, lines->peak), peak_word(report),
                render_bytes(line->bytes).text, render_bytes(lines->peak).text, more);

        fputs(report->ink.bold, stdout);
        render_label(stdout, text, 0, 2);
        fputs(report->ink.off, stdout);
        free(text);
        free(more);
    }
    if (report->load.oom_count)
        print_failure(report);
    if (lines->count || report->load.oom_count)
        putchar('\n');
}

static void print_line(
        const struct report_lines *lines, uint64_t bytes, uint64_t blocks, const char *title)
{
    printf("  %11s %4u %%  %6" PRIu64 " block%-3s", render_bytes(bytes).text,
            screen_percent(bytes, lines->peak), blocks, render_s(blocks));
    render_label(stdout, title, 40, 6);
}

void report_lines_print(const struct report *report, const struct report_lines *lines)
{
    struct report_line others = {0};
    size_t shown = lines->count < report->rows ? lines->count : report->rows;

    printf("\n%sAt the %s", report->ink.bold, peak_word(report));
    if (lines->device >= 0)
        printf(" of device %d", lines->device);
    printf(", by line%s\n", report->ink.off);
    if (lines->peak == UINT64_MAX)
        printf("  not known: %s\n", load_lacks(report->load.capture));
    else if (lines->count == 0)
        puts("  nothing");
    for (size_t i = 0; i < lines->count; i++) {
        const struct report_line *line = &lines->list[i];

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

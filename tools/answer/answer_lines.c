/* SPDX-License-Identifier: MIT */
#include "tools/answer/answer_lines.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

static const struct vec_key answer_lines_most_first[] = {
        VEC_DOWN(struct answer_line, bytes), VEC_UP(struct answer_line, stack)};

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
static void sums_of_places(const struct load *load, int device, struct trace_sum *sums)
{
    for (size_t i = 0; device >= 0 && i < load->place_count; i++) {
        const struct read_place *place = load->places[i].what;

        if (place->device != device)
            continue;
        sums[load->places[i].stack].bytes += place->high_bytes;
        sums[load->places[i].stack].count += place->high_count;
    }
}

/* `at`: the first event that is too late; `device`: -1 = all. */
static void sums_of_events(const struct load *load, struct model_window window, uint32_t at,
        int device, struct trace_sum *sums)
{
    const struct trace *trace = load->trace;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (block->born < window.first || block->born >= at || block->died < at
                || (device >= 0 && block->device != device))
            continue;
        sums[block->stack].bytes += block->size;
        sums[block->stack].count++;
    }
}

/* Stacks of one title are one line. */
static void join_lines(const struct load *load, struct symbols *symbols,
        const struct trace_sum *sums, struct answer_lines *lines)
{
    struct keytable index = {0};
    size_t count = 0;
    size_t room = 0;
    struct answer_line *stacks = NULL;

    for (size_t i = 0; i < load->trace->stack_count; i++)
        if (sums[i].count)
            VEC_PUSH(stacks, count, room) =
                    (struct answer_line){NULL, (uint32_t)i, sums[i].bytes, sums[i].count};
    char **titles = title_ways(symbols, TITLE_STACKS(stacks), count);
    lines->list = vec_new(count + 1, sizeof(*lines->list));
    for (size_t i = 0; i < count; i++) {
        struct answer_line *line = &lines->list[keytable_number(&index, keytable_text(titles[i]))];

        if (!line->title) {
            *line = (struct answer_line){.title = vec_text(titles[i]), .stack = stacks[i].stack};
            lines->count++;
        }
        line->bytes += stacks[i].bytes;
        line->blocks += stacks[i].blocks;
    }
    title_done(titles, count);
    keytable_done(&index);
    free(stacks);
    VEC_SORT_BY(lines->list, lines->count, answer_lines_most_first);
}

struct answer_lines answer_lines_find(const struct load *load, struct symbols *symbols,
        struct model_window window, const struct model_figures *figures)
{
    struct answer_lines lines = {.peak = figures->max, .device = -1};
    struct trace_sum *sums = vec_new(load->trace->stack_count + 1, sizeof(*sums));
    bool lacks = load->complete_from > window.first;

    if (lacks && !window.is_named) {
        lines.device = highest_device(load->capture);
        lines.peak = lines.device < 0 ? 0 : load->capture->high[lines.device].bytes;
        sums_of_places(load, lines.device, sums);
    } else if (lacks) {
        lines.peak = UINT64_MAX;
    } else {
        sums_of_events(load, window,
                figures->max_at == TRACE_NEVER ? window.last : figures->max_at + 1, -1, sums);
    }
    join_lines(load, symbols, sums, &lines);
    lines.of_stack = sums;
    return lines;
}

/* The last failed request of the window; NULL: there is none. */
static const struct load_oom *last_failure(const struct load *load, struct model_window window)
{
    const struct load_oom *found = NULL;

    for (size_t i = 0; i < load->oom_count; i++) {
        const struct load_oom *oom = &load->ooms[i];

        if (!window.is_named || (oom->at >= window.first && oom->at < window.last))
            found = oom;
    }
    return found;
}

struct answer_lines answer_lines_at_failure(
        const struct load *load, struct symbols *symbols, struct model_window window)
{
    const struct load_oom *oom = last_failure(load, window);
    struct answer_lines lines = {.device = -1};
    struct trace_sum *sums;

    if (!oom)
        return lines;
    sums = vec_new(load->trace->stack_count + 1, sizeof(*sums));
    if (load->complete_from <= window.first && oom->at != TRACE_NEVER)
        sums_of_events(load, window, oom->at, oom->device, sums);
    else
        for (unsigned i = 0; i < oom->holder_count && oom->live != UINT64_MAX; i++) {
            sums[oom->holder[i].stack].bytes += oom->holder[i].bytes;
            sums[oom->holder[i].stack].count += oom->holder[i].count;
        }
    join_lines(load, symbols, sums, &lines);
    for (size_t i = 0; i < lines.count; i++)
        lines.peak += lines.list[i].bytes;
    if (oom->holder_count && oom->live != UINT64_MAX)
        lines.peak = max_of(lines.peak, oom->live);
    lines.of_stack = sums;
    return lines;
}

void answer_lines_done(struct answer_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->list[i].title);
    free(lines->list);
    free(lines->of_stack);
    *lines = (struct answer_lines){0};
}

unsigned answer_lines_percent(uint64_t bytes, uint64_t all)
{
    return all ? (unsigned)(100.0 * (double)bytes / (double)all + 0.5) : 0;
}

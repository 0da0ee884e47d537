/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/trace/regions.h"

/* Granules that live blocks of one line keep: of those partly live, whose largest block is its. */
struct fragments_row {
    char *title;
    uint32_t stack; /* of the first */
    uint64_t free, granules;
};

struct fragments {
    uint32_t at; /* the blocks live just before this event */
    bool is_failure;
    uint64_t reserved, live;
    uint64_t free, granules; /* of all rows */
    struct fragments_row *rows;
    size_t count;
};

static const struct vec_key fragments_first[] = {
        VEC_DOWN(struct fragments_row, free), VEC_UP(struct fragments_row, stack)};

/* The last failure that the window has, else its end. */
static uint32_t fragments_moment(const struct report *report, bool *ret_is_failure)
{
    const struct load *load = &report->load;
    const struct load_oom *oom = load->oom_count ? &load->ooms[load->oom_count - 1] : NULL;

    *ret_is_failure = oom && report_oom_is_told(report, oom) && oom->at >= report->window.first
            && oom->at < report->window.last;
    return *ret_is_failure ? oom->at : report->window.last;
}

/* What the pool held, and what lived in it. */
static void fragments_sum(const struct trace *trace, struct fragments *found)
{
    for (uint32_t i = 0; i < found->at && i < trace->event_count; i++)
        if (trace->events[i].kind == TRACE_RESERVED)
            found->reserved = trace_reserved_of(trace, &trace->events[i])->all;
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (!block->native && block->born < found->at && block->died >= found->at)
            found->live += block->size;
    }
}

static void fragments_join(
        struct fragments *found, char **titles, size_t stacks, const struct regions_keeper *keepers)
{
    struct keytable index = {0};

    found->rows = vec_new(stacks + 1, sizeof(*found->rows));
    for (size_t i = 0; i < stacks; i++) {
        if (!keepers[i].granules)
            continue;
        struct fragments_row *row = &found->rows[keytable_number(&index, keytable_text(titles[i]))];
        if (!row->title) {
            *row = (struct fragments_row){.title = vec_text(titles[i]), .stack = (uint32_t)i};
            found->count++;
        }
        row->free += keepers[i].free;
        row->granules += keepers[i].granules;
        found->free += keepers[i].free;
        found->granules += keepers[i].granules;
    }
    keytable_done(&index);
    VEC_SORT_BY(found->rows, found->count, fragments_first);
}

static struct fragments fragments_find(const struct report *report)
{
    const struct trace *trace = report->load.trace;
    const struct regions none = {.trace = trace}; /* without a map */
    struct regions_keeper *keepers = vec_new(trace->stack_count + 1, sizeof(*keepers));
    uint32_t *keys = vec_new(trace->block_count + 1, sizeof(*keys));
    uint32_t *stacks = vec_new(trace->stack_count + 1, sizeof(*stacks));
    struct fragments found = {0};

    found.at = fragments_moment(report, &found.is_failure);
    fragments_sum(trace, &found);
    for (size_t i = 0; i < trace->block_count; i++)
        keys[i] = trace->blocks[i].stack;
    for (uint32_t i = 0; i < trace->stack_count; i++)
        stacks[i] = i;
    regions_fill(&none, found.at, NULL, keys, keepers);
    char **titles = title_ways(report->symbols, stacks, sizeof(*stacks), 0, trace->stack_count);
    fragments_join(&found, titles, trace->stack_count, keepers);
    title_done(titles, trace->stack_count);
    free(stacks);
    free(keys);
    free(keepers);
    return found;
}

static void fragments_done(struct fragments *found)
{
    for (size_t i = 0; i < found->count; i++)
        free(found->rows[i].title);
    free(found->rows);
}

/* Why the view has nothing to tell; NULL: it has. */
static const char *fragments_lack(const struct report *report)
{
    if (report->load.complete_from > report->window.first)
        return load_lacks(report->load.capture);
    return load_lacks_reserved(&report->load) ? "the record has no bytes held from the driver"
                                              : NULL;
}

void report_fragments_print(const struct report *report)
{
    const char *lack = fragments_lack(report);

    printf("\n%sFree memory that live blocks keep from going back%s\n", report->ink.bold,
            report->ink.off);
    if (lack) {
        printf("  not known: %s\n", lack);
        return;
    }
    struct fragments found = fragments_find(report);
    printf("  %s: reserved %s, live %s\n",
            found.is_failure                  ? "when memory ran out"
                    : report->window.is_named ? "at the end of the window"
                                              : "at the end",
            render_bytes(found.reserved).text, render_bytes(found.live).text);
    printf("  %s free in %" PRIu64 " granules of 2 MiB that are partly live\n\n",
            render_bytes(found.free).text, found.granules);
    for (size_t i = 0; i < found.count && i < report->top; i++) {
        printf("  %11s  %6" PRIu64 " granule%-3s", render_bytes(found.rows[i].free).text,
                found.rows[i].granules, render_s(found.rows[i].granules));
        render_label(stdout, found.rows[i].title, 34, 6);
    }
    if (found.count == 0)
        puts("  nothing");
    figures_print_more(found.count, report->top, "line");
    fragments_done(&found);
}

void report_fragments_json(struct json *json, const struct report *report)
{
    if (fragments_lack(report)) {
        json_text(json, "fragments", NULL);
        return;
    }
    struct fragments found = fragments_find(report);
    json_begin(json, "fragments", '{');
    json_bool(json, "failed", found.is_failure);
    json_uint(json, "reserved_bytes", found.reserved);
    json_uint(json, "live_bytes", found.live);
    json_uint(json, "kept_bytes", found.free);
    json_uint(json, "granules", found.granules);
    json_begin(json, "rows", '[');
    for (size_t i = 0; i < found.count && i < report->top; i++) {
        json_begin(json, NULL, '{');
        json_text(json, "title", found.rows[i].title);
        json_uint(json, "kept_bytes", found.rows[i].free);
        json_uint(json, "granules", found.rows[i].granules);
        figures_json_stack(json, report->symbols, found.rows[i].stack, "stack");
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
    fragments_done(&found);
}

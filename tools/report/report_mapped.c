/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/pool.h"
#include "tools/replay/whatif.h"

/*
 * A saving below this is not worth a setting; nor is a run in which cudaMalloc has less than one
 * byte in this many.
 */
#define MAPPED_LEAST (UINT64_C(64) << 20)
#define MAPPED_SHARE 8

/*
 * Beyond these a replay takes too long for a report: requests, and bytes asked for (which are
 * mapped piece by piece).
 */
#define MAPPED_REQUESTS 500000
#define MAPPED_BYTES    (UINT64_C(1) << 46)

static const struct whatif_policy mapped_policy = {
        .name = "sync=mapped", .remap = POOL_REMAP_AUTO, .mapped = true};

static bool has_exported(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->coverage_count; i++) {
        const struct read_coverage *row = &capture->coverage[i];
        if (strcmp(row->route, "called") == 0 && strcmp(row->hook, "cuIpcGetMemHandle") == 0)
            return true;
    }
    return false;
}

static bool report_mapped_is_mapped(const struct read_capture *capture)
{
    return strstr(report_setting(capture, "KEDGE_POOL"), "sync=mapped") != NULL;
}

static bool has_hints(const struct read_capture *capture)
{
    return capture->hints_hash && hint_mode_acts(capture->hints_mode);
}

/*
 * Whether this is a whole run that can be replayed, and could have used mapped memory for all
 * requests.
 */
static bool is_in_question(const struct report *report)
{
    const struct load *load = &report->load;
    bool is_whole = !report->from && !report->to && load->complete_from == 0;

    return is_whole && !load_is_imported(load->capture) && trace_has_pool(load->trace)
            && !report_mapped_is_mapped(load->capture) && !has_hints(load->capture)
            && !has_exported(load->capture) && report->figures.peak_reserved >= MAPPED_LEAST;
}

/* Bytes asked of the pool by cudaMalloc and by both APIs. */
static struct asked {
    uint64_t sync_bytes, bytes, count;
} sum_asked(const struct trace *trace)
{
    struct asked asked = {0, 0, 0};

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (!trace_is_served(block, true))
            continue;
        asked.count++;
        asked.bytes += block->size;
        asked.sync_bytes += block->stream ? 0 : block->size;
    }
    return asked;
}

static void report_mapped_play(const struct report *report, struct report_mapped *ret)
{
    struct workload workload;
    struct whatif answer;

    workload_from_trace(report->load.trace, report->window.first, report->window.last, &workload);
    struct whatif_job job = {
            .workload = &workload, .passes = 1, .backed = true, .total = workload.event_count};
    ret->is_known = whatif_run(&mapped_policy, &job, &answer) == 0;
    ret->held = answer.peak_reserved;
    whatif_done(&answer);
    workload_done(&workload);
}

void report_mapped_find(struct report *report)
{
    struct report_mapped *mapped = &report->mapped;

    if (!is_in_question(report))
        return;
    struct asked asked = sum_asked(report->load.trace);
    if (asked.sync_bytes == 0 || asked.sync_bytes < asked.bytes / MAPPED_SHARE)
        return;
    if (asked.count <= MAPPED_REQUESTS && asked.bytes <= MAPPED_BYTES)
        report_mapped_play(report, mapped);
    else
        mapped->is_untold = asked.sync_bytes == asked.bytes;
}

void report_mapped_print(const struct report *report)
{
    const struct report_mapped *mapped = &report->mapped;

    if (mapped->is_known)
        printf("The pool held %s at the peak; with KEDGE_POOL=sync=mapped it would have been %s\n",
                render_bytes(report->figures.peak_reserved).text, render_bytes(mapped->held).text);
    if (mapped->is_untold) {
        char *path = render_word(report->path);
        puts("What the pool would have held with KEDGE_POOL=sync=mapped:");
        render_print(stdout, "  kedge whatif %s --policy kedge-sync,kedge-mapped\n", path);
        free(path);
    }
}

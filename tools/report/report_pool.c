/* SPDX-License-Identifier: MIT */
#include "tools/report/report.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/pool.h"
#include "tools/replay/whatif.h"

/*
 * A saving of sync=mapped below this is not worth a setting; nor is a run in which cudaMalloc has
 * less than one byte in this many.
 */
#define MAPPED_LEAST (UINT64_C(64) << 20)
#define MAPPED_SHARE 8

/*
 * Beyond these a replay takes too long for a report: requests, and bytes asked for (which are
 * mapped piece by piece).
 */
#define PLAYED_REQUESTS 500000
#define PLAYED_BYTES    (UINT64_C(1) << 46)

static const struct whatif_policy mapped_policy = {
        .name = "sync=mapped", .remap = POOL_REMAP_AUTO, .mapped = true};
static const struct whatif_policy still_policy = {
        .name = "remap=never", .remap = POOL_REMAP_NEVER, .mapped = true};

static bool has_exported(const struct read_capture *capture)
{
    for (size_t i = 0; i < capture->coverage_count; i++) {
        const struct read_coverage *row = &capture->coverage[i];
        if (strcmp(row->route, "called") == 0 && strcmp(row->hook, "cuIpcGetMemHandle") == 0)
            return true;
    }
    return false;
}

static bool is_mapped(const struct read_capture *capture)
{
    return strstr(report_setting(capture, "KEDGE_POOL"), "sync=mapped") != NULL;
}

static bool has_hints(const struct read_capture *capture)
{
    return capture->hints_hash && hint_mode_acts(capture->hints_mode);
}

/* Whether this is a whole run of kedge's pool that can be replayed. */
static bool may_be_played(const struct report *report)
{
    const struct load *load = &report->load;

    return !report->from && !report->to && load->complete_from == 0
            && !load_is_imported(load->capture) && trace_has_pool(load->trace)
            && !has_hints(load->capture);
}

/* Could it have used mapped memory for all requests, and would that matter? */
static bool may_be_mapped(const struct report *report)
{
    return !is_mapped(report->load.capture) && !has_exported(report->load.capture)
            && report->figures.peak_reserved >= MAPPED_LEAST;
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

/* The bytes that another policy would have held at the peak; 0 = not known. */
static uint64_t held_by(const struct report *report, const struct whatif_policy *policy)
{
    struct workload workload;
    struct whatif answer;
    uint64_t held;

    workload_from_trace(report->load.trace, report->window.first, report->window.last, &workload);
    struct whatif_job job = {
            .workload = &workload, .passes = 1, .backed = true, .total = workload.event_count};
    held = whatif_run(policy, &job, &answer) == 0 ? answer.peak_reserved : 0;
    whatif_done(&answer);
    workload_done(&workload);
    return held;
}

void report_pool_find(struct report *report)
{
    struct report_pool *pool = &report->pool;

    if (!may_be_played(report))
        return;
    struct asked asked = sum_asked(report->load.trace);
    bool asks_mapped = may_be_mapped(report) && asked.sync_bytes != 0
            && asked.sync_bytes >= asked.bytes / MAPPED_SHARE;
    if (asked.count > PLAYED_REQUESTS || asked.bytes > PLAYED_BYTES) {
        pool->is_untold = asks_mapped && asked.sync_bytes == asked.bytes;
        return;
    }
    if (asks_mapped)
        pool->mapped_held = held_by(report, &mapped_policy);
    if (report->load.capture->moves.count && (!asked.sync_bytes || is_mapped(report->load.capture)))
        pool->still_held = held_by(report, &still_policy);
}

/* "Storage moved: 2.41 GiB in 12.3 ms, 0.08 % of the time; without moves the pool would have held
 * 15.09 GiB" */
static void print_moves(const struct report *report)
{
    const struct read_moves *moves = &report->load.capture->moves;

    if (!moves->count)
        return;
    printf("Storage moved: %s in %.1f ms", render_bytes(moves->bytes).text,
            (double)moves->ns / 1e6);
    if (moves->time_ns)
        printf(", %.2f %% of the time", 100.0 * (double)moves->ns / (double)moves->time_ns);
    if (report->pool.still_held)
        printf("; without moves the pool would have held %s",
                render_bytes(report->pool.still_held).text);
    putchar('\n');
}

void report_pool_print(const struct report *report)
{
    const struct report_pool *pool = &report->pool;

    print_moves(report);
    if (pool->mapped_held)
        printf("The pool held %s at the peak; with KEDGE_POOL=sync=mapped it would have been %s\n",
                render_bytes(report->figures.peak_reserved).text,
                render_bytes(pool->mapped_held).text);
    if (pool->is_untold) {
        char *path = render_word(report->path);
        puts("What the pool would have held with KEDGE_POOL=sync=mapped:");
        render_print(stdout, "  kedge whatif %s --policy kedge-sync,kedge-mapped\n", path);
        free(path);
    }
}

static uint64_t or_unknown(uint64_t bytes)
{
    return bytes ? bytes : UINT64_MAX;
}

void report_pool_json(struct json *json, const struct report *report)
{
    const struct read_moves *moves = &report->load.capture->moves;

    json_known(json, "sync_mapped_peak_reserved_bytes", or_unknown(report->pool.mapped_held));
    json_begin(json, "moves", '{');
    json_uint(json, "count", moves->count);
    json_uint(json, "bytes", moves->bytes);
    json_uint(json, "ns", moves->ns);
    json_known(json, "without_peak_reserved_bytes", or_unknown(report->pool.still_held));
    json_uint(json, "ready", moves->ready);
    json_uint(json, "lazy", moves->lazy);
    json_uint(json, "sparing", moves->sparing);
    json_uint(json, "create_ns", moves->create_ns);
    json_uint(json, "map_ns", moves->map_ns);
    json_uint(json, "access_ns", moves->access_ns);
    json_uint(json, "unmap_ns", moves->unmap_ns);
    json_end(json, '}');
}

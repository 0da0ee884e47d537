/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"

/*
 * Source: the Trace Event Format. Anchors that a thread leaves in the reverse order of entering
 * them are complete events ("X"); the others (ranges that overlap, or that another thread leaves)
 * are asynchronous ones ("b" and "e"), which have tracks of their own.
 */

#define UNKNOWN_TID 1000000000u /* and above: threads without a system thread id */

/* Live storage with hints: a block ends when it is released or freed, whichever comes first. */
struct release {
    uint32_t at, block;
};

struct timeline {
    struct export_job *job;
    const struct trace *trace;
    struct json json;
    uint64_t pid;
    uint64_t end_ns;
    const struct read_thread **threads;
    bool *is_loose; /* by anchor: it is not nested */
    struct release *releases;
    size_t release_count, release_room, next_release;
    uint64_t live, reserved, reserved_told, hinted;
    uint64_t device_live[FORMAT_DEVICES_MAX];
    unsigned devices; /* that blocks are on */
};

/* ---- one event ---- */

static void export_perfetto_begin_event(
        struct timeline *line, const char *phase, const char *name, uint64_t tid, uint64_t ns)
{
    struct json *json = &line->json;

    json_begin(json, NULL, '{');
    json_text(json, "ph", phase);
    json_text(json, "name", name);
    json_uint(json, "pid", line->pid);
    json_uint(json, "tid", tid);
    json_micros(json, "ts", ns);
    line->job->event_count++;
}

static uint64_t tid_of(const struct timeline *line, uint32_t thread)
{
    if (thread < line->job->load->thread_count && line->threads[thread])
        return line->threads[thread]->tid;
    return (uint64_t)UNKNOWN_TID + thread;
}

static void write_name(struct timeline *line, const char *what, uint64_t tid, const char *name)
{
    export_perfetto_begin_event(line, "M", what, tid, 0);
    json_begin(&line->json, "args", '{');
    json_text(&line->json, "name", name);
    json_end(&line->json, '}');
    json_end(&line->json, '}');
}

static void export_perfetto_write_names(struct timeline *line)
{
    const struct load *load = line->job->load;

    write_name(
            line, "process_name", line->pid, *load->capture->exe ? load->capture->exe : load->path);
    for (uint32_t i = 0; i < load->thread_count; i++)
        if (line->threads[i] && *line->threads[i]->name)
            write_name(line, "thread_name", line->threads[i]->tid, line->threads[i]->name);
}

static void write_counter(struct timeline *line, const char *name, uint64_t ns, uint64_t bytes)
{
    export_perfetto_begin_event(line, "C", name, line->pid, ns);
    json_begin(&line->json, "args", '{');
    json_uint(&line->json, "bytes", bytes);
    json_end(&line->json, '}');
    json_end(&line->json, '}');
}

/* ---- counters ---- */

static bool export_perfetto_is_released(const struct trace_block *block)
{
    return block->mode == HINT_LIVE && block->released != TRACE_NEVER
            && block->released < block->died;
}

static int export_perfetto_by_time(const void *left, const void *right)
{
    const struct release *a = left;
    const struct release *b = right;

    return vec_order(a->at, b->at, vec_order(a->block, b->block, 0));
}

static void find_releases(struct timeline *line)
{
    bool seen[FORMAT_DEVICES_MAX] = {false};

    for (size_t i = 0; i < line->trace->block_count; i++) {
        const struct trace_block *block = &line->trace->blocks[i];

        if (export_perfetto_is_released(block))
            VEC_PUSH(line->releases, line->release_count, line->release_room) =
                    (struct release){block->released, (uint32_t)i};
        if (!trace_has_totals(block->device))
            continue;
        line->devices += !seen[block->device];
        seen[block->device] = true;
    }
    VEC_SORT(line->releases, line->release_count, export_perfetto_by_time);
}

static void export_perfetto_count_block(struct timeline *line, const struct trace_event *event)
{
    const struct trace_block *block = &line->trace->blocks[event->block];
    bool is_alloc = event->kind == TRACE_ALLOC;
    uint64_t change = is_alloc ? block->size : 0 - block->size;

    line->live += change;
    if (is_alloc || !export_perfetto_is_released(block))
        line->hinted += change;
    if (trace_has_totals(block->device))
        line->device_live[block->device] += change;
}

static void write_live(struct timeline *line, const struct trace_event *event)
{
    int device = line->trace->blocks[event->block].device;

    write_counter(line, "live", event->time_ns, trace_live(line->trace, line->live));
    if (line->devices > 1 && trace_has_totals(device)) {
        char *name = vec_format("live, device %d", device);
        write_counter(line, name, event->time_ns, line->device_live[device]);
        free(name);
    }
}

/* Releases count from the edge on, as in every figure "with hints". */
static void write_releases(struct timeline *line, uint32_t at, bool is_changed)
{
    for (; line->next_release < line->release_count && line->releases[line->next_release].at == at;
            line->next_release++) {
        line->hinted -= line->trace->blocks[line->releases[line->next_release].block].size;
        is_changed = true;
    }
    if (is_changed && line->release_count)
        write_counter(line, "live with hints", line->trace->events[at].time_ns, line->hinted);
}

static void write_counters(struct timeline *line, uint32_t at, bool is_told)
{
    const struct trace_event *event = &line->trace->events[at];
    bool is_known = at + 1 >= line->job->load->complete_from;
    bool is_block = trace_is_of_block(event);

    if (is_block)
        export_perfetto_count_block(line, event);
    if (is_block && is_told && is_known)
        write_live(line, event);
    if (event->kind == TRACE_RESERVED)
        line->reserved = trace_value(line->trace, event);
    if (is_known && line->reserved != line->reserved_told) {
        line->reserved_told = line->reserved;
        write_counter(line, "reserved", event->time_ns, line->reserved);
    }
    write_releases(line, at, is_block && is_told && is_known);
}

/* ---- anchors ---- */

/* The open anchors of each thread. */
struct open_anchors {
    uint32_t *at;
    size_t count, room;
};

static void export_perfetto_leave(
        struct timeline *line, struct open_anchors *threads, uint32_t thread, uint32_t anchor)
{
    struct open_anchors *open = &threads[thread];
    size_t i = open->count;

    while (i > 0 && open->at[i - 1] != anchor)
        i--;
    if (i != open->count || i == 0)
        line->is_loose[anchor] = true;
    if (i == 0)
        return;
    memmove(&open->at[i - 1], &open->at[i], (open->count - i) * sizeof(*open->at));
    open->count--;
}

static void find_loose(struct timeline *line)
{
    const struct trace *trace = line->trace;
    size_t count = line->job->load->thread_count + 1;
    struct open_anchors *threads = vec_new(count, sizeof(*threads));

    line->is_loose = vec_new(trace->anchor_count, sizeof(*line->is_loose));
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];

        if (event->thread >= count)
            continue;
        if (event->kind == TRACE_ENTER) {
            struct open_anchors *open = &threads[event->thread];
            VEC_PUSH(open->at, open->count, open->room) = event->anchor;
        } else if (event->kind == TRACE_EXIT) {
            export_perfetto_leave(line, threads, event->thread, event->anchor);
        }
    }
    for (size_t i = 0; i < count; i++)
        free(threads[i].at);
    free(threads);
}

static void write_anchor(struct timeline *line, const char *phase, uint32_t number, uint64_t tid,
        uint64_t ns, uint64_t length)
{
    const struct trace_anchor *anchor = &line->trace->anchors[number];
    const char *last = strrchr(anchor->path, '/');
    struct json *json = &line->json;

    export_perfetto_begin_event(line, phase, last && last[1] ? last + 1 : anchor->path, tid, ns);
    json_text(json, "cat", "anchor");
    if (*phase == 'X')
        json_micros(json, "dur", length);
    else if (*phase == 'i')
        json_text(json, "s", "t");
    else
        json_uint(json, "id", number);
    json_begin(json, "args", '{');
    json_text(json, "path", anchor->path);
    json_uint(json, "instance", anchor->instance);
    json_end(json, '}');
    json_end(json, '}');
}

static void write_edge(struct timeline *line, uint32_t at)
{
    const struct trace_event *event = &line->trace->events[at];
    const struct trace_anchor *anchor = &line->trace->anchors[event->anchor];

    if (event->kind == TRACE_MARK)
        write_anchor(line, "i", event->anchor, tid_of(line, event->thread), event->time_ns, 0);
    if (event->kind != TRACE_ENTER || anchor->enter != at)
        return;
    uint64_t tid = tid_of(line, event->thread);
    uint64_t end =
            anchor->exit == TRACE_NEVER ? line->end_ns : line->trace->events[anchor->exit].time_ns;
    if (end < event->time_ns)
        end = event->time_ns;
    if (line->is_loose[event->anchor]) {
        write_anchor(line, "b", event->anchor, tid, event->time_ns, 0);
        write_anchor(line, "e", event->anchor, tid, end, 0);
    } else {
        write_anchor(line, "X", event->anchor, tid, event->time_ns, end - event->time_ns);
    }
}

/* ---- failures ---- */

static void write_oom(struct timeline *line, const struct load_oom *oom)
{
    struct json *json = &line->json;
    uint64_t ns = oom->at != TRACE_NEVER ? line->trace->events[oom->at].time_ns
            : oom->why                   ? oom->why->what.time_ns
                                         : 0;

    export_perfetto_begin_event(line, "i", "out of memory", line->pid, ns);
    json_text(json, "s", "g");
    json_begin(json, "args", '{');
    json_uint(json, "requested_bytes", oom->requested);
    json_known(json, "free_bytes", oom->free_bytes);
    json_known(json, "live_bytes", oom->live);
    json_int(json, "device", oom->device);
    json_text(json, "call", oom->why ? oom->why->call : NULL);
    json_text(json, "site", symbols_site(line->job->symbols, oom->stack));
    json_end(json, '}');
    json_end(json, '}');
}

/* ---- the file ---- */

static void export_perfetto_write_about(struct timeline *line)
{
    const struct export_job *job = line->job;
    const struct read_capture *capture = job->load->capture;
    struct json *json = &line->json;

    json_begin(json, "otherData", '{');
    json_text(json, "writer", "kedge " KEDGE_VERSION);
    json_text(json, "capture", job->load->path);
    json_text(json, "host", capture->host);
    json_text(json, "rank", capture->rank);
    json_uint(json, "start_unix_ns", capture->start_real_ns);
    json_bool(json, "complete", !job->is_partial);
    json_uint(json, "peak_live_bytes", job->figures.peak_live);
    json_uint(json, "peak_reserved_bytes", job->figures.peak_reserved);
    json_uint(json, "max_with_hints_bytes", job->figures.hinted.max);
    json_end(json, '}');
}

static void write_events(struct timeline *line)
{
    const struct trace *trace = line->trace;
    uint32_t first = exporter_first_event(trace);

    for (uint32_t at = 0; at < trace->event_count; at++) {
        const struct trace_event *event = &trace->events[at];

        /* only the sum of the added events */
        write_counters(line, at, at >= first || at + 1 == first);
        if (event->kind == TRACE_ENTER || event->kind == TRACE_MARK)
            write_edge(line, at);
        if ((at & 0xffff) == 0)
            progress_step(at, trace->event_count);
    }
}

int export_perfetto(struct export_job *job)
{
    const struct trace *trace = job->load->trace;
    struct timeline line = {.job = job,
            .trace = trace,
            .json = {.out = job->out, .dense_from = 3},
            .pid = job->load->capture->pid,
            .threads = exporter_threads(job->load)};

    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].time_ns > line.end_ns)
            line.end_ns = trace->events[i].time_ns;
    find_releases(&line);
    find_loose(&line);
    json_begin(&line.json, NULL, '{');
    json_text(&line.json, "displayTimeUnit", "ns");
    export_perfetto_write_about(&line);
    json_begin(&line.json, "traceEvents", '[');
    export_perfetto_write_names(&line);
    write_events(&line);
    for (size_t i = 0; i < job->load->oom_count; i++)
        write_oom(&line, &job->load->ooms[i]);
    json_end(&line.json, ']');
    json_end(&line.json, '}');
    free((void *)line.threads);
    free(line.is_loose);
    free(line.releases);
    return CMD_DONE;
}

/* SPDX-License-Identifier: MIT */
#include "tools/export/exporter.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/export/export_names.h"
#include "tools/export/export_pickle.h"
#include "tools/export/export_ranges.h"
#include "tools/export/export_segments.h"
#include "tools/trace/stated_steps.h"

/*
 * Requirements of the viewer (source: torch/utils/viz/MemoryViz.js): a segment's blocks follow each
 * other without a gap, since it adds up their sizes. It walks from the final state back through the
 * trace, so that each event must fit, and each block must begin in a segment. free_requested and
 * free_completed of one block are next to each other. If one event has a category, some event must
 * have "unknown". Reserved memory at a moment is the sum of the segments then. Unknown keys, such
 * as served_by, are ignored.
 */

#define NO_CATEGORY "unknown"

/* An allocation, a free, a failure, or a begin or end of a segment, in the trace of its device. */
struct step {
    unsigned device;
    uint32_t at;   /* event index */
    unsigned rank; /* order within one event: segments begin before it and end after it */
    size_t number; /* order within one rank */
    const struct load_oom *oom;
    const struct export_segment_step *segment;
};

struct snapshot {
    struct export_job *job;
    const struct trace *trace;
    struct export_pickle pickle;
    struct export_ranges ranges;
    struct export_segments segments;
    struct export_names names; /* calls -> number kept in the pickle, through `calls` */
    uint32_t *calls;
    size_t call_count, call_room;
    struct keytable stacks; /* stack -> its list in the pickle */
    bool *has;              /* by block */
    struct step *steps;
    size_t step_count, step_room;
};

/* ---- choosing blocks ---- */

static void choose_blocks(struct snapshot *snapshot)
{
    struct export_job *job = snapshot->job;
    const struct trace *trace = snapshot->trace;

    snapshot->has = vec_new(trace->block_count, sizeof(*snapshot->has));
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];

        if (block->died < job->first) /* freed before the trace begins */
            continue;
        snapshot->has[i] = block->size > 0 && block->size >= job->min_size;
        if (!snapshot->has[i])
            trace_sum_add(&job->left_out, block->size);
    }
}

static int export_memory_viz_by_device(const void *left, const void *right)
{
    const struct step *a = left;
    const struct step *b = right;

    int order = vec_order(a->rank, b->rank, vec_order(a->number, b->number, 0));

    return vec_order(a->device, b->device, vec_order(a->at, b->at, order));
}

static void export_memory_viz_add_step(struct snapshot *snapshot, struct step step)
{
    step.number = snapshot->step_count;
    if (step.at >= snapshot->job->first)
        VEC_PUSH(snapshot->steps, snapshot->step_count, snapshot->step_room) = step;
}

static void list_steps(struct snapshot *snapshot)
{
    const struct trace *trace = snapshot->trace;
    const struct load *load = snapshot->job->load;

    for (uint32_t at = snapshot->job->first; at < trace->event_count; at++) {
        const struct trace_event *event = &trace->events[at];
        if (trace_is_of_block(event) && snapshot->has[event->block])
            export_memory_viz_add_step(snapshot,
                    (struct step){export_ranges_device(trace->blocks[event->block].device), at,
                            .rank = 1});
    }
    for (size_t i = 0; i < load->oom_count; i++)
        if (load->ooms[i].at != TRACE_NEVER)
            export_memory_viz_add_step(snapshot,
                    (struct step){export_ranges_device(load->ooms[i].device), load->ooms[i].at,
                            .rank = 1, .oom = &load->ooms[i]});
    for (size_t i = 0; i < snapshot->segments.step_count; i++) {
        const struct export_segment_step *segment = &snapshot->segments.steps[i];

        export_memory_viz_add_step(snapshot,
                (struct step){segment->device, segment->at, .rank = segment->is_after ? 2 : 0,
                        .segment = segment});
    }
    VEC_SORT(snapshot->steps, snapshot->step_count, export_memory_viz_by_device);
}

/* ---- words ---- */

static void put_uint(struct snapshot *snapshot, const char *key, uint64_t value)
{
    export_pickle_text(&snapshot->pickle, key);
    export_pickle_uint(&snapshot->pickle, value);
}

static void export_memory_viz_put_text(
        struct snapshot *snapshot, const char *key, const char *value)
{
    export_pickle_text(&snapshot->pickle, key);
    export_pickle_text(&snapshot->pickle, value);
}

static void put_empty_list(struct snapshot *snapshot, const char *key)
{
    struct export_pickle_list list;

    export_pickle_text(&snapshot->pickle, key);
    export_pickle_begin_list(&snapshot->pickle, &list);
    export_pickle_end_list(&snapshot->pickle);
}

static void put_time(struct snapshot *snapshot, uint64_t ns)
{
    put_uint(snapshot, "time_us", (snapshot->job->load->capture->start_real_ns + ns) / 1000);
}

static void export_memory_viz_put_call(struct snapshot *snapshot, const struct symbols_line *line)
{
    struct export_pickle *pickle = &snapshot->pickle;
    bool is_new;
    uint32_t number = export_names_call(&snapshot->names, line, &is_new);

    if (!is_new) {
        export_pickle_refer(pickle, snapshot->calls[number]);
        return;
    }
    export_pickle_begin_dict(pickle);
    export_memory_viz_put_text(snapshot, "name", line->function);
    export_memory_viz_put_text(snapshot, "filename", symbols_line_file(line));
    put_uint(snapshot, "line", line->line);
    export_pickle_end_dict(pickle);
    VEC_PUSH(snapshot->calls, snapshot->call_count, snapshot->call_room) =
            export_pickle_keep(pickle);
}

static void put_row_frames(struct snapshot *snapshot, const struct export_row *row)
{
    struct export_pickle *pickle = &snapshot->pickle;
    struct export_pickle_list list;
    size_t count;
    uint32_t *kept = keytable_at(
            &snapshot->stacks, (struct key){row->stack, row->name != NULL, 0}, UINT32_MAX);

    export_pickle_text(pickle, "frames");
    if (*kept != UINT32_MAX) {
        export_pickle_refer(pickle, *kept);
        return;
    }
    *kept = export_pickle_keep_list(pickle, &list);
    const struct symbols_line *lines = export_moment_lines(snapshot->job, row, &count);
    for (size_t i = 0; i < count; i++) {
        export_pickle_item(pickle, &list);
        export_memory_viz_put_call(snapshot, &lines[i]);
    }
    export_pickle_end_list(pickle);
}

static void put_frames(struct snapshot *snapshot, uint32_t stack)
{
    put_row_frames(snapshot, &(struct export_row){.stack = stack});
}

/* The frames of the allocation that the segment was made for. */
static void put_segment_frames(struct snapshot *snapshot, const struct export_segment *segment)
{
    if (segment->block == TRACE_NONE)
        put_row_frames(snapshot, &(struct export_row){.name = "(held, address not known)"});
    else
        put_frames(snapshot, snapshot->trace->blocks[segment->block].stack);
}

static void put_server(struct snapshot *snapshot, const struct export_segment *segment)
{
    export_memory_viz_put_text(snapshot, "served_by", segment->is_native ? "driver" : "pool");
}

static void export_memory_viz_put_bool(struct snapshot *snapshot, const char *key, bool value)
{
    export_pickle_text(&snapshot->pickle, key);
    export_pickle_bool(&snapshot->pickle, value);
}

/* Begins an entry of the trace. */
static void export_memory_viz_begin_entry(struct snapshot *snapshot, const char *action,
        uint64_t address, uint64_t size, uint64_t stream, uint64_t ns)
{
    export_pickle_begin_dict(&snapshot->pickle);
    export_memory_viz_put_text(snapshot, "action", action);
    put_uint(snapshot, "addr", address);
    put_uint(snapshot, "size", size);
    put_uint(snapshot, "stream", stream);
    put_time(snapshot, ns);
}

/* ---- the final state ---- */

static void put_block(
        struct snapshot *snapshot, uint64_t address, uint64_t size, const struct trace_block *block)
{
    export_pickle_begin_dict(&snapshot->pickle);
    put_uint(snapshot, "address", address);
    put_uint(snapshot, "size", size);
    put_uint(snapshot, "requested_size", block ? block->size : 0);
    export_memory_viz_put_text(snapshot, "state", block ? "active_allocated" : "inactive");
    if (block)
        put_frames(snapshot, block->stack);
    else
        put_empty_list(snapshot, "frames");
    export_pickle_end_dict(&snapshot->pickle);
}

/* The next block of the device in the snapshot that lives at the end, from *next on; TRACE_NONE. */
static uint32_t next_live(const struct snapshot *snapshot, unsigned device, size_t *next)
{
    const struct export_ranges *ranges = &snapshot->ranges;

    for (; *next < ranges->count; (*next)++) {
        uint32_t id = ranges->order[*next];
        const struct trace_block *block = &snapshot->trace->blocks[id];

        if (export_ranges_device(block->device) > device)
            break;
        if (export_ranges_device(block->device) == device && block->died == TRACE_NEVER
                && snapshot->has[id])
            return id;
    }
    return TRACE_NONE;
}

/* Live bytes of a segment: as far as it reaches, and as requested. */
struct segment_sums {
    uint64_t size, requested;
};

/* The live blocks of a segment from *next on, and the free bytes between them. */
static struct segment_sums put_blocks(struct snapshot *snapshot, unsigned device,
        const struct export_segment *segment, size_t *next)
{
    uint64_t at = segment->address, end = segment->address + segment->size;
    struct segment_sums sums = {0};
    struct export_pickle_list list;

    export_pickle_text(&snapshot->pickle, "blocks");
    export_pickle_begin_list(&snapshot->pickle, &list);
    while (at < end) {
        uint32_t id = next_live(snapshot, device, next);
        bool is_here = id != TRACE_NONE && snapshot->ranges.address[id] < end;
        uint64_t begin = is_here ? max_of(snapshot->ranges.address[id], at) : end;

        if (begin > at) {
            export_pickle_item(&snapshot->pickle, &list);
            put_block(snapshot, at, begin - at, NULL);
        }
        at = begin;
        if (!is_here)
            break;
        const struct trace_block *block = &snapshot->trace->blocks[id];
        uint64_t size = block->size < end - begin ? block->size : end - begin;
        export_pickle_item(&snapshot->pickle, &list);
        put_block(snapshot, begin, size, block);
        at += size;
        sums.size += size;
        sums.requested += block->size;
        (*next)++;
    }
    export_pickle_end_list(&snapshot->pickle);
    return sums;
}

static void put_segment(struct snapshot *snapshot, unsigned device,
        const struct export_segment *segment, size_t *next)
{
    struct export_pickle *pickle = &snapshot->pickle;

    export_pickle_begin_dict(pickle);
    put_uint(snapshot, "device", device);
    put_uint(snapshot, "address", segment->address);
    put_uint(snapshot, "total_size", segment->size);
    struct segment_sums sums = put_blocks(snapshot, device, segment, next);
    put_uint(snapshot, "allocated_size", sums.size);
    put_uint(snapshot, "active_size", sums.size);
    put_uint(snapshot, "requested_size", sums.requested);
    put_uint(snapshot, "stream", 0);
    export_memory_viz_put_text(snapshot, "segment_type", "large");
    export_pickle_text(pickle, "segment_pool_id");
    export_pickle_pair(pickle, 0, 0);
    export_memory_viz_put_bool(snapshot, "is_expandable", false);
    put_segment_frames(snapshot, segment);
    put_server(snapshot, segment);
    export_pickle_end_dict(pickle);
}

static void put_segments(struct snapshot *snapshot)
{
    struct export_pickle_list list;
    size_t next = 0;

    export_pickle_text(&snapshot->pickle, "segments");
    export_pickle_begin_list(&snapshot->pickle, &list);
    for (unsigned device = 0; device < snapshot->segments.device_count; device++) {
        const struct export_segment_list *segments = &snapshot->segments.devices[device];

        for (size_t i = 0; i < segments->count; i++) {
            export_pickle_item(&snapshot->pickle, &list);
            put_segment(snapshot, device, &segments->segments[i], &next);
        }
    }
    export_pickle_end_list(&snapshot->pickle);
}

/* ---- the trace ---- */

static void put_category(struct snapshot *snapshot, const struct trace_block *block)
{
    char *phase = stated_steps_fold(snapshot->trace->anchors[block->anchor].path);

    export_memory_viz_put_text(snapshot, "category", *phase ? phase : NO_CATEGORY);
    free(phase);
}

static void export_memory_viz_put_hint(struct snapshot *snapshot, const struct trace_block *block)
{
    const struct load *load = snapshot->job->load;

    if (block->mode != HINT_LIVE || block->released >= block->died || block->rule < 0
            || (size_t)block->rule >= load->hint_count)
        return;
    char *text = vec_format("storage released early by hint %s", load->hints[block->rule].id);
    export_memory_viz_put_text(snapshot, "user_metadata", text);
    free(text);
}

/* A free has the frames of its allocation: the viewer shows them when it goes back in time. */
static void put_action(struct snapshot *snapshot, const char *action, const struct step *step)
{
    const struct trace_event *event = &snapshot->trace->events[step->at];
    const struct trace_block *block = &snapshot->trace->blocks[event->block];

    export_memory_viz_begin_entry(snapshot, action, snapshot->ranges.address[event->block],
            block->size, exporter_stream(snapshot->trace, event), event->time_ns);
    put_frames(snapshot, block->stack);
    put_category(snapshot, block);
    export_memory_viz_put_hint(snapshot, block);
    export_pickle_end_dict(&snapshot->pickle);
}

static void export_memory_viz_put_oom(struct snapshot *snapshot, const struct step *step)
{
    const struct load_oom *oom = step->oom;
    const struct trace_event *event = &snapshot->trace->events[step->at];

    export_pickle_begin_dict(&snapshot->pickle);
    export_memory_viz_put_text(snapshot, "action", "oom");
    put_uint(snapshot, "device_free", oom->free_bytes > INT64_MAX ? 0 : oom->free_bytes);
    put_uint(snapshot, "size", oom->requested > INT64_MAX ? INT64_MAX : oom->requested);
    put_uint(snapshot, "stream", exporter_stream(snapshot->trace, event));
    put_time(snapshot, event->time_ns);
    put_frames(snapshot, oom->stack);
    export_memory_viz_put_text(snapshot, "category", NO_CATEGORY);
    export_pickle_end_dict(&snapshot->pickle);
}

static void put_segment_step(struct snapshot *snapshot, const struct step *step)
{
    const struct export_segment *segment = &step->segment->segment;

    export_memory_viz_begin_entry(snapshot, step->segment->comes ? "segment_alloc" : "segment_free",
            segment->address, segment->size, 0, snapshot->trace->events[step->at].time_ns);
    put_segment_frames(snapshot, segment);
    export_memory_viz_put_text(snapshot, "category", NO_CATEGORY);
    put_server(snapshot, segment);
    export_pickle_end_dict(&snapshot->pickle);
}

/* The entry that PyTorch adds when it takes a snapshot; here with the category that must occur. */
static void put_end(struct snapshot *snapshot)
{
    const struct trace *trace = snapshot->trace;

    export_memory_viz_begin_entry(snapshot, "snapshot", 0, 0, 0,
            trace->event_count ? trace->events[trace->event_count - 1].time_ns : 0);
    put_empty_list(snapshot, "frames");
    export_memory_viz_put_text(snapshot, "category", NO_CATEGORY);
    export_pickle_end_dict(&snapshot->pickle);
}

static void export_memory_viz_put_step(
        struct snapshot *snapshot, struct export_pickle_list *list, const struct step *step)
{
    const struct trace_event *event = &snapshot->trace->events[step->at];

    export_pickle_item(&snapshot->pickle, list);
    if (step->segment) {
        put_segment_step(snapshot, step);
        return;
    }
    snapshot->job->event_count++;
    if (step->oom) {
        export_memory_viz_put_oom(snapshot, step);
    } else if (event->kind == TRACE_ALLOC) {
        put_action(snapshot, "alloc", step);
    } else {
        put_action(snapshot, "free_requested", step);
        export_pickle_item(&snapshot->pickle, list);
        put_action(snapshot, "free_completed", step);
    }
}

/* A list for each device up to the last one with data. */
static unsigned device_count(const struct snapshot *snapshot)
{
    unsigned count = (unsigned)snapshot->segments.device_count;

    if (snapshot->step_count && snapshot->steps[snapshot->step_count - 1].device >= count)
        count = snapshot->steps[snapshot->step_count - 1].device + 1;
    return count;
}

static void put_traces(struct snapshot *snapshot)
{
    struct export_pickle *pickle = &snapshot->pickle;
    struct export_pickle_list devices, list;
    unsigned count = device_count(snapshot);
    size_t next = 0;

    export_pickle_text(pickle, "device_traces");
    export_pickle_begin_list(pickle, &devices);
    for (unsigned device = 0; device < count; device++) {
        size_t before = next;

        export_pickle_item(pickle, &devices);
        export_pickle_begin_list(pickle, &list);
        for (; next < snapshot->step_count && snapshot->steps[next].device == device; next++) {
            export_memory_viz_put_step(snapshot, &list, &snapshot->steps[next]);
            if ((next & 0xfff) == 0)
                progress_step(next, snapshot->step_count);
        }
        if (next > before || device + 1 == count) {
            export_pickle_item(pickle, &list);
            put_end(snapshot);
        }
        export_pickle_end_list(pickle);
    }
    export_pickle_end_list(pickle);
}

/* ---- the rest ---- */

static void put_annotation(struct snapshot *snapshot, struct export_pickle_list *list,
        const struct trace_event *event, const char *stage)
{
    export_pickle_item(&snapshot->pickle, list);
    export_pickle_begin_dict(&snapshot->pickle);
    export_memory_viz_put_text(snapshot, "name", snapshot->trace->anchors[event->anchor].path);
    export_memory_viz_put_text(snapshot, "stage", stage);
    put_uint(snapshot, "device", 0);
    put_time(snapshot, event->time_ns);
    export_pickle_end_dict(&snapshot->pickle);
}

static void put_annotations(struct snapshot *snapshot)
{
    const struct trace *trace = snapshot->trace;
    struct export_pickle_list list;

    export_pickle_text(&snapshot->pickle, "external_annotations");
    export_pickle_begin_list(&snapshot->pickle, &list);
    for (uint32_t at = snapshot->job->first; at < trace->event_count; at++) {
        enum trace_kind kind = trace->events[at].kind;

        if (kind == TRACE_ENTER || kind == TRACE_MARK)
            put_annotation(snapshot, &list, &trace->events[at], "START");
        if (kind == TRACE_EXIT || kind == TRACE_MARK)
            put_annotation(snapshot, &list, &trace->events[at], "END");
    }
    export_pickle_end_list(&snapshot->pickle);
}

static void put_about(struct snapshot *snapshot)
{
    struct export_pickle *pickle = &snapshot->pickle;
    const struct export_job *job = snapshot->job;
    bool is_whole = !job->is_partial && job->first == 0 && job->left_out.bytes == 0;

    export_pickle_text(pickle, "kedge"); /* the first key: ours.h */
    export_pickle_begin_dict(pickle);
    export_memory_viz_put_text(snapshot, "version", KEDGE_VERSION);
    export_memory_viz_put_text(snapshot, "capture", job->load->path);
    export_memory_viz_put_bool(snapshot, "complete", is_whole);
    put_uint(snapshot, "peak_live_bytes", job->figures.peak_live);
    put_uint(snapshot, "peak_reserved_bytes", job->figures.peak_reserved);
    export_memory_viz_put_bool(snapshot, "reserved_is_known", snapshot->segments.is_known);
    put_uint(snapshot, "segments_beyond_reserved_bytes", snapshot->segments.over);
    put_uint(snapshot, "left_out_blocks", job->left_out.count);
    put_uint(snapshot, "left_out_bytes", job->left_out.bytes);
    export_pickle_end_dict(pickle);
    export_pickle_text(pickle, "allocator_settings");
    export_pickle_begin_dict(pickle);
    export_pickle_end_dict(pickle);
}

static void put_snapshot(struct snapshot *snapshot)
{
    export_pickle_begin(&snapshot->pickle, snapshot->job->out);
    export_pickle_begin_dict(&snapshot->pickle);
    put_about(snapshot);
    put_segments(snapshot);
    put_traces(snapshot);
    put_annotations(snapshot);
    export_pickle_end_dict(&snapshot->pickle);
    export_pickle_end(&snapshot->pickle);
}

/* A note if the segments differ from the held memory. */
static void say_reserved(const struct snapshot *snapshot)
{
    const struct export_job *job = snapshot->job;

    if (!snapshot->segments.is_known && trace_has_pool(snapshot->trace))
        (void)fprintf(stderr,
                "kedge export: %s: what was held from the driver is not known: segments are as "
                "large as their blocks\n",
                job->load->path);
    else if (snapshot->segments.over)
        (void)fprintf(stderr,
                "kedge export: %s: segments have up to %s more than was held from the driver\n",
                job->load->path, render_bytes(snapshot->segments.over).text);
}

int export_memory_viz(struct export_job *job)
{
    struct snapshot snapshot = {.job = job, .trace = job->load->trace};
    int r = CMD_DONE;

    choose_blocks(&snapshot);
    if (export_ranges_find(snapshot.trace, &snapshot.ranges)
            && export_segments_find(job->load, &snapshot.ranges, &snapshot.segments)) {
        list_steps(&snapshot);
        put_snapshot(&snapshot);
        say_reserved(&snapshot);
    } else {
        (void)fprintf(stderr,
                "kedge export: %s: the blocks need more addresses than memory_viz can "
                "tell apart\n",
                job->load->path);
        r = CMD_BAD;
    }
    export_segments_done(&snapshot.segments);
    export_ranges_done(&snapshot.ranges);
    export_names_done(&snapshot.names);
    keytable_done(&snapshot.stacks);
    free(snapshot.calls);
    free(snapshot.has);
    free(snapshot.steps);
    return r;
}

/* SPDX-License-Identifier: MIT */
#include "tools/recorded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cmd.h"
#include "tools/figures.h"
#include "tools/keytable.h"
#include "tools/load.h"
#include "tools/rowread.h"
#include "tools/vec.h"

/* ── from a window of a trace ── */

static bool is_in(const struct trace_block *block, struct model_window window)
{
    return block->born < window.last && block->died >= window.first && block->size > 0;
}

/* The device that most bytes of the served blocks are on. */
static int choose(const struct trace *trace, struct model_window window, bool pooled)
{
    struct on_device {
        int device;
        uint64_t bytes;
    } *devices = vec_new(trace->block_count, sizeof(*devices)), best = {0};
    struct keytable numbers = {0};

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        struct key key = {(uint64_t)(uint32_t)block->device, 0, 0};
        if (!is_in(block, window) || !trace_is_served(block, pooled))
            continue;
        uint32_t number = keytable_number(&numbers, key);
        devices[number].device = block->device;
        devices[number].bytes += block->size;
    }
    for (size_t i = 0; i < keytable_count(&numbers); i++) {
        if (devices[i].bytes > best.bytes)
            best = devices[i];
    }
    keytable_done(&numbers);
    free(devices);
    return best.device;
}

/* Times count from 1; 0 and the last lie outside the window. */
static struct span span_of(const struct trace_block *block, struct model_window window)
{
    uint32_t end = block->died < window.last ? block->died : window.last; /* TRACE_NEVER is later */

    return (struct span){
            .size = (block->size + RECORDED_QUANTUM - 1) & ~(uint64_t)(RECORDED_QUANTUM - 1),
            .begin = block->born < window.first ? 0 : (uint64_t)block->born - window.first + 1,
            .end = (uint64_t)end - window.first + 1};
}

void recorded_from_trace(
        const struct trace *trace, struct model_window window, struct recorded *ret)
{
    struct recorded recorded = {.spans = vec_new(trace->block_count, sizeof(*recorded.spans))};
    bool pooled = trace_has_pool(trace);
    int device = choose(trace, window, pooled);

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (!is_in(block, window))
            continue;
        if (!trace_is_served(block, pooled))
            trace_sum_add(&recorded.native, block->size);
        else if (block->device != device)
            trace_sum_add(&recorded.other_device, block->size);
        else
            recorded.spans[recorded.count++] = span_of(block, window);
    }
    *ret = recorded;
}

/* One passage through an anchor, in the order in which they began. */
static int find_passage(const struct load *load, const struct recorded_request *request,
        struct model_window *ret_window)
{
    const struct trace *trace = load->trace;
    uint64_t seen = 0;

    for (size_t i = 1; i < trace->anchor_count && request->from; i++) {
        const struct trace_anchor *anchor = &trace->anchors[i];
        if (anchor->enter == TRACE_NEVER || !model_anchor_named(anchor, request->from))
            continue;
        if (++seen != request->passage)
            continue;
        ret_window->first = anchor->enter;
        ret_window->last =
                anchor->exit == TRACE_NEVER ? (uint32_t)trace->event_count : anchor->exit + 1;
        return 0;
    }
    (void)fprintf(stderr, "kedge plan: %s: '%s' was entered %" PRIu64 " time%s\n", load->path,
            request->from, seen, render_s(seen));
    return CMD_BAD;
}

static int read_capture(
        const char *path, const struct recorded_request *request, struct recorded *ret)
{
    struct load load;
    struct model_window window;
    int r = load_open(path, &load);

    if (r)
        return r;
    r = load_refuses("kedge plan", &load)
            ? CMD_BAD
            : figures_window(&load, request->from, request->to, &window);
    if (r == 0 && request->passage)
        r = find_passage(&load, request, &window);
    if (r == 0 && load.complete_from > window.first) {
        (void)fprintf(stderr, "kedge plan: %s: %s\n", path, load_lacks(load.capture));
        r = CMD_BAD;
    }
    if (r == 0) {
        struct model_figures figures;
        bool partial;

        recorded_from_trace(load.trace, window, ret);
        figures_of(&load, window, &figures, &partial);
        ret->held = figures.peak_reserved;
    }
    load_close(&load);
    return r;
}

static int read_trace(const char *path, struct recorded *ret)
{
    struct load load;
    int r = load_csv(path, false, &load);

    if (r != CMD_DONE)
        return r;
    /* what lives before the first row lies outside the window */
    recorded_from_trace(load.trace,
            (struct model_window){
                    .first = load.complete_from, .last = (uint32_t)load.trace->event_count},
            ret);
    load_close(&load);
    return CMD_DONE;
}

/* ── from an abstract instance ── */

#define ABSTRACT_HEAD "id,lower,upper,size"

struct spans {
    struct span *spans;
    size_t count, room;
};

static int abstract_row(void *context, struct rowread *reader)
{
    struct spans *to = context;
    struct span span = {0};
    const char *name;
    size_t length;

    if (reader->line == 1)
        return strcmp(reader->text, ABSTRACT_HEAD) == 0
                ? 0
                : rowread_fault(reader, "the first line must be " ABSTRACT_HEAD);
    if (!rowread_text(reader, &name, &length) || length == 0)
        return rowread_fault(reader, "an id is missing");
    if (!rowread_uint(reader, 10, &span.begin) || !rowread_uint(reader, 10, &span.end))
        return rowread_fault(reader, "lower and upper must be numbers");
    if (span.begin >= span.end)
        return rowread_fault(reader, "upper must be above lower");
    if (!rowread_uint(reader, 10, &span.size) || span.size == 0)
        return rowread_fault(reader, "size must be a number, not 0");
    if (!rowread_is_end(reader))
        return rowread_fault(reader, "more than four columns");
    if (to->count >= UINT32_MAX / 2)
        return rowread_fault(reader, "too many blocks");
    VEC_PUSH(to->spans, to->count, to->room) = span;
    return 0;
}

static int read_abstract(const char *path, struct recorded *ret)
{
    char error[ROWREAD_ERROR_MAX];
    struct rowread reader = {.name = path, .error = error};
    struct spans spans = {0};
    FILE *in = fopen(path, "re");

    if (!in) {
        (void)fprintf(stderr, "kedge plan: %s: %s\n", path, strerror(errno));
        return CMD_BAD;
    }
    int r = rowread_all(&reader, in, abstract_row, &spans);
    (void)fclose(in);
    if (r < 0) {
        (void)fprintf(stderr, "kedge plan: %s\n", error);
        free(spans.spans);
        return CMD_BAD;
    }
    *ret = (struct recorded){.spans = spans.spans, .count = (uint32_t)spans.count};
    return CMD_DONE;
}

/* Of a csv: do its columns begin as those of one, right or wrong? */
static bool is_abstract(const char *path)
{
    char start[sizeof("id,")] = "";
    FILE *in = fopen(path, "re");

    if (!in)
        return false;
    const char *read = fgets(start, sizeof(start), in);
    (void)fclose(in);
    return read && strcmp(start, "id,") == 0;
}

int recorded_open(const char *path, const struct recorded_request *request, struct recorded *ret)
{
    bool is_capture = !load_is_csv(path);

    if (!is_capture && (request->from || request->to || request->passage)) {
        (void)fprintf(
                stderr, "kedge plan: %s: --from, --to and --passage are for captures\n", path);
        return CMD_BAD;
    }
    if (request->passage && (!request->from || request->to)) {
        (void)fprintf(stderr, "kedge plan: --passage goes with --from, and without --to\n");
        return CMD_BAD;
    }
    if (is_capture)
        return read_capture(path, request, ret);
    return is_abstract(path) ? read_abstract(path, ret) : read_trace(path, ret);
}

void recorded_done(struct recorded *recorded)
{
    free(recorded->spans);
    *recorded = (struct recorded){0};
}

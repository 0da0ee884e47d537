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

/* A block of any form, in the order of the file, which is that of the births. Times count from 1; 0 and the last lie outside the window. */
struct item {
    struct span span;
    int device;
    bool native; /* served by the driver itself */
};

struct items {
    struct item *items;
    size_t count, room;
};

static struct item *add_item(struct items *items)
{
    return &VEC_PUSH(items->items, items->count, items->room);
}

/* ── from a capture ── */

static bool is_served(const struct trace_block *block, bool pooled)
{
    return pooled ? !block->native : block->memclass == MEMCLASS_DRIVER;
}

static void add_block(struct items *items, const struct trace *trace, struct model_window window,
        uint32_t number, bool pooled)
{
    const struct trace_block *block = &trace->blocks[number];

    if (block->born >= window.last || block->died < window.first || block->size == 0)
        return;
    struct item *item = add_item(items);
    uint32_t end = block->died < window.last ? block->died : window.last; /* TRACE_NEVER is later */
    item->span.begin = block->born < window.first ? 0 : (uint64_t)block->born - window.first + 1;
    item->span.end = (uint64_t)end - window.first + 1;
    item->span.size = block->size;
    item->device = block->device;
    item->native = !is_served(block, pooled);
}

static void add_blocks(struct items *items, const struct trace *trace, struct model_window window)
{
    bool pooled = false;

    for (size_t i = 0; i < trace->block_count; i++)
        pooled = pooled || !trace->blocks[i].native;
    for (size_t i = 0; i < trace->block_count; i++)
        add_block(items, trace, window, (uint32_t)i, pooled);
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

static int read_capture(const char *path, const struct recorded_request *request,
        struct items *items, uint64_t *ret_held)
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
        (void)fprintf(stderr,
                "kedge plan: %s: the capture has not all events of this window (record with "
                "KEDGE_TRACE=full)\n",
                path);
        r = CMD_BAD;
    }
    if (r == 0) {
        struct model_figures figures;
        bool partial;

        add_blocks(items, load.trace, window);
        figures_of(&load, window, &figures, &partial);
        *ret_held = figures.peak_reserved;
    }
    load_close(&load);
    return r;
}

/* ── from a trace ── */

static int read_trace(const char *path, struct items *items)
{
    struct load load;
    int r = load_csv(path, false, &load);

    if (r != CMD_DONE)
        return r;
    /* what lives before the first row lies outside the window */
    add_blocks(items, load.trace,
            (struct model_window){load.complete_from, (uint32_t)load.trace->event_count});
    load_close(&load);
    return CMD_DONE;
}

/* ── from an abstract instance ── */

static int abstract_row(void *context, struct rowread *reader)
{
    struct items *items = context;
    const char *name;
    size_t length;
    uint64_t lower;
    uint64_t upper;
    uint64_t size;

    if (reader->line == 1)
        return 0;
    if (!rowread_text(reader, &name, &length) || length == 0)
        return rowread_fault(reader, "an id is missing");
    if (!rowread_uint(reader, 10, &lower) || !rowread_uint(reader, 10, &upper))
        return rowread_fault(reader, "lower and upper must be numbers");
    if (lower >= upper)
        return rowread_fault(reader, "upper must be above lower");
    if (!rowread_uint(reader, 10, &size) || size == 0)
        return rowread_fault(reader, "size must be a number, not 0");
    if (!rowread_is_end(reader))
        return rowread_fault(reader, "more than four columns");
    add_item(items)->span = (struct span){.size = size, .begin = lower, .end = upper};
    return 0;
}

static int read_abstract(const char *path, struct items *items)
{
    char error[ROWREAD_ERROR_MAX];
    struct rowread reader = {.name = path, .error = error};
    FILE *in = fopen(path, "re");

    if (!in) {
        (void)fprintf(stderr, "kedge plan: %s: %s\n", path, strerror(errno));
        return CMD_BAD;
    }
    int r = rowread_all(&reader, in, abstract_row, items);
    (void)fclose(in);
    if (r < 0) {
        (void)fprintf(stderr, "kedge plan: %s\n", error);
        return CMD_BAD;
    }
    return 0;
}

/* ── which blocks are placed ── */

/* The device that most bytes of the pool's blocks are on. */
static int choose(const struct items *items)
{
    struct keytable numbers = {0};
    struct on_device {
        int device;
        uint64_t bytes;
    } *devices = NULL;
    size_t count = 0;
    size_t room = 0;
    struct on_device best = {0};

    for (size_t i = 0; i < items->count; i++) {
        const struct item *item = &items->items[i];
        struct key key = {(uint64_t)(uint32_t)item->device, 0, 0};
        if (item->native)
            continue;
        uint32_t number = keytable_number(&numbers, key);
        if (number == count)
            VEC_PUSH(devices, count, room) = (struct on_device){item->device, 0};
        devices[number].bytes += item->span.size;
    }
    for (size_t i = 0; i < count; i++) {
        if (devices[i].bytes > best.bytes)
            best = devices[i];
    }
    keytable_done(&numbers);
    free(devices);
    return best.device;
}

static void leave_out(struct recorded_left *left, const struct item *item)
{
    left->count++;
    left->bytes += item->span.size;
}

/* Sizes become multiples of `quantum`. */
static void keep(const struct items *items, uint64_t quantum, struct recorded *recorded)
{
    int device = choose(items);

    recorded->spans = vec_new(items->count, sizeof(*recorded->spans));
    for (size_t i = 0; i < items->count; i++) {
        const struct item *item = &items->items[i];
        struct span *span = &recorded->spans[recorded->count];
        if (item->native) {
            leave_out(&recorded->native, item);
        } else if (item->device != device) {
            leave_out(&recorded->other_device, item);
        } else {
            *span = item->span;
            span->size = (span->size + quantum - 1) & ~(quantum - 1);
            recorded->count++;
        }
    }
}

void recorded_from_trace(
        const struct trace *trace, struct model_window window, struct recorded *ret)
{
    struct recorded recorded = {0};
    struct items items = {0};

    add_blocks(&items, trace, window);
    keep(&items, RECORDED_QUANTUM, &recorded);
    free(items.items);
    *ret = recorded;
}

enum form {
    FORM_CAPTURE,
    FORM_TRACE,   /* op,id,size,stream,time_us */
    FORM_ABSTRACT /* id,lower,upper,size */
};

/* By its first bytes; what is neither csv is for load.h to judge. */
static enum form form_of(const char *path)
{
    static const char trace[] = "op,id,";
    static const char abstract[] = "id,lower,upper,size";
    char start[sizeof(abstract)] = "";
    FILE *in = fopen(path, "re");

    if (!in)
        return FORM_CAPTURE;
    size_t n = fread(start, 1, sizeof(start) - 1, in);
    (void)fclose(in);
    start[n] = '\0';
    if (strncmp(start, trace, strlen(trace)) == 0)
        return FORM_TRACE;
    return strcmp(start, abstract) == 0 ? FORM_ABSTRACT : FORM_CAPTURE;
}

int recorded_open(const char *path, const struct recorded_request *request, struct recorded *ret)
{
    struct recorded recorded = {0};
    enum form form = form_of(path);
    struct items items = {0};
    int r;

    if (form != FORM_CAPTURE && (request->from || request->to || request->passage)) {
        (void)fprintf(
                stderr, "kedge plan: %s: --from, --to and --passage are for captures\n", path);
        return CMD_BAD;
    }
    if (request->passage && (!request->from || request->to)) {
        (void)fprintf(stderr, "kedge plan: --passage goes with --from, and without --to\n");
        return CMD_BAD;
    }
    if (form == FORM_CAPTURE)
        r = read_capture(path, request, &items, &recorded.held);
    else if (form == FORM_TRACE)
        r = read_trace(path, &items);
    else
        r = read_abstract(path, &items);
    if (r == 0 && items.count >= UINT32_MAX / 2) {
        (void)fprintf(stderr, "kedge plan: %s: too many blocks\n", path);
        r = CMD_BAD;
    }
    if (r == 0) {
        keep(&items, form == FORM_ABSTRACT ? 1 : RECORDED_QUANTUM, &recorded);
        *ret = recorded;
    }
    free(items.items);
    return r;
}

void recorded_done(struct recorded *recorded)
{
    free(recorded->spans);
    *recorded = (struct recorded){0};
}

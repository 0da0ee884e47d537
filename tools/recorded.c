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
#include "tools/steps.h"
#include "tools/vec.h"

/* A block of any form, in the order of the file, which is that of the births; before it is known whether the plan has it. Times count from 1; 0 and `behind` lie outside the window. */
struct item {
    uint64_t begin, end, size, site, stream;
    char *name;
    int device;
    enum entrance entrance;
    bool native, shared, hinted, before, outlives;
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
    item->before = block->born < window.first;
    item->outlives = block->died >= window.last; /* TRACE_NEVER too */
    item->begin = item->before ? 0 : (uint64_t)block->born - window.first + 1;
    item->end = (uint64_t)(item->outlives ? window.last : block->died) - window.first + 1;
    item->size = block->size;
    item->site = block->site;
    item->stream = trace->events[block->born].stream;
    item->name = vec_format("%" PRIu32, number);
    item->device = block->device;
    item->entrance = block->stream ? ENTRANCE_STREAM : ENTRANCE_SYNC;
    item->native = !is_served(block, pooled);
    item->shared = block->shared;
    item->hinted = block->released != TRACE_NEVER && block->mode == HINT_LIVE;
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

static int read_capture(
        const char *path, const struct recorded_request *request, struct items *items)
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
    if (r == 0)
        add_blocks(items, load.trace, window);
    load_close(&load);
    return r;
}

/* ── from a trace ── */

static int read_trace(const char *path, struct items *items)
{
    struct steps steps;
    int r = steps_read(path, &steps);

    if (r < 0) {
        (void)fprintf(stderr, "kedge plan: %s\n", steps.error);
        steps_done(&steps);
        return CMD_BAD;
    }
    uint32_t *item_of = vec_new(steps.block_count, sizeof(*item_of));
    for (size_t i = 0; i < steps.row_count; i++) {
        const struct steps_row *row = &steps.rows[i];
        if (row->is_free) {
            struct item *item = &items->items[item_of[row->block]];
            item->end = i + 1;
            item->outlives = false;
            continue;
        }
        const struct steps_block *block = &steps.blocks[row->block];
        item_of[row->block] = (uint32_t)items->count;
        struct item *item = add_item(items);
        item->before = i < steps.before_count; /* they come first */
        item->outlives = true;
        item->begin = item->before ? 0 : i + 1;
        item->end = steps.row_count + 1;
        item->size = block->size;
        item->stream = steps.streams[block->stream];
        item->name = vec_format("%" PRIu64, block->id);
        item->entrance = ENTRANCE_STREAM;
    }
    free(item_of);
    steps_done(&steps);
    return 0;
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
    /* It is printed again, and rows know no quoting. */
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < 0x20)
            return rowread_fault(reader, "a control character in an id");
    }
    if (!rowread_uint(reader, 10, &lower) || !rowread_uint(reader, 10, &upper))
        return rowread_fault(reader, "lower and upper must be numbers");
    if (lower >= upper)
        return rowread_fault(reader, "upper must be above lower");
    if (!rowread_uint(reader, 10, &size) || size == 0)
        return rowread_fault(reader, "size must be a number, not 0");
    if (!rowread_is_end(reader))
        return rowread_fault(reader, "more than four columns");
    struct item *item = add_item(items);
    item->begin = lower;
    item->end = upper;
    item->size = size;
    item->name = vec_format("%.*s", (int)length, name);
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

/* ── what belongs to the plan ── */

struct choice {
    int device;
    enum entrance entrance;
    uint64_t stream;
};

static enum recorded_why why_not(const struct item *item, const struct choice *choice, bool whole)
{
    if (item->before && !whole)
        return RECORDED_BEFORE;
    if (item->outlives && !whole)
        return RECORDED_OUTLIVES;
    if (item->native)
        return RECORDED_NATIVE;
    if (item->shared && !whole)
        return RECORDED_SHARED;
    if (item->hinted && !whole)
        return RECORDED_HINTED;
    if (choice && item->device != choice->device)
        return RECORDED_DEVICE;
    if (choice && item->entrance != choice->entrance && !whole)
        return RECORDED_ENTRANCE;
    if (choice && item->stream != choice->stream && !whole)
        return RECORDED_STREAM;
    return RECORDED_WHY_COUNT;
}

/* The pool that most bytes of the plan's blocks are in. */
static struct choice choose(const struct items *items, bool whole)
{
    struct keytable numbers = {0};
    uint64_t *bytes = NULL;
    size_t count = 0;
    size_t room = 0;
    uint32_t best = UINT32_MAX;
    struct choice choice = {0};

    for (size_t i = 0; i < items->count; i++) {
        const struct item *item = &items->items[i];
        if (why_not(item, NULL, whole) != RECORDED_WHY_COUNT)
            continue;
        struct key key = {(uint64_t)(uint32_t)item->device, whole ? 0 : item->entrance,
                whole ? 0 : item->stream};
        uint32_t number = *keytable_at(&numbers, key, (uint32_t)count);
        if (number == count)
            VEC_PUSH(bytes, count, room) = 0;
        bytes[number] += item->size;
    }
    for (size_t i = 0; i < count; i++) {
        if (best == UINT32_MAX || bytes[i] > bytes[best])
            best = (uint32_t)i;
    }
    for (size_t i = 0; i < items->count && best != UINT32_MAX; i++) {
        const struct item *item = &items->items[i];
        struct key key = {(uint64_t)(uint32_t)item->device, whole ? 0 : item->entrance,
                whole ? 0 : item->stream};
        const uint32_t *number = keytable_find(&numbers, key);
        if (number && *number == best) {
            choice = (struct choice){item->device, item->entrance, item->stream};
            break;
        }
    }
    keytable_done(&numbers);
    free(bytes);
    return choice;
}

static void keep(struct items *items, bool whole, struct recorded *recorded)
{
    bool abstract = recorded->form == RECORDED_ABSTRACT;
    struct choice choice = choose(items, whole);

    recorded->device = choice.device;
    recorded->entrance = choice.entrance;
    recorded->spans = vec_new(items->count, sizeof(*recorded->spans));
    recorded->sites = vec_new(items->count, sizeof(*recorded->sites));
    recorded->names = vec_new(items->count, sizeof(*recorded->names));
    for (size_t i = 0; i < items->count; i++) {
        struct item *item = &items->items[i];
        enum recorded_why why = why_not(item, &choice, whole);
        if (why != RECORDED_WHY_COUNT) {
            recorded->left[why].count++;
            recorded->left[why].bytes += item->size;
            continue;
        }
        uint64_t round = abstract ? 0 : RECORDED_QUANTUM - 1;
        recorded->spans[recorded->count] = (struct span){
                .size = (item->size + round) & ~round, .begin = item->begin, .end = item->end};
        recorded->sites[recorded->count] = item->site;
        recorded->names[recorded->count++] = item->name;
        item->name = NULL;
    }
}

static void items_done(struct items *items)
{
    for (size_t i = 0; i < items->count; i++)
        free(items->items[i].name);
    free(items->items);
}

void recorded_from_trace(
        const struct trace *trace, struct model_window window, bool whole, struct recorded *ret)
{
    struct recorded recorded = {.form = RECORDED_CAPTURE};
    struct items items = {0};

    add_blocks(&items, trace, window);
    keep(&items, whole, &recorded);
    items_done(&items);
    *ret = recorded;
}

/* By its first bytes; what is neither csv is for load.h to judge. */
static enum recorded_form form_of(const char *path)
{
    static const char trace[] = "op,id,";
    static const char abstract[] = "id,lower,upper,size";
    char start[sizeof(abstract)] = "";
    FILE *in = fopen(path, "re");

    if (!in)
        return RECORDED_CAPTURE;
    size_t n = fread(start, 1, sizeof(start) - 1, in);
    (void)fclose(in);
    start[n] = '\0';
    if (strncmp(start, trace, strlen(trace)) == 0)
        return RECORDED_TRACE;
    return strcmp(start, abstract) == 0 ? RECORDED_ABSTRACT : RECORDED_CAPTURE;
}

int recorded_open(const char *path, const struct recorded_request *request, struct recorded *ret)
{
    struct recorded recorded = {.form = form_of(path)};
    struct items items = {0};
    int r;

    if (recorded.form != RECORDED_CAPTURE && (request->from || request->to || request->passage)) {
        (void)fprintf(
                stderr, "kedge plan: %s: --from, --to and --passage are for captures\n", path);
        return CMD_BAD;
    }
    if (request->passage && (!request->from || request->to)) {
        (void)fprintf(stderr, "kedge plan: --passage goes with --from, and without --to\n");
        return CMD_BAD;
    }
    if (recorded.form == RECORDED_CAPTURE)
        r = read_capture(path, request, &items);
    else if (recorded.form == RECORDED_TRACE)
        r = read_trace(path, &items);
    else
        r = read_abstract(path, &items);
    if (r == 0 && items.count >= UINT32_MAX / 2) {
        (void)fprintf(stderr, "kedge plan: %s: too many blocks\n", path);
        r = CMD_BAD;
    }
    if (r == 0) {
        keep(&items, request->whole || recorded.form == RECORDED_ABSTRACT, &recorded);
        *ret = recorded;
    }
    items_done(&items);
    return r;
}

void recorded_done(struct recorded *recorded)
{
    for (uint32_t i = 0; i < recorded->count; i++)
        free(recorded->names[i]);
    free(recorded->spans);
    free(recorded->sites);
    free((void *)recorded->names);
    *recorded = (struct recorded){0};
}

const char *recorded_why_key(enum recorded_why why)
{
    static const char *const keys[RECORDED_WHY_COUNT] = {"live_before", "outlives", "native",
            "shared", "hinted", "other_device", "other_entrance", "other_stream"};

    return why < RECORDED_WHY_COUNT ? keys[why] : "?";
}

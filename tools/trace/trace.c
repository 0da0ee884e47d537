/* SPDX-License-Identifier: MIT */
#include "tools/trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tracker/hints/hintfile.h"

#define THREAD_BITS 0x7fffffu /* as many as an event has bits for its thread */

/* A range that a thread has open. There may be many, if a program never ends its ranges. */
struct open_range {
    uint32_t anchor;
    uint32_t at;           /* event: the enter */
    uint32_t below, above; /* of the thread and path: opened before it, after it; TRACE_NONE */
    uint32_t same;         /* of the thread and anchor: opened before it, TRACE_NONE */
};

struct trace_index {
    struct keytable live;      /* address -> block */
    struct keytable instances; /* path -> number of instances */
    struct keytable nth;     /* (anchor, site, size) -> number of blocks that asked for their nth */
    struct keytable streams; /* identity -> index in `streams` */
    uint32_t last_stream;    /* the stream asked for last: the next event usually has the same */
    struct keytable paths;   /* texts -> their numbers */
    struct keytable of_paths;   /* (thread, path) -> the range that was opened last, TRACE_NONE */
    struct keytable of_anchors; /* (thread, anchor) -> the same, while there is one */
    struct open_range *ranges;
    size_t range_count, range_room;
    uint32_t closed;             /* a free slot in `ranges`; the next one is `below`; TRACE_NONE */
    struct keytable_values held; /* device -> bytes from the driver, now */
};

bool trace_has_pool(const struct trace *trace)
{
    for (size_t i = 0; i < trace->block_count; i++)
        if (!trace->blocks[i].native)
            return true;
    return false;
}

bool trace_is_served(const struct trace_block *block, bool has_pool)
{
    return (has_pool ? !block->native : block->memclass == MEMCLASS_DRIVER) && block->size > 0;
}

void trace_sum_add(struct trace_sum *sum, uint64_t bytes)
{
    sum->count++;
    sum->bytes += bytes;
}

void trace_sum_join(struct trace_sum *sum, struct trace_sum more)
{
    sum->count += more.count;
    sum->bytes += more.bytes;
}

static uint32_t number_of_stream(struct trace *trace, uint64_t stream)
{
    uint32_t *last = &trace->index->last_stream;

    if (*last < trace->stream_count && trace->streams[*last] == stream)
        return *last;
    *last = keytable_number(&trace->index->streams, (struct key){stream, 0, 0});
    if (*last == trace->stream_count)
        VEC_PUSH(trace->streams, trace->stream_count, trace->stream_room) = stream;
    return *last;
}

struct trace *trace_new(void)
{
    struct trace *trace = vec_new(1, sizeof(*trace));

    trace->index = vec_new(1, sizeof(*trace->index));
    trace->index->closed = TRACE_NONE;
    trace->live_most = UINT64_MAX;
    (void)trace_add_anchor(trace, "", 0);
    trace->anchors[0].enter = 0;
    (void)trace_add_stack(trace, NULL, 0, false);
    (void)number_of_stream(trace, 0); /* number 0 for events without a stream */
    return trace;
}

void trace_free(struct trace *trace)
{
    if (!trace)
        return;
    for (size_t i = 0; i < trace->anchor_count; i++)
        free(trace->anchors[i].path);
    for (size_t i = 0; i < trace->module_count; i++)
        free(trace->modules[i].path);
    keytable_done(&trace->index->live);
    keytable_done(&trace->index->instances);
    keytable_done(&trace->index->nth);
    keytable_done(&trace->index->streams);
    keytable_done(&trace->index->paths);
    keytable_done(&trace->index->of_paths);
    keytable_done(&trace->index->of_anchors);
    keytable_values_done(&trace->index->held);
    free(trace->index->ranges);
    free(trace->index);
    free(trace->events);
    free(trace->blocks);
    free(trace->anchors);
    free(trace->stacks);
    free(trace->frames);
    free(trace->pyframes);
    free(trace->modules);
    free(trace->calls);
    free(trace->launches);
    free(trace->uses);
    free(trace->streams);
    free(trace->reserved);
    free(trace->used);
    free(trace);
}

void trace_reserve(struct trace *trace, size_t events, size_t blocks)
{
    trace->events = vec_grow(trace->events, events, sizeof(*trace->events), &trace->event_room);
    trace->blocks = vec_grow(trace->blocks, blocks, sizeof(*trace->blocks), &trace->block_room);
}

uint32_t trace_add_module(struct trace *trace, const struct trace_module *module)
{
    struct trace_module copy = *module;

    copy.path = vec_text(module->path);
    VEC_PUSH(trace->modules, trace->module_count, trace->module_room) = copy;
    return (uint32_t)(trace->module_count - 1);
}

uint32_t trace_add_stack(
        struct trace *trace, const struct trace_frame *frames, uint32_t count, bool cut)
{
    struct trace_stack stack = {.first = (uint32_t)trace->frame_count, .count = count, .cut = cut};

    for (uint32_t i = 0; i < count; i++)
        VEC_PUSH(trace->frames, trace->frame_count, trace->frame_room) = frames[i];
    VEC_PUSH(trace->stacks, trace->stack_count, trace->stack_room) = stack;
    return (uint32_t)(trace->stack_count - 1);
}

void trace_set_python(struct trace *trace, uint32_t stack, const struct trace_pyframe *frames,
        uint32_t count, bool ambient)
{
    trace->stacks[stack].pyfirst = (uint32_t)trace->pyframe_count;
    trace->stacks[stack].pycount = count;
    trace->stacks[stack].ambient = ambient;
    for (uint32_t i = 0; i < count; i++)
        VEC_PUSH(trace->pyframes, trace->pyframe_count, trace->pyframe_room) = frames[i];
}

static uint64_t trace_mix(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t trace_python(const struct trace *trace, uint32_t number)
{
    const struct trace_stack *stack = &trace->stacks[number];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (stack->pycount == 0)
        return 0;
    for (uint32_t i = 0; i < stack->pycount; i++) {
        const struct trace_pyframe *frame = &trace->pyframes[stack->pyfirst + i];
        hash = trace_mix(hash, frame->function, strlen(frame->function) + 1);
        hash = trace_mix(hash, frame->file, strlen(frame->file) + 1);
        hash = trace_mix(hash, &frame->line, sizeof(frame->line));
    }
    hash = trace_mix(hash, &stack->ambient, sizeof(stack->ambient));
    return hash ? hash : 1;
}

uint32_t trace_add_anchor(struct trace *trace, const char *path, uint32_t instance)
{
    uint32_t *seen = keytable_at(&trace->index->instances, keytable_text(path), 0);

    if (instance == TRACE_NONE)
        instance = *seen;
    *seen = instance + 1;
    struct trace_anchor anchor = {.path = vec_text(path),
            .instance = instance,
            .parent = trace->anchor_count ? 0 : TRACE_NONE,
            .enter = TRACE_NEVER,
            .exit = TRACE_NEVER};
    VEC_PUSH(trace->anchors, trace->anchor_count, trace->anchor_room) = anchor;
    return (uint32_t)(trace->anchor_count - 1);
}

static uint32_t trace_add_event(struct trace *trace, struct trace_event event)
{
    VEC_PUSH(trace->events, trace->event_count, trace->event_room) = event;
    return (uint32_t)(trace->event_count - 1);
}

/* An event without a block. */
static uint32_t trace_add_plain(
        struct trace *trace, enum trace_kind kind, uint32_t anchor, uint32_t thread, size_t number)
{
    return trace_add_event(trace,
            (struct trace_event){.kind = kind,
                    .block = TRACE_NONE,
                    .anchor = anchor,
                    .thread = thread & THREAD_BITS,
                    .number = (uint32_t)number});
}

uint32_t trace_add_alloc(struct trace *trace, const struct trace_block *birth)
{
    /* no address is handed out twice: one that is live here was freed unseen (a lost record) */
    if (trace_find_live(trace, birth->address) != TRACE_NONE)
        (void)trace_add_free(trace, birth->address, birth->thread);

    uint32_t id = (uint32_t)trace->block_count;
    struct trace_block block = *birth;

    if (birth->nth == TRACE_COUNT_NTH)
        block.nth = (*keytable_at(
                &trace->index->nth, (struct key){birth->anchor, birth->site, birth->size}, 0))++;
    block.died = TRACE_NEVER;
    block.released = TRACE_NEVER;
    block.born = trace_add_event(trace,
            (struct trace_event){.kind = TRACE_ALLOC,
                    .block = id,
                    .anchor = birth->anchor,
                    .thread = birth->thread & THREAD_BITS,
                    .by_stream = birth->stream});
    VEC_PUSH(trace->blocks, trace->block_count, trace->block_room) = block;
    *keytable_at(&trace->index->live, (struct key){birth->address, 0, 0}, id) = id;
    return id;
}

uint32_t trace_find_live(const struct trace *trace, uint64_t address)
{
    return keytable_get(&trace->index->live, (struct key){address, 0, 0}, TRACE_NONE);
}

uint32_t trace_find_last(const struct trace *trace, uint64_t address)
{
    for (size_t i = trace->block_count; i > 0; i--) {
        const struct trace_block *block = &trace->blocks[i - 1];
        if (address - block->address < block->size)
            return (uint32_t)(i - 1);
    }
    return TRACE_NONE;
}

uint32_t trace_add_free(struct trace *trace, uint64_t address, uint32_t thread)
{
    uint32_t id = trace_find_live(trace, address);
    uint32_t at = trace_add_event(trace,
            (struct trace_event){.kind = TRACE_FREE, .block = id, .thread = thread & THREAD_BITS});

    if (id == TRACE_NONE)
        return id;
    trace->blocks[id].died = at;
    /* until trace_set_stream says otherwise */
    trace->events[at].number = trace->events[trace->blocks[id].born].number;
    trace->events[at].by_stream = trace->blocks[id].stream;
    keytable_remove(&trace->index->live, (struct key){address, 0, 0});
    return id;
}

uint64_t trace_stream(const struct trace *trace, const struct trace_event *event)
{
    return trace->streams[event->number];
}

uint64_t trace_value(const struct trace *trace, const struct trace_event *event)
{
    switch (event->kind) {
    case TRACE_ALLOC:
    case TRACE_FREE:
        return event->block == TRACE_NONE ? 0 : trace->blocks[event->block].size;
    case TRACE_RESERVED:
        return trace->reserved[event->number].all;
    case TRACE_RELEASE:
    case TRACE_CALL:
    case TRACE_LAUNCH:
        return event->number;
    default:
        return 0;
    }
}

void trace_set_stream(struct trace *trace, uint64_t stream, bool by_stream)
{
    struct trace_event *event = &trace->events[trace->event_count - 1];

    event->number = number_of_stream(trace, stream);
    event->by_stream = by_stream;
}

/* The slot of the last opened range of a thread with this path. */
static uint32_t *last_of_path(struct trace_index *index, const char *path, uint32_t thread)
{
    uint32_t number = keytable_number(&index->paths, keytable_text(path));

    return keytable_at(&index->of_paths, (struct key){thread, number, 0}, TRACE_NONE);
}

static uint32_t free_place(struct trace_index *index)
{
    uint32_t place = index->closed;

    if (place == TRACE_NONE) {
        VEC_PUSH(index->ranges, index->range_count, index->range_room) = (struct open_range){0};
        return (uint32_t)(index->range_count - 1);
    }
    index->closed = index->ranges[place].below;
    return place;
}

static void trace_open_range(struct trace *trace, uint32_t anchor, uint32_t thread, uint32_t at)
{
    struct trace_index *index = trace->index;
    uint32_t place = free_place(index);
    uint32_t *of_path = last_of_path(index, trace->anchors[anchor].path, thread);
    uint32_t *of_anchor =
            keytable_at(&index->of_anchors, (struct key){thread, anchor, 0}, TRACE_NONE);

    index->ranges[place] = (struct open_range){
            .anchor = anchor, .at = at, .below = *of_path, .above = TRACE_NONE, .same = *of_anchor};
    if (*of_path != TRACE_NONE)
        index->ranges[*of_path].above = place;
    *of_path = place;
    *of_anchor = place;
}

/* Ranges may overlap without nesting (NVTX start/end): only this one is closed. */
static void close_range(struct trace *trace, uint32_t anchor, uint32_t thread)
{
    struct trace_index *index = trace->index;
    struct key key = {thread, anchor, 0};
    uint32_t *of_anchor = keytable_find(&index->of_anchors, key);

    if (!of_anchor)
        return;
    uint32_t place = *of_anchor;
    struct open_range *range = &index->ranges[place];
    if (range->same == TRACE_NONE)
        keytable_remove(&index->of_anchors, key);
    else
        *of_anchor = range->same;
    if (range->below != TRACE_NONE)
        index->ranges[range->below].above = range->above;
    if (range->above != TRACE_NONE)
        index->ranges[range->above].below = range->below;
    else
        *last_of_path(index, trace->anchors[anchor].path, thread) = range->below;
    range->below = index->closed;
    index->closed = place;
}

/* The innermost open range that the path itself contains: those started by id nest in nothing. */
static uint32_t trace_parent_of(const struct trace *trace, const char *path, uint32_t thread)
{
    const struct trace_index *index = trace->index;
    const struct open_range *innermost = NULL;
    struct key outer = KEYTABLE_NO_TEXT; /* the path so far */

    for (; *path; outer = keytable_longer(outer, *path++)) {
        if (*path != '/')
            continue;
        uint32_t number = keytable_get(&index->paths, outer, TRACE_NONE);
        uint32_t last = keytable_get(&index->of_paths, (struct key){thread, number, 0}, TRACE_NONE);
        if (last != TRACE_NONE && (!innermost || index->ranges[last].at > innermost->at))
            innermost = &index->ranges[last];
    }
    return innermost ? innermost->anchor : 0;
}

void trace_add_edge(struct trace *trace, enum trace_kind kind, uint32_t anchor, uint32_t thread)
{
    struct trace_anchor *a = &trace->anchors[anchor];
    uint32_t at = trace_add_plain(trace, kind, anchor, thread, 0);

    if (kind != TRACE_EXIT && a->enter == TRACE_NEVER) {
        a->enter = at;
        a->parent = trace_parent_of(trace, a->path, thread);
    }
    if (kind == TRACE_ENTER)
        trace_open_range(trace, anchor, thread, at);
    if (kind == TRACE_EXIT) {
        a->exit = at;
        close_range(trace, anchor, thread);
    }
}

void trace_add_release(
        struct trace *trace, uint64_t address, uint32_t anchor, int32_t rule, enum hint_mode mode)
{
    uint32_t id = trace_find_live(trace, address);
    uint32_t at = trace_add_event(trace,
            (struct trace_event){.kind = TRACE_RELEASE,
                    .block = id,
                    .anchor = anchor,
                    .number = (uint32_t)mode});

    if (id == TRACE_NONE)
        return;
    struct trace_block *block = &trace->blocks[id];
    if (block->released != TRACE_NEVER) {
        trace->events[at].kind = TRACE_OTHER; /* recorded twice, released once */
        return;
    }
    uint32_t exit = trace->anchors[anchor].exit;
    block->released = exit == TRACE_NEVER ? at : exit;
    block->mode = mode;
    block->rule = rule;
}

void trace_add_call(struct trace *trace, const struct trace_call *call, uint32_t thread)
{
    struct trace_call *own = &VEC_PUSH(trace->calls, trace->call_count, trace->call_room);

    *own = *call;
    own->number = hintwords_find_call(call->name);
    own->at = trace_add_plain(trace, TRACE_CALL, call->anchor, thread, trace->call_count - 1);
    for (unsigned i = 0; i < FORMAT_CALL_BUFFERS; i++)
        own->buffer[i].block =
                own->buffer[i].arg ? trace_find_live(trace, own->buffer[i].address) : TRACE_NONE;
}

/* ---- uses ---- */

/* Seven bits per byte; the top bit says that more follow. */
static void trace_put_number(struct trace *trace, uint64_t number)
{
    for (; number > 0x7f; number >>= 7)
        VEC_PUSH(trace->used, trace->used_bytes, trace->used_room) = (unsigned char)(number | 0x80);
    VEC_PUSH(trace->used, trace->used_bytes, trace->used_room) = (unsigned char)number;
}

static uint64_t trace_get_number(const unsigned char **at)
{
    uint64_t number = 0;
    unsigned shift = 0;

    for (; **at & 0x80; shift += 7)
        number |= (uint64_t)(*(*at)++ & 0x7f) << shift;
    return number | (uint64_t) * (*at)++ << shift;
}

/* Modulo 2^64: times in any order are restored. Most entries take a third of their 40 bytes. */
void trace_set_uses(struct trace *trace, uint32_t block, const struct trace_uses *uses)
{
    struct trace_block *own = &trace->blocks[block];

    own->uses_at = 0;
    if (memcmp(uses, &(struct trace_uses){0}, sizeof(*uses)) == 0)
        return;
    if (trace->used_bytes == 0)
        trace_put_number(trace, 0); /* offset 0 means none */
    if (trace->used_bytes > UINT32_MAX)
        vec_out_of_memory();
    own->uses_at = (uint32_t)trace->used_bytes;
    trace->latest_use_ns = max_of(trace->latest_use_ns, uses->last);
    trace_put_number(trace, uses->count);
    trace_put_number(trace, uses->first);
    trace_put_number(trace, uses->last - uses->first);
    trace_put_number(trace, uses->gap);
    trace_put_number(trace, uses->last - uses->gap_end);
}

struct trace_uses trace_uses(const struct trace *trace, const struct trace_block *block)
{
    struct trace_uses uses = {0};
    const unsigned char *at;

    if (block->uses_at == 0)
        return uses;
    at = &trace->used[block->uses_at];
    uses.count = trace_get_number(&at);
    uses.first = trace_get_number(&at);
    uses.last = trace_get_number(&at) + uses.first;
    uses.gap = trace_get_number(&at);
    uses.gap_end = uses.last - trace_get_number(&at);
    return uses;
}

/* ---- finding the block of a buffer ---- */

/* The blocks by address; the live ones are counted in a Fenwick tree. */
struct living {
    const struct trace *trace;
    uint32_t *by_address; /* blocks */
    uint32_t *rank_of;    /* per block, from 1 */
    uint32_t *counts;
};

static int trace_by_address(const void *a, const void *b, void *trace)
{
    const struct trace_block *blocks = ((const struct trace *)trace)->blocks;
    uint32_t i = *(const uint32_t *)a;
    uint32_t k = *(const uint32_t *)b;

    return vec_order(blocks[i].address, blocks[k].address, vec_order(i, k, 0));
}

static struct living trace_list_blocks(struct trace *trace)
{
    struct living living = {.trace = trace,
            .by_address = vec_new(trace->block_count, sizeof(uint32_t)),
            .rank_of = vec_new(trace->block_count, sizeof(uint32_t)),
            .counts = vec_new(trace->block_count + 1, sizeof(uint32_t))};

    for (size_t i = 0; i < trace->block_count; i++)
        living.by_address[i] = (uint32_t)i;
    if (trace->block_count)
        qsort_r(living.by_address, trace->block_count, sizeof(uint32_t), trace_by_address, trace);
    for (size_t i = 0; i < trace->block_count; i++)
        living.rank_of[living.by_address[i]] = (uint32_t)i + 1;
    return living;
}

/* `by`: 1 for a birth, UINT32_MAX for a death. */
static void trace_count_block(struct living *living, uint32_t block, uint32_t by)
{
    for (size_t i = living->rank_of[block]; i <= living->trace->block_count; i += i & (0 - i))
        living->counts[i] += by;
}

/* The live block that contains an address: the last that begins there or before; none overlap. */
static uint32_t block_around(const struct living *living, uint64_t address)
{
    const struct trace *trace = living->trace;
    size_t low = 0, high = trace->block_count, at = 0, step = 1;
    uint32_t before = 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (trace->blocks[living->by_address[mid]].address <= address)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i > 0; i -= i & (0 - i))
        before += living->counts[i];
    if (before == 0)
        return TRACE_NONE;
    while (step * 2 <= trace->block_count)
        step *= 2;
    for (; step; step /= 2) {
        if (at + step > trace->block_count || living->counts[at + step] >= before)
            continue;
        at += step;
        before -= living->counts[at];
    }
    uint32_t block = living->by_address[at];
    return address - trace->blocks[block].address < trace->blocks[block].size ? block : TRACE_NONE;
}

static bool is_unplaced(const struct trace_buffer *buffer)
{
    return buffer->arg && buffer->address && buffer->block == TRACE_NONE;
}

void trace_place_calls(struct trace *trace)
{
    bool any = false;

    for (size_t i = 0; i < trace->call_count; i++)
        for (unsigned k = 0; k < FORMAT_CALL_BUFFERS; k++)
            any = any || is_unplaced(&trace->calls[i].buffer[k]);
    if (!any)
        return;
    struct living living = trace_list_blocks(trace);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (trace_is_of_block(event))
            trace_count_block(&living, event->block, event->kind == TRACE_ALLOC ? 1 : UINT32_MAX);
        if (event->kind != TRACE_CALL)
            continue;
        struct trace_call *call = &trace->calls[event->number];
        for (unsigned k = 0; k < FORMAT_CALL_BUFFERS; k++)
            if (is_unplaced(&call->buffer[k]))
                call->buffer[k].block = block_around(&living, call->buffer[k].address);
    }
    free(living.by_address);
    free(living.rank_of);
    free(living.counts);
}

void trace_add_launch(struct trace *trace, const char *name, uint32_t anchor, uint32_t thread)
{
    (void)trace_add_plain(trace, TRACE_LAUNCH, anchor, thread, trace->launch_count);
    VEC_PUSH(trace->launches, trace->launch_count, trace->launch_room) = name;
}

void trace_add_use(struct trace *trace, uint32_t block, uint64_t time_ns, uint32_t thread, bool may)
{
    VEC_PUSH(trace->uses, trace->use_count, trace->use_room) =
            (struct trace_use){.time_ns = time_ns,
                    .block = block,
                    .thread = thread,
                    .at = (uint32_t)trace->event_count,
                    .may = may};
}

void trace_add_reserved(struct trace *trace, int device, uint64_t bytes)
{
    uint64_t *held =
            keytable_value(&trace->index->held, (struct key){(uint64_t)(int64_t)device, 0, 0});
    uint64_t before = trace->reserved_count ? trace->reserved[trace->reserved_count - 1].all : 0;

    (void)trace_add_plain(trace, TRACE_RESERVED, 0, 0, trace->reserved_count);
    VEC_PUSH(trace->reserved, trace->reserved_count, trace->reserved_room) =
            (struct trace_reserved){before + (bytes - *held), bytes, device};
    *held = bytes;
}

const struct trace_reserved *trace_reserved_of(
        const struct trace *trace, const struct trace_event *event)
{
    return &trace->reserved[event->number];
}

uint32_t trace_add_other(struct trace *trace, uint32_t thread)
{
    return trace_add_plain(trace, TRACE_OTHER, 0, thread, 0);
}

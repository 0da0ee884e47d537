/* SPDX-License-Identifier: MIT */
#include "tools/workload.h"

#include <stdlib.h>

#include "tools/trace.h"
#include "tools/vec.h"

#define NO_BLOCK UINT32_MAX

const char workload_bad_size[] = "freed with another size than it was allocated with";

/* ── one by one ── */

static uint32_t stream_number(
        struct workload_builder *builder, const struct workload_request *request)
{
    struct workload *workload = &builder->workload;

    if (!request->is_stream)
        return 0;
    uint32_t next = workload->stream_count + 1;
    uint32_t number = *keytable_at(&builder->streams, (struct key){request->stream, 0, 0}, next);
    if (number == next)
        workload->stream_count++;
    return number;
}

const char *workload_add_alloc(
        struct workload_builder *builder, const struct workload_request *request)
{
    struct workload *workload = &builder->workload;
    uint32_t *known = keytable_at(&builder->live, (struct key){request->name, 0, 0}, NO_BLOCK);

    if (*known != NO_BLOCK)
        return "this is allocated already";
    if (request->size == 0)
        return "size 0";
    if (builder->bytes + request->size < request->size)
        return "sizes add up to more than 64 bits hold";
    builder->bytes += request->size;
    *known = (uint32_t)workload->block_count;
    VEC_PUSH(workload->events, workload->event_count, workload->event_room) =
            (struct workload_event){.block = *known};
    VEC_PUSH(workload->blocks, workload->block_count, workload->block_room) =
            (struct workload_block){.size = request->size,
                    .stream = stream_number(builder, request),
                    .device = request->device};
    if ((uint32_t)request->device >= workload->device_count)
        workload->device_count = (uint32_t)request->device + 1;
    return NULL;
}

const char *workload_add_free(
        struct workload_builder *builder, const struct workload_request *request)
{
    struct workload *workload = &builder->workload;
    uint32_t *known = keytable_find(&builder->live, (struct key){request->name, 0, 0});

    if (!known || *known == NO_BLOCK || !workload->blocks)
        return "this is not allocated";
    if (request->size && workload->blocks[*known].size != request->size)
        return workload_bad_size;
    builder->bytes -= workload->blocks[*known].size;
    VEC_PUSH(workload->events, workload->event_count, workload->event_room) =
            (struct workload_event){
                    .block = *known, .stream = stream_number(builder, request), .is_free = true};
    *known = NO_BLOCK;
    return NULL;
}

static void sum(struct workload *workload)
{
    uint64_t live = 0;
    uint64_t rounded = 0;
    size_t count = 0;

    for (size_t i = 0; i < workload->event_count; i++) {
        const struct workload_event *event = &workload->events[i];
        uint64_t size = workload->blocks[event->block].size;
        uint64_t whole = (size + 511) & ~UINT64_C(511);

        live += event->is_free ? 0 - size : size;
        rounded += event->is_free ? 0 - whole : whole;
        count += event->is_free ? (size_t)-1 : 1;
        if (live > workload->peak_live)
            workload->peak_live = live;
        if (rounded > workload->peak_live_512)
            workload->peak_live_512 = rounded;
    }
    workload->left_count = count;
}

void workload_finish(struct workload_builder *builder, struct workload *ret)
{
    sum(&builder->workload);
    *ret = builder->workload;
    keytable_done(&builder->live);
    keytable_done(&builder->streams);
    *builder = (struct workload_builder){.bytes = 0};
}

void workload_done(struct workload *workload)
{
    free(workload->events);
    free(workload->blocks);
    *workload = (struct workload){0};
}

/* ── from a trace ── */

static bool has_pooled(const struct trace *trace)
{
    for (size_t i = 0; i < trace->block_count; i++) {
        if (!trace->blocks[i].native)
            return true;
    }
    return false;
}

static bool is_served(const struct trace_block *block, bool pooled)
{
    bool could = pooled ? !block->native : block->memclass == MEMCLASS_DRIVER;

    return could && block->size != 0;
}

struct carried {
    uint64_t address;
    uint32_t block;
};

static int by_address(const void *a, const void *b)
{
    const struct carried *one = a;
    const struct carried *other = b;

    return one->address < other->address ? -1 : one->address > other->address;
}

static void add_birth(struct workload_builder *builder, const struct trace *trace, uint32_t number)
{
    const struct trace_block *block = &trace->blocks[number];
    struct workload_request request = {.name = number,
            .size = block->size,
            .stream = trace->events[block->born].stream,
            .is_stream = block->stream,
            .device = block->device < 0 ? 0 : block->device};

    (void)workload_add_alloc(builder, &request);
}

/* What is live when the window begins. */
static void add_carried(
        struct workload_builder *builder, const struct trace *trace, uint32_t first, bool pooled)
{
    struct carried *carried = NULL;
    size_t count = 0;
    size_t room = 0;

    for (uint32_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->born < first && block->died >= first && is_served(block, pooled))
            VEC_PUSH(carried, count, room) = (struct carried){block->address, i};
    }
    if (count)
        qsort(carried, count, sizeof(*carried), by_address);
    for (size_t i = 0; i < count; i++)
        add_birth(builder, trace, carried[i].block);
    free(carried);
}

void workload_from_trace(
        const struct trace *trace, uint32_t first, uint32_t behind, struct workload *ret)
{
    struct workload_builder builder = {.workload = {.device_count = 1}};
    bool pooled = has_pooled(trace);

    add_carried(&builder, trace, first, pooled);
    for (uint32_t i = first; i < behind; i++) {
        const struct trace_event *event = &trace->events[i];
        bool is_ours = (event->kind == TRACE_ALLOC || event->kind == TRACE_FREE)
                && event->block != TRACE_NONE;

        if (is_ours && !is_served(&trace->blocks[event->block], pooled)) {
            builder.workload.skipped_count += event->kind == TRACE_ALLOC;
        } else if (is_ours && event->kind == TRACE_ALLOC) {
            add_birth(&builder, trace, event->block);
        } else if (is_ours) {
            struct workload_request request = {
                    .name = event->block, .stream = event->stream, .is_stream = event->by_stream};
            (void)workload_add_free(&builder, &request);
        }
    }
    workload_finish(&builder, ret);
}

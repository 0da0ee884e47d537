/* SPDX-License-Identifier: MIT */
#include "tools/replay/workload.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/trace/trace.h"

/* A workload under construction. */
struct builder {
    const struct trace *trace;
    struct workload *workload;
    struct keytable streams; /* the trace's stream -> number */
    uint32_t *numbers;       /* the trace's block -> number */
    bool has_pool;
};

static uint32_t stream_number(struct builder *builder, uint64_t stream, bool is_stream)
{
    struct workload *workload = builder->workload;

    if (!is_stream)
        return 0;
    uint32_t number = keytable_number(&builder->streams, (struct key){stream, 0, 0});
    workload->stream_count += number == workload->stream_count;
    return number + 1;
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

void workload_done(struct workload *workload)
{
    free(workload->events);
    free(workload->blocks);
    *workload = (struct workload){0};
}

struct carried {
    uint64_t address;
    uint32_t block;
};

static int workload_by_address(const void *a, const void *b)
{
    const struct carried *one = a;
    const struct carried *other = b;

    return one->address < other->address ? -1 : one->address > other->address;
}

static void workload_add_birth(struct builder *builder, uint32_t number)
{
    const struct trace_block *block = &builder->trace->blocks[number];
    struct workload *workload = builder->workload;
    int device = block->device < 0 ? 0 : block->device;

    builder->numbers[number] = (uint32_t)workload->block_count;
    VEC_PUSH(workload->events, workload->event_count, workload->event_room) =
            (struct workload_event){.block = builder->numbers[number]};
    VEC_PUSH(workload->blocks, workload->block_count, workload->block_room) =
            (struct workload_block){.size = block->size,
                    .stream = stream_number(builder,
                            trace_stream(builder->trace, &builder->trace->events[block->born]),
                            block->stream),
                    .device = device};
    if ((uint32_t)device >= workload->device_count)
        workload->device_count = (uint32_t)device + 1;
}

static void workload_add_death(struct builder *builder, const struct trace_event *event)
{
    struct workload *workload = builder->workload;

    VEC_PUSH(workload->events, workload->event_count,
            workload->event_room) = (struct workload_event){.block = builder->numbers[event->block],
            .stream = stream_number(builder, trace_stream(builder->trace, event), event->by_stream),
            .is_free = true};
}

/* Adds the blocks that are live when the window begins. */
static void workload_add_carried(struct builder *builder, uint32_t first)
{
    const struct trace *trace = builder->trace;
    struct carried *carried = NULL;
    size_t count = 0;
    size_t room = 0;

    for (uint32_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        if (block->born < first && block->died >= first
                && trace_is_served(block, builder->has_pool))
            VEC_PUSH(carried, count, room) = (struct carried){block->address, i};
    }
    VEC_SORT(carried, count, workload_by_address);
    for (size_t i = 0; i < count; i++)
        workload_add_birth(builder, carried[i].block);
    free(carried);
}

void workload_from_trace(
        const struct trace *trace, uint32_t first, uint32_t behind, struct workload *ret)
{
    struct builder builder = {.trace = trace,
            .workload = ret,
            .numbers = vec_new(trace->block_count, sizeof(*builder.numbers)),
            .has_pool = trace_has_pool(trace)};

    *ret = (struct workload){.device_count = 1};
    workload_add_carried(&builder, first);
    for (uint32_t i = first; i < behind; i++) {
        const struct trace_event *event = &trace->events[i];

        if ((event->kind != TRACE_ALLOC && event->kind != TRACE_FREE) || event->block == TRACE_NONE)
            continue;
        if (!trace_is_served(&trace->blocks[event->block], builder.has_pool))
            ret->skipped_count += event->kind == TRACE_ALLOC;
        else if (event->kind == TRACE_ALLOC)
            workload_add_birth(&builder, event->block);
        else
            workload_add_death(&builder, event);
    }
    if (behind > first)
        ret->span_ns = excess_of(trace->events[behind - 1].time_ns, trace->events[first].time_ns);
    sum(ret);
    keytable_done(&builder.streams);
    free(builder.numbers);
}

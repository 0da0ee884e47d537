/* SPDX-License-Identifier: MIT */
#include "tools/workload.h"

#include <stdlib.h>

#include "tools/steps.h"
#include "tools/vec.h"

void workload_sum(struct workload *workload)
{
    uint64_t live = 0;
    uint64_t rounded = 0;
    size_t count = 0;

    for (size_t i = 0; i < workload->event_count; i++) {
        const struct workload_event *event = &workload->events[i];
        uint64_t size = workload->blocks[event->block].size;
        uint64_t whole = (size + 511) & ~UINT64_C(511);

        live += event->is_free ? -size : size;
        rounded += event->is_free ? -whole : whole;
        count += event->is_free ? (size_t)-1 : 1;
        if (live > workload->peak_live)
            workload->peak_live = live;
        if (rounded > workload->peak_live_512)
            workload->peak_live_512 = rounded;
    }
    workload->left_count = count;
}

void workload_from_steps(const struct steps *steps, bool sync, struct workload *ret)
{
    struct workload workload = {.device_count = 1};

    for (size_t i = 0; i < steps->block_count; i++) {
        VEC_PUSH(workload.blocks, workload.block_count, workload.block_room) =
                (struct workload_block){.size = steps->blocks[i].size,
                        .stream = sync ? 0 : steps->blocks[i].stream + 1};
    }
    for (size_t i = 0; i < steps->row_count; i++) {
        const struct steps_row *row = &steps->rows[i];

        VEC_PUSH(workload.events, workload.event_count,
                workload.event_room) = (struct workload_event){
                .block = row->block, .stream = sync ? 0 : row->stream + 1, .is_free = row->is_free};
    }
    workload.stream_count = sync ? 0 : (uint32_t)steps->stream_count;
    workload_sum(&workload);
    *ret = workload;
}

void workload_done(struct workload *workload)
{
    free(workload->events);
    free(workload->blocks);
    *workload = (struct workload){0};
}

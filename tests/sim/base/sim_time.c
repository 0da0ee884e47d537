/* SPDX-License-Identifier: MIT */
#include "tests/sim/base/sim_time.h"

#include "tests/sim/driver/sim_context.h"

#include <time.h>

#define CALL_NS 1000 /* of a call under the schedule of times, if SIMCUDA_COSTS has none for it */

static uint64_t host_ns;
static uint64_t engine_free_ns[SIMCUDA_MAX_DEVICES][SIM_ENGINE_COUNT];

bool sim_time_is_virtual(void)
{
    return sim_config.bandwidth || sim_config.compute || sim_config.schedule == SIM_SCHEDULE_TIMED;
}

uint64_t sim_time_host(void)
{
    return host_ns;
}

void sim_time_charge(uint64_t ns)
{
    if (ns == 0 && sim_config.schedule == SIM_SCHEDULE_TIMED)
        ns = CALL_NS;
    host_ns += ns;
    sim_stats.host_ns = host_ns;
}

void sim_time_reach(uint64_t ns)
{
    if (host_ns < ns)
        host_ns = ns;
    sim_stats.host_ns = host_ns;
}

uint64_t sim_time_now(void)
{
    struct timespec now;

    if (sim_time_is_virtual())
        return host_ns;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t sim_time_end_of(const struct sim_queue *queue, uint64_t number)
{
    if (!queue->ends || number == 0 || queue->submitted - number >= SIM_QUEUE_ENDS)
        return 0; /* long past */
    return queue->ends[number % SIM_QUEUE_ENDS];
}

/* All bytes that it reads or writes, whichever of the two is more. */
static uint64_t bytes_of(const struct sim_op *op)
{
    uint64_t sides[2] = {0, 0};

    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];
        sides[range->write] += range->size * range->rows * range->slices;
    }
    return sides[0] > sides[1] ? sides[0] : sides[1];
}

static uint64_t duration(const struct sim_op *op)
{
    uint64_t speed = op->engine == SIM_ENGINE_COMPUTE ? sim_config.compute : sim_config.bandwidth;

    if (op->engine == SIM_ENGINE_NONE || speed == 0)
        return 0;
    return (uint64_t)((double)bytes_of(op) * 1e9 / (double)speed);
}

void sim_time_plan(struct sim_op *op)
{
    struct sim_queue *queue = op->queue;
    uint64_t *engine = &engine_free_ns[queue->ctx->device][op->engine];
    uint64_t begin = host_ns;

    if (!sim_time_is_virtual())
        return;
    if (begin < queue->end_ns)
        begin = queue->end_ns;
    if (begin < op->begin_ns)
        begin = op->begin_ns;
    if (op->engine != SIM_ENGINE_NONE && begin < *engine)
        begin = *engine;
    op->end_ns = queue->end_ns = begin + duration(op);
    if (op->engine != SIM_ENGINE_NONE)
        *engine = op->end_ns;
    if (!queue->ends)
        queue->ends = sim_new(SIM_QUEUE_ENDS * sizeof(*queue->ends));
    queue->ends[op->number % SIM_QUEUE_ENDS] = op->end_ns;
}

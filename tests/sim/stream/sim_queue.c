/* SPDX-License-Identifier: MIT */
#include "tests/sim/stream/sim_queue.h"

#include "tests/sim/base/sim_time.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/memory/sim_contents.h"
#include "tests/sim/memory/sim_pages.h"
#include "tests/sim/memory/sim_vmm.h"
#include "tests/sim/stream/sim_oracle.h"
#include "tests/sim/stream/sim_patience.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_QUERIES 16 /* "not ready" answers to the same question until the device goes on */
#define RANDOM_BURST 6  /* at most so many operations at one call */
#define HOST_PATIENCE \
    1000 /* ms that a host function is waited for before another operation may run */
#define QUEUE_DEPTH (1U << 17) /* a submission waits when so many operations are queued */

static struct sim_queue **queues;
static unsigned queues_count;
static uint64_t steps;
static uint64_t order;
static uint64_t visit;

/* ---- clocks ---- */

static void clock_reach(struct sim_clock *clock, unsigned count)
{
    if (count <= clock->count)
        return;
    clock->at = sim_grow(clock->at, count * sizeof(*clock->at));
    memset(clock->at + clock->count, 0, (count - clock->count) * sizeof(*clock->at));
    clock->count = count;
}

void sim_clock_set(struct sim_clock *clock, const struct sim_queue *queue, uint64_t number)
{
    clock_reach(clock, queue->slot + 1);
    if (clock->at[queue->slot] < number)
        clock->at[queue->slot] = number;
}

void sim_clock_merge(struct sim_clock *clock, const struct sim_clock *other)
{
    clock_reach(clock, other->count);
    for (unsigned i = 0; i < other->count; i++)
        if (clock->at[i] < other->at[i])
            clock->at[i] = other->at[i];
}

void sim_clock_clear(struct sim_clock *clock)
{
    free(clock->at);
    *clock = (struct sim_clock){0};
}

uint64_t sim_clock_at(const struct sim_clock *clock, const struct sim_queue *queue)
{
    return queue->slot < clock->count ? clock->at[queue->slot] : 0;
}

bool sim_queue_is_done(const struct sim_queue *queue, uint64_t number)
{
    return queue->done >= number;
}

bool sim_clock_is_done(const struct sim_clock *points)
{
    for (unsigned i = 0; i < points->count; i++)
        if (points->at[i] > queues[i]->done)
            return false;
    return true;
}

/* ---- operations ---- */

struct sim_op *sim_op_new(const char *name, size_t payload)
{
    struct sim_op *op = sim_new(sizeof(*op) + payload);

    op->name = name;
    op->size = sizeof(*op) + payload;
    return op;
}

/* From the first row to the last, what lies between them included. */
static uint64_t extent_of(const struct sim_range *range)
{
    return (range->slices - 1) * range->slice + (range->rows - 1) * range->pitch + range->size;
}

struct sim_op *sim_op_clone(const struct sim_op *op)
{
    struct sim_op *clone = sim_new(op->size);

    memcpy(clone, op, op->size);
    clone->ranges = NULL;
    clone->ranges_count = 0;
    for (unsigned i = 0; i < op->ranges_count; i++)
        sim_op_add_range(clone, op->ranges[i]);
    clone->next = NULL;
    clone->deps = NULL;
    clone->deps_count = 0;
    return clone;
}

void sim_op_free(struct sim_op *op)
{
    if (op->drop)
        op->drop(op);
    free(op->deps);
    free(op->ranges);
    free(op);
}

void sim_op_add_range(struct sim_op *op, struct sim_range range)
{
    if (range.size == 0)
        return;
    /* The room doubles: at each power of 2 it is full. */
    if ((op->ranges_count & (op->ranges_count - 1)) == 0)
        op->ranges = sim_grow(
                op->ranges, (op->ranges_count ? op->ranges_count * 2 : 1) * sizeof(*op->ranges));
    op->ranges[op->ranges_count++] = range;
}

void sim_op_range(
        struct sim_op *op, int device, enum sim_side side, uint64_t addr, uint64_t size, bool write)
{
    sim_op_add_range(op,
            (struct sim_range){.addr = addr,
                    .size = size,
                    .rows = 1,
                    .slices = 1,
                    .write = write,
                    .device = device,
                    .side = side});
}

bool sim_range_touches(const struct sim_range *range, uint64_t addr, uint64_t size)
{
    uint64_t end = range->addr + extent_of(range);

    if (range->addr >= addr + size || end <= addr)
        return false;
    for (uint64_t z = 0; z < range->slices; z++)
        for (uint64_t y = 0; y < range->rows; y++) {
            uint64_t row = range->addr + z * range->slice + y * range->pitch;
            if (row < addr + size && row + range->size > addr)
                return true;
        }
    return false;
}

/* ---- queues ---- */

struct sim_queue *sim_queue_open(struct CUctx_st *ctx, bool legacy, bool blocking)
{
    struct sim_queue *queue = NULL;

    for (unsigned i = 0; i < queues_count && !queue; i++)
        if (queues[i]->closed && !queues[i]->head)
            queue = queues[i];
    if (!queue) {
        queues = sim_grow(queues, (queues_count + 1) * sizeof(struct sim_queue *));
        queue = sim_new(sizeof(*queue));
        queue->slot = queues_count;
        queues[queues_count++] = queue;
    }
    /* Numbers go on, so that an old point of this slot stays done. */
    queue->closed = false;
    queue->ctx = ctx;
    queue->legacy = legacy;
    queue->blocking = blocking;
    sim_clock_clear(&queue->clock);
    return queue;
}

void sim_queue_close(struct sim_queue *queue)
{
    queue->closed = true;
}

static struct sim_extent *extent_at(const struct sim_queue *queue, uint64_t number)
{
    return &queue->extents[number & (queue->extents_room - 1)];
}

static void make_extents_room(struct sim_queue *queue)
{
    struct sim_queue old = *queue;

    if (queue->submitted - queue->done < queue->extents_room)
        return;
    queue->extents_room = old.extents_room ? old.extents_room * 2 : 64;
    queue->extents = sim_new(queue->extents_room * sizeof(*queue->extents));
    for (uint64_t number = old.done + 1; number <= old.submitted; number++)
        *extent_at(queue, number) = *extent_at(&old, number);
    free(old.extents);
}

/* Of the operation that is to be the next one. A search over all of them (sim_queue_each_at) reads these in a row. */
static void add_extent(struct sim_queue *queue, struct sim_op *op)
{
    struct sim_extent extent = {.addr = UINT64_MAX, .op = op};

    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];
        uint64_t end = range->addr + extent_of(range);
        extent.addr = range->addr < extent.addr ? range->addr : extent.addr;
        extent.end = end > extent.end ? end : extent.end;
    }
    make_extents_room(queue);
    *extent_at(queue, queue->submitted + 1) = extent;
}

static void depend(struct sim_op *op, struct sim_queue *on, uint64_t number)
{
    uint64_t end = sim_time_end_of(on, number);

    if (op->begin_ns < end)
        op->begin_ns = end;
    if (on->done >= number || on == op->queue)
        return;
    op->deps = sim_grow(op->deps, (op->deps_count + 1) * sizeof(*op->deps));
    op->deps[op->deps_count++] = (struct sim_dependency){on, number};
}

static void depend_clock(struct sim_op *op, const struct sim_clock *points)
{
    for (unsigned i = 0; i < points->count; i++)
        if (points->at[i])
            depend(op, queues[i], points->at[i]);
}

/* The default stream waits for every blocking stream of its context, and they wait for it. */
static void depend_default_stream(struct sim_op *op, struct sim_queue *queue)
{
    for (unsigned i = 0; i < queues_count; i++) {
        struct sim_queue *other = queues[i];
        if (other == queue || other->ctx != queue->ctx || other->submitted == 0)
            continue;
        if (!(queue->legacy ? other->blocking : queue->blocking && other->legacy))
            continue;
        depend(op, other, other->submitted);
        sim_clock_merge(&queue->clock, &other->clock);
    }
}

void sim_queue_submit(struct sim_queue *queue, struct sim_op *op, const struct sim_clock *after,
        const struct sim_clock *known)
{
    op->next = NULL;
    op->queue = queue;
    op->ctx = queue->ctx;
    op->order = ++order;
    op->step = steps;
    op->running = false;
    op->begin_ns = 0;
    depend_default_stream(op, queue);
    if (queue->ctx->waits.count) {
        depend_clock(op, &queue->ctx->waits);
        sim_clock_merge(&queue->clock, &queue->ctx->waits);
    }
    if (after)
        depend_clock(op, after);
    if (known)
        sim_clock_merge(&queue->clock, known);
    add_extent(queue, op);
    op->number = ++queue->submitted;
    sim_clock_set(&queue->clock, queue, op->number);
    sim_oracle_submit(op);
    sim_time_plan(op);
    if (queue->tail)
        queue->tail->next = op;
    else
        queue->head = op;
    queue->tail = op;
    sim_stats.submitted++;
    if (op->host)
        sim_patience_watch();
}

uint64_t sim_queue_submissions(void)
{
    return order;
}

void sim_queue_make_room(struct sim_queue *queue)
{
    if (queue->submitted - queue->done >= QUEUE_DEPTH)
        sim_queue_demand(queue, queue->submitted - QUEUE_DEPTH + 1);
}

/* ---- running ---- */

static bool is_behind_others(const struct sim_op *op)
{
    for (unsigned i = 0; i < op->deps_count; i++)
        if (op->deps[i].queue->done < op->deps[i].number)
            return true;
    return false;
}

static bool is_ready(struct sim_queue *queue)
{
    struct sim_op *op = queue->head;

    if (!op || op->running)
        return false;
    while (op->deps_count
            && op->deps[op->deps_count - 1].queue->done >= op->deps[op->deps_count - 1].number)
        op->deps_count--;
    if (is_behind_others(op))
        return false;
    return !op->is_ready || op->ctx->sticky || op->is_ready(op);
}

static bool is_voluntary(const struct sim_op *op)
{
    return op->step + sim_config.lag <= steps;
}

static void finish(struct sim_op *op, CUresult code)
{
    struct sim_queue *queue = op->queue;

    queue->head = op->next;
    if (!queue->head)
        queue->tail = NULL;
    queue->done = op->number;
    sim_stats.executed++;
    if (code && !op->ctx->sticky)
        op->ctx->sticky = code;
    sim_op_free(op);
    sim_wake();
}

/* Touches the byte as the operation would have, so that a debugger stands at the place. */
static void fault_here(uint64_t addr, bool write)
{
    volatile char *at = (volatile char *)(uintptr_t)addr;

    if (write)
        *at = 0;
    else
        (void)*at;
    raise(SIGSEGV); /* the host may, the device may not */
}

static bool range_is_touchable(const struct sim_range *range, uint64_t *ret_bad)
{
    if (range->rows > 0 && range->slices > 0
            && sim_ledger_may(range->device, range->side, range->addr, extent_of(range),
                    range->write, ret_bad))
        return true; /* as most: one look for thousands of rows */
    for (uint64_t z = 0; z < range->slices; z++)
        for (uint64_t y = 0; y < range->rows; y++)
            if (!sim_ledger_may(range->device, range->side,
                        range->addr + z * range->slice + y * range->pitch, range->size,
                        range->write, ret_bad))
                return false;
    return true;
}

static CUresult check_ranges(const struct sim_op *op)
{
    char text[160];
    uint64_t bad = 0;

    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];
        const struct sim_block *block = sim_ledger_find(range->addr);
        if (block && block->device >= 0 && block->device != range->device)
            sim_stats.peer_accesses++;
        if (range_is_touchable(range, &bad) || range->certainty == SIM_WORD)
            continue;
        sim_ledger_describe(bad, text, sizeof(text));
        sim_say("illegal address 0x%llx %s by %s (operation %llu, queue %u, device %d): %s",
                (unsigned long long)bad, range->write ? "written" : "read", op->name,
                (unsigned long long)op->order, op->queue->slot, range->device, text);
        sim_stats.faults++;
        if (sim_config.fault_segv)
            fault_here(bad, range->write);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

/* What was written through a multicast mapping is written in all its memory. */
static void spread(const struct sim_op *op)
{
    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];
        const struct sim_block *block = range->write ? sim_ledger_find(range->addr) : NULL;
        if (!block || !block->multicast)
            continue;
        for (uint64_t z = 0; z < range->slices; z++)
            for (uint64_t y = 0; y < range->rows; y++) {
                uint64_t row = range->addr + z * range->slice + y * range->pitch;
                sim_multicast_spread(block->multicast,
                        block->multicast_offset + (row - block->addr), row, range->size);
            }
    }
}

/* What readers may rely on from now on. */
static void note_contents(struct sim_op *op)
{
    if (op->note) {
        op->note(op);
        return;
    }
    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];

        for (uint64_t z = 0; range->write && z < range->slices; z++)
            for (uint64_t y = 0; y < range->rows; y++)
                sim_contents_write(range->addr + z * range->slice + y * range->pitch, range->size);
    }
}

/* ---- host functions run in helper threads ---- */

static struct sim_op *host_jobs[64]; /* waiting for a helper */
static unsigned host_jobs_count, helpers_idle;
static pthread_cond_t host_work = PTHREAD_COND_INITIALIZER;

static void *helper_main(void *unused)
{
    (void)unused;
    sim_self()->in_host_function = true;
    sim_lock();
    for (;;) {
        while (host_jobs_count == 0) {
            helpers_idle++;
            sim_sleep_on(&host_work);
            helpers_idle--;
        }
        struct sim_op *op = host_jobs[--host_jobs_count];
        sim_unlock();
        op->host(op);
        sim_lock();
        finish(op, CUDA_SUCCESS);
        sim_queue_exit();
    }
    return NULL;
}

/* Hands the operation to a helper; false if there is no thread to be had. */
static bool host_start(struct sim_op *op)
{
    pthread_attr_t attributes;
    pthread_t thread;

    if (host_jobs_count == sizeof(host_jobs) / sizeof(host_jobs[0]))
        return false;
    if (helpers_idle <= host_jobs_count) {
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        int r = pthread_create(&thread, &attributes, helper_main, NULL);
        pthread_attr_destroy(&attributes);
        if (r)
            return false;
    }
    host_jobs[host_jobs_count++] = op;
    sim_stats.host_functions++;
    pthread_cond_signal(&host_work);
    return true;
}

/* No thread to be had: the caller has to do it, and must not be waited for by it. */
static void host_run_here(struct sim_op *op)
{
    sim_stats.host_functions++;
    sim_self()->in_host_function = true;
    sim_unlock();
    op->host(op);
    sim_lock();
    sim_self()->in_host_function = false;
    finish(op, CUDA_SUCCESS);
}

/* Runs the first operation of a queue that is ready. */
static void run_first(struct sim_queue *queue, bool voluntary)
{
    struct sim_op *op = queue->head;
    uint64_t number = op->number;
    CUresult code = CUDA_SUCCESS;

    if (voluntary)
        sim_stats.voluntary++;
    if (op->ctx->sticky && !op->runs_when_broken) {
        finish(op, CUDA_SUCCESS);
        return;
    }
    op->running = true;
    if (op->host) {
        if (!host_start(op))
            host_run_here(op);
        for (unsigned ms = 0; queue->done < number && ms < HOST_PATIENCE; ms += 50)
            sim_sleep(50);
        return;
    }
    code = check_ranges(op);
    if (code == CUDA_SUCCESS) {
        sim_pages_use(op);
        code = op->run(op);
    }
    if (code == CUDA_SUCCESS) {
        note_contents(op);
        spread(op);
    }
    finish(op, code);
}

static bool run_random(void)
{
    struct sim_queue *ready[64];
    unsigned count = 0;

    for (unsigned i = 0; i < queues_count && count < 64; i++)
        if (is_ready(queues[i]) && is_voluntary(queues[i]->head))
            ready[count++] = queues[i];
    if (count == 0)
        return false;
    run_first(ready[sim_random() % count], true);
    return true;
}

/* Runs what ends by `until`, the earliest first. */
static void run_timed(uint64_t until)
{
    for (;;) {
        struct sim_queue *first = NULL;
        for (unsigned i = 0; i < queues_count; i++) {
            struct sim_queue *queue = queues[i];
            if (queue->head && queue->head->end_ns <= until && is_ready(queue)
                    && is_voluntary(queue->head)
                    && (!first || queue->head->end_ns < first->head->end_ns))
                first = queue;
        }
        if (!first)
            return;
        run_first(first, true);
    }
}

void sim_queue_entry(void)
{
    if (sim_config.schedule != SIM_SCHEDULE_RANDOM)
        return;
    uint64_t burst = sim_random() % (2 * RANDOM_BURST);
    if (burst > RANDOM_BURST)
        return; /* about every second call finds nothing done */
    while (burst-- > 0 && run_random())
        ;
}

void sim_queue_exit(void)
{
    bool ran = sim_config.schedule == SIM_SCHEDULE_EAGER;

    if (sim_config.schedule == SIM_SCHEDULE_TIMED)
        run_timed(sim_time_host());
    while (ran) {
        ran = false;
        for (unsigned i = 0; i < queues_count; i++) {
            while (is_ready(queues[i]) && is_voluntary(queues[i]->head)) {
                run_first(queues[i], true);
                ran = true;
            }
        }
    }
}

/*
 * A queue whose first operation is ready and is needed before `queue` can go on, or NULL. Sets *awaits_value if a value in
 * memory is: whoever writes it, nobody can tell.
 */
static struct sim_queue *find_needed(struct sim_queue *queue, bool *awaits_value)
{
    struct sim_op *op = queue->head;

    if (queue->visit == visit || !op || op->running)
        return NULL;
    queue->visit = visit;
    if (is_ready(queue))
        return queue;
    if (!is_behind_others(op))
        *awaits_value = true;
    for (unsigned i = 0; i < op->deps_count; i++) {
        if (op->deps[i].queue->done >= op->deps[i].number)
            continue;
        struct sim_queue *needed = find_needed(op->deps[i].queue, awaits_value);
        if (needed)
            return needed;
    }
    return NULL;
}

/* Any operation that is ready: another stream may write the value that one waits for, here or for another process. */
static bool run_other(void)
{
    for (unsigned i = 0; i < queues_count; i++)
        if (is_ready(queues[i])) {
            run_first(queues[i], false);
            return true;
        }
    return false;
}

void sim_queue_demand(struct sim_queue *queue, uint64_t number)
{
    sim_time_reach(sim_time_end_of(queue, number)); /* the host waits */
    if (sim_config.schedule == SIM_SCHEDULE_TIMED)
        run_timed(sim_time_host());
    while (queue->done < number) {
        if (sim_config.schedule == SIM_SCHEDULE_RANDOM && sim_random() % 2)
            (void)run_random();
        visit++;
        bool awaits_value = false;
        struct sim_queue *needed = queue->done < number ? find_needed(queue, &awaits_value) : NULL;
        if (needed)
            run_first(needed, false);
        else if (queue->done < number && !(awaits_value && run_other()))
            sim_sleep(awaits_value ? 1 : 5); /* a host function runs, or a value is to come */
    }
}

void sim_queue_demand_clock(const struct sim_clock *points)
{
    struct sim_clock wanted = {0}; /* a copy: the object may be gone when the lock comes back */

    sim_clock_merge(&wanted, points);
    for (unsigned i = 0; i < wanted.count; i++)
        sim_queue_demand(queues[i], wanted.at[i]);
    sim_clock_clear(&wanted);
}

void sim_queue_demand_context(struct CUctx_st *ctx)
{
    struct sim_clock points = {0};

    sim_queue_context_points(ctx, &points, NULL);
    sim_queue_demand_clock(&points);
    sim_clock_clear(&points);
}

bool sim_queue_go_on(struct sim_queue *queue, uint64_t number)
{
    sim_time_reach(sim_time_end_of(queue, number));
    if (sim_config.schedule == SIM_SCHEDULE_TIMED)
        run_timed(sim_time_host());
    while (queue->done < number) {
        visit++;
        bool awaits_value = false;
        struct sim_queue *needed = find_needed(queue, &awaits_value);
        if (!needed)
            return false;
        run_first(needed, true);
    }
    return true;
}

bool sim_queue_not_ready(const struct sim_clock *points, struct sim_asked *asked)
{
    const struct sim_thread *me = sim_self();
    struct sim_clock wanted = {0}; /* a copy: the object may be gone when the lock comes back */
    bool done;

    /* Other threads that wait for the same do not begin the count anew: they would stand for ever, in turns. */
    if (asked->thread == me->number && asked->calls != me->calls)
        asked->count = 0;
    asked->thread = me->number;
    asked->calls = me->calls;
    if (++asked->count < SPIN_QUERIES)
        return false;
    asked->count = 0;
    sim_clock_merge(&wanted, points);
    for (unsigned i = 0; i < wanted.count; i++)
        (void)sim_queue_go_on(queues[i], wanted.at[i]);
    done = sim_clock_is_done(&wanted);
    sim_clock_clear(&wanted);
    return done;
}

void sim_queue_each(void (*see)(struct sim_op *op, void *data), void *data)
{
    for (unsigned i = 0; i < queues_count; i++)
        for (struct sim_op *op = queues[i]->head; op; op = op->next)
            see(op, data);
}

void sim_queue_each_at(
        uint64_t addr, uint64_t size, void (*see)(struct sim_op *op, void *data), void *data)
{
    for (unsigned i = 0; i < queues_count; i++)
        for (uint64_t number = queues[i]->done + 1; number <= queues[i]->submitted; number++) {
            const struct sim_extent *extent = extent_at(queues[i], number);
            if (extent->addr < addr + size && extent->end > addr)
                see(extent->op, data);
        }
}

void sim_queue_context_points(
        struct CUctx_st *ctx, struct sim_clock *points, struct sim_clock *known)
{
    for (unsigned i = 0; i < queues_count; i++) {
        struct sim_queue *queue = queues[i];
        if (!sim_context_covers(ctx, queue->ctx) || (!queue->head && !sim_time_is_virtual()))
            continue;
        sim_clock_set(points, queue, queue->submitted);
        if (known)
            sim_clock_merge(known, &queue->clock);
    }
}

void sim_queue_stream_points(const struct sim_queue *queue, struct sim_clock *points)
{
    sim_clock_set(points, queue, queue->submitted);
    for (unsigned i = 0; queue->legacy && i < queues_count; i++)
        if (queues[i]->ctx == queue->ctx && queues[i]->blocking
                && (queues[i]->head || sim_time_is_virtual()))
            sim_clock_set(points, queues[i], queues[i]->submitted);
}

void sim_queue_next_clock(const struct sim_queue *queue, struct sim_clock *clock)
{
    sim_clock_merge(clock, &queue->clock);
    sim_clock_merge(clock, &queue->ctx->waits);
    for (unsigned i = 0; i < queues_count; i++) {
        const struct sim_queue *other = queues[i];
        if (other->ctx == queue->ctx
                && (queue->legacy ? other->blocking : queue->blocking && other->legacy))
            sim_clock_merge(clock, &other->clock);
    }
}

void sim_queue_step(void)
{
    steps++;
    sim_stats.steps++;
}

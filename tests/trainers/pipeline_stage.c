/* SPDX-License-Identifier: MIT */
#include "tests/trainers/pipeline.h"

#include <inttypes.h>
#include <nvtx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a stage has of a micro-batch. */
struct slot {
    void *input, *output;
    void *change;   /* the gradient of the output */
    void *gradient; /* of the input */
    cudaEvent_t output_sent, gradient_sent, done;
};

struct stage {
    const struct pipeline_options *options;
    const struct pipeline_links *links;
    int number;
    bool is_first, is_last;
    int step;
    cudaStream_t compute, down, up; /* receives are on the first, sends have one each */
    cudaEvent_t computed;
    struct slot *slots;
    char *base; /* begins with weights and grads */
    uint64_t base_bytes;
    uint64_t *sums; /* on the device */
    struct timespec delay;
    struct trainer_ledger *ledger;
    uint64_t free_at_start;
    uint64_t gradients;
    struct pipeline_row row;
};

static uint64_t bytes_of(const struct stage *s)
{
    return s->options->shape.bytes;
}

static void *weights_of(const struct stage *s)
{
    return s->base;
}

static void *grads_of(const struct stage *s)
{
    return s->base + bytes_of(s);
}

void pipeline_must(ncclResult_t result, const char *file, int line, const char *call)
{
    if (result == ncclSuccess)
        return;
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s:%d: %s: NCCL: %s (%d)\n", file, line, call,
            ncclGetErrorString(result), (int)result);
    exit(3);
}

/* ---- memory ---- */

static uint64_t device_free(void)
{
    size_t free_bytes, total;

    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static void book(struct stage *s, uint64_t bytes)
{
    uint64_t left = device_free();
    uint64_t reserved = left < s->free_at_start ? s->free_at_start - left : 0;

    trainer_ledger_alloc(s->ledger, bytes);
    if (s->row.reserved_peak < reserved)
        s->row.reserved_peak = reserved;
}

/* Says whose memory it was before the call's own line is printed. */
static void taken(struct stage *s, cudaError_t error, uint64_t bytes, int micro_batch,
        const char *file, int line, const char *call)
{
    if (error == cudaErrorMemoryAllocation)
        (void)fprintf(stderr,
                "pipeline: stage %d of %d is out of memory in micro-batch %d: %.2f MiB asked for, "
                "%.2f MiB live\n",
                s->number, s->options->shape.stages, micro_batch,
                (double)bytes / (double)PIPELINE_MIB,
                (double)s->ledger->live_bytes / (double)PIPELINE_MIB);
    trainer_must(error, file, line, call);
    book(s, bytes);
}

/* A macro, as in trainer.h: the line that asks for memory stays the innermost frame. */
#define STAGE_TAKE(s_, ret_ptr_, micro_batch_)                               \
    taken(s_,                                                                \
            (s_)->options->entrance == TRAINER_STREAM                        \
                    ? cudaMallocAsync(ret_ptr_, bytes_of(s_), (s_)->compute) \
                    : cudaMalloc(ret_ptr_, bytes_of(s_)),                    \
            bytes_of(s_), micro_batch_, __FILE__, __LINE__,                  \
            (s_)->options->entrance == TRAINER_STREAM ? "cudaMallocAsync" : "cudaMalloc")

TRAINER_FRAME static void alloc_input(struct stage *s, int i)
{
    STAGE_TAKE(s, &s->slots[i].input, i);
}

TRAINER_FRAME static void alloc_output(struct stage *s, int i)
{
    STAGE_TAKE(s, &s->slots[i].output, i);
}

TRAINER_FRAME static void alloc_change(struct stage *s, int i)
{
    STAGE_TAKE(s, &s->slots[i].change, i);
}

TRAINER_FRAME static void alloc_gradient(struct stage *s, int i)
{
    STAGE_TAKE(s, &s->slots[i].gradient, i);
    if (++s->gradients > s->row.gradients_most)
        s->row.gradients_most = s->gradients;
}

static void drop(struct stage *s, void **tensor)
{
    if (!*tensor)
        return;
    TRAINER_FREE(s->options->entrance, *tensor, s->compute);
    trainer_ledger_free(s->ledger, bytes_of(s));
    *tensor = NULL;
}

/* ---- messages ---- */

static void nap(void *data)
{
    (void)nanosleep(data, NULL);
}

/* On the compute stream, which a slow stage comes to late. */
static void receive(struct stage *s, void *tensor, ncclComm_t from, int peer)
{
    if (s->number == s->options->delay_stage)
        CUDA_OK(cudaLaunchHostFunc(s->compute, nap, &s->delay));
    PIPELINE_NCCL_OK(ncclRecv(tensor, bytes_of(s) / 4, ncclFloat32, peer, from, s->compute));
}

/* On a stream of its own, after what is computed so far. */
static void send_tensor(struct stage *s, const void *tensor, ncclComm_t to, int peer,
        cudaStream_t stream, cudaEvent_t sent)
{
    CUDA_OK(cudaEventRecord(s->computed, s->compute));
    CUDA_OK(cudaStreamWaitEvent(stream, s->computed, 0));
    PIPELINE_NCCL_OK(ncclSend(tensor, bytes_of(s) / 4, ncclFloat32, peer, to, stream));
    CUDA_OK(cudaEventRecord(sent, stream));
}

/* ---- computing ---- */

static void sum(struct stage *s, int i, enum pipeline_sum kind, const void *tensor)
{
    trainer_sum(&s->sums[PIPELINE_SLOT(i, kind)], tensor, bytes_of(s), s->compute);
}

static void forward(struct stage *s, int i)
{
    struct slot *slot = &s->slots[i];

    if (s->is_first)
        trainer_fill(slot->input, bytes_of(s), pipeline_seed_batch(&s->options->shape, s->step, i),
                s->compute);
    sum(s, i, PIPELINE_SUM_INPUT, slot->input);
    alloc_output(s, i);
    trainer_fill(slot->output, bytes_of(s), pipeline_seed_layer(s->number), s->compute);
    trainer_mix(slot->output, slot->input, bytes_of(s), s->compute);
    sum(s, i, PIPELINE_SUM_OUTPUT, slot->output);
}

static void backward(struct stage *s, int i)
{
    struct slot *slot = &s->slots[i];
    const void *change = s->is_last ? slot->output : slot->change;

    if (s->options->shape.recompute)
        sum(s, i, PIPELINE_SUM_RECOMPUTED, slot->output);
    if (!s->is_last)
        sum(s, i, PIPELINE_SUM_CHANGE, change);
    if (s->is_first) {
        trainer_mix(grads_of(s), change, bytes_of(s), s->compute);
        trainer_mix(grads_of(s), slot->input, bytes_of(s), s->compute);
        return;
    }
    alloc_gradient(s, i);
    trainer_fill(slot->gradient, bytes_of(s), pipeline_seed_back(s->number), s->compute);
    trainer_mix(slot->gradient, change, bytes_of(s), s->compute);
    trainer_mix(slot->gradient, slot->input, bytes_of(s), s->compute);
    sum(s, i, PIPELINE_SUM_GRADIENT, slot->gradient);
    trainer_mix(grads_of(s), slot->gradient, bytes_of(s), s->compute);
}

/* ---- the acts of the schedule ---- */

static void begin_range(enum schedule_range range)
{
    static const char *const names[] = {"forward", "backward", "update"};

    (void)nvtxRangePushA(names[range]);
}

/* The pointer stays with the early form, as the program's variable did: recomputing reads it. */
static void drop_output(struct stage *s, int i)
{
    void *output = s->slots[i].output;

    if (!s->is_last && !s->options->form.early_output)
        CUDA_OK(cudaStreamWaitEvent(s->compute, s->slots[i].output_sent, 0));
    drop(s, &output);
}

static void drop_gradient(struct stage *s, int i)
{
    CUDA_OK(cudaStreamWaitEvent(s->compute, s->slots[i].gradient_sent, 0));
    drop(s, &s->slots[i].gradient);
    s->gradients--;
}

static void act_forward(struct stage *s, const struct schedule_op *op)
{
    int i = op->micro_batch;

    if (op->act == SCHEDULE_TAKE_INPUT)
        alloc_input(s, i);
    else if (op->act == SCHEDULE_RECEIVE_INPUT)
        receive(s, s->slots[i].input, s->links->down_in, PIPELINE_LOWER);
    else if (op->act == SCHEDULE_FORWARD)
        forward(s, i);
    else if (op->act == SCHEDULE_SEND_OUTPUT)
        send_tensor(s, s->slots[i].output, s->links->down_out, PIPELINE_UPPER, s->down,
                s->slots[i].output_sent);
}

static void act_backward(struct stage *s, const struct schedule_op *op)
{
    int i = op->micro_batch;

    if (op->act == SCHEDULE_RECEIVE_CHANGE) {
        alloc_change(s, i);
        receive(s, s->slots[i].change, s->links->up_in, PIPELINE_UPPER);
    } else if (op->act == SCHEDULE_BACKWARD) {
        backward(s, i);
    } else if (op->act == SCHEDULE_SEND_GRADIENT) {
        send_tensor(s, s->slots[i].gradient, s->links->up_out, PIPELINE_LOWER, s->up,
                s->slots[i].gradient_sent);
    } else if (op->act == SCHEDULE_DROP_INPUT) {
        drop(s, &s->slots[i].input);
        drop(s, &s->slots[i].change);
    }
}

/* A device's queue is not endless: the host is at most so many backwards ahead. The neighbours never wait for that many. */
static void end_range(struct stage *s, const struct schedule_op *op)
{
    int ahead = 2 * s->options->shape.stages;

    (void)nvtxRangePop();
    if (op->range != SCHEDULE_IN_BACKWARD)
        return;
    CUDA_OK(cudaEventRecord(s->slots[op->micro_batch].done, s->compute));
    if (op->micro_batch >= ahead)
        CUDA_OK(cudaEventSynchronize(s->slots[op->micro_batch - ahead].done));
}

static void act(struct stage *s, const struct schedule_op *op)
{
    switch (op->act) {
    case SCHEDULE_BEGIN:
        begin_range(op->range);
        return;
    case SCHEDULE_END:
        end_range(s, op);
        return;
    case SCHEDULE_DROP_OUTPUT:
        drop_output(s, op->micro_batch);
        return;
    case SCHEDULE_DROP_GRADIENT:
        drop_gradient(s, op->micro_batch);
        return;
    case SCHEDULE_UPDATE:
        trainer_mix(weights_of(s), grads_of(s), bytes_of(s), s->compute);
        return;
    default:
        if (op->range == SCHEDULE_IN_FORWARD)
            act_forward(s, op);
        else
            act_backward(s, op);
    }
}

static void run_step(struct stage *s, const struct schedule *schedule)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "step/%d", s->step);
    (void)nvtxRangePushA(name);
    for (int i = 0; i < schedule->count; i++)
        act(s, &schedule->ops[i]);
    CUDA_OK(cudaStreamSynchronize(s->compute)); /* the loss is read */
    (void)nvtxRangePop();
}

/* ---- beginning and end ---- */

static void event_new(cudaEvent_t *ret_event)
{
    CUDA_OK(cudaEventCreateWithFlags(ret_event, cudaEventDisableTiming));
}

TRAINER_FRAME static void alloc_base(struct stage *s)
{
    cudaError_t error = cudaMalloc((void **)&s->base, s->base_bytes);

    taken(s, error, s->base_bytes, 0, __FILE__, __LINE__, "cudaMalloc");
}

static void set_up(struct stage *s)
{
    const struct pipeline_shape *shape = &s->options->shape;
    size_t sums_bytes = (size_t)PIPELINE_SLOTS(shape) * sizeof(*s->sums);

    s->free_at_start = device_free();
    alloc_base(s);
    CUDA_OK(cudaMalloc((void **)&s->sums, sums_bytes));
    CUDA_OK(cudaStreamCreateWithFlags(&s->compute, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&s->down, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&s->up, cudaStreamNonBlocking));
    event_new(&s->computed);
    s->slots = calloc((size_t)shape->micro_batches, sizeof(*s->slots));
    if (!s->slots)
        trainer_fail(1, "no memory");
    for (int i = 0; i < shape->micro_batches; i++) {
        event_new(&s->slots[i].output_sent);
        event_new(&s->slots[i].gradient_sent);
        event_new(&s->slots[i].done);
    }
    CUDA_OK(cudaMemsetAsync(s->sums, 0, sums_bytes, s->compute));
    trainer_fill(weights_of(s), shape->bytes, pipeline_seed_weights(s->number), s->compute);
    trainer_fill(grads_of(s), shape->bytes, pipeline_seed_grads(s->number), s->compute);
}

static void tear_down(struct stage *s)
{
    CUDA_OK(cudaFree(s->base));
    CUDA_OK(cudaFree(s->sums));
    for (int i = 0; i < s->options->shape.micro_batches; i++) {
        CUDA_OK(cudaEventDestroy(s->slots[i].output_sent));
        CUDA_OK(cudaEventDestroy(s->slots[i].gradient_sent));
        CUDA_OK(cudaEventDestroy(s->slots[i].done));
    }
    CUDA_OK(cudaEventDestroy(s->computed));
    CUDA_OK(cudaStreamDestroy(s->compute));
    CUDA_OK(cudaStreamDestroy(s->down));
    CUDA_OK(cudaStreamDestroy(s->up));
    free(s->slots);
}

static void run_steps(struct stage *s)
{
    const struct pipeline_shape *shape = &s->options->shape;
    struct schedule schedule;

    if (schedule_make(shape->stages, s->number, shape->micro_batches, s->options->form, &schedule)
            != 0)
        trainer_fail(1, "no memory");
    for (s->step = 0; s->step < shape->steps; s->step++)
        run_step(s, &schedule);
    schedule_free(&schedule);
    trainer_sum(&s->sums[PIPELINE_SLOT_WEIGHTS(shape)], weights_of(s), shape->bytes, s->compute);
    CUDA_OK(cudaDeviceSynchronize());
}

static void compare(struct stage *s)
{
    const struct pipeline_shape *shape = &s->options->shape;
    size_t count = (size_t)PIPELINE_SLOTS(shape);
    uint64_t *sums = calloc(count, sizeof(*sums));
    uint64_t *expected = calloc(count, sizeof(*sums));

    if (!sums || !expected || pipeline_model_sums(shape, s->number, expected) != 0)
        trainer_fail(1, "no memory");
    CUDA_OK(cudaMemcpy(sums, s->sums, count * sizeof(*sums), cudaMemcpyDeviceToHost));
    s->row.is_right = trainer_compare(sums, expected, (int)count);
    s->row.checksum = trainer_checksum(sums, (int)count);
    free(sums);
    free(expected);
}

/* What #34230 measured on cards 0, 1 and 7 of 8; between them on a line, as activations of 1F1B are. */
static uint64_t card_bytes(int stage, int stages)
{
    enum {
        FIRST_MIB = 24402,
        SECOND_MIB = 21376,
        LAST_MIB = 7830,
    };
    int steps = stages - 2;

    if (stage == 0)
        return FIRST_MIB * PIPELINE_MIB;
    if (steps == 0)
        return LAST_MIB * PIPELINE_MIB;
    return (uint64_t)(SECOND_MIB - (SECOND_MIB - LAST_MIB) * (stage - 1) / steps) * PIPELINE_MIB;
}

struct pipeline_row pipeline_stage_run(
        const struct pipeline_options *options, int stage, const struct pipeline_links *links)
{
    struct stage s = {
            .options = options,
            .links = links,
            .number = stage,
            .is_first = stage == 0,
            .is_last = stage == options->shape.stages - 1,
            .delay = {options->delay_ms / 1000, (long)(options->delay_ms % 1000) * 1000000},
            .ledger = trainer_ledger_open(NULL),
    };

    s.base_bytes =
            options->base_bytes ? options->base_bytes : card_bytes(stage, options->shape.stages);
    set_up(&s);
    run_steps(&s);
    s.row.live_peak = s.ledger->peak_bytes;
    compare(&s);
    tear_down(&s);
    trainer_ledger_close(s.ledger);
    return s.row;
}

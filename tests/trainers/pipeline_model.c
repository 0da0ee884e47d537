/* SPDX-License-Identifier: MIT */
#include "tests/trainers/pipeline_model.h"

#include "tests/trainers/kernels_host.h"
#include "tests/trainers/sample.h"

#include <errno.h>
#include <string.h>

/* ---- seeds ---- */

enum {
    SEED_LAYER = 0x10000000,
    SEED_BACK = 0x20000000,
    SEED_WEIGHTS = 0x30000000,
    SEED_GRADS = 0x40000000,
};

uint32_t pipeline_seed_batch(const struct pipeline_shape *shape, int step, int micro_batch)
{
    return (uint32_t)(step * shape->micro_batches + micro_batch + 1);
}

uint32_t pipeline_seed_layer(int stage)
{
    return (uint32_t)(SEED_LAYER + stage);
}

uint32_t pipeline_seed_back(int stage)
{
    return (uint32_t)(SEED_BACK + stage);
}

uint32_t pipeline_seed_weights(int stage)
{
    return (uint32_t)(SEED_WEIGHTS + stage);
}

uint32_t pipeline_seed_grads(int stage)
{
    return (uint32_t)(SEED_GRADS + stage);
}

/* ---- a * batch + c ---- */

struct line {
    uint32_t a;
    uint32_t *c;
};

static void line_fill(struct line *l, uint64_t bytes, uint32_t seed)
{
    l->a = 0;
    host_fill(l->c, bytes, seed);
}

/* What mix multiplies by. */
static uint32_t factor(void)
{
    uint32_t one = 1, none = 0;
    const uint32_t zero = 0;

    host_mix(&one, &zero, sizeof(one));
    host_mix(&none, &zero, sizeof(none));
    return one - none;
}

static void line_mix(struct line *dst, const struct line *src, uint64_t bytes)
{
    dst->a = dst->a * factor() + src->a;
    host_mix(dst->c, src->c, bytes);
}

/* The batch is 1 * batch + 0. */
static void line_batch(struct line *l, uint64_t bytes)
{
    l->a = 1;
    for (uint64_t i = 0; i < sample_items(bytes); i++) {
        uint64_t w = sample_word(bytes, i);

        if (w != SAMPLE_NONE)
            l->c[w] = 0;
    }
}

static void line_copy(struct line *dst, const struct line *src, uint64_t bytes)
{
    dst->a = src->a;
    for (uint64_t i = 0; i < sample_items(bytes); i++) {
        uint64_t w = sample_word(bytes, i);

        if (w != SAMPLE_NONE)
            dst->c[w] = src->c[w];
    }
}

/* The tensor itself, of one batch; its sum. */
static uint64_t line_tensor(
        const struct line *l, const uint32_t *batch, uint64_t bytes, uint32_t *ret_tensor)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < sample_items(bytes); i++) {
        uint64_t w = sample_word(bytes, i);

        if (w == SAMPLE_NONE)
            continue;
        ret_tensor[w] = l->a * batch[w] + l->c[w];
        sum += (uint64_t)ret_tensor[w] * (w + 1);
    }
    return sum;
}

/* ---- a stage ---- */

struct model {
    const struct pipeline_shape *shape;
    int stage;
    struct line input, output, change, gradient;
    uint32_t *batch, *tensor, *grads, *weights;
};

/* input and output of `stage` from those of stage 0. */
static void forward_to(struct model *m, int stage)
{
    uint64_t bytes = m->shape->bytes;

    line_batch(&m->input, bytes);
    for (int s = 0;; s++) {
        line_fill(&m->output, bytes, pipeline_seed_layer(s));
        line_mix(&m->output, &m->input, bytes);
        if (s == stage)
            return;
        line_copy(&m->input, &m->output, bytes);
    }
}

/* gradient of `stage` from its change and input. */
static void backward_of(struct model *m, int stage)
{
    uint64_t bytes = m->shape->bytes;

    line_fill(&m->gradient, bytes, pipeline_seed_back(stage));
    line_mix(&m->gradient, &m->change, bytes);
    line_mix(&m->gradient, &m->input, bytes);
}

static void make_lines(struct model *m)
{
    uint64_t bytes = m->shape->bytes;

    for (int s = m->shape->stages - 1; s >= m->stage; s--) {
        forward_to(m, s);
        line_copy(&m->change, s == m->shape->stages - 1 ? &m->output : &m->gradient, bytes);
        backward_of(m, s);
    }
}

static void add_sum(struct model *m, uint64_t *sum, const struct line *l)
{
    *sum += line_tensor(l, m->batch, m->shape->bytes, m->tensor);
}

static void micro_batch_forward(struct model *m, uint64_t *slots)
{
    uint64_t output = 0;

    add_sum(m, &slots[PIPELINE_SUM_INPUT], &m->input);
    add_sum(m, &output, &m->output);
    slots[PIPELINE_SUM_OUTPUT] += output;
    if (m->shape->recompute)
        slots[PIPELINE_SUM_RECOMPUTED] += output;
}

static void micro_batch_backward(struct model *m, uint64_t *slots)
{
    uint64_t bytes = m->shape->bytes, none = 0;

    if (m->stage < m->shape->stages - 1)
        add_sum(m, &slots[PIPELINE_SUM_CHANGE], &m->change);
    if (m->stage > 0) {
        add_sum(m, &slots[PIPELINE_SUM_GRADIENT], &m->gradient);
        host_mix(m->grads, m->tensor, bytes);
        return;
    }
    host_mix(m->grads, m->tensor, bytes); /* the change */
    add_sum(m, &none, &m->input);
    host_mix(m->grads, m->tensor, bytes);
}

static void run(struct model *m, uint64_t *sums)
{
    uint64_t bytes = m->shape->bytes;

    make_lines(m);
    host_fill(m->weights, bytes, pipeline_seed_weights(m->stage));
    host_fill(m->grads, bytes, pipeline_seed_grads(m->stage));
    for (int step = 0; step < m->shape->steps; step++) {
        for (int i = 0; i < m->shape->micro_batches; i++) {
            uint64_t *slots = &sums[PIPELINE_SLOT(i, 0)];

            host_fill(m->batch, bytes, pipeline_seed_batch(m->shape, step, i));
            micro_batch_forward(m, slots);
            micro_batch_backward(m, slots);
        }
        host_mix(m->weights, m->grads, bytes);
    }
    host_sum(&sums[PIPELINE_SLOT_WEIGHTS(m->shape)], m->weights, bytes);
}

int pipeline_model_sums(const struct pipeline_shape *shape, int stage, uint64_t *ret_sums)
{
    struct model m = {.shape = shape, .stage = stage};
    uint32_t **tensors[] = {&m.input.c, &m.output.c, &m.change.c, &m.gradient.c, &m.batch,
            &m.tensor, &m.grads, &m.weights};
    size_t count = sizeof(tensors) / sizeof(tensors[0]);
    int r = 0;

    for (size_t i = 0; i < count; i++) {
        *tensors[i] = host_tensor_new(shape->bytes);
        if (!*tensors[i])
            r = -ENOMEM;
    }
    memset(ret_sums, 0, (size_t)PIPELINE_SLOTS(shape) * sizeof(*ret_sums));
    if (r == 0)
        run(&m, ret_sums);
    for (size_t i = 0; i < count; i++)
        host_tensor_free(*tensors[i], shape->bytes);
    return r;
}

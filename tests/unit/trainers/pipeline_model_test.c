/* SPDX-License-Identifier: MIT */
/* The sums that a stage of `pipeline` expects, against the whole pipeline computed tensor by tensor. */
#include "tests/check.h"
#include "tests/trainers/kernels_host.h"
#include "tests/trainers/pipeline_model.h"

enum {
    STAGES = 4,
    MICRO_BATCHES = 5,
    STEPS = 2,
    WORDS = 1024,
    SLOTS = MICRO_BATCHES * PIPELINE_SUM_KINDS + 1,
};

#define BYTES ((uint64_t)WORDS * 4)

struct plain {
    uint32_t input[STAGES][WORDS], output[STAGES][WORDS], gradient[STAGES][WORDS];
    uint32_t grads[STAGES][WORDS], weights[STAGES][WORDS];
    uint64_t sums[STAGES][SLOTS];
};

static void sum(
        struct plain *p, int stage, int micro_batch, enum pipeline_sum kind, const uint32_t *tensor)
{
    host_sum(&p->sums[stage][PIPELINE_SLOT(micro_batch, kind)], tensor, BYTES);
}

static void forward(struct plain *p, int stage, int i, bool recompute)
{
    host_fill(p->output[stage], BYTES, pipeline_seed_layer(stage));
    host_mix(p->output[stage], p->input[stage], BYTES);
    sum(p, stage, i, PIPELINE_SUM_INPUT, p->input[stage]);
    sum(p, stage, i, PIPELINE_SUM_OUTPUT, p->output[stage]);
    if (recompute)
        sum(p, stage, i, PIPELINE_SUM_RECOMPUTED, p->output[stage]);
    if (stage < STAGES - 1)
        memcpy(p->input[stage + 1], p->output[stage], BYTES);
}

static void backward(struct plain *p, int stage, int i)
{
    const uint32_t *change = stage == STAGES - 1 ? p->output[stage] : p->gradient[stage + 1];

    if (stage < STAGES - 1)
        sum(p, stage, i, PIPELINE_SUM_CHANGE, change);
    if (stage == 0) {
        host_mix(p->grads[0], change, BYTES);
        host_mix(p->grads[0], p->input[0], BYTES);
        return;
    }
    host_fill(p->gradient[stage], BYTES, pipeline_seed_back(stage));
    host_mix(p->gradient[stage], change, BYTES);
    host_mix(p->gradient[stage], p->input[stage], BYTES);
    sum(p, stage, i, PIPELINE_SUM_GRADIENT, p->gradient[stage]);
    host_mix(p->grads[stage], p->gradient[stage], BYTES);
}

static void run(struct plain *p, const struct pipeline_shape *shape)
{
    for (int s = 0; s < STAGES; s++) {
        host_fill(p->weights[s], BYTES, pipeline_seed_weights(s));
        host_fill(p->grads[s], BYTES, pipeline_seed_grads(s));
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < MICRO_BATCHES; i++) {
            host_fill(p->input[0], BYTES, pipeline_seed_batch(shape, step, i));
            for (int s = 0; s < STAGES; s++)
                forward(p, s, i, shape->recompute);
            for (int s = STAGES; s-- > 0;)
                backward(p, s, i);
        }
        for (int s = 0; s < STAGES; s++)
            host_mix(p->weights[s], p->grads[s], BYTES);
    }
    for (int s = 0; s < STAGES; s++)
        host_sum(&p->sums[s][PIPELINE_SLOT_WEIGHTS(shape)], p->weights[s], BYTES);
}

static void compare(bool recompute)
{
    struct pipeline_shape shape = {STAGES, MICRO_BATCHES, STEPS, BYTES, recompute};
    struct plain *p = calloc(1, sizeof(*p));
    uint64_t sums[SLOTS];

    REQUIRE(p != NULL);
    REQUIRE(PIPELINE_SLOTS(&shape) == SLOTS);
    run(p, &shape);
    for (int s = 0; s < STAGES; s++) {
        REQUIRE(pipeline_model_sums(&shape, s, sums) == 0);
        for (int i = 0; i < SLOTS; i++)
            CHECK_EQ(sums[i], p->sums[s][i]);
    }
    free(p);
}

TEST(every_sum_of_every_stage_is_that_of_the_whole_pipeline)
{
    compare(false);
    compare(true);
}

TEST(micro_batches_and_stages_differ)
{
    struct pipeline_shape shape = {STAGES, MICRO_BATCHES, 1, BYTES, false};
    uint64_t one[SLOTS], two[SLOTS];

    REQUIRE(pipeline_model_sums(&shape, 1, one) == 0);
    REQUIRE(pipeline_model_sums(&shape, 2, two) == 0);
    for (int k = 0; k < PIPELINE_SUM_KINDS; k++)
        if (k != PIPELINE_SUM_RECOMPUTED) {
            CHECK(one[PIPELINE_SLOT(0, k)] != one[PIPELINE_SLOT(1, k)]);
            CHECK(one[PIPELINE_SLOT(0, k)] != two[PIPELINE_SLOT(0, k)]);
        }
    /* What the next stage receives is what this one sends, and the other way round. */
    CHECK_EQ(one[PIPELINE_SLOT(3, PIPELINE_SUM_OUTPUT)], two[PIPELINE_SLOT(3, PIPELINE_SUM_INPUT)]);
    CHECK_EQ(two[PIPELINE_SLOT(3, PIPELINE_SUM_GRADIENT)],
            one[PIPELINE_SLOT(3, PIPELINE_SUM_CHANGE)]);
}

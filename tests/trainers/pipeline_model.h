/* SPDX-License-Identifier: MIT */
/*
 * pipeline_model.h - what the stages of `pipeline` compute, and each stage's sums as they must be.
 *
 *     forward     output = mix(fill(layer), input)               the next stage's input
 *     backward    gradient = mix(mix(fill(back), change), input)     the change of the stage before
 *                 grads = mix(grads, gradient)
 *     update      weights = mix(weights, grads)
 *
 * The change of the last stage is its own output; stage 0 has no gradient and mixes change and input into its grads. The input
 * of stage 0 is the batch, fill(seed of the micro-batch).
 *
 * mix is linear, so every tensor of a step is a * batch + c with one number a and a tensor c that no micro-batch changes. A stage
 * therefore knows without its neighbours what it must receive, whichever stage computed it.
 *
 * Pure: host memory, no device. One thread.
 */
#ifndef KEDGE_TRAINERS_PIPELINE_MODEL_H
#define KEDGE_TRAINERS_PIPELINE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct pipeline_shape {
    int stages, micro_batches, steps;
    uint64_t bytes; /* of each tensor; a multiple of 4 */
    bool recompute; /* outputs are read again in the backward */
};

/* What is summed of each micro-batch, over all steps; those that a stage does not have are 0. */
enum pipeline_sum {
    PIPELINE_SUM_INPUT,
    PIPELINE_SUM_OUTPUT,
    PIPELINE_SUM_RECOMPUTED,
    PIPELINE_SUM_CHANGE,
    PIPELINE_SUM_GRADIENT,
    PIPELINE_SUM_KINDS
};

#define PIPELINE_SLOT(micro_batch_, kind_) ((micro_batch_)*PIPELINE_SUM_KINDS + (int)(kind_))
/* Of the weights, at the end. */
#define PIPELINE_SLOT_WEIGHTS(shape_) ((shape_)->micro_batches * PIPELINE_SUM_KINDS)
#define PIPELINE_SLOTS(shape_)        (PIPELINE_SLOT_WEIGHTS(shape_) + 1)

/* Seeds of what is filled. */
uint32_t pipeline_seed_batch(const struct pipeline_shape *shape, int step, int micro_batch);
uint32_t pipeline_seed_layer(int stage);
uint32_t pipeline_seed_back(int stage);
uint32_t pipeline_seed_weights(int stage);
uint32_t pipeline_seed_grads(int stage);

/* Fills sums[PIPELINE_SLOTS] as that stage must have them. 0 or -ENOMEM. */
int pipeline_model_sums(const struct pipeline_shape *shape, int stage, uint64_t *ret_sums);

#endif

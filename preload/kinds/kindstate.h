/* SPDX-License-Identifier: MIT */
/*
 * kindstate.h - what an optimizer keeps: its parameters, and tensors for each of them.
 *
 *     PyTorch       param_groups; state: {parameter: {"exp_avg": tensor}} ─► "exp_avg of NAME"
 *     PaddlePaddle  _param_groups; _accumulators: {"moment1": {own name: tensor}},
 *                   _master_weights: {own name: tensor} ─► "moment1 of NAME", "master_weights of NAME"
 *
 * NAME is the parameter's dotted name in its module, which has to be noted before (kindnote.h).
 *
 * Threads: those that hold the GIL of the main interpreter, between tensors_begin and tensors_end
 * unless it says otherwise. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_KINDSTATE_H
#define KEDGE_PRELOAD_KINDSTATE_H

#include <stdbool.h>
#include <stdint.h>

struct pyhost_object;

/* Notes its state, and the parameters that no module has. */
void kindstate_all(struct pyhost_object *optimizer);

/* Notes its parameters that have names since the last look at everything, with their gradients. */
void kindstate_parameters(struct pyhost_object *optimizer);

/* Whether it has a list of parameters. Also outside of a look. */
bool kindstate_has_parameters(struct pyhost_object *optimizer);

/* Entries of its state; 0 also if it wraps the optimizer that has it. Also outside of a look. */
uint64_t kindstate_count(struct pyhost_object *optimizer);

#endif

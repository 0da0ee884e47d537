/* SPDX-License-Identifier: MIT */
/*
 * kindwalk.h - a look at what a framework's objects keep in device memory, by kind and name.
 *
 *     modules     _parameters, their gradients, _buffers; by the dotted names of named_parameters
 *     optimizers  parameters that are no module's, and their state (kindstate.h)
 *     inputs      tensors among the arguments of a call of an outermost module
 *
 * Modules are looked at from roots on (kindroots.h). No reference to an object is kept.
 *
 * Storages and names are written by kindnote.h, a name once for each block (capture_data). Scripted modules, whose members are in C, and
 * sparse tensors are not looked at.
 *
 * Threads: those that hold the GIL of the main interpreter. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_KINDWALK_H
#define KEDGE_PRELOAD_KINDWALK_H

#include <stdbool.h>
#include <stdint.h>

struct pyhost_object;

/*
 * Looks at all roots. `reads_gradients` false: a backward pass may be running, so they are left out.
 */
void kindwalk_look(bool reads_gradients);

/*
 * Looks at one optimizer that the last look has met: at its parameters, by the names that they had
 * then, their gradients, and its state. False: nothing is known of it, so a look is due.
 */
bool kindwalk_step(struct pyhost_object *optimizer, bool reads_gradients);

/* Records the tensors among the arguments of a call of `args[0]`, as of a vectorcall. */
void kindwalk_inputs(
        struct pyhost_object *const *args, uint64_t count, struct pyhost_object *names);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * graphkernels.h - the names of the kernels that a launch of a graph's instance launches, where somebody asks for names
 * (kernelnames_are_wanted); else nothing here does anything.
 *
 *     instantiated ─► nodes, and those of child graphs ─► names ─┐
 *     updated ──────► names, by place in the graph ──────────────┼─► per instance ─► launched: one name after the other
 *     a node set, switched on or off ────────────────────────────┘
 *
 * The driver is asked when an instance is made or changed, and not when it is launched. The order is that in which the driver
 * lists the nodes; what is inside of a child comes in its place. A kernel that the driver has no name for, and what is in the body of a
 * conditional node (how often it runs is known to the device alone), are no events: one line says so, once for each of the two.
 * Threads: any, inside life_enter but for graphkernels_names. A lock inside, none across a driver call. Memory: meta.h;
 * without any, kernels are missing, and one line says so.
 */
#ifndef KEDGE_PRELOAD_GRAPHKERNELS_H
#define KEDGE_PRELOAD_GRAPHKERNELS_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* After an instance was made of a graph, was updated from one, is gone. */
void graphkernels_made(CUgraphExec exec, CUgraph graph);
void graphkernels_updated(CUgraphExec exec, CUgraph graph);
void graphkernels_gone(CUgraphExec exec);

/* As graphmem_move. */
void graphkernels_move(CUgraphExec from, CUgraphExec to);

/* After a node of an instance was given another kernel (NULL: not one), another graph, or was switched. */
void graphkernels_set(CUgraphExec exec, CUgraphNode handle, CUfunction function);
void graphkernels_set_child(CUgraphExec exec, CUgraphNode handle, CUgraph child);
void graphkernels_switched(CUgraphExec exec, CUgraphNode handle, bool is_on);

/* String numbers of up to `max` names, after the first `skip`; how many there were. */
size_t graphkernels_names(CUgraphExec exec, size_t skip, uint32_t *ret_names, size_t max);

#endif

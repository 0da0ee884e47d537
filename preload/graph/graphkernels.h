/* SPDX-License-Identifier: MIT */
/*
 * graphkernels.h - the names of the kernels in an instance of a graph, if names are wanted
 * (kernelnames_are_wanted); else the functions do nothing.
 *
 *     instantiated ─► nodes, and those of children ─► names ─┐
 *     updated ──────► names, by place in the graph ──────────┼─► per instance ─► launch: names
 *     a node set, switched on or off ────────────────────────┘   one by one
 *
 * The driver is asked when an instance is made or changed, and not when it is launched. Nodes are
 * in the order in which the driver lists them; the content of a child is at the child's place.
 * Kernels without a name, and kernels in the body of a conditional node (only the device knows how
 * often it runs), are no events: one line says so, once for each of the two.
 * Threads: any, inside life_enter but for graphkernels_names. A lock inside, none across a driver
 * call. Memory: meta.h; without any, kernels are missing, and one line says so.
 */
#ifndef KEDGE_PRELOAD_GRAPHKERNELS_H
#define KEDGE_PRELOAD_GRAPHKERNELS_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* After an instance was made of a graph. Below: it was updated from a graph; it has ended. */
void graphkernels_made(CUgraphExec exec, CUgraph graph);
void graphkernels_updated(CUgraphExec exec, CUgraph graph);
void graphkernels_gone(CUgraphExec exec);

/* As graphmem_move. */
void graphkernels_move(CUgraphExec from, CUgraphExec to);

/*
 * After a node of an instance got another kernel (NULL: it is none) or another graph, or was
 * switched on or off.
 */
void graphkernels_set(CUgraphExec exec, CUgraphNode handle, CUfunction function);
void graphkernels_set_child(CUgraphExec exec, CUgraphNode handle, CUgraph child);
void graphkernels_switched(CUgraphExec exec, CUgraphNode handle, bool is_on);

/* String numbers of up to `max` names, after the first `skip`; returns their number. */
size_t graphkernels_names(CUgraphExec exec, size_t skip, uint32_t *ret_names, size_t max);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * hand.h - the second half of the trainer `graphs`: graphs made node by node, and changed while they are in use.
 *
 * A library that keeps its graphs over many steps does this with the driver's interface: it adds kernel, copy, set, child
 * and memory nodes, instantiates, launches, gives single nodes of an instance other tensors, replaces all of them by an
 * update, and frees what no node names any more. The graph that it began with stays, and goes on naming tensors that were
 * freed, without being launched again. What it begins with is allocated in the range "BY_HAND".
 */
#ifndef KEDGE_TRAINERS_HAND_H
#define KEDGE_TRAINERS_HAND_H

#include "tests/trainers/twin.h"

/* Launches `rounds` times on `stream`, with memory coming and going on `side`, and sums into `slot`. */
void hand_run(enum trainer_entrance entrance, cudaStream_t stream, cudaStream_t side,
        const struct twin_sums *sums, int slot, uint32_t rounds);

#endif

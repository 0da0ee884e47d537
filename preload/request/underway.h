/* SPDX-License-Identifier: MIT */
/*
 * underway.h - blocks that calls of NCCL are about, until the work of those calls was given to the device (R66).
 *
 *     single call                    ─► underway_over, when it has returned
 *     calls of a group               ─► underway_over, when the outermost group has ended
 *     either of them, ncclInProgress ─► underway_park ─► underway_given, when the communicator says that it was given
 *
 * Such a block keeps its storage: what hints release or let go waits, and what may be out (evict_in.h) is in and stays in.
 *
 * A communicator that does not block gives its work to the device later, from a thread of its own, and its state is ncclSuccess from then
 * on (NCCL user guide, group calls; nccl.h). What a communicator never says it of keeps its storage to the end, which is told then.
 *
 * Threads: a struct underway is one thread's; what is parked is of all. Outside of kedge, but for underway_collect and underway_bring.
 * Driver: underway_over and underway_given may let a release go on.
 */
#ifndef KEDGE_PRELOAD_UNDERWAY_H
#define KEDGE_PRELOAD_UNDERWAY_H

#include "alloc/base/types.h"
#include "preload/hints/evict_in.h"

#include <stdbool.h>
#include <stdint.h>

struct underway_entry;

/* Of a group, or of the one call that runs. */
struct underway {
    struct underway_entry *first;
    const void *comm; /* of the call that runs */
    unsigned groups;  /* begun and not ended */
    bool reads;       /* a section, in place of what there was no memory to note */
};

/* Inside the reader section of the call that names the block at ptr, or (`is_named` false) releases it or lets it go. */
void underway_collect(struct underway *underway, devptr_t ptr, bool is_named);

/* All that the call names is known: it comes in, and stays in beyond submit_end. False: the call must not be made. */
bool underway_bring(struct underway *underway, struct evict_in *bring);

/* The calls were given to the device, or are not made; or will be given later. */
void underway_over(struct underway *underway);
void underway_park(struct underway *underway);

/* Around a question whether all calls of the communicator were given to the device: what was parked before it; and the answer was yes. */
uint64_t underway_parked(void);
void underway_given(const void *comm, uint64_t number);

/* At the end of the process: one line, and a record for each block whose release has waited in vain (as refused). Inside kedge. */
void underway_end(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * underway.h - blocks named by NCCL calls, until the work of those calls is given to the device
 * (R66, reader sections).
 *
 *     single call                    ─► underway_over, when it has returned
 *     calls of a group               ─► underway_over, when the outermost group has ended
 *     either of them, ncclInProgress ─► underway_park ─► underway_given, when the communicator
 *                                                       reports it
 *
 * Such a block keeps its storage: a release by a hint waits, and storage that may be evicted
 * (evict_in.h) is in and stays in.
 *
 * A communicator that does not block gives its work to the device later, from a thread of its own,
 * and its state is ncclSuccess from then on (NCCL user guide, group calls; nccl.h). If a
 * communicator never reports ncclSuccess, its blocks keep their storage until the end of the
 * process, where one line reports them.
 *
 * Threads: a struct underway belongs to one thread; all threads share parked entries. Outside of
 * kedge, except underway_collect and underway_bring. Driver: underway_over and underway_given may
 * let a release continue.
 */
#ifndef KEDGE_PRELOAD_UNDERWAY_H
#define KEDGE_PRELOAD_UNDERWAY_H

#include "alloc/base/types.h"
#include "preload/hints/evict_in.h"

#include <stdbool.h>
#include <stdint.h>

struct underway_entry;

/* Blocks of a group, or of the one call that runs. */
struct underway {
    struct underway_entry *first;
    const void *comm; /* of the call that runs */
    unsigned groups;  /* begun and not ended */
    bool reads;       /* holds a section open where memory for an entry ran out */
};

/*
 * Inside the reader section of a call: adds the block at ptr that the call names, or (`is_named`
 * false) that it releases or no longer holds.
 */
void underway_collect(struct underway *underway, devptr_t ptr, bool is_named);

/*
 * All blocks that the call names are added: brings them in and keeps them in beyond submit_end.
 * False: the call must not be made.
 */
bool underway_bring(struct underway *underway, struct evict_in *bring);

/*
 * underway_over: the calls were given to the device, or are not made. underway_park: they will be
 * given later.
 */
void underway_over(struct underway *underway);
void underway_park(struct underway *underway);

/*
 * Around a query whether all calls of the communicator were given to the device: underway_parked
 * before it returns the last number parked; underway_given after it, if the answer was yes.
 */
uint64_t underway_parked(void);
void underway_given(const void *comm, uint64_t number);

/*
 * At the end of the process: prints one line, and records as refused each block whose release still
 * waits. Inside kedge.
 */
void underway_end(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_patience.h - a host that waits for one of its own functions, and makes no call meanwhile.
 *
 *     stream:  kernel ─► copy ─► host function          host:  waits until the function has run
 *
 * A device runs its streams by itself. This one runs them when the host calls (sim_queue.h), and under a late schedule
 * it would never run what such a host waits for; XLA is one. With SIMCUDA_PATIENCE=ms a thread of the device runs a host
 * function that has been queued for so long, and what it needs before it, whether or not anybody calls. Real time says
 * then when that happens, but the order stays one that CUDA allows; all other work is as late as before.
 *
 * It is off where nothing is said: a run is to be the same each time, and what a test finds undone must stay undone.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_PATIENCE_H
#define KEDGE_TESTS_SIM_SIM_PATIENCE_H

/* A host function was submitted. */
void sim_patience_watch(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_time.h - virtual time: engines that take time for bytes, and a host whose calls cost something.
 *
 *     host     ──call──call──────────────call── waits ──►      SIMCUDA_COSTS, and what it waited for
 *     in       ──────[copy to the device ]                     SIMCUDA_BANDWIDTH, one engine each way
 *     out      ───────────────────[copy to the host ]
 *     compute  ────────────[kernel][set, copy on the device]   SIMCUDA_COMPUTE
 *
 * Nobody sleeps. When an operation is submitted, it is known when it will begin: not before the host
 * was there, the operation before it on its stream and what it depends on are finished, and its engine
 * is free; engines take operations in the order of submission, and time for the bytes that they touch.
 * cuEventElapsedTime is the difference of such ends. Under SIMCUDA_SCHED=timed operations also *run* in
 * the order of their ends, once the host's clock has passed them.
 *
 * Without bandwidth, compute or that schedule there is no virtual time but the host's, and events take
 * the real clock. Threads: under the lock; the host is one clock for all threads.
 */
#ifndef KEDGE_TESTS_SIM_SIM_TIME_H
#define KEDGE_TESTS_SIM_SIM_TIME_H

#include "tests/sim/stream/sim_queue.h"

/* Whether operations take virtual time. */
bool sim_time_is_virtual(void);

/* The host's clock, in ns; a call that cost something; the host has waited until `ns`. */
uint64_t sim_time_host(void);
void sim_time_charge(uint64_t ns);
void sim_time_reach(uint64_t ns);

/* Says when the operation, which has just got its number, begins and ends. */
void sim_time_plan(struct sim_op *op);

/* The end of an operation, done or not; 0 if it is long past. */
uint64_t sim_time_end_of(const struct sim_queue *queue, uint64_t number);

/* The time of now for an event: virtual if there is virtual time. */
uint64_t sim_time_now(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_oracle.h - the oracle of premature reuse.
 *
 * A witness above kedge reports which bytes belong to which tenant of the program (simcuda.h).
 * Each birth is a new generation of its bytes, and a death counts as one. An operation takes down,
 * when it is submitted, the generation that it was meant for. When bytes are born again, every operation on them that was
 * meant for an earlier generation must be
 *
 *     done, or                                          (birth without a stream: nothing else helps)
 *     ordered before what the new tenant's stream does next   (stream rules and events, by clock)
 *
 * and if one is not, whoever gave the block out gave it out too early, in this and in every other
 * schedule of the same program. Then both sides are printed and the process ends with status 86.
 * What counts is storage: bytes that are mapped at several addresses are born at all of them, so operations on a tenant at one
 * address are judged by a birth at another, and two living tenants never have the same storage.
 *
 * A graph keeps the generations of its capture: replaying it on bytes of another tenant is the
 * same mistake.
 *
 * Nothing fires in a program whose bytes are never born twice, or without a witness.
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_ORACLE_H
#define KEDGE_TESTS_SIM_SIM_ORACLE_H

#include "tests/sim/stream/sim_queue.h"

/* Takes down the generation and, if there is a witness, the stack. */
void sim_oracle_submit(struct sim_op *op);

/* The operation of a graph is about to be submitted once more. */
void sim_oracle_replay(const struct sim_op *op);

uint64_t sim_oracle_generation(void);

#endif

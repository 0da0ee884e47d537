/* SPDX-License-Identifier: MIT */
/*
 * sim_faults.h - counting the calls, failing those that were asked for, and charging what calls cost.
 *
 * SIMCUDA_FAIL is a list, separated by commas, of
 *
 *     call:n:code          the n-th call (from 1) returns that code and does nothing
 *     call:n+:code         and so do all later ones
 *     call:n:sticky=code   and the context of the caller returns it from then on
 *     oom:size:k           out of memory above `size` bytes of a device, until k blocks (or handles)
 *                          were freed since the first refusal; without `:k` for good
 *
 * `call` is a symbol (cuMemAlloc_v2), a plain name (cuMemAlloc, which stands for all its versions
 * and per-thread forms) or `*` (every call), `code` a number or a name (2, CUDA_ERROR_OUT_OF_MEMORY).
 *
 * A thread can ask for the same for its own next calls (simcuda_fail_next in simcuda.h).
 *
 * SIMCUDA_COSTS is a csv file: op,avg_us,... with op one of mem_create, mem_map, set_access,
 * mem_unmap or a driver function; costs go to the host's virtual clock, nobody waits for them.
 *
 * Threads: all of it under the lock; the reading inside the once of sim_core.c.
 */
#ifndef KEDGE_TESTS_SIM_SIM_FAULTS_H
#define KEDGE_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/base/sim_core.h"

void sim_faults_read(const char *list);
void sim_faults_read_costs(const char *path);

/*
 * Counts one call of `name` and charges its cost. Returns the injected code, or CUDA_SUCCESS, and
 * in *ret_sticky whether the code is the context's from now on.
 */
CUresult sim_faults_count(const char *name, bool *ret_sticky);

/* Whether `name` (a symbol) is meant by `call` (a symbol, a plain name, or "*"). */
bool sim_faults_is(const char *name, const char *call);

/* Whether a device that would hold `held` bytes is out of memory because a test said so. */
bool sim_faults_short(uint64_t held);
/* A block, or a handle of physical memory, was freed. */
void sim_faults_freed(void);

/* How often `name` (a symbol or a plain name) was called. */
uint64_t sim_faults_calls(const char *name);

/* Writes "name calls" for every function that was called, through `put`. */
void sim_faults_each(void (*put)(const char *name, uint64_t calls));

#endif

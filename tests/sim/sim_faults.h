/* SPDX-License-Identifier: MIT */
/*
 * sim_faults.h - counting the calls, failing the n-th of a name, and charging what calls cost.
 *
 * SIMCUDA_FAIL is a list of call:n:code. `call` is a symbol (cuMemAlloc_v2) or a plain name
 * (cuMemAlloc, which stands for all its versions and per-thread forms), `n` counts from 1, `n+`
 * means that call and all later ones, `code` is a number or a name (2, CUDA_ERROR_OUT_OF_MEMORY).
 * A failed call does nothing. SIMCUDA_COSTS is a csv file: op,avg_us,... with op one of mem_create,
 * mem_map, set_access, mem_unmap or a driver function; costs are added up, nobody waits for them.
 *
 * Threads: sim_faults_count under the lock; the reading inside the once of sim_core.c.
 */
#ifndef KEDGE_TESTS_SIM_SIM_FAULTS_H
#define KEDGE_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/sim_core.h"

void sim_faults_read(const char *list);
void sim_faults_read_costs(const char *path);

/* Counts one call of `name` and charges its cost. Returns the injected code, or CUDA_SUCCESS. */
CUresult sim_faults_count(const char *name);

/* How often `name` (a symbol or a plain name) was called. */
uint64_t sim_faults_calls(const char *name);

/* Writes "name calls" for every function that was called, through `put`. */
void sim_faults_each(void (*put)(const char *name, uint64_t calls));

#endif

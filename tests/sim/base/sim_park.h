/* SPDX-License-Identifier: MIT */
/*
 * sim_park.h - threads that stand still at the entry of a driver call, until something else happened.
 *
 * What goes wrong between a library's check and the driver's call goes wrong for some nanoseconds
 * only. Here the n-th call of a function blocks before it has any effect, outside of the device's
 * lock, until another thread has come back from a named call, or until the program's next step:
 *
 *     thread A   check ─► cuLaunchKernel ─┬─ parked ─────────────┬─► does what it does
 *     thread B                            └─ cuMemUnmap ─► done ─┘
 *
 * SIMCUDA_PARK is a list, separated by commas, of call:n:until; `call` as in SIMCUDA_FAIL, `until`
 * one or more of `step` or a call, separated by `|`. In simcuda.h a thread parks itself, and others
 * wait for it and let it go. A thread that nothing lets go stands for PATIENCE_MS, says so and goes on:
 * what it waited for was rightly not done.
 *
 * Threads: own mutex; never under the lock of sim_core.h.
 */
#ifndef KEDGE_TESTS_SIM_SIM_PARK_H
#define KEDGE_TESTS_SIM_SIM_PARK_H

#include "tests/sim/base/sim_core.h"

void sim_park_read(const char *list);

/* The beginning of a call: stands if this is the one. */
void sim_park_enter(const char *name);

/* The call has come back, or a step has begun ("step"): lets those go who waited for it. */
void sim_park_leave(const char *name);

#endif

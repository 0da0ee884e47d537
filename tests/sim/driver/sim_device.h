/* SPDX-License-Identifier: MIT */
/*
 * sim_device.h - devices: their names and attributes, and the ledger of their bytes.
 *
 * sim_device_hold is the only way to get bytes of a device and refuses what SIMCUDA_MEMORY does
 * not have. Its peak is the figure that proves what a run held (R88).
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_DEVICE_H
#define KEDGE_TESTS_SIM_SIM_DEVICE_H

#include "tests/sim/base/sim_core.h"

#define SIM_PRIORITY_LEAST    0
#define SIM_PRIORITY_GREATEST (-5)

/* Takes bytes of the device: 0 or CUDA_ERROR_OUT_OF_MEMORY. */
int sim_device_hold(int device, uint64_t bytes);
void sim_device_drop(int device, uint64_t bytes);

/* What a program is told: SIMCUDA_SHOWN may be less than there is. */
uint64_t sim_device_total_bytes(void);
uint64_t sim_device_free_bytes(int device);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_attributes.h - what cuDeviceGetAttribute answers: the same for all devices of a process.
 *
 * SIMCUDA_CAPABILITY and SIMCUDA_SMS choose whose limits they are; all else is an A100's.
 *
 * Threads: any, after sim_config_read.
 */
#ifndef KEDGE_TESTS_SIM_SIM_ATTRIBUTES_H
#define KEDGE_TESTS_SIM_SIM_ATTRIBUTES_H

#include "tests/sim/base/sim_core.h"

int sim_attribute(CUdevice_attribute which, int device);

/* Whether there is a row for this compute capability. */
bool sim_attributes_know(int major, int minor);

#endif

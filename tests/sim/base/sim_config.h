/* SPDX-License-Identifier: MIT */
/*
 * sim_config.h - the SIMCUDA_* variables, read once at the first call.
 *
 * What makes no sense stops the device: one line on stderr that names what would have been accepted, and the process ends with
 * 2. A test on another device than the one it asked for would prove something else. README.md has the table.
 *
 * Does not lock: runs inside the once of sim_core.c.
 */
#ifndef KEDGE_TESTS_SIM_SIM_CONFIG_H
#define KEDGE_TESTS_SIM_SIM_CONFIG_H

#include "tests/sim/base/sim_core.h"

void sim_config_read(void);

/* "SIMCUDA_X=value: why", and the process ends with 2. */
_Noreturn void sim_config_refuse(const char *name, const char *value, const char *why);

/* "80G" to bytes: a number, with K, M, G or KiB, MiB, GiB behind it (binary, all of them). */
bool sim_config_size(const char *text, uint64_t *ret_value);

#endif

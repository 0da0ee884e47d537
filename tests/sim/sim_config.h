/* SPDX-License-Identifier: MIT */
/*
 * sim_config.h - the SIMCUDA_* variables, read once at the first call.
 *
 * A bad value gets one line on stderr that names what would have been accepted, and the default
 * holds. README.md has the table.
 *
 * Does not lock: runs inside the once of sim_core.c.
 */
#ifndef KEDGE_TESTS_SIM_SIM_CONFIG_H
#define KEDGE_TESTS_SIM_SIM_CONFIG_H

#include "tests/sim/sim_core.h"

void sim_config_read(void);

/* "80G" to bytes: a number with an optional binary suffix K, M or G. */
bool sim_config_size(const char *text, uint64_t *ret_value);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_log.h - the call log: SIMCUDA_LOG=file, one line per driver call, figures at the end.
 *
 *     17 t2 cuMemAlloc_v2 size=1048576 ptr=0x600000000000 = 0
 *     # peak 0 4194304
 *
 * number, thread, symbol, details, result. Lines are written at once, so that the log of a killed
 * program is whole. "-" is stderr.
 *
 * Threads: under the lock of sim_core.h.
 */
#ifndef KEDGE_TESTS_SIM_SIM_LOG_H
#define KEDGE_TESTS_SIM_SIM_LOG_H

#include <stdbool.h>
#include <stdint.h>

void sim_log_open(void);
bool sim_log_is_open(void);
void sim_log_call(const char *name, uint64_t thread, int result, const char *detail);

#endif

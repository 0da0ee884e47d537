/* SPDX-License-Identifier: MIT */
/*
 * sim_vmm.h - virtual memory: reserved addresses, physical handles, mappings, access.
 *
 *     cuMemAddressReserve ─► addresses that fault
 *     cuMemCreate ─► a piece of a memfd, counted against the device until the last reference is gone
 *     cuMemMap ─► these pages at the addresses, without access
 *     cuMemSetAccess ─► readable, writable, or neither
 *     cuMemUnmap ─► faults again; the whole of a mapping and nothing less
 *
 * A reference is cuMemCreate, each mapping, each retain and import. Handles are numbers, never
 * pointers, and are not used twice.
 *
 * Threads: under the lock. Nothing here waits for the device: unmapping under an operation that
 * has not run makes that operation fault, as it should.
 */
#ifndef KEDGE_TESTS_SIM_SIM_VMM_H
#define KEDGE_TESTS_SIM_SIM_VMM_H

#include "tests/sim/sim_ledger.h"

bool sim_vmm_is_reserved(uint64_t addr);
unsigned sim_vmm_handle_types(const struct sim_physical *physical);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * sim_vmm.h - virtual memory: reserved addresses, physical handles, mappings, access.
 *
 *     cuMemAddressReserve ─► addresses that fault
 *     cuMemCreate ─► a piece of shared memory, counted against the device until the last reference is gone
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

#include "tests/sim/memory/sim_va.h"
#include "tests/sim/stream/sim_ledger.h"

struct sim_physical {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    uint64_t size;
    struct sim_file file; /* of its own, once it was exported; else it is in the arena */
    uint64_t offset;      /* in the arena, or in the file */
    bool imported;        /* counted where it was made */
    unsigned handles;     /* references that cuMemRelease gives back */
    unsigned mappings;    /* references that cuMemUnmap and multicast objects give back */
    struct sim_block *first_mapping; /* where it is mapped: a list by next_mapping */
};

/* The living handle, or NULL. */
struct sim_physical *sim_vmm_find(CUmemGenericAllocationHandle handle);

/* One mapping less; the last reference gives the memory back. */
void sim_vmm_unmapped(struct sim_physical *physical);

CUmemGenericAllocationHandle sim_vmm_next_handle(void);

/* The number stands for nothing any more: it is given again (SIMCUDA_HANDLES). */
void sim_vmm_handle_ends(CUmemGenericAllocationHandle handle);

/* Content of a handle, wherever it is mapped. */
bool sim_vmm_write(
        const struct sim_physical *physical, uint64_t at, const void *from, uint64_t size);

/* ---- multicast objects (sim_multicast.c) ---- */

struct sim_multicast;

/* The object of that handle, or NULL; what is mapped when it is mapped: 0 or the code. */
struct sim_multicast *sim_multicast_find(CUmemGenericAllocationHandle handle);
int sim_multicast_target(struct sim_multicast *multicast, uint64_t offset, uint64_t size,
        struct sim_physical **ret_physical, uint64_t *ret_offset);
void sim_multicast_mapped(struct sim_multicast *multicast);
void sim_multicast_unmapped(struct sim_multicast *multicast);
int sim_multicast_release(struct sim_multicast *multicast);

/* An operation wrote these bytes of a mapping: all other bound memory gets them too. */
void sim_multicast_spread(
        struct sim_multicast *multicast, uint64_t offset, uint64_t addr, uint64_t size);

bool sim_vmm_is_reserved(uint64_t addr);
unsigned sim_vmm_handle_types(const struct sim_physical *physical);

#endif

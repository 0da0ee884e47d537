/* SPDX-License-Identifier: MIT */
/*
 * simcuda.h - what the simulated driver offers beside the CUDA driver interface.
 *
 * Tests link it or find it with dlsym in libcuda.so.1. Three groups:
 *
 *   witness   The oracle must know which block belongs to which tenant, and the driver lies below
 *             kedge and sees segments only. So whoever stands *above* kedge (the simulated
 *             runtime, or a shim around a test's own driver calls) reports every block that the
 *             program was given and every block that it gives back. Never called by kedge.
 *   figures   bytes on the device, calls made, and what a run has exercised.
 *   trouble   calls that fail, threads that stand still at a call, a hook at every call.
 *
 * When a block is handed out while an operation of its former tenant is neither done nor ordered
 * before the new tenant's stream, the device prints both sides on stderr and ends the process
 * with status SIMCUDA_ORACLE_STATUS.
 *
 * Threads: all of it may be called from any thread.
 */
#ifndef KEDGE_TESTS_SIM_SIMCUDA_H
#define KEDGE_TESTS_SIM_SIMCUDA_H

#include "tests/sim/base/program_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIMCUDA_MAX_DEVICES   16
#define SIMCUDA_ORACLE_STATUS 86

/* The `stream` of a birth or death that is synchronous (cuMemAlloc, cuMemFree): no stream. */
#define SIMCUDA_NO_STREAM ((CUstream)(uintptr_t)-1)

struct simcuda_stats {
    size_t size; /* set by the caller: sizeof(struct simcuda_stats) */
    int devices;
    uint64_t held[SIMCUDA_MAX_DEVICES]; /* bytes on the device now, as the driver holds them */
    uint64_t peak[SIMCUDA_MAX_DEVICES];
    uint64_t total[SIMCUDA_MAX_DEVICES]; /* SIMCUDA_MEMORY */
    uint64_t calls;                      /* driver calls of all names */
    uint64_t cost_ns;                    /* what SIMCUDA_COSTS says that they would have cost */
    uint64_t submitted;                  /* operations put on streams */
    uint64_t executed;
    uint64_t voluntary;       /* of these, run without a synchronise asking for them */
    uint64_t launches;        /* kernels */
    uint64_t copies;          /* copies and sets */
    uint64_t host_functions;  /* host functions and callbacks */
    uint64_t event_records;   /* cuEventRecord */
    uint64_t context_records; /* cuCtxRecordEvent: epochs */
    uint64_t stream_waits;    /* cuStreamWaitEvent, cuCtxWaitEvent */
    uint64_t synchronizes;    /* calls that waited for the device */
    uint64_t maps;
    uint64_t unmaps;
    uint64_t remaps; /* of `maps`, those where something had been mapped before */
    uint64_t captures;
    uint64_t captures_invalidated;
    uint64_t graph_launches;
    uint64_t faults; /* operations that touched what they may not */
    uint64_t births;
    uint64_t deaths;
    uint64_t reuses;              /* births on bytes that had an earlier tenant */
    uint64_t cross_stream_reuses; /* of these, those whose stream is not that of the death */
    uint64_t merged_reuses;       /* of these, those on bytes of tenants of several streams */
    uint64_t steps;
    uint64_t parks; /* threads that stood at a call (SIMCUDA_PARK) */
    uint64_t park_timeouts;
    /* of `submitted`, by the kind of stream; graphs count where they are launched */
    uint64_t on_legacy;
    uint64_t on_blocking;
    uint64_t on_non_blocking;
    uint64_t on_per_thread;
    uint64_t peer_accesses; /* ranges of another device's memory that operations touched */
    uint64_t devices_used;  /* devices that ever held something */
    uint64_t host_refusals; /* calls that host functions made and were refused (800) */
    uint64_t host_ns; /* the host's virtual clock: what its calls cost and what it waited for */
    /* that copies which have run took from the host's memory to a device's, and back */
    uint64_t copied_in_bytes, copied_out_bytes;
    uint64_t pinned_bytes; /* of the host, that the driver gave or that were registered with it */
    uint64_t pinned_peak;
    /* 2 MiB of managed memory that an operation touched and its device did not have */
    uint64_t page_faults;
    uint64_t pages_evicted; /* that a full device sent to the host for others */
    /* of managed memory, by prefetches, faults and evictions; what comes for the first time has no content and is not counted */
    uint64_t migrated_in_bytes, migrated_out_bytes;
    uint64_t aliases; /* of `maps`, those of memory that was mapped elsewhere at that moment */
    /* births on storage that had a tenant at another address where it is mapped too */
    uint64_t alias_reuses;
    uint64_t kernels_computed; /* of `launches`, those whose result is what a device computes */
    /* copies to the host of what is no value: a digest, computed from one, or written by nobody */
    uint64_t digest_copies;
};

#pragma GCC visibility push(default)

/* Fills *stats. Returns 0, or -1 if stats->size is not one that this library knows. */
int simcuda_stats(struct simcuda_stats *stats);

/* `digest_copies` alone, for a host that asks after each copy whether what it got is the program's own. */
uint64_t simcuda_digest_copies(void);

/* How often the driver function `call` was called: a symbol ("cuMemAlloc_v2") or its plain name. */
uint64_t simcuda_calls(const char *call);

/*
 * The program was given `bytes` at `ptr` for use on `stream` (or SIMCUDA_NO_STREAM). To be called
 * after the allocation returned and before the program sees it.
 */
void simcuda_witness_birth(CUdeviceptr ptr, size_t bytes, CUstream stream);

/* The program gives `ptr` back on `stream`. To be called before the free is called. */
void simcuda_witness_death(CUdeviceptr ptr, CUstream stream);

/* The program begins its next step: operations of SIMCUDA_LAG steps ago may run from now on. */
void simcuda_witness_step(void);

/*
 * `hook` is called at the head of every driver call, whichever it is and whoever makes it (look-ups
 * and calls from host functions included), in the calling thread, before the call has done anything
 * and with no lock of the device held, with the call's symbol. It may call what is declared here, so
 * a library under test can check there that it holds no lock of its own. NULL takes it away.
 */
void simcuda_set_call_hook(void (*hook)(const char *call));

/*
 * The calling thread's next `times` calls of `call` (0: all, until it is cleared) return `code` and
 * do nothing. `call` is a symbol, a plain name or "*". So a program can have its own next call fail,
 * whatever a library makes of it or calls beside it.
 */
void simcuda_fail_next(const char *call, unsigned times, CUresult code);

/* The calling thread's calls fail no more. Returns how many did since simcuda_fail_next. */
unsigned simcuda_fail_clear(void);

/*
 * The calling thread's next call of `call` stands still at its entry until another thread has come
 * back from a call that `until` names ("cuMemUnmap|step"), or until simcuda_unpark if it is NULL.
 */
void simcuda_park_next(const char *call, const char *until);

/* Waits until that many threads stand still. False: they did not come within two seconds. */
bool simcuda_wait_parked(unsigned count);

/* A capture begins by an entry that no library above knows, as a later driver may have one. */
CUresult simcuda_begin_unseen(CUstream stream, CUstreamCaptureMode mode);

/* All that stand still go on. */
void simcuda_unpark(void);

#pragma GCC visibility pop
#endif

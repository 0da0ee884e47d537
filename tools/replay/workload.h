/* SPDX-License-Identifier: MIT */
/*
 * workload.h - a program's requests and frees, in order, and nothing else.
 *
 * `kedge whatif` plays one sequence of requests to several allocators. Captures and traces of other
 * tools all become this:
 *
 *     capture, csv, log of RMM ─► trace.h ─► struct workload ─► whatif.h
 *
 * Blocks and streams are small numbers; stream 0 is "not known". A block is born once and dies at
 * most once. Addresses, times and stacks are not kept. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_WORKLOAD_H
#define KEDGE_TOOLS_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workload_block {
    uint64_t size;
    uint32_t stream; /* of its allocation; 0 = unknown: the sync API */
    int device;
};

struct workload_event {
    uint32_t block;
    uint32_t stream; /* of a free: 0 = a sync free */
    bool is_free;
};

struct workload {
    struct workload_event *events;
    struct workload_block *blocks;
    size_t event_count, block_count, event_room, block_room;
    uint32_t stream_count; /* streams are 1 .. stream_count */
    uint32_t device_count; /* devices are 0 .. device_count - 1 */
    uint64_t span_ns;      /* from the first event to the last */
    size_t left_count;     /* blocks that are live at the end */
    size_t skipped_count;  /* blocks of the file that the driver serves itself, left out */
    /* most live bytes at once: as requested, and with each block rounded up to 512 */
    uint64_t peak_live, peak_live_512;
};

struct trace;

/*
 * Takes the requests and frees of a trace from event `first` until just before event `behind`.
 * Blocks that are live when the window begins are born before it, in the order of their addresses.
 * Blocks that no pool could have served are left out; if no block came from a pool (the run was
 * only tracked), blocks that the driver's own allocators served are taken instead.
 */
void workload_from_trace(
        const struct trace *trace, uint32_t first, uint32_t behind, struct workload *ret);

void workload_done(struct workload *workload);

#endif

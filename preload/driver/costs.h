/* SPDX-License-Identifier: MIT */
/*
 * costs.h - what the driver's calls about storage have taken in this process.
 *
 * Each such call of the pool is timed: two readings of the clock, some 50 ns, beside a call of
 * microseconds. The pool asks what a move takes (driver.h, move_ns; alloc/storage/pace.h), and the
 * capture tells it to reports.
 *
 * Threads: any, no lock.
 */
#ifndef KEDGE_PRELOAD_COSTS_H
#define KEDGE_PRELOAD_COSTS_H

#include <stdint.h>

enum cost_kind {
    COST_CREATE, /* cuMemCreate */
    COST_MAP,    /* cuMemMap */
    COST_ACCESS, /* cuMemSetAccess */
    COST_UNMAP,  /* cuMemUnmap */
    COST_KIND_COUNT,
};

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t costs_now(void);

/* A call for `size` bytes has returned; `begun`: costs_now before it. */
void costs_add(enum cost_kind kind, uint64_t begun, uint64_t size);

/* The mean time of a call so far in ns, 0 = there was none. */
uint64_t costs_call(enum cost_kind kind);

/* What moving a handle of `size` bytes takes, in ns: a map, and its part of an unmap and of a
 * set_access, which may be for many handles at once. 0 = nothing was unmapped yet. */
uint64_t costs_move(uint64_t size);

#endif

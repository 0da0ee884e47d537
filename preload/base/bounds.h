/* SPDX-License-Identifier: MIT */
/*
 * bounds.h - which fixed bounds of the library were reached (bounds.def).
 *
 * Each is said once in a process: whoever reaches one notes it, and the next request of the program has the line told. Any
 * thread, signal handlers too; no lock, no memory, no call.
 */
#ifndef KEDGE_PRELOAD_BOUNDS_H
#define KEDGE_PRELOAD_BOUNDS_H

#include <stdatomic.h>

/* Those that are said; what a bound of alloc is reached by is a request that finds no record. */
enum bounds_kind {
    BOUNDS_STREAMS,
    BOUNDS_NUMBERS,
    BOUNDS_DEVICES,
    BOUNDS_SPILLED,
    BOUNDS_HOSTFN,
    BOUNDS_RECORDS,
    BOUNDS_COUNT,
};

extern atomic_uint bounds_waiting; /* bits: reached, and not said yet */

void bounds_reached(enum bounds_kind kind);

/* The line about one that has not been said yet; NULL = there is none. */
const char *bounds_news(void);

#endif

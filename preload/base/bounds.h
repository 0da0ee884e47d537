/* SPDX-License-Identifier: MIT */
/*
 * bounds.h - which fixed bounds of the library were reached (bounds.def).
 *
 * A message is printed once per process for each bound: the code that reaches a bound notes it, and
 * the program's next request prints the line. Any thread, signal handlers too; no lock, no memory,
 * no call.
 */
#ifndef KEDGE_PRELOAD_BOUNDS_H
#define KEDGE_PRELOAD_BOUNDS_H

#include <stdatomic.h>

/*
 * Bounds with a message of their own. A bound of alloc/ shows as BOUNDS_RECORDS: a request that
 * finds no free record.
 */
enum bounds_kind {
    BOUNDS_STREAMS,
    BOUNDS_NUMBERS,
    BOUNDS_DEVICES,
    BOUNDS_SPILLED,
    BOUNDS_HOSTFN,
    BOUNDS_RECORDS,
    BOUNDS_COUNT,
};

extern atomic_uint bounds_waiting; /* bits: reached, but not printed yet */

void bounds_reached(enum bounds_kind kind);

/* The line for a bound that has not been printed yet; NULL = there is none. */
const char *bounds_news(void);

#endif

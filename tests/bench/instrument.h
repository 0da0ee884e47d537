/* SPDX-License-Identifier: MIT */
/*
 * instrument.h - where a program that callgrind.py runs comes to what is counted.
 *
 * Callgrind instruments nothing before that: an interpreter that starts, or a hundred thousand blocks that are allocated first,
 * take half of the time or less. Without valgrind the call does nothing. Compiled without valgrind's header it does nothing
 * either; callgrind.py then finds no instruction and says so.
 */
#ifndef KEDGE_BENCH_INSTRUMENT_H
#define KEDGE_BENCH_INSTRUMENT_H

#if __has_include(<valgrind/callgrind.h>)
#    include <valgrind/callgrind.h>
#else
#    define CALLGRIND_START_INSTRUMENTATION (void)0
#endif

/* Before the call of the function `counted`, in any thread, once. */
static inline void instrument_from_here(void)
{
    CALLGRIND_START_INSTRUMENTATION;
}

#endif

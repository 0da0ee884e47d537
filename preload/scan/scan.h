/* SPDX-License-Identifier: MIT */
/*
 * scan.h - which words of a C or C++ program are addresses of its live device memory (KEDGE_HELD=scan).
 *
 *     live blocks, by address ◄── capture_live
 *          ▲ each aligned word in one of them: a hit, to its beginning or inside
 *     writable segments of loaded files ─┐
 *     thread-local memory of threads ────┼─► words ─► blocks of malloc ─► words ─► blocks of malloc ...
 *     stacks of threads that wait ───────┘            (breadth first, each block once, by its first root)
 *          ─► the roots of each device block ─► rows: call site and set of roots ─► capture_held
 *
 * A root is a word of a file, of a thread's memory or a frame. A row names it by a stack number of one
 * frame, "#12": tools name it from the file's symbols (tools/load/heldnames.h), nothing is named here.
 *
 * Left out: what kedge, libcuda, libcudart and libc have, since their tables know all addresses, and
 * blocks of malloc that the variables of libcuda and libcudart reach, to which a stream's handle leads;
 * registers of this thread; stacks of threads that run (scanstack.h); blocks of other allocators than
 * glibc's, and pointers into the middle of one (scanread.h). What is not found is not guessed. A word
 * that is left over from an earlier call, or a number that happens to be an address, looks the same.
 *
 * Reads by system calls only (scanread.h), so that nothing faults while other threads allocate, end and
 * unload files. Runs where no lock of kedge is held: in the call that failed, in the thread of asked.c,
 * or in our destructor. Uses no malloc. Bounds: `seconds`; `most` blocks of malloc, about 100 bytes each
 * while it runs; 16 MiB of each.
 *
 * Threads: any. Of two at once the second returns, but that of asked.c waits.
 */
#ifndef KEDGE_PRELOAD_SCAN_H
#define KEDGE_PRELOAD_SCAN_H

#include "tracker/format/format.h"

#include <stdint.h>

/* In the first thread, before there are others. */
void scan_start(double seconds, uint64_t most);

/*
 * Scans now, for the live blocks of a device (-1: all). Returns the number of the walk, 0: it is not
 * on record.
 */
uint32_t scan_walk(enum format_walk_why why, int device);

#endif

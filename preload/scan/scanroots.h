/* SPDX-License-Identifier: MIT */
/*
 * scanroots.h - where a scan begins: variables of loaded files, thread-local memory and stacks.
 *
 * Threads: that of the scan (scanwords.h).
 */
#ifndef KEDGE_PRELOAD_SCANROOTS_H
#define KEDGE_PRELOAD_SCANROOTS_H

#include "preload/scan/scanwords.h"

/*
 * Finds the blocks of malloc that the driver's variables lead to, so that nothing else does. A
 * program's handle of a stream is an address in the driver's memory, where all addresses are. Before
 * the others.
 */
void scanroots_driver(struct scan *scan);

/* The writable segments of the program and its libraries. */
void scanroots_globals(struct scan *scan);

/* Stacks and thread-local memory of all threads. `is_ours`: the calling thread is kedge's. */
void scanroots_threads(struct scan *scan, bool is_ours);

#endif

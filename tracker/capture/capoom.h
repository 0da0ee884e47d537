/* SPDX-License-Identifier: MIT */
/*
 * capoom.h - area E of a capture: why allocations failed.
 *
 * A user keeps the capture for the moment of an OOM, and the event log may be off or overwritten
 * when it is read. So each OOM gets a slot: the first 16 keep theirs, later ones share 16 others in
 * turn. The slot also has facts that the live table cannot show afterwards: the stacks that held
 * most.
 *
 *     number 1 .. 16 ─► slots 0 .. 15      17, 18, ... ─► slots 16 .. 31, again and again
 *
 * Threads: any, no kedge lock held; capoom_put may make system calls. Memory: meta.h for the sums.
 * Rules: R31 R47.
 */
#ifndef KEDGE_TRACKER_CAPOOM_H
#define KEDGE_TRACKER_CAPOOM_H

#include "tracker/capture/capfile.h"

/* Starts on a new file; no other thread may be inside. */
void capoom_init(struct capfile *file);

/* Fills in the holders of record->device from the live table. `generation` changes with every
 * allocation and free: a program that tries one size after another gets the same answer without
 * another scan. */
void capoom_holders(struct format_oom *record, uint64_t generation);

/* Writes a record, its state included. 0, or -errno once if there is no space for it. */
int capoom_put(const struct format_oom *record);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * capoom.h - area E of a capture: why allocations failed.
 *
 * An OOM is the moment for which a user keeps the capture, and the event log may be off or have lost it by the time that
 * somebody reads it. So each one gets a slot: the first 16 keep theirs, later ones take turns in 16 others. What the live
 * table cannot tell afterwards is in the slot too: the stacks that held most.
 *
 *     number 1 .. 16 ─► slots 0 .. 15      17, 18, ... ─► slots 16 .. 31, again and again
 *
 * Threads: any, no kedge lock held; capoom_put may make system calls. Memory: meta.h for the sums. Rules: R31 R47.
 */
#ifndef KEDGE_TRACKER_CAPOOM_H
#define KEDGE_TRACKER_CAPOOM_H

#include "tracker/capture/capfile.h"

/* A fresh start on a new file; no other thread may be inside. */
void capoom_init(struct capfile *file);

/*
 * Fills in the holders of record->device from the live table. `generation` changes with every allocation and free: a
 * program that tries one size after another is told the same again, without another look.
 */
void capoom_holders(struct format_oom *record, uint64_t generation);

/* Writes a record, its state included. 0, or -errno once if there is no room for it. */
int capoom_put(const struct format_oom *record);

#endif

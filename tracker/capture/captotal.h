/* SPDX-License-Identifier: MIT */
/*
 * captotal.h - the figures in the header of a capture: totals, by device and by class.
 *
 * Threads: any that holds captotal_figures, unless stated otherwise.
 */
#ifndef KEDGE_TRACKER_CAPTOTAL_H
#define KEDGE_TRACKER_CAPTOTAL_H

#include "alloc/base/lock.h"
#include "alloc/base/types.h"
#include "tracker/capture/caplive.h"
#include "tracker/format/format.h"

#include <stdint.h>

/*
 * Guards all figures of live memory, those of the header and of places (capplace.h), so that each
 * change is in all of them at once: a peak is the same figure wherever it is kept, with any number
 * of threads.
 *
 * Changes are counted as threads arrive here, which need not be the order of the pool's numbers: a
 * thread walks its stack between getting the number and taking this lock. `counted_late` counts the
 * exceptions, and a reader with all events computes the peaks in the order of the numbers
 * (tools/load/inorder.h), which is what the pool held. To count in that order here, each thread
 * would have to wait for those with smaller numbers, or the pool would have to count for the
 * capture under its own locks.
 *
 * A leaf. Some sixty instructions, no call.
 */
extern struct lock captotal_figures;

/* With captotal_figures: the next change has this number. A block of `size` bytes was allocated,
 * one ended (change->gone_*), a hint released one's storage. */
void captotal_comes(struct format_header *header, uint64_t seq);
void captotal_born(struct format_header *header, enum memclass memclass, int device, uint64_t size);
void captotal_died(struct format_header *header, const struct caplive_change *change);
void captotal_released(struct format_header *header, int device, uint64_t size);

/* The most bytes that were live since the last restart, before the first one since the capture
 * began. restart: from here on anew. */
uint64_t captotal_recent_peak(const struct format_header *header, bool restart);

/* NULL for a device without totals of its own. Any thread, no lock. */
struct format_totals *captotal_of(struct format_header *header, int device);

/* Live bytes on a device in classes that the driver itself serves. Any thread, no lock. */
uint64_t captotal_native(const struct format_header *header, int device);

#endif

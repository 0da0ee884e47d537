/* SPDX-License-Identifier: MIT */
/*
 * capplace.h - area C of a capture: allocations summed up by place, and what each place held at the
 * high-water mark.
 *
 * A place is a native stack, a Python stack, an anchor path and a device. Each allocation and free
 * updates its record in the file.
 *
 * The high-water mark needs no walk over all places. A device counts its peaks: `number` rises when
 * live bytes fall for the first time since a new maximum. A place stores its bytes at peak number
 * `peak`; when it changes after a newer peak, its bytes before the change are stored first, since
 * it has held them since before that peak.
 *
 *     place      held at peak (number)   holds now                      device: peak number 7
 *     a          100 (7)                 20        changed since ─────► 100
 *     b           50 (3)                 60        not since ─────────► 60
 *
 * At most CAPPLACE_MAX places, the last CAPPLACE_STACKS of which are for stacks without an anchor:
 * a stack whose anchor gets no place is added to one place of its own, "(other anchors)". Later
 * stacks, and those without a record because the disk is full, are added to the "other" place of
 * their device, and counted. Device memory of the process only (memclass < MEMCLASS_DEVICE_END).
 *
 * Threads: any. A place is found without a lock and with none held; figures are added with the lock
 * of all figures (captotal.h), so peaks follow the order of arrival there.
 * Memory: meta.h.
 */
#ifndef KEDGE_TRACKER_CAPPLACE_H
#define KEDGE_TRACKER_CAPPLACE_H

#include "tracker/capture/capfile.h"

#include <stdbool.h>
#include <stdint.h>

#define CAPPLACE_MAX    (1u << 16)
#define CAPPLACE_STACKS (1u << 14) /* part of them, for stacks without an anchor */

struct capplace_key {
    uint32_t stack, pystack, path;
    int device;
};

/* Starts on a new file. Frees memory of an earlier start; no other thread may be inside. */
void capplace_init(struct capfile *file);

/* The place with this key, created if needed; 0 = none, not even "other". *ret_error: -errno for
 * the call that met an error. */
uint32_t capplace_find(const struct capplace_key *key, int *ret_error);

/* With captotal_figures (captotal.h): a block of `size` bytes on `device` was allocated at `place`
 * (0 = none: only the device counts it), or ended. */
void capplace_born(uint32_t place, int device, uint64_t size, uint64_t seq, uint64_t time_ns);
void capplace_died(uint32_t place, int device, uint64_t size, bool is_temporary);
/* Count an already ended block as temporary. */
void capplace_was_temporary(uint32_t place, uint64_t size);

/* In the child of a fork. */
void capplace_fork_child(void);

#endif

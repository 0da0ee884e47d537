/* SPDX-License-Identifier: MIT */
/*
 * capplace.h - area C of a capture: who allocated what, added up, and who held it at the high-water mark.
 *
 * A place is a native stack, a Python stack, an anchor path and a device. Its record in the file is changed with every allocation
 * and free.
 *
 * The high-water mark needs no walk over all places. A device counts its peaks: `number` rises when live bytes fall for the
 * first time since a new maximum. A place keeps what it held at peak number `peak`; only when it changes after a newer
 * peak, what it holds at that moment is put there first, for it has held just that since before that peak.
 *
 *     place      held at peak (number)   holds now                      device: peak number 7
 *     a          100 (7)                 20        changed since ─────► 100
 *     b           50 (3)                 60        not since ─────────► 60
 *
 * At most CAPPLACE_MAX places, the last CAPPLACE_STACKS of which are for stacks without an anchor: a stack whose anchor finds no
 * room any more is added to one place of its own, "(other anchors)". What comes later still, or has no record because the disk is full, is added to one place of its
 * device that is called "other", and counted. Device memory of the process only (memclass < MEMCLASS_DEVICE_END).
 *
 * Threads: any. A place is found without a lock and with none held; adding is done with the lock of
 * all figures (captotal.h), so the order of arrival there is the order in which peaks are seen.
 * Memory: meta.h.
 */
#ifndef KEDGE_TRACKER_CAPPLACE_H
#define KEDGE_TRACKER_CAPPLACE_H

#include "tracker/capture/capfile.h"

#include <stdbool.h>
#include <stdint.h>

#define CAPPLACE_MAX    (1u << 16)
#define CAPPLACE_STACKS (1u << 14) /* of them, for stacks without an anchor */

struct capplace_key {
    uint32_t stack, pystack, path;
    int device;
};

/* A fresh start on a new file. Memory of an earlier start is given back; no other thread may be inside. */
void capplace_init(struct capfile *file);

/*
 * The place with this key, new or not; 0 = there is none, not even "other". *ret_error: -errno for the call that met trouble.
 */
uint32_t capplace_find(const struct capplace_key *key, int *ret_error);

/* With captotal_figures (captotal.h): a block of `size` bytes on `device` began to live at
 * `place` (0 = none: only the device counts it), or ended. */
void capplace_born(uint32_t place, int device, uint64_t size, uint64_t seq, uint64_t time_ns);
void capplace_died(uint32_t place, int device, uint64_t size, bool is_temporary);
/* One that was counted as ended before it was known who would free it was a temporary one. */
void capplace_was_temporary(uint32_t place, uint64_t size);

/* In the child of a fork. */
void capplace_fork_child(void);

#endif

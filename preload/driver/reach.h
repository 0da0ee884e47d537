/* SPDX-License-Identifier: MIT */
/*
 * reach.h - devices whose work may be pending on another device's memory.
 *
 * Memory freed on a device waits until all work that may still use it has passed: the work of the
 * device's own contexts, and of those contexts of other devices that have a way to its memory.
 * kedge does not wait for a device that is busy with something else, as the driver does not,
 * either.
 *
 *     cuCtxEnablePeerAccess, cuMemPoolSetAccess      ─┐
 *     a copy, a set, a word that names one of its     ├─► reach_add     before the driver is asked
 *       blocks; a free on a stream of another device  │
 *     blocks shown to somebody, managed memory       ─┘
 *     a graph with nodes of other devices ─ launched ───► reach_run
 *
 * Ways are never removed, since work outlives the call that allowed it. Ways are kept per device,
 * not per context. Anything unknown counts as a way.
 * Not here: kernels. Without peer access they do not reach memory of another device.
 *
 * Takes no lock, makes no driver call, never waits. Threads: any. Rules: R1 R104.
 */
#ifndef KEDGE_PRELOAD_REACH_H
#define KEDGE_PRELOAD_REACH_H

#include <stdbool.h>
#include <stdint.h>

#define REACH_ALL UINT64_MAX /* all devices, as bits; used if the devices are not known */
#define REACH_ANY (-1)       /* any device */

/* A device as bits; all devices if it is not known. */
uint64_t reach_bit(int device);

/* A context of the device exists. With the second device GUARD_DEVICES is set (guard.h). */
void reach_context(int device);

/*
 * From now on contexts of one device may have work on memory of the other. Either may be REACH_ANY.
 */
void reach_add(int from, int to);
/* The same for bits: all of `from`, on all of the other. */
void reach_add_all(uint64_t from, uint64_t to);

/* Work given to contexts of these devices may run on those, too. */
void reach_run(uint64_t from, uint64_t on);

/*
 * Whether contexts of `from` may have work on memory of `to`. Below: the devices on whose memory,
 * as bits.
 */
bool reach_has(int from, int to);
uint64_t reach_of(int from);

#endif

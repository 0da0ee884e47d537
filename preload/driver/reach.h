/* SPDX-License-Identifier: MIT */
/*
 * reach.h - whose work may be pending on a device's memory.
 *
 * What is freed on a device waits until all that may still use it has passed: the work of the device's own contexts, and of those contexts
 * of other devices that have a way to its memory. A device that is busy with something else is not waited for: natively it is not, either.
 *
 *     cuCtxEnablePeerAccess, cuMemPoolSetAccess      ─┐
 *     a copy, a set, a word that names one of its     ├─► reach_add     before the driver is asked
 *       blocks; a free on a stream of another device  │
 *     blocks shown to somebody, managed memory       ─┘
 *     a graph with nodes of other devices ─ launched ───► reach_run
 *
 * Nothing is ever taken back, since work outlives what allowed it. Devices are told apart, not contexts. Whatever is not known counts as a way.
 * Not here: kernels. Without peer access they do not reach memory of another device.
 *
 * Takes no lock, makes no driver call, never waits. Threads: any. Rules: R1 R104.
 */
#ifndef KEDGE_PRELOAD_REACH_H
#define KEDGE_PRELOAD_REACH_H

#include <stdbool.h>
#include <stdint.h>

#define REACH_ALL UINT64_MAX /* all devices, as bits; what is not known */
#define REACH_ANY (-1)       /* any device */

/* A device as bits; all of them, if it is not known which. */
uint64_t reach_bit(int device);

/* A context of the device is there. With the second device GUARD_DEVICES is set (guard.h). */
void reach_context(int device);

/* Contexts of one device may have work on memory of the other one, from now on. Either may be REACH_ANY. */
void reach_add(int from, int to);
/* The same for bits: all of the former, on all of the latter. */
void reach_add_all(uint64_t from, uint64_t to);

/* What is given to contexts of these devices may run on those, too. */
void reach_run(uint64_t from, uint64_t on);

/* May contexts of `from` have work on memory of `to`? And on whose memory, as bits. */
bool reach_has(int from, int to);
uint64_t reach_of(int from);

#endif

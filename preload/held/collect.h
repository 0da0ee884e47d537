/* SPDX-License-Identifier: MIT */
/*
 * collect.h - has the interpreter's collector run before the device is full (KEDGE_HELD=collect).
 *
 * Tensors of a cycle of references are small to the collector, which counts objects, and large to
 * the device. A request that fails cannot wait for it: the framework's allocator asks for memory
 * with its lock held, which a tensor that is let go takes, too. So the collector runs between the
 * program's calls, in a round that will need more than there is if it needs what rounds before it
 * did.
 *
 *     round: live now + what a round took at most beyond that  >  15/16 of what can be live
 *
 * If most of it is in use after that, the next run waits until clearly more is live.
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_COLLECT_H
#define KEDGE_PRELOAD_COLLECT_H

#include <stdbool.h>

/* Finds the collector. False: there is none. */
bool collect_find(void);

/* At the same place of each round. */
void collect_at_round(void);

/* The collector runs. Finalizers of the program do; an interrupt may be set afterwards. */
void collect_now(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * still.h - the program's other Python threads stand still while its objects are walked.
 *
 *     still_begin ─► the switch interval is longer than any walk, the collector is off ─► still_end
 *
 * A thread that waits for the GIL asks for it after one interval, and keeps the interval with which
 * it began to wait. So still_begin lets those that wait have their turn first, while the interval is
 * short: who got a turn would keep the GIL for a long one. One that had a turn may wait with the
 * short one again; it has another turn, until none has asked. Nobody takes the GIL after that.
 *
 * What has no GIL goes on: PyTorch's threads in a backward pass, and operations. A thread that the
 * machine has kept from running may ask late, and get the GIL in the middle of a walk: what must
 * not be read while a backward pass runs is read by `quiet`.
 *
 * Threads: the one that holds the GIL. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_STILL_H
#define KEDGE_PRELOAD_STILL_H

#include "preload/anchors/pyhost.h"

#include <stdbool.h>

enum {
    STILL_ERROR = 3, /* type, value, traceback */
};

struct still {
    double interval; /* seconds: the program's */
    bool collects;
    long young;                               /* young_count */
    struct pyhost_object *error[STILL_ERROR]; /* an interrupt that came meanwhile, [0] NULL: none */
};

/* Finds the interpreter's functions. */
bool still_find(void);

/* `seconds`: the longest walk. Lets the GIL go for a moment, unless there is one thread only. */
void still_begin(struct still *ret_was, double seconds);
void still_end(const struct still *was);

/*
 * Whether another thread may be taking a tensor or a graph apart without the GIL, by the function
 * that it is in. True also if this cannot be known.
 */
bool still_is_at_work(void);

/*
 * Adds functions to a dict: `passes` tells how many backward passes run (pyhost_passes), `quiet` reads
 * members of objects unless one has begun since, or still_is_at_work. False: they could not be added.
 */
bool still_add(struct pyhost_object *space);

#endif

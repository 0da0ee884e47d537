/* SPDX-License-Identifier: MIT */
/*
 * heldwalk.h - one walk through the objects of a Python program, and its rows in the capture.
 *
 *     live blocks as bytes ─► held.py's `look` ─► rows as bytes ─► capture_held, capture_walk
 *
 * held.py is compiled at each walk, in a namespace of its own: no module is added, and nothing of
 * it stays. It calls no code of the program; an error in it is dropped, and noted in the capture,
 * unless it is an interrupt, which stays set. Other Python threads stand still meanwhile.
 *
 * Threads: the one that holds the GIL of the main interpreter; not two at once. No lock of ours, no
 * malloc of ours.
 */
#ifndef KEDGE_PRELOAD_HELDWALK_H
#define KEDGE_PRELOAD_HELDWALK_H

#include "tracker/format/format.h"

#include <stdbool.h>
#include <stdint.h>

struct pyhost_object;

/* From the constructor: the bounds of a walk, in seconds and in objects that it visits. */
void heldwalk_start(double walk_seconds, long walk_objects);

/* Finds the interpreter's functions. False: one is missing, and nothing below may be called. */
bool heldwalk_find(void);

/* Whether kedge acts in this process and has a capture that can have rows. Any thread. */
bool heldwalk_may(void);

/*
 * Walks now, for the live blocks of a device (-1: all). `error`: whose traceback's locals are roots,
 * too; NULL: none. `tells`: the holders of the most bytes are also named on stderr. Returns the
 * number of the walk, 0: it is not on record. An interrupt may be set afterwards.
 */
uint32_t heldwalk_run(
        enum format_walk_why why, struct pyhost_object *error, int device, bool tells);

/*
 * What a tensor's memory is and what holds it, as held.py's `holders` tells it: a new object. NULL:
 * there was an error, or an interrupt came, which is set.
 */
struct pyhost_object *heldwalk_holders(struct pyhost_object *reference);

#endif

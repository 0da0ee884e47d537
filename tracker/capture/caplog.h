/* SPDX-License-Identifier: MIT */
/*
 * caplog.h - area D of a capture: events, in chunks.
 *
 * Each thread writes to its own chunk, so that an event is a few plain stores (eventcode.h) and one
 * release. A full chunk is sealed. In ring mode the oldest sealed chunk is reused when the bound is
 * reached; its events are counted with their highest seq, so that a reader knows from where on the
 * log is complete. In full mode chunks are added until the disk is full; then the log continues as
 * a ring over its chunks.
 *
 *     pool of fresh chunks ─► owned by a thread ─► sealed ─(ring)─► owned again
 *                                     └ its thread ended ─► half-full, for the next thread
 *
 * Threads: any, no kedge lock held.
 */
#ifndef KEDGE_TRACKER_CAPLOG_H
#define KEDGE_TRACKER_CAPLOG_H

#include "tracker/capture/capfile.h"
#include "tracker/format/eventcode.h"

#include <stdint.h>

/* Starts a new log. chunks_max: bound of the ring, 0 = none. */
void caplog_init(struct capfile *file, uint32_t chunks_max);

/* Writes one event into this thread's chunk; sets event->thread to `of`, or for 0 to this thread's
 * number. The chunk's length is stored last. 0, or -errno for the call that met an error (the event
 * may be written all the same); the header counts events that could not be written. */
int caplog_append(struct format_event *event, uint32_t of);

/* In the child of a fork: the chunks belong to the parent. */
void caplog_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * caplog.h - area D of a capture: events, in chunks.
 *
 * A thread writes to a chunk of its own, so that an event is a few plain stores (eventcode.h) and one release. A full chunk is sealed.
 * In ring mode the oldest sealed chunk is used again when the bound is reached; what it held is counted with the highest
 * seq in it, so that a reader knows from where on the log is complete. In full mode chunks are added until the disk says
 * no; then the log goes on as a ring over what it has.
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

/* A fresh start. chunks_max: bound of the ring, 0 = none. */
void caplog_init(struct capfile *file, uint32_t chunks_max);

/*
 * Writes one event into this thread's chunk; event->thread is filled in: the number `of`, or 0 for this thread's. The chunk's length is stored last. 0, or -errno for
 * the call that met trouble (the event may be written all the same); an event that could not be written is counted in the
 * header.
 */
int caplog_append(struct format_event *event, uint32_t of);

/* In the child of a fork: the chunks are the parent's. */
void caplog_fork_child(void);

#endif

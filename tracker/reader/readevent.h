/* SPDX-License-Identifier: MIT */
/*
 * readevent.h - decodes a record of the event log.
 *
 * Threads: no state.
 */
#ifndef KEDGE_TRACKER_READEVENT_H
#define KEDGE_TRACKER_READEVENT_H

#include "alloc/base/types.h"
#include "tracker/reader/read.h"

#include <stdbool.h>

struct format_event; /* eventcode.h */

/* False = invalid. */
bool readevent_decode(const struct format_event *from, struct read_event *to);

/* From the flags of an allocation, in an event or a live slot: its class, and the other flags. */
enum memclass readevent_class(unsigned flags);
unsigned readevent_plain_flags(unsigned flags);

#endif

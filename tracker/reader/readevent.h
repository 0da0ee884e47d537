/* SPDX-License-Identifier: MIT */
/*
 * readevent.h - a record of the event log as the tools know it.
 *
 * Threads: no state.
 */
#ifndef KEDGE_TRACKER_READEVENT_H
#define KEDGE_TRACKER_READEVENT_H

#include "alloc/base/types.h"
#include "tracker/reader/read.h"

#include <stdbool.h>

struct format_event; /* eventcode.h */

/* False = it makes no sense. */
bool readevent_decode(const struct format_event *from, struct read_event *to);

/* Of the flags of an allocation, in an event as in a live slot: its class, and the others. */
enum memclass readevent_class(unsigned flags);
unsigned readevent_plain_flags(unsigned flags);

#endif

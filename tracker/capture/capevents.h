/* SPDX-License-Identifier: MIT */
/*
 * capevents.h - what capture.c asks of the events: allocations, frees, edges, hints, uses,
 * failures.
 *
 * Their own calls are in capture.h; they begin with capstate_begin and return what capstate_trouble
 * says.
 */
#ifndef KEDGE_TRACKER_CAPEVENTS_H
#define KEDGE_TRACKER_CAPEVENTS_H

/*
 * Writes the enter edges of the ranges that are open now. Once for a file, before the phase is
 * CAPSTATE_OPEN; capture_edge leaves these edges out from then on.
 */
void capevents_write_open_ranges(void);

/* In the child of a fork. */
void capevents_fork_child(void);

#endif

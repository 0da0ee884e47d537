/* SPDX-License-Identifier: MIT */
/*
 * capevents.h - the parts of events that capture.c uses: allocations, frees, edges, hints, uses,
 * failures.
 *
 * Their public functions are in capture.h; they begin with capstate_begin and return the result of
 * capstate_trouble.
 */
#ifndef KEDGE_TRACKER_CAPEVENTS_H
#define KEDGE_TRACKER_CAPEVENTS_H

/* Writes the enter edges of the ranges that are open now. Called once for a file, before the phase
 * is CAPSTATE_OPEN; capture_edge then skips these edges. */
void capevents_write_open_ranges(void);

/* In the child of a fork. */
void capevents_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * inorder.h - the peaks of a run, counted again in the order of its events.
 *
 * A run counts live bytes in the order in which its threads reach the counters, which is not the
 * order in which the pool served them (captotal.h). Two orders give two peaks, and a capture with
 * all its events would show both: windows, steps and timelines use the events; heads, call sites
 * and classes use the run's own figures. The order of the events is the true one: their sum at a
 * moment was held by the pool at that moment. So if the run has noticed that it counted in another
 * order, its figures are replaced once, when the capture is opened, and every view prints the same
 * peak. If events are missing, the run's own figures stay, which are consistent, and no sum of the
 * remaining events exceeds them (trace.live_most).
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_INORDER_H
#define KEDGE_TOOLS_INORDER_H

#include "tools/load/load.h"

/* Whether the run counted in another order than that of its events, and all events are recorded. */
bool inorder_is_needed(const struct read_capture *capture);

/*
 * Replaces the peaks in load->capture: of all, of devices, of classes of device memory, the marks
 * of devices, and of each place its own peak and its share in the device's. Restores the places'
 * order by share. No effect if it is not needed.
 */
void inorder_settle(struct load *load);

/*
 * A capture with only the peaks of all and of classes, in a tenth of the memory; `total` and
 * `class_total` are as inorder_settle leaves them. NULL: it cannot be read. read_close frees it.
 */
struct read_capture *inorder_totals(const char *path);

#endif

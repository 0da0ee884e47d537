/* SPDX-License-Identifier: MIT */
/*
 * inorder.h - the peaks of a run, counted again in the order of its events.
 *
 * A run counts what lives as its threads come to it, and that is not the order in which the pool
 * gave and took (captotal.h). Two orders are two peaks, and a capture with all its events would
 * show both: windows, steps and timelines follow the events, heads, call sites and classes the
 * run's own figures. The order of the events is the one that was: what they add up to at a moment
 * was held by the pool at that moment. So where the run has noticed that it counted in another
 * order, the figures that it kept are replaced once, where the capture is opened, and everything
 * that prints a peak finds the same one. Where events are missing the run's own figures stay, which
 * agree with each other, and no sum of the events that are left counts for more (trace.live_most).
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_INORDER_H
#define KEDGE_TOOLS_INORDER_H

#include "tools/load/load.h"

/* Has the run counted in another order than that of its events, and are these all there? */
bool inorder_is_needed(const struct read_capture *capture);

/*
 * Replaces in load->capture the peaks: of all, of devices, of classes of device memory, the marks
 * of devices, and of each place its own peak and its share in the device's. The places are in the
 * order of their shares again. Nothing if it is not needed.
 */
void inorder_settle(struct load *load);

/*
 * A capture with the peaks of all and of classes alone, for whoever needs no more: in a tenth of
 * the memory, and of its `total` and `class_total` what inorder_settle leaves there. NULL: it
 * cannot be read. read_close gives it back.
 */
struct read_capture *inorder_totals(const char *path);

#endif

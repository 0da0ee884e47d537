/* SPDX-License-Identifier: MIT */
/*
 * classes.h - what a run held by kind of memory, and what the device held beside it.
 *
 * The figures of model.h count device memory that the program asked for, whatever its kind. Here the same bytes stand by
 * kind, and beside them what never counts as device memory of this process: pinned and registered host memory, memory of
 * other processes and of other interfaces, multicast objects.
 *
 * The last part of a device's memory is what nobody asked for: contexts, kernels, the driver's own pools and rounding,
 * and other processes. It is what is left of the device's own figure when everything known is taken off:
 *
 *     overhead = total - free - held by kedge's heaps - native allocations - held for graphs        (when we looked last)
 *
 * Managed memory is not taken off, since nobody can tell how much of it is on the device.
 *
 * Prints nothing. Threads: none.
 */
#ifndef KEDGE_TOOLS_CLASSES_H
#define KEDGE_TOOLS_CLASSES_H

#include "tools/load.h"
#include "tools/model.h"

struct classes_row {
    uint64_t allocated, allocated_count;
    uint64_t live, live_count; /* at the window's end */
    uint64_t peak;             /* the most that was live at once, of what the window allocated */
};

/* A row for each class; memory that was allocated before the window counts nowhere, as in model.h. */
void classes_figure(const struct load *load, struct model_window window,
        struct classes_row ret_rows[static MEMCLASS_COUNT]);

/* "pitched", for people; the word in JSON is the same. */
const char *classes_name(enum memclass memclass);

struct classes_overhead {
    bool is_known;
    uint64_t bytes;
    bool is_short; /* more is known than the device holds: memory that is counted and not backed yet */
};

/* What is left of a device's memory; not known if nobody looked. */
struct classes_overhead classes_overhead(const struct format_look *look);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * classes.h - kinds of memory: what they are called, and what a device held that nobody asked for.
 *
 * The rest of a device's memory is overhead: contexts, kernels, the driver's own pools and rounding, and other processes. It
 * is the device's own figure minus everything that is known:
 *
 *     overhead = total - free - held by kedge's heaps - native allocations - held for graphs        (when we looked last)
 *
 * Managed memory is not subtracted, because it is not known how much of it is on the device.
 *
 * Prints nothing. Threads: none.
 */
#ifndef KEDGE_TOOLS_CLASSES_H
#define KEDGE_TOOLS_CLASSES_H

#include "alloc/types.h"
#include "tracker/format.h"

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

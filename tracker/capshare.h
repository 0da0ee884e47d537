/* SPDX-License-Identifier: MIT */
/*
 * capshare.h - what the parts of capture.h share: whether there is a file, the clock, and the totals.
 *
 *     capture.c    options, names, opening, identity, state
 *     capevents.c  allocations, frees, edges, hints, failures: live table and log
 *     capevict.c   what eviction did
 *     captotal.c   the figures in the header
 *
 * Not for others. Threads: as capture.h.
 * Prefixes: capture_.
 */
#ifndef KEDGE_TRACKER_CAPSHARE_H
#define KEDGE_TRACKER_CAPSHARE_H

#include "alloc/lock.h"
#include "tracker/caplive.h"
#include "tracker/capture.h"
#include "tracker/eventcode.h"

#include <stdbool.h>
#include <stdint.h>

/* The header if there is a file to write to; opens it at the first use if `opens`. *ret_error: -errno of the opening. */
struct format_header *capture_begin(bool opens, int *ret_error);

int capture_keep_trouble(int r); /* for the next */

/*
 * Keeps trouble (r < 0) until a call of capture.h tells it: the next one that returns, whoever met it, and the same trouble only
 * once however many parts of the file meet it. Returns r.
 */
static inline int capture_degraded(int r)
{
    return __builtin_expect(r >= 0, 1) ? r : capture_keep_trouble(r);
}

/* What a call of capture.h returns: -errno of trouble that was not told yet, or 0. */
int capture_trouble(void);

/* Whether the mode writes events. */
extern bool capture_logs; /* fixed by capture_init */
static inline bool capture_has_log(void)
{
    return capture_logs;
}

/* Nanoseconds since the file was opened. */
uint64_t capture_time(void);

/* The enter edge of a range that was open when the file was, and is in the log already. */
bool capture_is_written(const struct edge *edge);

/* capevents.c: writes an edge. */
void capture_put_edge(const struct edge *edge, uint64_t seq, uint64_t time_ns, bool before_start);
/* capevents.c: in the child of a fork. */
void capture_events_fork_child(void);

/*
 * captotal.c: guards all figures of what lives, those of the header and of places (capplace.h), so
 * that each change is in all of them at once: a peak is the same figure wherever it is kept,
 * whatever the threads do.
 *
 * The changes are counted as threads come here, which need not be the order of the pool's numbers:
 * between the number and this lock lies the walk of a stack. Where it was not, `counted_late` says
 * so, and whoever has all events has the peaks in the order of the numbers (tools/inorder.h), which
 * is what the pool held. To count in that order here, each thread would have to wait for those with
 * smaller numbers, or the pool to count for the capture under its own locks.
 *
 * A leaf. Some sixty instructions, no call.
 */
extern struct lock capture_figures;

/* captotal.c, with capture_figures: what comes now has this number. A block of `size` bytes
 * began to live, one ended (change->gone_*), a hint released one's storage. */
void captotal_comes(struct format_header *header, uint64_t seq);
void captotal_born(struct format_header *header, enum memclass memclass, int device, uint64_t size);
void captotal_died(struct format_header *header, const struct caplive_change *change);
void captotal_released(struct format_header *header, int device, uint64_t size);

/* NULL for a device that has no totals of its own. */
struct format_totals *captotal_of(struct format_header *header, int device);

/* Live now on a device in classes that the driver serves by itself. */
uint64_t captotal_native(const struct format_header *header, int device);

#endif

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

/* captotal.c: a block of `size` bytes began to live, one ended (change->gone_*), a hint released one's storage. */
void captotal_born(struct format_header *header, enum memclass memclass, int device, uint64_t size);
void captotal_died(struct format_header *header, const struct caplive_change *change);
void captotal_released(struct format_header *header, int device, uint64_t size);

/* NULL for a device that has no totals of its own. */
struct format_totals *captotal_of(struct format_header *header, int device);

/* Live now on a device in classes that the driver serves by itself. */
uint64_t captotal_native(const struct format_header *header, int device);

#endif

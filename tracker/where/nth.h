/* SPDX-License-Identifier: MIT */
/*
 * nth.h - the number of earlier allocations of (anchor instance, site, size).
 *
 * A bounded table under one short lock. When it is full, the counts of closed anchor instances are
 * dropped; only then it grows. A key without space gets NTH_UNKNOWN, never a wrong number.
 *
 * Threads: any; no lock may be held (a rebuild calls anchor.h). Memory: meta.h.
 */
#ifndef KEDGE_TRACKER_NTH_H
#define KEDGE_TRACKER_NTH_H

#include <stdint.h>

#define NTH_UNKNOWN   UINT32_MAX
#define NTH_SLOTS_MAX (1u << 20)

/* Counts one more; returns the number before, or NTH_UNKNOWN. */
uint32_t nth_count(uint32_t anchor, uint64_t site, uint64_t size);

/* Requests that got NTH_UNKNOWN, and slots in use. */
uint64_t nth_lost(void);
uint32_t nth_used(void);

void nth_fork_child(void);

#endif

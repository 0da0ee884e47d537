/* SPDX-License-Identifier: MIT */
/*
 * nth.h - how many allocations of (anchor instance, site, size) came before this one.
 *
 * A bounded table under one short lock. When it is full, the counts of anchor instances that are closed go; only then
 * it grows. A key for which there is no room gets NTH_UNKNOWN, never a wrong number.
 *
 * Threads: any; no lock may be held (a rebuild asks anchor.h). Memory: meta.h.
 */
#ifndef KEDGE_TRACKER_NTH_H
#define KEDGE_TRACKER_NTH_H

#include <stdint.h>

#define NTH_UNKNOWN   UINT32_MAX
#define NTH_SLOTS_MAX (1u << 20)

/* Counts one more; returns how many there were before, or NTH_UNKNOWN. */
uint32_t nth_count(uint32_t anchor, uint64_t site, uint64_t size);

/* Requests that got NTH_UNKNOWN, and slots in use. */
uint64_t nth_lost(void);
uint32_t nth_used(void);

void nth_fork_child(void);

#endif

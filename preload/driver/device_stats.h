/* SPDX-License-Identifier: MIT */
/*
 * device_stats.h - figures of the driver and the pool about a whole device, for the capture.
 *
 * Threads: any, inside life_enter. No lock is held. The driver is asked only where that is allowed
 * (R10, no calls during captures; R38, frees in callbacks).
 */
#ifndef KEDGE_PRELOAD_DEVICE_STATS_H
#define KEDGE_PRELOAD_DEVICE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Records the name and the memory of a device at its first allocation, with three queries that the
 * driver answers from its tables. True the first time, with the name in `ret_name`, of `size`
 * bytes.
 */
bool device_stats_device(int device, char *ret_name, size_t size);

/*
 * Asks for the device's free memory and records it. device_stats_looked: records an answer that the
 * program has just got. Bytes.
 */
void device_stats_look(int device);
void device_stats_looked(int device, uint64_t free_bytes, uint64_t total_bytes);

/*
 * The program waited for the device: looks at the 1st, 2nd, 4th, 8th ... time, since the driver's
 * own memory grows with use.
 */
void device_stats_waited(void);

/* Records the storage that the pool has moved, and what that took; at the waits above, and at the
 * end. No driver call. */
void device_stats_moves(void);

/* From now on the driver's memory figures for graphs are recorded, too. */
void device_stats_graph_memory(void);

/*
 * Records the bytes that the pool holds from the driver on a device, after something other than a
 * request changed them. Below: the same on all devices.
 */
void device_stats_reserved(int device);
void device_stats_all_reserved(void);

#endif

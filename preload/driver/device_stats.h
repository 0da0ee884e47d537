/* SPDX-License-Identifier: MIT */
/*
 * device_stats.h - what the driver and the pool say about a device as a whole, for the record.
 *
 * Threads: any, inside life_enter. No lock is held. The driver is asked only where that is allowed (R10, R38).
 */
#ifndef KEDGE_PRELOAD_DEVICE_STATS_H
#define KEDGE_PRELOAD_DEVICE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Records the name and the memory of a device at its first allocation: three questions that the driver answers from its tables.
 * True the first time, with the name in `ret_name`, of `size` bytes.
 */
bool device_stats_device(int device, char *ret_name, size_t size);

/* What is free there now; device_stats_looked: the program has just asked that itself. Bytes. */
void device_stats_look(int device);
void device_stats_looked(int device, uint64_t free_bytes, uint64_t total_bytes);

/* The program waited for the device: a look at the 1st, 2nd, 4th, 8th ... time, since the driver's own memory comes with use. */
void device_stats_waited(void);

/* From now on the driver's figures for graphs are looked at, too. */
void device_stats_graph_memory(void);

/* Bytes that the pool holds from the driver on a device, after something else than a request changed them. And on all of them. */
void device_stats_reserved(int device);
void device_stats_all_reserved(void);

#endif

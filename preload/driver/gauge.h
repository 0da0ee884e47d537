/* SPDX-License-Identifier: MIT */
/*
 * gauge.h - what the driver and the pool say about a device as a whole, for the record.
 *
 * Threads: any, inside life_enter. No lock is held. The driver is asked only where that is allowed (R10, R38).
 */
#ifndef KEDGE_PRELOAD_GAUGE_H
#define KEDGE_PRELOAD_GAUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Records the name and the memory of a device at its first allocation: three questions that the driver answers from its tables.
 * True the first time, with the name in `ret_name`, of `size` bytes.
 */
bool gauge_device(int device, char *ret_name, size_t size);

/* What is free there now; gauge_looked: the program has just asked that itself. Bytes. */
void gauge_look(int device);
void gauge_looked(int device, uint64_t free_bytes, uint64_t total_bytes);

/* The program waited for the device: a look at the 1st, 2nd, 4th, 8th ... time, since the driver's own memory comes with use. */
void gauge_waited(void);

/* From now on the driver's figures for graphs are looked at, too. */
void gauge_graph_memory(void);

/* Bytes that the pool holds from the driver on a device, after something else than a request changed them. And on all of them. */
void gauge_reserved(int device);
void gauge_all_reserved(void);

#endif

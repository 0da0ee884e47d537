/* SPDX-License-Identifier: MIT */
/*
 * stream_order.h - a stream is put behind another one on the device, so that it may have memory that the other one used.
 *
 * Waits that are inserted (R72): the host does not wait. Each is counted.
 * Threads: any, with no lock held; driver calls are made. Rules: R36 R70 R72.
 */
#ifndef KEDGE_ALLOC_STREAM_ORDER_H
#define KEDGE_ALLOC_STREAM_ORDER_H

#include "alloc/heap/records.h"

/* The stream of this identity waits for a point of the stream `index`, which is recorded if need be; no call is made where it is known to
 * come behind it (stream_wait.h). 0, or why it does not: the driver's or -errno. */
int stream_order_behind(struct pool *pool, uint64_t stream, uint32_t index, uint64_t point);

/* It waits for everything that was submitted so far on any stream. Results as stream_order_behind. */
int stream_order_behind_all(struct pool *pool, uint64_t stream, int device);

#endif

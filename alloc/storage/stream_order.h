/* SPDX-License-Identifier: MIT */
/*
 * stream_order.h - makes a stream wait for another one on the device, so that it may reuse the
 * other one's memory.
 *
 * Inserted waits (R72, order of supply): the host does not wait. Each is counted.
 * Threads: any, with no lock held; makes driver calls. Rules: R36 R70 R72.
 */
#ifndef KEDGE_ALLOC_STREAM_ORDER_H
#define KEDGE_ALLOC_STREAM_ORDER_H

#include "alloc/heap/records.h"

/* Makes the stream of this identity wait for a point of the stream `index`, which is recorded if
 * needed; makes no call where it is known to wait already (stream_wait.h). 0, or the driver's code
 * or -errno. */
int stream_order_behind(struct pool *pool, uint64_t stream, uint32_t index, uint64_t point);

/* Makes the stream wait for all work submitted so far on any stream. Results as
 * stream_order_behind. */
int stream_order_behind_all(struct pool *pool, uint64_t stream, int device);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * oom.h - the record of an out-of-memory error of the program (R31, retries before OOM).
 *
 *     refusal of the pool, or of the driver after its second try
 *         └─► device and heaps are read ─┬─► capture, area E
 *                                        └─► the first time: one line on stderr
 *
 * The line says what the driver's code cannot: whether memory was short or fragmented, and which
 * call site holds most. Nothing is decided here: the program gets the same code without it.
 * Threads: any, inside life_enter, no lock held. May ask the driver for its free memory. Part of
 * dispatch.
 */
#ifndef KEDGE_PRELOAD_OOM_H
#define KEDGE_PRELOAD_OOM_H

#include "preload/request/dispatch.h"

/* `native`: the error is the driver's own answer. */
void oom_record(const struct dispatch_request *request, int result, bool native);

/* Prints bytes as the report does: with a point in every locale. Returns `text`. */
enum {
    OOM_BYTES_MAX = 24
};
const char *oom_bytes_text(char text[static OOM_BYTES_MAX], uint64_t bytes);

/* How often memory ran out; *ret_device: where it last did, unchanged if it never did. */
uint64_t oom_count(int *ret_device);

/*
 * From a constructor: `recorded` runs after each record, in the thread whose request failed, inside
 * life_enter, no lock held.
 */
void oom_on_record(void (*recorded)(int device, uint64_t count));

#endif

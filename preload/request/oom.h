/* SPDX-License-Identifier: MIT */
/*
 * oom.h - what is written down when the program runs out of memory (R31).
 *
 *     refusal of the pool, or of the driver after its second try ─► device and heaps are looked at ─► capture, area E
 *                                                                      └─ the first one also ─► one line on stderr
 *
 * The line says what the driver's code cannot: whether there was too little, or enough in pieces, and who holds most.
 * Nothing is decided here: the code that the program gets is the same without it.
 * Threads: any, inside life_enter, no lock held. May ask the driver for its free memory. Part of dispatch.
 */
#ifndef KEDGE_PRELOAD_OOM_H
#define KEDGE_PRELOAD_OOM_H

#include "preload/request/dispatch.h"

/* `native`: the driver itself was asked, and said so. */
void oom_record(const struct dispatch_request *request, int result, bool native);

#endif

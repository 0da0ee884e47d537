/* SPDX-License-Identifier: MIT */
/*
 * ending.h - the end of contexts, of a device's memory with a reset, and of the driver: the calls
 * to the pool, in their order.
 *
 *     about to end ─► ending_begin · ending_hide ─► the driver ─┬─ agreed ─► ending_context_gone
 *                                                              │              ─► ending_done
 *                                                              └─ refused ─► ending_hide(false)
 *                                                                             ─► ending_done
 *
 * Threads: any, inside life_enter. No lock is held. Rules: R26 (contexts end) R76 (work of a
 * context that has ended).
 */
#ifndef KEDGE_PRELOAD_ENDING_H
#define KEDGE_PRELOAD_ENDING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A context that may have work is about to end. Below: the driver has returned (context_end_begin,
 * pool_ending). Generation 0: unknown context.
 */
struct ending {
    uint64_t generation;
    uint64_t devices; /* devices whose memory that work may use */
    bool is_told;     /* a pool existed and knows of the end */
};

struct ending ending_begin(uint64_t generation);
void ending_done(const struct ending *ending);

/*
 * A context is about to end: nothing of it is handed out or named any more. Below: it has ended,
 * and its mapped memory can be released.
 */
void ending_hide(uint64_t generation, bool hidden);
void ending_context_gone(uint64_t generation);

/*
 * The primary context of a device was reset, and the memory of the device's pools with it
 * (context_pools_of).
 */
void ending_device_reset(int device);

#endif

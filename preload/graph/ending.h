/* SPDX-License-Identifier: MIT */
/*
 * ending.h - the end of contexts, of a device's memory with a reset, and of the driver: what is
 * told to the pool, and in which order.
 *
 *     about to end ─► ending_begin · ending_hide ─► the driver ─┬─ agreed ─► ending_context_gone ─► ending_done
 *                                                              └─ refused ─► ending_hide(false) ─► ending_done
 *
 * Threads: any, inside life_enter. No lock is held. Rules: R26 (contexts end) R76 (work of a
 * context that has ended).
 */
#ifndef KEDGE_PRELOAD_ENDING_H
#define KEDGE_PRELOAD_ENDING_H

#include <stdbool.h>
#include <stdint.h>

/* A context that may have work is about to die, or the driver is back (context_end_begin,
 * pool_ending). Generation 0: it is not known. */
struct ending {
    uint64_t generation;
    uint64_t devices; /* whose memory that work may use */
    bool is_told;     /* there was a pool to be told */
};

struct ending ending_begin(uint64_t generation);
void ending_done(const struct ending *ending);

/* A context is about to die: nothing of it is handed out or named any more. And: it is dead, its
 * mapped memory can go. */
void ending_hide(uint64_t generation, bool hidden);
void ending_context_gone(uint64_t generation);

/* The primary context of a device was reset: so is what came from its pools (context_pools_of). */
void ending_device_reset(int device);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * hit.h - records a call that names storage released by a hint, and decides whether it must be
 * stopped.
 *
 *     argcheck_range, pins_collect ─► the block is in limbo or released ─► hit_must_stop
 *                                    ─► capture_hint, one line ─► stop or continue
 *
 * Threads: any, inside life_enter. Locks: one inside, none across a driver call. Rules: R66
 * (readers) R85 (shared blocks) R86 (which uses stop a call) R110 (the end of a range is no use of
 * the block behind it).
 */
#ifndef KEDGE_PRELOAD_HIT_H
#define KEDGE_PRELOAD_HIT_H

#include "alloc/base/types.h"
#include "alloc/pool.h"

#include <stdbool.h>
#include <stdint.h>

/* How the call uses the range. */
enum touch {
    TOUCH_POINTER, /* a pointer argument of a call that uses the memory */
    TOUCH_READ,    /* the same, of a call that only reads it */
    TOUCH_WRITE,   /* the same, of a call that overwrites all of it and reads nothing */
    TOUCH_PARAM,   /* a parameter of a kernel: whether the kernel uses the memory is unknown */
    TOUCH_INSIDE,  /* eight bytes inside a larger parameter: stops in trap mode only (R86) */
};

/*
 * The form in which guard_thread.word keeps an address: its KiB within 2 TiB. Never 0, which means
 * none.
 */
static inline uint32_t hit_word(devptr_t ptr)
{
    return (uint32_t)(ptr / 512) | 1;
}

/*
 * Records the use, the first of each rule and place, and says whether the call `what` must not be
 * made.
 */
bool hit_must_stop(const struct pool_hit *hit, devptr_t ptr, enum touch how, const char *what);

/*
 * A block that a hint in poison had released was written: one line for each hint, and a record in
 * the capture.
 */
void hit_written(const struct outcome *written);

/* A block was shared: recorded in the capture (R85). */
void hit_shared(devptr_t base, uint64_t size, int device);

#endif

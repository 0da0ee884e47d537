/* SPDX-License-Identifier: MIT */
/*
 * hit.h - a call names storage that a hint has released: what is written down, and whether the call
 * must be stopped.
 *
 *     argcheck_range, pins_collect ─► the block is in limbo or gone ─► hit_must_stop ─► capture_hint, one line ─► stop or go on
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

/* How a range came to be looked at. */
enum touch {
    TOUCH_POINTER, /* an argument that is a pointer, of a call that uses what is there */
    TOUCH_READ,    /* the same, of a call that does not write there */
    TOUCH_WRITE,   /* the same, of a call that replaces all that is there and reads nothing of it */
    TOUCH_PARAM,   /* a parameter of a kernel: whether that uses what is there, nobody can tell */
    TOUCH_INSIDE,  /* eight bytes inside a larger parameter: stops in trap mode only (R86) */
};

/* What is kept of an address in guard_thread.word: which KiB of 2 TiB. Never 0, which is that of
 * none. */
static inline uint32_t hit_word(devptr_t ptr)
{
    return (uint32_t)(ptr / 512) | 1;
}

/* Writes the use down, the first of each rule and place, and says whether the call `what` must not
 * be made. */
bool hit_must_stop(const struct pool_hit *hit, devptr_t ptr, enum touch how, const char *what);

/* A block that a hint in poison had released was written meanwhile: one line for each hint, and the
 * capture is told. */
void hit_written(const struct outcome *written);

/* A block was shared with somebody: the capture is told (R85). */
void hit_shared(devptr_t base, uint64_t size, int device);

#endif

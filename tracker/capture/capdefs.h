/* SPDX-License-Identifier: MIT */
/*
 * capdefs.h - area B of a capture: the meaning of the numbers in events and live slots.
 *
 * Interning does not know captures. Before a record with a number is published, capdefs_sync copies
 * everything that was interned since the last call. Numbers are dense, so one comparison shows
 * whether a number is in the file already.
 *
 * Threads: any, no kedge lock held (growth makes system calls).
 */
#ifndef KEDGE_TRACKER_CAPDEFS_H
#define KEDGE_TRACKER_CAPDEFS_H

#include "tracker/capture/capfile.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Starts on a newly created file. */
void capdefs_init(struct capfile *file);

/* Private to capdefs.c and the functions below: the numbers of strings, native and Python stacks in
 * the file; and a function that writes the rest. */
extern _Atomic uint32_t capdefs_strings, capdefs_stacks, capdefs_pystacks;
int capdefs_sync_all(void);

/* Ensures that string and stack numbers up to these are in the file. 0 or -errno, once. */
static inline int capdefs_sync(uint32_t string, uint32_t stack)
{
    /* acquire: pairs with flush_locked */
    if (string <= atomic_load_explicit(&capdefs_strings, memory_order_acquire)
            && stack <= atomic_load_explicit(&capdefs_stacks, memory_order_acquire))
        return 0;
    return capdefs_sync_all();
}

/* The same for the number of a Python stack, as in tag.pystack. */
static inline int capdefs_sync_python(uint32_t pystack)
{
    if ((pystack & ~FORMAT_PYSTACK_AMBIENT)
            <= atomic_load_explicit(&capdefs_pystacks, memory_order_acquire))
        return 0;
    return capdefs_sync_all();
}

/* Appends a record, followed by `text` (may be NULL). Fills in def->bytes and def->length. 0 or
 * -errno, once. */
int capdefs_put(struct format_def *def, size_t bytes, const char *text, size_t length);

/* Counts a definition that was lost before it reached this module. */
void capdefs_lost(void);

/* Writes into the header how many definitions are missing in the file: for lack of space, or
 * because a bound of intern.h or pycode.h refused them. Called for every loss in this file and by
 * capture_state. Async-signal-safe. */
void capdefs_tell(void);

/* In the child of a fork: the header belongs to the parent. */
void capdefs_fork_child(void);

#endif

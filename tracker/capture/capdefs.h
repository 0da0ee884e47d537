/* SPDX-License-Identifier: MIT */
/*
 * capdefs.h - area B of a capture: what the numbers in events and live slots mean.
 *
 * Interning knows nothing of captures. Before a record that contains a number is published, capdefs_sync copies everything
 * that was interned since the last time. Numbers are dense, so one comparison says whether a number is in the file already.
 *
 * Threads: any, no kedge lock held (growth makes system calls).
 */
#ifndef KEDGE_TRACKER_CAPDEFS_H
#define KEDGE_TRACKER_CAPDEFS_H

#include "tracker/capture/capfile.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A fresh start on a file that was just created. */
void capdefs_init(struct capfile *file);

/* Private to capdefs.c and the functions below: how many strings, native and Python stacks are in the file; writes the rest. */
extern _Atomic uint32_t capdefs_strings, capdefs_stacks, capdefs_pystacks;
int capdefs_sync_all(void);

/* Makes sure that string and stack numbers up to these are in the file. 0 or -errno, once. */
static inline int capdefs_sync(uint32_t string, uint32_t stack)
{
    /* acquire: pairs with flush_locked */
    if (string <= atomic_load_explicit(&capdefs_strings, memory_order_acquire)
            && stack <= atomic_load_explicit(&capdefs_stacks, memory_order_acquire))
        return 0;
    return capdefs_sync_all();
}

/* The same for the number of a Python stack, as tag.pystack has it. */
static inline int capdefs_sync_python(uint32_t pystack)
{
    if ((pystack & ~FORMAT_PYSTACK_AMBIENT)
            <= atomic_load_explicit(&capdefs_pystacks, memory_order_acquire))
        return 0;
    return capdefs_sync_all();
}

/* Appends a record, `text` (may be NULL) behind it. def->bytes and def->length are filled here. 0 or -errno, once. */
int capdefs_put(struct format_def *def, size_t bytes, const char *text, size_t length);

/* Counts a definition that was lost before it came here. */
void capdefs_lost(void);

/*
 * Writes into the header how many definitions are not in the file: because there was no room, or because a bound of
 * intern.h or pycode.h refused them. Called for every loss in this file and by capture_state. Async-signal-safe.
 */
void capdefs_tell(void);

/* In the child of a fork: the header is the parent's. */
void capdefs_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * uses.h - the uses of each allocation: first, last, the longest time between two, and their
 * number.
 *
 *     a submission names an address ─► usemap
 *         ─► live slot: first_use, last_use, longest_gap, gap_end, use_count
 *                └─ free: the same figures go into the free's record
 *
 * A use is an argument of a call. That can err in two ways. The kernel may not touch the memory (a
 * word inside a larger parameter may not even be an address: USE_MAY): the block then looks used
 * for longer than it was, which makes reports more cautious, never wrong. And memory that is not an
 * argument is not seen (pointers in device memory, addresses that were exported, launches whose
 * parameters the driver does not reveal): such blocks get a flag and are not judged.
 *
 * Clock: nanoseconds since the start of the capture, like all events. bytes × time is computed from
 * it, it places a use between two events and two anchors without a record of its own, and it costs
 * no shared counter: a number of submissions per context (a virtual clock) would be one more word
 * that all threads write. It is read once per submission, and only when an argument is an
 * allocation.
 *
 * Figures only grow: two threads may use one block at once. last_use is raised with one exchange,
 * whose winner owns the time between the two values; a gap and its end are written together. A copy
 * or set that replaces all of a block makes the one before it a dead write, if no use came in
 * between: uses are numbered by use_count, and a slot keeps the number of its last write (24 bits
 * of it; a use is missed only if exactly 2^24 uses came in between). The order of uses is an
 * optional part of the event log: moves between device and host are planned by it (evict.h).
 *
 * Takes no lock and calls no malloc, except where blocks are allocated, freed and mapped
 * (usemap.h), and where the event log grows; so a caller that records the order holds no lock
 * around a use. Does not decide what is a use.
 * Threads: any.
 */
#ifndef KEDGE_TRACKER_USES_H
#define KEDGE_TRACKER_USES_H

#include "tracker/capture/liveuse.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum use_how {
    USE_SURE, /* an argument that is an address */
    USE_MAY,  /* a word of a larger argument */
};

extern atomic_bool uses_ordered;

/* Are uses recorded in this process? */
static inline bool uses_on(void)
{
    return liveuse_on();
}

/* Call before anything else here. Off by default; then every call below does nothing. */
void uses_init(bool on);

/* Also writes uses of blocks of at least FORMAT_USE_BYTES as events, while uses are on. Off by
 * default. */
void uses_keep_order(bool on);

static inline bool uses_have_order(void)
{
    return atomic_load_explicit(&uses_ordered, memory_order_relaxed);
}

/* The slow paths of uses_touch. */
void uses_of(const struct usemap_range *range, enum use_how how, uint64_t *moment);
void uses_of_stretch(uint64_t ptr, uint64_t size, enum use_how how, uint64_t *moment);

/* A call uses [ptr, ptr + size), or a word that may be an address: then size is 1. Never 0.
 * *moment: 0 before the call's first use, then the time of all its uses. */
static inline __attribute__((always_inline)) void uses_touch(
        uint64_t ptr, uint64_t size, enum use_how how, uint64_t *moment)
{
    uint64_t room;
    uintptr_t node;
    const struct usemap_range *range = usemap_look(ptr, &room, &node);

    if (__builtin_expect(room >= size, 1))
        uses_of(range, how, moment);
    else if (node != 0 || size > 1)
        uses_of_stretch(ptr, size, how, moment);
}

/* As uses_touch, for a call that replaces the content of [ptr, ptr + size) and reads none of it. */
void uses_write(uint64_t ptr, uint64_t size, uint64_t *moment);

/* The call names memory that kedge cannot see: no block that lives now can be judged. */
void uses_unseen(uint64_t *moment);

/* Code whose calls are not seen knows [ptr, ptr + size). */
void uses_shown(uint64_t ptr, uint64_t size);

/* The beginning of the block around ptr, or ptr itself: to compare two arguments. */
uint64_t uses_base(uint64_t ptr);

#endif

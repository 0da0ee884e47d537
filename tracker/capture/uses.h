/* SPDX-License-Identifier: MIT */
/*
 * uses.h - when each allocation is used: first, last, the longest time between two, and how often.
 *
 *     a submission names an address ─► usemap ─► live slot: first_use, last_use, longest_gap, gap_end, use_count
 *                                                   └─ free: the same figures go into the free's record
 *
 * A use is an argument of a call. That can err in two ways. The kernel may not touch the memory (a word inside a larger
 * parameter may not even be an address: USE_MAY): the block then looks used for longer than it was, which makes reports more
 * cautious, never wrong. And what is not an argument is not seen (pointers in device memory, addresses that were shared,
 * launches whose parameters the driver does not tell): such blocks get a flag and are not judged.
 *
 * Clock: nanoseconds since the start of the capture, like all events. It is what bytes × time is computed from, it places a
 * use between two events and two anchors without a record of its own, and it costs no shared counter: a number of
 * submissions per context (a virtual clock) would be one more word that all threads write. Asked once per submission, and
 * only when an argument is an allocation.
 *
 * Figures only grow: two threads may use one block at once. last_use is raised with one exchange, whose winner owns the
 * time between the two values; a gap and its end are written as one.
 * A copy or set that replaces all of a block makes the one before it a dead write, if no use came in between: uses are numbered
 * by use_count, and a slot keeps the number of its last write (24 bits of it; that the numbers come round in between, and
 * a use is missed, takes exactly 2^24 uses).
 * The order of uses is a part of the event log, on request: what moves between device and host is planned by it (evict.h).
 *
 * Takes no lock and calls no malloc, except where blocks come, go, and are mapped (usemap.h), and where the event log grows;
 * so whoever has the order kept holds no lock around a use. Does not decide what is a use.
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
    USE_MAY,  /* a word of a larger one */
};

extern atomic_bool uses_ordered;

/* Are uses recorded in this process? */
static inline bool uses_on(void)
{
    return liveuse_on();
}

/* Before anything else here. Off by default; then every call below does nothing. */
void uses_init(bool on);

/* Uses of blocks of FORMAT_USE_BYTES and more are events, too, while uses are on. Off by default. */
void uses_keep_order(bool on);

static inline bool uses_have_order(void)
{
    return atomic_load_explicit(&uses_ordered, memory_order_relaxed);
}

/* For uses_touch. */
void uses_of(const struct usemap_range *range, enum use_how how, uint64_t *moment);
void uses_of_stretch(uint64_t ptr, uint64_t size, enum use_how how, uint64_t *moment);

/* A call uses [ptr, ptr + size), or a word that may be an address: then size is 1. Never 0. *moment: 0 before the call's first
 * use, the time of all its uses afterwards. */
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

/* As uses_touch, of a call that replaces what is in [ptr, ptr + size) and reads nothing of it. */
void uses_write(uint64_t ptr, uint64_t size, uint64_t *moment);

/* The call names memory that is not told to us: no block that lives now can be judged. */
void uses_unseen(uint64_t *moment);

/* [ptr, ptr + size) is known to somebody whose calls are not seen. */
void uses_shown(uint64_t ptr, uint64_t size);

/* The beginning of the block around ptr, or ptr itself: what two arguments have in common. */
uint64_t uses_base(uint64_t ptr);

#endif

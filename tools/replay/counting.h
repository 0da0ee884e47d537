/* SPDX-License-Identifier: MIT */
/*
 * counting.h - a driver for replays: it never runs out of memory, counts all calls, and can let the
 * device lag.
 *
 * The pool itself (alloc/pool.h) runs above this table, and so do the models of other allocators
 * (peer.h). Addresses are handed out once, in rising order; handles are numbers. The driver counts
 * all calls by kind, and the bytes held: as requested, or (`backed`) as a device backs them. Then
 * cuMemAlloc memory from 1 MiB on takes whole granules of 2 MiB, and smaller segments share
 * granules, in multiples of 512 bytes without a gap, which is a lower bound.
 *
 * Time is the number of events so far (counting_step). The device is `lag` events behind: a fence
 * passes when the program is that many events beyond it, or when the host has waited for it or for
 * a later one.
 *
 *     event:      1    2    3    4    5    6          lag 3: the fence recorded at 2 passes at 5,
 *     fence:           R              passed          or at once if the host waits for it
 *
 * Threads: one. Memory: vec.h; counting_done gives it back.
 */
#ifndef KEDGE_TOOLS_COUNTING_H
#define KEDGE_TOOLS_COUNTING_H

#include <stdbool.h>

#include "alloc/base/driver.h"
#include "tools/base/keytable.h"

enum counting_kind {
    COUNTING_SEGMENT, /* cuMemAlloc, cuMemFree */
    COUNTING_HANDLE,  /* physical memory made and given back */
    COUNTING_MAPPING, /* map, unmap, access */
    COUNTING_EVENT,   /* recorded */
    COUNTING_QUERY,   /* of an event */
    COUNTING_BEHIND,  /* a stream was made to wait for an event */
    COUNTING_WAIT,    /* the host waited for an event, in a call for that */
    COUNTING_OTHER,   /* address reservations, property queries, requests that the driver serves */
    COUNTING_KIND_COUNT,
};

/* What the calls of COUNTING_HANDLE and COUNTING_MAPPING were, and the bytes of some calls. */
struct counting_storage {
    uint64_t creates, releases, maps, unmaps, accesses;
    uint64_t unmapped_bytes, accessed_bytes;
};

struct counting {
    uint64_t lag; /* may be set at any time */
    bool backed;  /* set before the first call */
    /* of the clock: ns from one event to the next; and what the driver says of a move of 2 MiB */
    uint64_t step_ns, move_ns;
    /* the books */
    uint64_t reserved, reserved_high; /* bytes held; the owner may reset the high mark */
    uint64_t calls[COUNTING_KIND_COUNT];
    struct counting_storage storage;
    uint64_t waits; /* host waits: those calls, and waits within other calls */
    /* private to counting.c: */
    uint64_t now;       /* events so far */
    uint64_t caught_up; /* all up to this event is done, whatever the lag */
    devptr_t next;
    struct keytable segments; /* address -> number in `sizes` */
    uint64_t *sizes;          /* of handles and segments */
    size_t size_count, size_room;
    uint64_t packed; /* bytes of segments that share granules */
};

/* The table; `counting` must outlive it. */
struct driver counting_driver(struct counting *counting);
void counting_done(struct counting *counting);

uint64_t counting_calls(const struct counting *counting);
/* What came since `before`, a copy of an earlier state. */
struct counting_storage counting_storage_since(
        const struct counting *counting, const struct counting *before);

/* The program goes on by one event. */
void counting_step(struct counting *counting);

/*
 * For models of work inside the driver, none of it counted as a call: a fence of all submitted so
 * far, whether it has passed, and a segment given back (0, or -EINVAL: unknown).
 */
uint64_t counting_mark(const struct counting *counting);
bool counting_has_passed(const struct counting *counting, uint64_t fence);
int counting_give_back(struct counting *counting, devptr_t ptr);

/* All submitted work is done: the program itself has waited. */
void counting_catch_up(struct counting *counting);
/*
 * The same within a call that has its own kind; counts a wait of the host if the device was behind.
 */
void counting_wait_within(struct counting *counting);

#endif

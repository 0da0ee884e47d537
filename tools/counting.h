/* SPDX-License-Identifier: MIT */
/*
 * counting.h - a driver that has all the memory in the world, counts, and may run behind.
 *
 * What the pool would hold is found out by running the pool itself (alloc/pool.h) above this table; the models of other
 * allocators (peer.h) stand above the same one, so that their figures mean the same. Addresses are handed out once, in
 * rising order, and stand for nothing; handles are numbers. What is counted: bytes held (segments and handles, as they were
 * asked for), and all calls by their kind. Giving a fence back is none: events are used again.
 *
 * Time is the number of events so far (counting_step). The device is `lag` of them behind: a fence passes when the program
 * is that many events beyond it, or when the host has waited for it or for a later one.
 *
 *     event:      1    2    3    4    5    6          lag 3: the fence recorded at 2 passes at 5,
 *     fence:           R              passed          or at once if the host waits for it
 *
 * Threads: one. Memory: vec.h; counting_done gives it back.
 */
#ifndef KEDGE_TOOLS_COUNTING_H
#define KEDGE_TOOLS_COUNTING_H

#include <stdbool.h>

#include "alloc/driver.h"
#include "tools/keytable.h"

enum counting_kind {
    COUNTING_SEGMENT, /* cuMemAlloc, cuMemFree */
    COUNTING_HANDLE,  /* physical memory made and given back */
    COUNTING_MAPPING, /* map, unmap, access */
    COUNTING_EVENT,   /* recorded */
    COUNTING_QUERY,   /* of an event */
    COUNTING_BEHIND,  /* a stream was made to wait for an event */
    COUNTING_WAIT,    /* the host waited for an event */
    COUNTING_OTHER, /* addresses reserved, properties asked, requests that the driver serves itself */
    COUNTING_KIND_COUNT,
};

struct counting {
    uint64_t lag; /* may be set at any time */
    /* the books */
    uint64_t reserved, reserved_high; /* bytes held; the mark is the owner's to reset */
    uint64_t calls[COUNTING_KIND_COUNT];
    /* the rest is its own */
    uint64_t now;       /* events so far */
    uint64_t caught_up; /* everything up to this event is done, whatever the lag */
    devptr_t next;
    struct keytable segments; /* address -> number in `sizes` */
    uint64_t *sizes;          /* of handles and segments */
    size_t size_count, size_room;
};

/* The table; `counting` must outlive it. */
struct driver counting_driver(struct counting *counting);
void counting_done(struct counting *counting);

uint64_t counting_calls(const struct counting *counting);

/* The program goes on by one event. */
void counting_step(struct counting *counting);

/* For models of what the driver does by itself: one call that is none of the table's (COUNTING_OTHER); a fence of what was submitted so far,
 * and whether it has passed, neither of them a call. */
void counting_call(struct counting *counting);
uint64_t counting_mark(const struct counting *counting);
bool counting_has_passed(const struct counting *counting, uint64_t fence);

#endif

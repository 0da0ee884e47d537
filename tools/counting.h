/* SPDX-License-Identifier: MIT */
/*
 * counting.h - a driver that has all the memory and all the time in the world.
 *
 * What the pool would hold is predicted by running the pool itself (alloc/pool.h) above this table: addresses are handed out
 * once and stand for nothing, handles are numbers, everything that was ever submitted has passed.
 *
 * Threads: one. Memory: none.
 */
#ifndef KEDGE_TOOLS_COUNTING_H
#define KEDGE_TOOLS_COUNTING_H

#include "alloc/driver.h"

struct counting {
    devptr_t next;
    uint64_t next_handle;
};

/* The table; `counting` must outlive it. */
struct driver counting_driver(struct counting *counting);

#endif

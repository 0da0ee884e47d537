/* SPDX-License-Identifier: MIT */
/*
 * greedy.h - offsets by one pass over the blocks in a fixed order.
 *
 * Each block takes a hole among those that are placed already and live at the same time: the lowest, or the tightest, that is
 * large enough. Which order is good depends on the program, so all of a small portfolio are tried (place.h): by size, by size
 * times lifetime, by lifetime, largest first. Most recorded steps need no more than that.
 *
 * The placed blocks are kept in a tree over the sections: each node has those that touch its part, by offset. A block looks in
 * the smallest node that holds its whole life, so that the many short ones look at few others.
 *
 * Threads: none. Memory: vec.h. Pure apart from memory.
 */
#ifndef KEDGE_TOOLS_GREEDY_H
#define KEDGE_TOOLS_GREEDY_H

#include "tools/sections.h"

enum greedy_order {
    GREEDY_SIZE,
    GREEDY_AREA,
    GREEDY_LIFETIME,
    GREEDY_ORDER_COUNT
};

enum greedy_fit {
    GREEDY_LOWEST,
    GREEDY_TIGHTEST,
    GREEDY_FIT_COUNT
};

/* Sets every offset and returns the peak. */
uint64_t greedy_place(struct sections *sections, enum greedy_order order, enum greedy_fit fit);

const char *greedy_order_name(enum greedy_order order);

#endif

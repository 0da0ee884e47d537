/* SPDX-License-Identifier: MIT */
/*
 * order.h - records by a number of their own, the greatest first.
 *
 * For lists that are walked in order of creation and that only a part of the records is in: a
 * record enters and leaves, and the next one is found, in time that grows with the logarithm of
 * their number. A treap, whose priorities are hashed from the numbers.
 *
 * Links are in the records: no allocation, no failure. A record must not move while it is in.
 * Threads: none of it is safe alone; the caller holds the pool lock.
 */
#ifndef KEDGE_ALLOC_ORDER_H
#define KEDGE_ALLOC_ORDER_H

#include <stdint.h>

struct order_node {
    struct order_node *less, *more;
    uint64_t number; /* not 0, unique among the records of a root */
};

void order_insert(struct order_node **root, struct order_node *node);

/* The node must be there. */
void order_remove(struct order_node **root, struct order_node *node);

/* The node with the greatest number below this one; NULL: none. UINT64_MAX: the first. */
struct order_node *order_below(struct order_node *root, uint64_t number);

#endif

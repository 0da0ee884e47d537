/* SPDX-License-Identifier: MIT */
#include "alloc/index/order.h"

#include <stddef.h>

/* A bijection, so that no two are equal. */
static uint64_t order_priority(const struct order_node *node)
{
    uint64_t number = (node->number ^ node->number >> 32) * UINT64_C(0x9e3779b97f4a7c15);

    return (number ^ number >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* The link to the first node on the way to this one that is it, or has less priority. */
static struct order_node **order_link(struct order_node **root, const struct order_node *node)
{
    uint64_t mine = order_priority(node);

    while (*root && *root != node && order_priority(*root) > mine)
        root = (*root)->number < node->number ? &(*root)->more : &(*root)->less;
    return root;
}

void order_insert(struct order_node **root, struct order_node *node)
{
    struct order_node **link = order_link(root, node);
    struct order_node **less = &node->less;
    struct order_node **more = &node->more;
    struct order_node *at = *link;

    *link = node;
    while (at) { /* splits the subtree at this place */
        if (at->number < node->number) {
            *less = at;
            less = &at->more;
            at = at->more;
        } else {
            *more = at;
            more = &at->less;
            at = at->less;
        }
    }
    *less = NULL;
    *more = NULL;
}

void order_remove(struct order_node **root, struct order_node *node)
{
    struct order_node **link = order_link(root, node);
    struct order_node *less = node->less;
    struct order_node *more = node->more;

    while (less && more) {
        if (order_priority(less) > order_priority(more)) {
            *link = less;
            link = &less->more;
            less = *link;
        } else {
            *link = more;
            link = &more->less;
            more = *link;
        }
    }
    *link = less ? less : more;
}

struct order_node *order_below(struct order_node *root, uint64_t number)
{
    struct order_node *found = NULL;

    while (root) {
        if (root->number < number) {
            found = root;
            root = root->more;
        } else {
            root = root->less;
        }
    }
    return found;
}

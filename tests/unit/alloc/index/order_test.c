/* SPDX-License-Identifier: MIT */
/* covers: order.c */
/* The order against an array of flags. */
#include "alloc/index/order.h"
#include "tests/check.h"

#include <stdbool.h>

#define NODES 300
#define STEPS 20000

static struct order_node *root;
static struct order_node nodes[NODES];
static bool is_in[NODES];

static uint32_t below(uint64_t number)
{
    for (uint32_t i = NODES; i-- > 0;)
        if (is_in[i] && nodes[i].number < number)
            return i;
    return NODES;
}

static uint32_t depth_of(const struct order_node *node)
{
    uint32_t depth = 0;

    for (const struct order_node *at = root; at; depth++)
        at = at == node ? NULL : at->number < node->number ? at->more : at->less;
    return depth;
}

TEST(what_is_in_is_found_by_descending_number)
{
    uint64_t random = 1;

    root = NULL;
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i].number = 3 * (uint64_t)i + 1;
        is_in[i] = false;
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t i, want;
        uint64_t number;

        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        i = (uint32_t)(random >> 33) % NODES;
        if (is_in[i])
            order_remove(&root, &nodes[i]);
        else
            order_insert(&root, &nodes[i]);
        is_in[i] = !is_in[i];
        number = step % 50 ? (random >> 40) % (UINT64_C(3) * NODES) : UINT64_MAX;
        want = below(number);
        REQUIRE(order_below(root, number) == (want < NODES ? &nodes[want] : NULL));
    }
}

TEST(numbers_that_rise_make_no_long_branch)
{
    root = NULL;
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i].number = (uint64_t)i + 1;
        order_insert(&root, &nodes[i]);
    }
    for (uint32_t i = 0; i < NODES; i++)
        CHECK(depth_of(&nodes[i]) <= 30);
    for (uint32_t i = 0; i < NODES; i++)
        order_remove(&root, &nodes[i]);
    CHECK(root == NULL);
}

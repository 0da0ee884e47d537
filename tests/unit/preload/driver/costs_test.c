/* SPDX-License-Identifier: MIT */
/* covers: costs.c */
/* What calls have taken: means, and the parts of calls for many handles. */
#include "preload/driver/costs.h"
#include "tests/check.h"

#define SLOT (UINT64_C(2) << 20)
#define LONG UINT64_C(1000000000) /* beside which the time between two readings is nothing */

/* A call that began `ns` before now. */
static void call(enum cost_kind kind, uint64_t ns, uint64_t size)
{
    costs_add(kind, costs_now() - ns, size);
}

static bool is_about(uint64_t ns, uint64_t expected)
{
    return ns >= expected && ns < expected + expected / 2;
}

TEST(a_move_is_a_map_and_its_part_of_the_others)
{
    CHECK_EQ(costs_call(COST_MAP), 0);
    call(COST_MAP, LONG, SLOT);
    call(COST_ACCESS, LONG, SLOT);
    CHECK_EQ(costs_move(SLOT), 0); /* not before the first unmap */
    call(COST_MAP, 3 * LONG, SLOT);
    CHECK(is_about(costs_call(COST_MAP), 2 * LONG));
    call(COST_UNMAP, 8 * LONG, 8 * SLOT);
    CHECK(is_about(costs_move(SLOT), 4 * LONG));
    call(COST_ACCESS, 7 * LONG, 3 * SLOT); /* 2 s for each slot on average */
    CHECK(is_about(costs_move(SLOT), 5 * LONG));
    CHECK(is_about(costs_move(8 * SLOT), (2 + 8 + 16) * LONG));
}

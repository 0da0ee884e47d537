/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
#include "tests/check.h"
#include "tests/unit/alloc/pool_model.h"

/* pool_model.c on random bytes: many short lives, some long ones. */

TEST(random_programs_keep_every_promise)
{
    struct model_floors floors = {0};

    for (uint64_t seed = 1; seed <= 60 && !atomic_load(&check_state.failures); seed++)
        model_run_seed(seed, false, &floors);
    model_print(&floors);
    CHECK_GT(floors.epochs, 0);
    CHECK_GT(floors.points, 0);
    CHECK_GT(floors.cross_reuses, 0);
    CHECK_GT(floors.followed, 0);
    CHECK_GT(floors.inserted_waits, 0);
    CHECK_GT(floors.host_waits, 0);
    CHECK_GT(floors.releases, 0);
    CHECK_GT(floors.husks, 0);
    CHECK_GT(floors.shadows, 0);
    CHECK_GT(floors.remaps, 0);
    CHECK_GT(floors.moved, 0);
    CHECK_GT(floors.aliased, 0);
    CHECK_GT(floors.trims, 0);
    CHECK_GT(floors.failures, 0);
    CHECK_EQ(floors.violations, 0);
}

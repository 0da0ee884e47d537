/* SPDX-License-Identifier: MIT */
#include "tests/check.h"
#include "tests/unit/alloc/pool_model.h"

#include "alloc/mutation.h"

uint32_t pool_mutations;

/* The protections one by one: without any of them the same programs must be seen to break (R4, R70, R66). */
static void check_mutation(uint32_t mutations)
{
    struct model_floors floors = {0};

    pool_mutations = mutations;
    for (uint64_t seed = 1; seed <= 120 && floors.violations == 0; seed++)
        model_run_seed(seed, true, &floors);
    model_print(&floors);
    CHECK_GT(floors.violations, 0);
}

TEST(without_fences_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_FENCE);
}

TEST(without_the_grace_period_the_device_faults)
{
    check_mutation(POOL_MUTATE_GRACE);
}

TEST(without_one_point_of_a_set_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_DROP);
}

TEST(with_the_lesser_point_of_joined_blocks_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_LEAST);
}

TEST(with_no_point_for_what_is_cut_off_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_CUT);
}

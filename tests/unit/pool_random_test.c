/* SPDX-License-Identifier: MIT */
#include "tests/check.h"
#include "tests/unit/pool_model.h"

#include "alloc/pool.h"

/* pool_model.c on random bytes: many short lives, some long ones, and with each protection taken away. */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void run(uint64_t seed, size_t count, uint32_t mutate, struct model_floors *floors)
{
    uint8_t *bytes = malloc(count);
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    if (!bytes)
        abort();
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)next_random(&state);
    model_run(bytes, count, mutate, floors);
    free(bytes);
    if (atomic_load(&check_state.failures))
        printf("    seed %llu\n", (unsigned long long)seed);
}

/* R92: a suite that exercises nothing proves nothing. */
static void print_floors(const struct model_floors *floors)
{
    printf("allocs %llu frees %llu refusals %llu epochs %llu points %llu cross %llu ordered %llu "
           "waits %llu "
           "releases %llu husks %llu shadows %llu remaps %llu moved %llu trims %llu "
           "failures %llu violations %llu\n",
            (unsigned long long)floors->allocs, (unsigned long long)floors->frees,
            (unsigned long long)floors->refusals, (unsigned long long)floors->epochs,
            (unsigned long long)floors->points, (unsigned long long)floors->cross_reuses,
            (unsigned long long)floors->inserted_waits, (unsigned long long)floors->host_waits,
            (unsigned long long)floors->releases, (unsigned long long)floors->husks,
            (unsigned long long)floors->shadows, (unsigned long long)floors->remaps,
            (unsigned long long)floors->moved, (unsigned long long)floors->trims,
            (unsigned long long)floors->failures, (unsigned long long)floors->violations);
}

TEST(random_programs_keep_every_promise)
{
    struct model_floors floors = {0};

    for (uint64_t seed = 1; seed <= 60 && !atomic_load(&check_state.failures); seed++)
        run(seed, 4000, 0, &floors);
    print_floors(&floors);
    CHECK_GT(floors.epochs, 0);
    CHECK_GT(floors.points, 0);
    CHECK_GT(floors.cross_reuses, 0);
    CHECK_GT(floors.inserted_waits, 0);
    CHECK_GT(floors.host_waits, 0);
    CHECK_GT(floors.releases, 0);
    CHECK_GT(floors.husks, 0);
    CHECK_GT(floors.shadows, 0);
    CHECK_GT(floors.remaps, 0);
    CHECK_GT(floors.moved, 0);
    CHECK_GT(floors.trims, 0);
    CHECK_GT(floors.failures, 0);
    CHECK_EQ(floors.violations, 0);
}

/* The protections one by one: without any of them the same programs must be seen to break (R4, R70, R66). */
static void check_mutation(uint32_t mutate)
{
    struct model_floors floors = {0};

    for (uint64_t seed = 1; seed <= 120 && floors.violations == 0; seed++)
        run(seed, 4000, mutate, &floors);
    print_floors(&floors);
    CHECK_GT(floors.violations, 0);
}

TEST(without_fences_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_NO_FENCE);
}

TEST(without_the_grace_period_the_device_faults)
{
    check_mutation(POOL_MUTATE_NO_GRACE);
}

TEST(without_one_point_of_a_set_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_DROP_POINT);
}

TEST(with_the_lesser_point_of_joined_blocks_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_LEAST_POINT);
}

TEST(with_no_point_for_what_is_cut_off_memory_is_reused_too_early)
{
    check_mutation(POOL_MUTATE_CUT_POINT);
}

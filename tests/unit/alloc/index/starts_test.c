/* SPDX-License-Identifier: MIT */
/* covers: starts.c */
#include "alloc/index/starts.h"
#include "tests/check.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void agree(uint64_t size, uint64_t used, int marks)
{
    struct starts starts;
    uint64_t random = size;
    uint64_t *at = calloc((size_t)marks, sizeof(*at));

    REQUIRE(at != NULL);
    REQUIRE_EQ(starts_init(&starts, size), 0);
    REQUIRE_EQ(starts_grow(&starts, used), 0);
    for (int step = 0; step < 20 * marks; step++) {
        uint64_t offset = next_random(&random) * next_random(&random) % used;
        int which = (int)(next_random(&random) % (uint64_t)marks);
        uint32_t best = 0;

        if (at[which]) {
            starts_clear(&starts, at[which] - 512);
            at[which] = 0;
        } else if (!starts_at(&starts, offset & ~UINT64_C(511))) {
            at[which] = (offset & ~UINT64_C(511)) + 512; /* 0 = none */
            starts_set(&starts, at[which] - 512, (uint32_t)which + 1);
        }
        offset = next_random(&random) * next_random(&random) % used;
        for (int i = 0; i < marks; i++) {
            if (at[i] && at[i] - 512 <= offset && (!best || at[i] > at[best - 1]))
                best = (uint32_t)i + 1;
        }
        CHECK_EQ(starts_before(&starts, offset), best);
        CHECK_EQ(starts_at(&starts, offset), best && at[best - 1] - 512 == offset ? best : 0);
    }
    starts_done(&starts);
    free(at);
}

TEST(a_small_segment_agrees_with_a_list)
{
    agree(2 << 20, 2 << 20, 40);
}

TEST(a_large_segment_agrees_with_a_list)
{
    agree(UINT64_C(3) << 30, UINT64_C(3) << 30, 100);
}

TEST(a_range_of_twice_a_large_device_agrees_with_a_list)
{
    agree(UINT64_C(320) << 30, UINT64_C(40) << 30, 60);
}

TEST(what_is_not_usable_has_no_blocks)
{
    struct starts starts;

    REQUIRE_EQ(starts_init(&starts, UINT64_C(1) << 40), 0);
    CHECK_EQ(starts_before(&starts, 1 << 20), 0);
    CHECK_EQ(starts_at(&starts, 1 << 20), 0);
    REQUIRE_EQ(starts_grow(&starts, 1 << 20), 0);
    starts_set(&starts, 0, 9);
    CHECK_EQ(starts_before(&starts, UINT64_C(1) << 39), 9);
    CHECK_NE(starts_grow(&starts, (UINT64_C(1) << 40) + 512), 0);
    starts_done(&starts);
}

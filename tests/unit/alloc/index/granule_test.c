/* SPDX-License-Identifier: MIT */
/* covers: granule.c */
#include "alloc/index/granule.h"
#include "tests/check.h"

#include <errno.h>

#define MiB (UINT64_C(1) << 20)

TEST(an_address_finds_its_segment)
{
    struct granules granules;
    devptr_t base = UINT64_C(0x7f1234000000);

    REQUIRE_EQ(granule_init(&granules), 0);
    CHECK_EQ(granule_segment(&granules, base), 0);
    REQUIRE_EQ(granule_prepare(&granules, base, 6 * MiB), 0);
    granule_set(&granules, base, 6 * MiB, 5);
    CHECK_EQ(granule_segment(&granules, base), 5);
    CHECK_EQ(granule_segment(&granules, base + 6 * MiB - 1), 5);
    CHECK_EQ(granule_segment(&granules, base - 1), 0);
    CHECK_EQ(granule_segment(&granules, base + 6 * MiB), 0);
    granule_set(&granules, base, 2 * MiB, 0);
    CHECK_EQ(granule_segment(&granules, base), 0);
    CHECK_EQ(granule_segment(&granules, base + 2 * MiB), 5);
    granule_done(&granules);
}

TEST(ends_of_the_address_space_are_not_ours)
{
    struct granules granules;

    REQUIRE_EQ(granule_init(&granules), 0);
    CHECK_EQ(granule_segment(&granules, 0), 0);
    CHECK_EQ(granule_segment(&granules, UINT64_MAX), 0);
    CHECK_EQ(granule_prepare(&granules, UINT64_C(1) << 57, 1), -EINVAL);
    CHECK_EQ(granule_prepare(&granules, (UINT64_C(1) << 57) - 1, 2), -EINVAL);
    CHECK_EQ(granule_prepare(&granules, UINT64_MAX, 2), -EINVAL);
    CHECK_EQ(granule_prepare(&granules, (UINT64_C(1) << 57) - 1, 1), 0);
    CHECK(!granule_is_released(&granules, 0, UINT64_C(1) << 50));
    granule_done(&granules);
}

TEST(released_ranges_are_counted_across_leaves)
{
    struct granules granules;
    devptr_t leaf = UINT64_C(1) << (GRANULE_SHIFT + GRANULE_LEAF_SHIFT);
    devptr_t base = 5 * leaf - 3 * MiB;

    REQUIRE_EQ(granule_init(&granules), 0);
    REQUIRE_EQ(granule_prepare(&granules, base, 8 * MiB), 0);
    granule_release(&granules, base, 8 * MiB, 1);
    granule_release(&granules, base, 1, 1);
    CHECK(granule_is_released(&granules, base, 1));
    CHECK(granule_is_released(&granules, base + 8 * MiB - 1, 1));
    CHECK(granule_is_released(&granules, 0, 100 * leaf));
    CHECK(!granule_is_released(&granules, base + 10 * MiB, leaf));
    granule_release(&granules, base, 8 * MiB, -1);
    CHECK(granule_is_released(&granules, base, 1));
    CHECK(!granule_is_released(&granules, base + 4 * MiB, 4 * MiB));
    granule_release(&granules, base, 1, -1);
    CHECK(!granule_is_released(&granules, 0, 100 * leaf));
    granule_done(&granules);
}

TEST(r26_what_is_forgotten_late_takes_nothing_from_others)
{
    struct granules granules;
    devptr_t base = UINT64_C(0x600000000000);

    REQUIRE_EQ(granule_init(&granules), 0);
    REQUIRE_EQ(granule_prepare(&granules, base, 4 * GRANULE_SIZE), 0);
    granule_set(&granules, base, 4 * GRANULE_SIZE, 5);
    granule_set(&granules, base + GRANULE_SIZE, GRANULE_SIZE, 6);
    granule_clear(&granules, base, 4 * GRANULE_SIZE, 5);
    CHECK_EQ(granule_segment(&granules, base), 0);
    CHECK_EQ(granule_segment(&granules, base + GRANULE_SIZE), 6);
    CHECK_EQ(granule_segment(&granules, base + 2 * GRANULE_SIZE), 0);
    granule_done(&granules);
}

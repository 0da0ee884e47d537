/* SPDX-License-Identifier: MIT */
#include "tests/check.h"
#include "tracker/usemap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define MB UINT64_C(0x100000)
#define GB UINT64_C(0x40000000)

enum {
    MODEL_MAX = 400,
};

static struct format_live slots[MODEL_MAX];

/* The same by a list. */
static struct {
    uint64_t lo, size;
} model[MODEL_MAX];

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 29;
}

static bool is_apart(uint64_t lo, uint64_t size)
{
    for (int i = 0; i < MODEL_MAX; i++)
        if (model[i].size && lo < model[i].lo + model[i].size && model[i].lo < lo + size)
            return false;
    return true;
}

static const struct format_live *expected(uint64_t addr)
{
    for (int i = 0; i < MODEL_MAX; i++)
        if (addr - model[i].lo < model[i].size)
            return &slots[i];
    return NULL;
}

static const struct format_live *found(uint64_t addr)
{
    const struct usemap_range *range = usemap_find(addr);

    return range ? range->slot : NULL;
}

static void compare_around(uint64_t lo, uint64_t size)
{
    uint64_t points[] = {lo, lo + 1, lo + size / 2, lo + size - 1, lo + size, lo - 1};

    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        CHECK(found(points[i]) == expected(points[i]));
}

/* Blocks of all sizes come and go in `span` bytes from base, at most `most` of them. */
static void agree(uint64_t base, uint64_t span, int most, uint64_t seed)
{
    uint64_t random = seed;

    usemap_init();
    memset(model, 0, sizeof model);
    for (int step = 0; step < 6000; step++) {
        int i = (int)(next_random(&random) % (unsigned)most);

        if (model[i].size) {
            uint64_t lo = model[i].lo;
            uint64_t size = model[i].size;

            usemap_remove(lo, &slots[i]);
            model[i].size = 0;
            compare_around(lo, size);
        } else {
            unsigned shift = (unsigned)(next_random(&random) % 33);
            uint64_t lo = base + next_random(&random) * 512 % span;
            uint64_t size = next_random(&random) % (UINT64_C(1) << shift) + 1;

            if (lo + size > base + span || !is_apart(lo & ~UINT64_C(255), size + 512))
                continue;
            model[i].lo = lo;
            model[i].size = size;
            CHECK_EQ(usemap_add(lo, size, &slots[i]), 0);
            compare_around(lo, size);
        }
    }
    for (int i = 0; i < 20000; i++) {
        uint64_t addr = base + next_random(&random) % span;

        CHECK(found(addr) == expected(addr));
    }
}

TEST(small_blocks_agree_with_a_list)
{
    agree(UINT64_C(0x7f1234500000), 4 * MB, MODEL_MAX, 1);
}

TEST(blocks_of_all_sizes_agree_with_a_list)
{
    agree(UINT64_C(0x7f0000000000) - GB, 64 * GB, MODEL_MAX, 2);
}

TEST(blocks_around_the_borders_of_every_level_agree_with_a_list)
{
    agree((UINT64_C(1) << 36) - 3 * MB, 6 * MB, 60, 3);
    agree((UINT64_C(1) << 26) - 64 * 1024, 128 * 1024, 20, 4);
}

TEST(the_first_of_a_stretch_is_the_lowest)
{
    usemap_init();
    CHECK(usemap_first(0, UINT64_MAX) == NULL);
    REQUIRE_EQ(usemap_add(5 * GB, 512, &slots[0]), 0);
    REQUIRE_EQ(usemap_add(5 * GB + 4096, 3 * GB, &slots[1]), 0);
    CHECK(usemap_first(4 * GB, 2 * GB)->slot == &slots[0]);
    CHECK(usemap_first(5 * GB + 511, 1)->slot == &slots[0]);
    CHECK(usemap_first(5 * GB + 512, 4096 - 512) == NULL);
    CHECK(usemap_first(5 * GB + 512, 4096 - 511)->slot == &slots[1]);
    CHECK(usemap_first(8 * GB + 4095, UINT64_MAX)->slot == &slots[1]);
    CHECK(usemap_first(8 * GB + 4096, 10 * GB) == NULL);
}

/* The end of what was there before may be told later than the beginning of what is there now. */
TEST(what_comes_later_stands_where_both_would)
{
    usemap_init();
    REQUIRE_EQ(usemap_add(GB, 8 * MB, &slots[0]), 0);
    REQUIRE_EQ(usemap_add(GB + 4 * MB, 512, &slots[1]), 0);
    CHECK(found(GB) == NULL);
    CHECK(found(GB + 4 * MB) == &slots[1]);
    usemap_remove(GB, &slots[0]);
    CHECK(found(GB + 4 * MB) == &slots[1]);
    REQUIRE_EQ(usemap_add(GB + 4 * MB, 1024, &slots[2]), 0);
    usemap_remove(GB + 4 * MB, &slots[1]);
    CHECK(found(GB + 4 * MB + 1000) == &slots[2]);
}

TEST(what_has_no_place_is_refused)
{
    usemap_init();
    CHECK_EQ(usemap_add(UINT64_C(1) << 48, 512, &slots[0]), -ERANGE);
    CHECK_EQ(usemap_add((UINT64_C(1) << 48) - 512, 1024, &slots[0]), -ERANGE);
    CHECK_EQ(usemap_add(UINT64_MAX - 511, 512, &slots[0]), -ERANGE);
    CHECK_EQ(usemap_add((UINT64_C(1) << 48) - 512, 512, &slots[0]), 0);
    CHECK_EQ(usemap_add(GB, 0, &slots[0]), 0);
    CHECK(found(GB) == NULL);
    CHECK_EQ(usemap_add(GB, 16, &slots[0]), 0);
    CHECK_EQ(usemap_add(GB + 16, 16, &slots[1]), -ERANGE); /* within 256 bytes */
    CHECK(found(GB + 15) == &slots[0]);
    CHECK(found(GB + 16) == NULL);
}

/* ---- readers without a lock ----------------------------------------------------------------- */

static _Atomic bool stop;

static void *churn(void *data)
{
    uint64_t random = *(const uint64_t *)data;
    int first = (int)random * 100;

    while (!stop)
        for (int i = first; i < first + 100 && !stop; i++) {
            /* beside the blocks that stay, in the same cells of all levels */
            uint64_t lo = GB + (uint64_t)i * 4096 + 512 * (1 + next_random(&random) % 3);

            (void)usemap_add(lo, 512, &slots[i]);
            usemap_remove(lo, &slots[i]);
        }
    return NULL;
}

TEST(what_stays_is_found_whatever_comes_and_goes_beside_it)
{
    uint64_t seed[2] = {0, 1};
    pthread_t thread[2];
    unsigned missed = 0;

    usemap_init();
    for (int i = 0; i < MODEL_MAX; i++)
        if (i % 2)
            REQUIRE_EQ(usemap_add(GB + (uint64_t)i * 4096, 512, &slots[i]), 0);
    for (int t = 0; t < 2; t++)
        REQUIRE_EQ(pthread_create(&thread[t], NULL, churn, &seed[t]), 0);
    for (int i = 0; i < 400000; i++) {
        int which = i % MODEL_MAX | 1;

        missed += found(GB + (uint64_t)which * 4096 + (uint64_t)i % 512) != &slots[which];
    }
    stop = true;
    for (int t = 0; t < 2; t++)
        REQUIRE_EQ(pthread_join(thread[t], NULL), 0);
    CHECK_EQ(missed, 0);
}

/* SPDX-License-Identifier: MIT */
/* covers: usemap.c */
#include "tests/check.h"
#include "tracker/capture/usemap.h"

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
static void agree(const char *name, uint64_t base, uint64_t span, int most, uint64_t seed)
{
    uint64_t random = seed;

    CHECK_ROW(name);
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
    agree("small blocks", UINT64_C(0x7f1234500000), 4 * MB, MODEL_MAX, 1);
}

TEST(blocks_of_all_sizes_agree_with_a_list)
{
    agree("all sizes", UINT64_C(0x7f0000000000) - GB, 64 * GB, MODEL_MAX, 2);
}

TEST(blocks_around_the_borders_of_every_level_agree_with_a_list)
{
    agree("upper border", (UINT64_C(1) << 36) - 3 * MB, 6 * MB, 60, 3);
    agree("lower border", (UINT64_C(1) << 26) - 64 * 1024, 128 * 1024, 20, 4);
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

/* ---- one block after the other at an address ------------------------------------------------ */

/* Blocks come and go at `most` addresses of a stretch, mostly with the size that they had before. */
static void agree_kept(const char *name, uint64_t base, uint64_t span, unsigned most_shift,
        int most, uint64_t seed)
{
    struct usemap_range *keep[MODEL_MAX] = {0};
    uint64_t at[MODEL_MAX], size[MODEL_MAX];
    uint64_t random = seed;
    unsigned woken = 0;

    CHECK_ROW(name);
    usemap_init();
    memset(model, 0, sizeof model);
    for (int i = 0; i < most; i++) {
        at[i] = base + next_random(&random) * 512 % span;
        size[i] = next_random(&random) % (UINT64_C(1) << most_shift) + 1;
    }
    for (int step = 0; step < 20000; step++) {
        int i = (int)(next_random(&random) % (unsigned)most);

        if (model[i].size) {
            usemap_leave(keep[i]);
            model[i].size = 0;
            compare_around(at[i], size[i]);
            continue;
        }
        if (next_random(&random) % 8 == 0)
            size[i] = next_random(&random) % (UINT64_C(1) << most_shift) + 1;
        if (!is_apart(at[i] & ~UINT64_C(255), size[i] + 256))
            continue;
        model[i].lo = at[i];
        model[i].size = size[i];
        woken += keep[i] && keep[i]->has_place && keep[i]->extent == size[i];
        CHECK_EQ(usemap_enter(&keep[i], at[i], size[i], &slots[i]), 0);
        compare_around(at[i], size[i]);
    }
    CHECK(woken > 100);
    for (int i = 0; i < most; i++)
        compare_around(at[i], size[i]);
    for (int i = 0; i < most; i++)
        if (keep[i])
            usemap_drop(keep[i]);
    CHECK_EQ(usemap_places, 0);
    CHECK(usemap_first(0, UINT64_MAX) == NULL);
}

TEST(kept_ranges_agree_with_a_list)
{
    agree_kept("small blocks", UINT64_C(0x7f1234500000), 4 * MB, 16, MODEL_MAX, 5);
    agree_kept("all sizes", UINT64_C(0x7f0000000000) - GB, 64 * GB, 33, MODEL_MAX, 6);
    agree_kept("upper border", (UINT64_C(1) << 36) - 3 * MB, 6 * MB, 19, 60, 7);
    agree_kept("lower border", (UINT64_C(1) << 26) - 64 * 1024, 128 * 1024, 13, 40, 8);
}

TEST(a_block_of_the_same_size_finds_its_place_again)
{
    struct usemap_range *keep = NULL;
    struct usemap_range *first;

    usemap_init();
    REQUIRE_EQ(usemap_enter(&keep, GB, 80 * MB, &slots[0]), 0);
    first = keep;
    CHECK_EQ(usemap_places, 1);
    usemap_leave(keep);
    CHECK(found(GB) == NULL);
    CHECK(usemap_first(GB - MB, 2 * MB) == NULL);
    CHECK_EQ(usemap_places, 1);
    REQUIRE_EQ(usemap_enter(&keep, GB, 80 * MB, &slots[1]), 0);
    CHECK(keep == first);
    CHECK_EQ(usemap_places, 1);
    CHECK(found(GB + 80 * MB - 1) == &slots[1]);
    usemap_leave(keep);
    REQUIRE_EQ(usemap_enter(&keep, GB, 70 * MB, &slots[2]), 0); /* not of the same */
    CHECK(found(GB + 70 * MB - 1) == &slots[2]);
    CHECK(found(GB + 70 * MB) == NULL);
    CHECK_EQ(usemap_places, 1);
}

TEST(what_rests_stands_in_nobodys_way)
{
    struct usemap_range *keep = NULL;
    struct usemap_range *other = NULL;

    usemap_init();
    REQUIRE_EQ(usemap_enter(&keep, GB, 4 * MB, &slots[0]), 0);
    usemap_leave(keep);
    REQUIRE_EQ(usemap_add(GB + MB, MB, &slots[1]), 0);
    CHECK(found(GB + MB) == &slots[1]);
    REQUIRE_EQ(usemap_enter(&keep, GB, 4 * MB, &slots[0]), 0); /* its place was gone */
    CHECK(found(GB + MB) == &slots[0]);
    usemap_leave(keep);
    REQUIRE_EQ(usemap_enter(&other, GB + 4 * MB + 128, 64, &slots[2]), 0);
    usemap_leave(other);
    REQUIRE_EQ(usemap_add(GB + 4 * MB, 100, &slots[3]), 0); /* in the same 256 bytes */
    CHECK(found(GB + 4 * MB) == &slots[3]);
    CHECK_EQ(usemap_enter(&other, GB + 4 * MB + 128, 64, &slots[2]), -ERANGE);
    CHECK(other == NULL);
    CHECK(found(GB + 4 * MB) == &slots[3]);
}

TEST(only_so_many_rest)
{
    enum {
        MANY = USEMAP_RESTING + 100,
    };
    static struct usemap_range *keep[MANY];

    usemap_init();
    for (uint64_t i = 0; i < MANY; i++)
        REQUIRE_EQ(usemap_enter(&keep[i], GB + i * 1024, 512, &slots[i % MODEL_MAX]), 0);
    CHECK_EQ(usemap_places, MANY);
    for (uint64_t i = 0; i < MANY; i++)
        usemap_leave(keep[i]);
    CHECK_EQ(usemap_places, USEMAP_RESTING);
    for (uint64_t i = 0; i < MANY; i++)
        CHECK(found(GB + i * 1024) == NULL);
    for (uint64_t i = 0; i < MANY; i++) {
        REQUIRE_EQ(usemap_enter(&keep[i], GB + i * 1024, 512, &slots[i % MODEL_MAX]), 0);
        CHECK(found(GB + i * 1024 + 511) == &slots[i % MODEL_MAX]);
    }
    CHECK_EQ(usemap_places, MANY);
}

/* A large block costs as much as a small one, whatever stands beside it. */
TEST(a_large_block_between_small_ones_takes_no_node_of_its_own)
{
    usemap_init();
    REQUIRE_EQ(usemap_add(GB - 512, 512, &slots[0]), 0);
    REQUIRE_EQ(usemap_add(GB, 50 * MB, &slots[1]), 0);
    REQUIRE_EQ(usemap_add(GB + 50 * MB, 512, &slots[2]), 0);
    REQUIRE_EQ(usemap_add(GB + 50 * MB + 512, 30 * MB, &slots[3]), 0);
    CHECK(found(GB - 1) == &slots[0]);
    for (uint64_t at = 0; at < 50 * MB; at += 12345)
        CHECK(found(GB + at) == &slots[1]);
    CHECK(found(GB + 50 * MB) == &slots[2]);
    for (uint64_t at = 512; at < 30 * MB; at += 12345)
        CHECK(found(GB + 50 * MB + at) == &slots[3]);
    usemap_remove(GB + 50 * MB, &slots[2]);
    CHECK(found(GB + 50 * MB) == NULL);
    CHECK(found(GB + 50 * MB - 1) == &slots[1]);
    CHECK(found(GB + 50 * MB + 512) == &slots[3]);
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

enum {
    FIGHTS = 60000,
};

/* Two owners whose blocks overlap, as one would see them whose calls arrive out of order. */
static void *fight(void *data)
{
    int me = *(const int *)data;
    uint64_t lo = GB + (uint64_t)me * 4096;
    struct usemap_range **keep = &(struct usemap_range *){NULL};
    uintptr_t wrong = 0;

    for (int i = 0; i < FIGHTS; i++) {
        const struct format_live *there;

        if (usemap_enter(keep, lo, 8192, &slots[me]) < 0)
            wrong++;
        there = found(me ? GB + 3 * 4096 - 1 : GB); /* only mine reaches there */
        wrong += there != NULL && there != &slots[me];
        usemap_leave(*keep);
    }
    /* what was taken from it comes back */
    wrong += usemap_enter(keep, lo, 8192, &slots[me]) < 0;
    usemap_drop(*keep);
    return (void *)wrong;
}

TEST(owners_that_take_each_others_places_leave_the_map_whole)
{
    int me[2] = {0, 1};
    struct usemap_range *keep = NULL;
    pthread_t thread[2];

    usemap_init();
    for (int t = 0; t < 2; t++)
        REQUIRE_EQ(pthread_create(&thread[t], NULL, fight, &me[t]), 0);
    for (int t = 0; t < 2; t++) {
        void *wrong;

        REQUIRE_EQ(pthread_join(thread[t], &wrong), 0);
        CHECK(wrong == NULL);
    }
    CHECK_EQ(usemap_places, 0);
    CHECK(usemap_first(0, UINT64_MAX) == NULL);
    REQUIRE_EQ(usemap_enter(&keep, GB, 64 * MB, &slots[0]), 0);
    CHECK(found(GB + 64 * MB - 1) == &slots[0]);
}

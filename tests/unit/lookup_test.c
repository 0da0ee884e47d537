/* SPDX-License-Identifier: MIT */
#include "alloc/lookup.h"
#include "tests/check.h"

#define KEYS 3000

TEST(finds_what_was_added_and_nothing_else)
{
    static bool in[KEYS];
    static int values[KEYS];
    struct lookup lookup = {0};
    uint64_t random = 5;
    uint32_t count = 0;

    for (int step = 0; step < 60000; step++) {
        uint64_t key, k;

        random = random * UINT64_C(6364136223846793005) + 1;
        k = (random >> 33) % KEYS;
        key = k * 4096; /* as sizes and generations are: multiples of something */
        if (in[k]) {
            CHECK_EQ(lookup_find(&lookup, key), &values[k]);
            lookup_remove(&lookup, key);
            count--;
        } else {
            CHECK(lookup_find(&lookup, key) == NULL);
            REQUIRE_EQ(lookup_add(&lookup, key, &values[k]), 0);
            count++;
        }
        in[k] = !in[k];
        CHECK_EQ(lookup.count, count);
        if (step % 1000)
            continue;
        for (k = 0; k < KEYS; k++)
            CHECK_EQ(lookup_find(&lookup, k * 4096), in[k] ? &values[k] : NULL);
    }
    lookup_done(&lookup);
    CHECK(lookup_find(&lookup, 0) == NULL);
}

TEST(key_zero_and_an_empty_one_are_fine)
{
    struct lookup lookup = {0};
    int value;

    lookup_remove(&lookup, 3);
    CHECK(lookup_find(&lookup, 0) == NULL);
    CHECK_EQ(lookup_add(&lookup, 0, &value), 0);
    CHECK_EQ(lookup_find(&lookup, 0), &value);
    lookup_remove(&lookup, 0);
    CHECK(lookup_find(&lookup, 0) == NULL);
    lookup_done(&lookup);
}

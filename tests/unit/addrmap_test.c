/* SPDX-License-Identifier: MIT */
#include "tests/check.h"

#include "preload/addrmap.h"

TEST(what_was_added_is_found_until_removed)
{
    struct addrmap map = {.used = 0};
    struct addrmap_entry *entry;

    CHECK(!addrmap_find(&map, 5));
    entry = addrmap_add(&map, 5);
    REQUIRE(entry);
    entry->value[1] = 17;
    CHECK_EQ(addrmap_add(&map, 5), entry); /* the same one */
    CHECK_EQ(addrmap_find(&map, 5)->value[1], 17);
    addrmap_remove(&map, entry);
    CHECK(!addrmap_find(&map, 5));
    CHECK_EQ(map.used, 0);
    CHECK_EQ(addrmap_add(&map, 5)->value[1], 0); /* zeroed */
    CHECK(!addrmap_add(&map, 0));
}

/* Against a plain array, through growth and removals that close holes. */
TEST(a_naive_model_agrees)
{
    enum {
        KEYS = 700
    };
    static uint64_t model[KEYS]; /* value, 0 = absent */
    struct addrmap map = {.used = 0};
    unsigned seed = 7;

    for (int round = 0; round < 60000; round++) {
        unsigned i = (unsigned)rand_r(&seed) % KEYS;
        uint64_t key = ((uint64_t)i + 1) << 21; /* as addresses of granules are */
        struct addrmap_entry *entry = addrmap_find(&map, key);

        REQUIRE_EQ(entry != NULL, model[i] != 0);
        if (entry)
            REQUIRE_EQ(entry->value[0], model[i]);
        if (entry && rand_r(&seed) % 2) {
            addrmap_remove(&map, entry);
            model[i] = 0;
        } else {
            entry = addrmap_add(&map, key);
            REQUIRE(entry);
            model[i] = entry->value[0] = (uint64_t)round + 1;
        }
    }
    for (unsigned i = 0; i < KEYS; i++)
        CHECK_EQ(addrmap_find(&map, ((uint64_t)i + 1) << 21) != NULL, model[i] != 0);
}

/* SPDX-License-Identifier: MIT */
/* covers: keytable.c */
#include "tools/base/keytable.h"

#include "tests/check.h"

TEST(every_key_has_its_own_number)
{
    struct keytable map = {0};
    uint32_t *first = keytable_at(&map, (struct key){0, 0, 0}, 7);

    CHECK_EQ(*first, 7);
    for (uint64_t i = 0; i < 5000; i++)
        *keytable_at(&map, (struct key){i % 17, i, i << 40}, 0) += (uint32_t)i;
    CHECK_EQ(keytable_count(&map), 5000); /* {0, 0, 0} was there */
    for (uint64_t i = 1; i < 5000; i++) {
        uint32_t *found = keytable_find(&map, (struct key){i % 17, i, i << 40});

        REQUIRE(found != NULL);
        CHECK_EQ(*found, (uint32_t)i);
    }
    CHECK_EQ(*first, 7); /* and has not moved */
    CHECK(keytable_find(&map, (struct key){1, 0, 0}) == NULL);
    keytable_done(&map);
    CHECK_EQ(keytable_count(&map), 0);
    CHECK(keytable_find(&map, (struct key){0, 0, 0}) == NULL);
}

TEST(a_number_that_is_there_is_not_started_again)
{
    struct keytable map = {0};

    *keytable_at(&map, (struct key){1, 2, 3}, 10) = 11;
    CHECK_EQ(*keytable_at(&map, (struct key){1, 2, 3}, 10), 11);
    keytable_done(&map);
}

TEST(texts_differ_in_every_byte)
{
    struct key a = keytable_text("SOT_CALL_0");
    struct key b = keytable_text("SOT_CALL_1");
    struct key c = keytable_text("SOT_CALL_0");

    CHECK(a.a != b.a && a.b != b.b);
    CHECK(a.a == c.a && a.b == c.b && a.c == c.c);
    CHECK_EQ(keytable_text("").c, 0);
}

TEST(what_is_removed_is_gone_and_its_place_is_used_again)
{
    struct keytable map = {0};

    keytable_remove(&map, (struct key){1, 2, 3}); /* nothing is in it */
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 1000; i++)
            *keytable_at(&map, (struct key){round, i, 0}, 5) = (uint32_t)i;
        for (uint64_t i = 0; i < 1000; i += 2)
            keytable_remove(&map, (struct key){round, i, 0});
        keytable_remove(&map, (struct key){round, 0, 0}); /* again */
        CHECK_EQ(keytable_count(&map), 500 * (round + 1));
        for (uint64_t i = 0; i < 1000; i++) {
            const uint32_t *found = keytable_find(&map, (struct key){round, i, 0});

            CHECK_EQ(found ? *found : 0, i % 2 ? i : 0);
            CHECK_EQ(found != NULL, i % 2 == 1);
        }
    }
    CHECK_EQ(map.used, 2000); /* 1500 that are there, and the 500 of the last round */
    CHECK_EQ(*keytable_at(&map, (struct key){0, 0, 0}, 9), 9);
    keytable_done(&map);
}

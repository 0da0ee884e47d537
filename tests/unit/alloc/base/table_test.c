/* SPDX-License-Identifier: MIT */
/* covers: table.c */
#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "tests/check.h"

#include <errno.h>

struct record {
    uint64_t key;
    uint64_t value, spare;
};

static bool has_no_memory;

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);

void *__wrap_meta_get(size_t size)
{
    return has_no_memory ? NULL : __real_meta_get(size);
}

/* As sizes, granules and numbers of contexts are: multiples of a power of two, and above 32 bits. */
static uint64_t key_of(unsigned i)
{
    static const unsigned shift[] = {0, 12, 21, 40};

    return ((uint64_t)i + 1) << shift[i % 4];
}

/* Against a plain array, through growth and removals. */
TEST(a_naive_model_agrees)
{
    enum {
        KEYS = 3000
    };
    static uint64_t model[KEYS]; /* value, 0 = absent */
    struct table table = TABLE_OF(struct record);
    uint64_t random = 7;
    uint32_t count = 0;

    for (unsigned step = 1; step <= 100000; step++) {
        struct record *record;
        unsigned i;

        random = random * UINT64_C(6364136223846793005) + 1;
        i = (unsigned)(random >> 33) % KEYS;
        record = table_find(&table, key_of(i));
        REQUIRE_EQ(record != NULL, model[i] != 0);
        if (record)
            REQUIRE(record->key == key_of(i) && record->value == model[i]
                    && record->spare == 2 * model[i]);
        if (record && random >> 20 & 1) {
            (void)table_remove(&table, record);
            model[i] = 0;
            count--;
        } else {
            count += record ? 0 : 1;
            record = table_add(&table, key_of(i));
            REQUIRE(record);
            REQUIRE_EQ(record->value, model[i]); /* a new one is zero */
            model[i] = record->value = step;
            record->spare = 2 * step;
        }
        REQUIRE_EQ(table.count, count);
        if (step % 1000)
            continue;
        for (i = 0; i < KEYS; i++)
            CHECK_EQ(table_find(&table, key_of(i)) != NULL, model[i] != 0);
    }
    table_clear(&table);
    CHECK(!table_find(&table, key_of(0)) && table.count == 0);
    CHECK(table_add(&table, key_of(0)) != NULL);
    table_clear(&table);
}

/* Whatever share of the records ends, and wherever the table's end lies between those of one home. */
TEST(a_walk_that_removes_sees_each_record)
{
    struct table table = TABLE_OF(struct record);

    for (unsigned keys = 1; keys <= 400; keys++)
        for (unsigned nth = 1; nth <= 3; nth++) {
            unsigned steps = 0;
            unsigned ends = 0;

            for (unsigned i = 0; i < keys; i++)
                ((struct record *)table_add(&table, key_of(i)))->value = i % nth == 0;
            for (struct record *at = table_next(&table, NULL); at; steps++) {
                ends += at->value ? 1 : 0;
                at = at->value ? table_remove(&table, at) : table_next(&table, at);
            }
            CHECK_EQ(ends, (keys + nth - 1) / nth);
            CHECK_EQ(table.count, keys - ends);
            CHECK_LE(steps, keys + ends);
            for (unsigned i = 0; i < keys; i++)
                CHECK_EQ(table_find(&table, key_of(i)) != NULL, i % nth != 0);
            table_clear(&table);
        }
}

TEST(pointers_are_kept_and_replaced)
{
    struct table table = {0};
    int one, two;

    CHECK(!table_get(&table, 5));
    CHECK(!table_remove(&table, table_find(&table, 5)));
    CHECK_EQ(table_put(&table, 5, &one), 0);
    CHECK_EQ(table_get(&table, 5), &one);
    CHECK_EQ(table_put(&table, 5, &two), 0);
    CHECK_EQ(table_get(&table, 5), &two);
    CHECK_EQ(table.count, 1);
    CHECK_EQ(table_put(&table, 0, &one), -ENOMEM); /* 0 is nobody's */
    table_clear(&table);
}

TEST(without_memory_the_table_is_as_it_was)
{
    struct table table = TABLE_OF(struct record);
    unsigned had = 0;

    has_no_memory = true;
    CHECK(!table_add(&table, 1));
    has_no_memory = false;
    while (had < 1000)
        REQUIRE(table_add(&table, key_of(had++)));
    has_no_memory = true;
    while (table_add(&table, key_of(had)))
        had++;
    has_no_memory = false;
    CHECK_EQ(table.count, had);
    for (unsigned i = 0; i < had; i++)
        CHECK(table_find(&table, key_of(i)) != NULL);
    CHECK(!table_find(&table, key_of(had)));
    CHECK(table_add(&table, key_of(had)) != NULL);
    table_clear(&table);
}

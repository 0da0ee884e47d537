/* SPDX-License-Identifier: MIT */
#include "alloc/table.h"
#include "tests/check.h"

#include <sys/resource.h>

struct item {
    uint64_t key;
    UT_hash_handle hh;
};

TEST(items_are_found_by_key)
{
    struct item *table = NULL;
    struct item *item, *next;
    unsigned count = 0;

    for (uint64_t i = 0; i < 1000; i++) {
        item = meta_get(sizeof(*item));
        REQUIRE(item != NULL);
        item->key = i * 512;
        HASH_ADD(hh, table, key, sizeof(item->key), item);
        CHECK(TABLE_ADDED(item));
    }
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t key = i * 512;

        HASH_FIND(hh, table, &key, sizeof(key), item);
        CHECK_EQ(item != NULL, i < 1000);
    }
    HASH_ITER(hh, table, item, next) {
        HASH_DEL(table, item);
        meta_put(item, sizeof(*item));
        count++;
    }
    CHECK_EQ(count, 1000);
    CHECK(table == NULL);
}

/* uthash's own answer to a failed malloc is exit(-1), in the program that we are a guest in. */
TEST(a_full_memory_is_survived)
{
    static struct item items[200000];
    struct item *table = NULL;
    struct rlimit now, low;
    size_t refused = 0;
    void *eaten[64];
    size_t count = 0;

    REQUIRE_EQ(getrlimit(RLIMIT_AS, &now), 0);
    low = now;
    low.rlim_cur = 16 << 20; /* less than the process has: every new mapping is refused */
    REQUIRE_EQ(setrlimit(RLIMIT_AS, &low), 0);
    while (count < 64 && (eaten[count] = meta_get(1 << 19)) != NULL)
        count++;
    for (size_t i = 0; i < sizeof(items) / sizeof(*items) && !refused; i++) {
        items[i].key = i;
        HASH_ADD(hh, table, key, sizeof(items[i].key), &items[i]);
        if (!TABLE_ADDED(&items[i]))
            refused = i + 1;
    }
    REQUIRE_EQ(setrlimit(RLIMIT_AS, &now), 0);
    CHECK_LT(count, 64);
    CHECK_GT(refused, 0);
    while (count)
        meta_put(eaten[--count], 1 << 19);
}

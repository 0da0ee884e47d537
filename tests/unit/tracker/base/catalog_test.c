/* SPDX-License-Identifier: MIT */
/* covers: catalog.c */
/* Records that are numbered as they come. */
#include "tests/unit/tracker/track_help.h"

#include "tracker/base/catalog.h"

#include <pthread.h>

enum {
    MOST = 30000, /* the table of numbers grows on the way */
    THREADS = 4,
};

struct record {
    uint64_t key;
    uint64_t twice;
};

static bool same_record(uint32_t number, const void *key);
static struct catalog records = CATALOG_OF(struct record, MOST, same_record);
static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);

static bool same_record(uint32_t number, const void *key)
{
    const struct record *have = catalog_at(&records, number);

    return have->key == ((const struct record *)key)->key;
}

static uint32_t number_of(uint64_t key)
{
    struct record record = {key, 2 * key};

    /* few hashes, so that many records have the same */
    return catalog_number(&records, &lock, key % 5000 * UINT64_C(0x9e3779b97f4a7c15), &record);
}

/* Each thread adds all of them, from another end; and reads what it is told of. */
static void *add_all(void *data)
{
    uint64_t step = (uintptr_t)data;
    size_t wrong = 0;

    for (uint64_t i = 0; i < MOST; i++) {
        uint64_t key = i * step % MOST;
        uint32_t number = number_of(key);
        const struct record *record = catalog_at(&records, number);

        wrong += !catalog_has(&records, number) || record->key != key || record->twice != 2 * key;
    }
    return (void *)wrong; /* NOLINT(performance-no-int-to-ptr) */
}

TEST(threads_agree_on_the_number_of_each_record)
{
    static const uintptr_t steps[THREADS] = {1, 7, 11, 29999};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        REQUIRE_EQ(pthread_create(&threads[i], NULL, add_all, (void *)steps[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;

        REQUIRE_EQ(pthread_join(threads[i], &wrong), 0);
        CHECK_EQ((uintptr_t)wrong, 0);
    }
    CHECK_EQ(catalog_count(&records), MOST); /* none twice */
    CHECK_EQ(number_of(MOST), 0);            /* no room */
    CHECK_EQ(catalog_count(&records), MOST);
    CHECK_NE(number_of(0), 0);
    CHECK(!catalog_has(&records, 0));
    CHECK(!catalog_has(&records, MOST + 1));
}

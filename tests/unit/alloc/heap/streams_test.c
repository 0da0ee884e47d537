/* SPDX-License-Identifier: MIT */
/* covers: streams.c */
#include "alloc/heap/streams.h"
#include "tests/unit/alloc/parts.h"

TEST(a_stream_has_one_index_by_its_identity)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t index[200];

    lock_take(&pool->lock);
    CHECK_EQ(streams_get(pool, 0), 0);
    CHECK_EQ(streams_find(pool, 0), 0);
    CHECK_EQ(streams_find(pool, 1), 0);
    for (uint64_t i = 0; i < 200; i++) {
        index[i] = streams_get(pool, 1 + (i << 40));
        REQUIRE(index[i] != 0);
        CHECK_EQ(streams_at(pool, index[i])->key, 1 + (i << 40));
        for (uint64_t j = 0; j < i; j++)
            CHECK_NE(index[j], index[i]);
    }
    for (int step = 0; step < 1000; step++) {
        uint64_t i = parts_random(&parts, 200);

        CHECK_EQ(step % 2 ? streams_get(pool, 1 + (i << 40)) : streams_find(pool, 1 + (i << 40)),
                index[i]);
    }
    CHECK_EQ(streams_find(pool, 2), 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(without_memory_a_stream_is_unknown_and_nothing_is_kept)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    int failures = 0;

    lock_take(&pool->lock);
    for (int n = 1; n < 100; n++) {
        uint32_t used = pool->streams.used;
        uint32_t index;

        parts_fail = n;
        index = streams_get(pool, 7);
        if (parts_fail > 0) { /* fewer requests than that */
            parts_fail = 0;
            CHECK(index != 0);
            break;
        }
        failures++;
        CHECK_EQ(index, 0);
        CHECK_EQ(streams_find(pool, 7), 0);
        CHECK_EQ(pool->streams.used, used);
    }
    CHECK_GT(failures, 0);
    CHECK(streams_find(pool, 7) != 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

TEST(a_free_block_is_of_its_streams_class_until_its_point_has_passed)
{
    struct parts parts = parts_begin();
    struct pool *pool = parts.pool;
    uint32_t stream;

    lock_take(&pool->lock);
    stream = streams_get(pool, 3);
    streams_at(pool, stream)->timeline.passed = 5;
    CHECK_EQ(streams_class_of(pool, stream, 5), 0);
    CHECK_EQ(streams_class_of(pool, stream, 6), stream);
    CHECK_EQ(streams_class_of(pool, 0, 6), 0);
    lock_drop(&pool->lock);
    parts_end(&parts);
}

/* SPDX-License-Identifier: MIT */
/* covers: meta.c */
#include "alloc/base/lock.h"
#include "alloc/base/meta.h"
#include "tests/check.h"

static bool is_zero(const void *ptr, size_t size)
{
    const unsigned char *bytes = ptr;

    for (size_t i = 0; i < size; i++) {
        if (bytes[i])
            return false;
    }
    return true;
}

TEST(memory_is_zero_and_aligned_also_the_second_time)
{
    static const size_t sizes[] = {1, 16, 17, 100, 4096, 5000, 1 << 20, (1 << 20) + 1, 3 << 20};

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            void *ptr = meta_get(sizes[i]);

            REQUIRE(ptr != NULL);
            CHECK_EQ((uintptr_t)ptr % 16, 0);
            CHECK(is_zero(ptr, sizes[i]));
            memset(ptr, 0xa5, sizes[i]);
            meta_put(ptr, sizes[i]);
        }
    }
    meta_put(NULL, 100);
    CHECK(meta_get(0) == NULL);
}

TEST(pieces_do_not_overlap)
{
    enum {
        COUNT = 4000
    };
    static unsigned char *ptrs[COUNT];
    static size_t sizes[COUNT];
    uint64_t random = 3;

    for (int step = 0; step < 3 * COUNT; step++) {
        int i = step % COUNT;

        if (ptrs[i]) {
            for (size_t k = 0; k < sizes[i]; k += 7)
                REQUIRE_EQ(ptrs[i][k], (unsigned char)i);
            meta_put(ptrs[i], sizes[i]);
        }
        random = random * UINT64_C(6364136223846793005) + 1;
        sizes[i] = 1 + (random >> 40) % 3000;
        ptrs[i] = meta_get(sizes[i]);
        REQUIRE(ptrs[i] != NULL);
        memset(ptrs[i], i, sizes[i]);
    }
    for (int i = 0; i < COUNT; i++)
        meta_put(ptrs[i], sizes[i]);
}

TEST(what_is_held_is_known)
{
    uint64_t before = meta_bytes();
    void *ptr = meta_map(10 << 20);

    CHECK_EQ(meta_bytes(), before + (10 << 20));
    meta_unmap(ptr, 10 << 20);
    CHECK_EQ(meta_bytes(), before);
    CHECK(meta_map(0) == NULL);
    CHECK(meta_map(SIZE_MAX) == NULL);
}

TEST(a_span_grows_in_place)
{
    /* ThreadSanitizer leaves 1.5 TiB to mmap and randomises in it: a whole TiB does not always fit. */
    const size_t reserved = (size_t)64 << 30;
    struct span span;
    char *base;

    REQUIRE_EQ(span_init(&span, reserved), 0);
    base = span.base;
    CHECK_EQ(span_commit(&span, 1), 0);
    base[0] = 1;
    CHECK_EQ(span_commit(&span, 10 << 20), 0);
    CHECK_EQ(span.base, base);
    CHECK_EQ(base[0], 1);
    CHECK(is_zero(base + 1, (10 << 20) - 1));
    CHECK_NE(span_commit(&span, reserved + 1), 0);
    span_done(&span);
    CHECK(span.base == NULL);
}

TEST(records_of_a_slab_stay_where_they_are)
{
    struct slab slab;
    uint32_t a, b;

    REQUIRE_EQ(slab_init(&slab, 64, 1000), 0);
    a = slab_take(&slab);
    b = slab_take(&slab);
    CHECK_NE(a, 0);
    CHECK_NE(a, b);
    memset(slab_at(&slab, a), 7, 64);
    slab_put(&slab, a);
    CHECK_EQ(slab_take(&slab), a);
    CHECK(is_zero(slab_at(&slab, a), 64));
    slab_done(&slab);
}

TEST(a_full_slab_says_so)
{
    struct slab slab;

    REQUIRE_EQ(slab_init(&slab, 8, 5), 0);
    CHECK_EQ(slab_prepare(&slab, 4), 0);
    CHECK_NE(slab_prepare(&slab, 5), 0);
    for (int i = 0; i < 4; i++)
        CHECK_NE(slab_take(&slab), 0);
    CHECK_EQ(slab_take(&slab), 0);
    CHECK_NE(slab_prepare(&slab, 1), 0);
    slab_put(&slab, 2);
    CHECK_EQ(slab_prepare(&slab, 1), 0);
    CHECK_EQ(slab_take(&slab), 2);
    slab_done(&slab);
    CHECK_NE(slab_init(&slab, 2, 5), 0);
}

static void *get_and_put(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    for (int i = 0; i < 20000; i++) {
        unsigned char *ptr;
        size_t size;

        random = random * UINT64_C(6364136223846793005) + 1;
        size = 1 + (random >> 40) % 500;
        ptr = meta_get(size);
        if (!ptr || !is_zero(ptr, size))
            return arg;
        memset(ptr, 0xff, size);
        meta_put(ptr, size);
    }
    return NULL;
}

TEST(threads_share_it)
{
    pthread_t threads[8];

    for (uintptr_t i = 0; i < 8; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, get_and_put, (void *)(i + 1)), 0);
    for (int i = 0; i < 8; i++) {
        void *result;

        pthread_join(threads[i], &result);
        CHECK(result == NULL);
    }
    CHECK_EQ(lock_violations(), 0);
}

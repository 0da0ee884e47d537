/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
#include "alloc/base/meta.h"
#include "tests/unit/alloc/pool_bench.h"

/*
 * Every driver call of a scenario fails once, with an error and with "out of memory", and once more the call says that the
 * implementation could not go on. After each: no live byte is lost, nothing is handed out twice, the structures are sound,
 * and what the driver was not made to keep is back with it in the end.
 */

/* The memory of our own structs fails as well: the linker puts these in between (alloc.cmake). */
static int memory_fail_at;
static bool memory_fired;

static bool memory_fails(void)
{
    if (memory_fail_at == 0 || --memory_fail_at > 0)
        return false;
    memory_fired = true;
    return true;
}

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);
int __real_span_init(struct span *span, size_t size);
int __wrap_span_init(struct span *span, size_t size);
int __real_span_commit(struct span *span, size_t size);
int __wrap_span_commit(struct span *span, size_t size);
uint32_t __real_slab_take(struct slab *slab);
uint32_t __wrap_slab_take(struct slab *slab);
int __real_slab_prepare(struct slab *slab, uint32_t count);
int __wrap_slab_prepare(struct slab *slab, uint32_t count);

void *__wrap_meta_get(size_t size)
{
    return memory_fails() ? NULL : __real_meta_get(size);
}

int __wrap_span_init(struct span *span, size_t size)
{
    return memory_fails() ? -ENOMEM : __real_span_init(span, size);
}

int __wrap_span_commit(struct span *span, size_t size)
{
    return memory_fails() ? -ENOMEM : __real_span_commit(span, size);
}

static unsigned prepared; /* records that slab_prepare has promised: taking those does not fail */

uint32_t __wrap_slab_take(struct slab *slab)
{
    if (prepared > 0)
        prepared--;
    else if (memory_fails())
        return 0;
    return __real_slab_take(slab);
}

int __wrap_slab_prepare(struct slab *slab, uint32_t count)
{
    int r = memory_fails() ? -ENOMEM : __real_slab_prepare(slab, count);

    prepared = r == 0 ? count : 0;
    return r;
}

static struct rule rule;

static bool moving; /* storage moves before the driver is asked for more */

static struct bench *start(uint64_t memory, enum hint_mode mode)
{
    struct pool_opts opts;
    struct bench *b;

    pool_opts_init(&opts);
    opts.remap = moving ? POOL_REMAP_EAGER : POOL_REMAP_LAZY;
    b = bench_new_with(memory, &opts);

    rule = (struct rule){
            .action = ACTION_RELEASE,
            .mode = mode,
            .pick = {.size_lo = 3 * MiB, .size_hi = 3 * MiB, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "*", .kind = EDGE_EXIT},
    };
    bench_rules(b, &rule, 1);
    return b;
}

static devptr_t ask(struct bench *b, uint64_t size, uint64_t stream)
{
    struct tag tag = {.size = size, .anchor = 1, .path = "step"};
    struct pool_request request = bench_request(size, stream);
    struct plan plan;
    devptr_t ptr;

    hint_plan(b->hints, &tag, &plan);
    request.plan = &plan;
    ptr = bench_ask(b, &request);
    if (ptr)
        CHECK(fake_is_accessible(b->fake, ptr, size));
    else
        CHECK_NE(b->r, 0);
    BENCH_CHECK(b);
    return ptr;
}

static void give(struct bench *b, devptr_t *ptr, uint64_t stream)
{
    if (!*ptr)
        return;
    CHECK_EQ(bench_free_on(b, *ptr, stream), 0);
    CHECK_NE(bench_free_on(b, *ptr, stream), 0);
    *ptr = 0;
    BENCH_CHECK(b);
}

static void pass_edge(struct bench *b)
{
    struct edge edge = {.kind = EDGE_EXIT, .anchor = 1, .path = "step"};
    struct outcome told[4];
    size_t count;

    do {
        int r = pool_edge(b->pool, &edge, told, 4, &count);

        CHECK(r == 0 || (r == -ENOMEM && memory_fired));
    } while (count == 4);
    BENCH_CHECK(b);
    do
        (void)pool_poll(b->pool, true, told, 4, &count);
    while (count == 4);
    BENCH_CHECK(b);
}

/* Everything once: both allocation APIs, hints, other streams, trims, a full device, dying owners. */
static void scenario(struct bench *b)
{
    enum {
        COUNT = 6
    };
    devptr_t sync[COUNT], stream[COUNT], hinted[COUNT];
    uint64_t bytes;

    for (int i = 0; i < COUNT; i++) {
        sync[i] = ask(b, (uint64_t)(i + 1) * 700 * KiB, 0);
        stream[i] = ask(b, (uint64_t)(i + 1) * 900 * KiB, 1 + (uint64_t)(i % 2));
        hinted[i] = ask(b, 3 * MiB, i % 2 ? 1 : 0);
        if (hinted[i])
            fake_submit(b->fake, 1, hinted[i], 3 * MiB);
    }
    give(b, &sync[0], 0);
    give(b, &sync[2], 1);
    give(b, &stream[0], 1);
    give(b, &stream[1], 3); /* another stream */
    give(b, &stream[2], 0);
    give(b, &hinted[0], 0);
    pass_edge(b);
    give(b, &hinted[1], 1); /* in limbo */
    sync[0] = ask(b, 700 * KiB, 0);
    stream[0] = ask(b, 900 * KiB, 2);
    fake_drain(b->fake);
    pass_edge(b);
    give(b, &hinted[2], 0); /* a husk */
    (void)pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 2 * MiB, &bytes);
    BENCH_CHECK(b);
    pool_synchronised(b->pool);
    BENCH_CHECK(b);
    hinted[0] = ask(b, 3 * MiB, 0);
    sync[2] = ask(b, 40 * MiB, 0); /* more than there is */
    stream[1] = ask(b, 40 * MiB, 1);
    pool_stream_gone(b->pool, 2);
    BENCH_CHECK(b);
    (void)pool_trim_device(b->pool, 0, true);
    BENCH_CHECK(b);
    for (int i = 0; i < COUNT; i++) {
        if (stream[i])
            CHECK(fake_is_accessible(b->fake, stream[i], 4 * KiB));
        if (sync[i])
            CHECK(fake_is_accessible(b->fake, sync[i], 4 * KiB));
        give(b, &sync[i], 0);
        give(b, &stream[i], 1);
        give(b, &hinted[i], 0);
    }
    CHECK_EQ(bench_stats(b).live_count, 0);
    (void)pool_heap_gone(b->pool, BENCH_POOL);
    BENCH_CHECK(b);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    fake_context_gone(b->fake, BENCH_CONTEXT);
    BENCH_CHECK(b);
}

/* How often must the driver be called for nothing to fail? Printed, and compared between the kinds of failure. */
static void fail_each(enum hint_mode mode, int code)
{
    int calls = 0;

    FAIL_NTH(n, fired)
    {
        struct bench *b = start(60 * MiB, mode);

        b->fake->fail_at = n;
        b->fake->fail_code = code;
        scenario(b);
        fired = b->fake->fired;
        b->fake->fail_at = 0;
        bench_end(b);
        calls = n;
    }
    printf("%d calls\n", calls);
    CHECK_GT(calls, 60);
}

TEST(no_error_of_the_driver_is_lost_or_leaks_in_live)
{
    fail_each(HINT_LIVE, FAKE_FAILURE);
}

TEST(no_full_device_is_lost_or_leaks_in_live)
{
    fail_each(HINT_LIVE, DRIVER_OUT_OF_MEMORY);
}

TEST(no_trouble_of_ours_is_lost_or_leaks_in_live)
{
    fail_each(HINT_LIVE, -EBUSY);
}

/* The pool says -EAGAIN itself, and means something else. */
TEST(no_number_that_the_pool_uses_itself_is_lost_or_leaks_in_live)
{
    fail_each(HINT_LIVE, -EAGAIN);
}

TEST(no_error_of_the_driver_is_lost_or_leaks_in_trap)
{
    fail_each(HINT_TRAP, FAKE_FAILURE);
}

TEST(no_error_of_the_driver_is_lost_or_leaks_in_poison)
{
    fail_each(HINT_POISON, FAKE_FAILURE);
}

TEST(no_trouble_of_ours_is_lost_or_leaks_in_poison)
{
    fail_each(HINT_POISON, -EBUSY);
}

TEST(no_error_of_the_driver_is_lost_or_leaks_in_shadow)
{
    fail_each(HINT_SHADOW, FAKE_FAILURE);
}

/* The pool is frozen during the n-th call. */
TEST(a_frozen_pool_in_the_middle_of_anything_is_sound)
{
    for (uint64_t at = 1; at < 120; at++) {
        struct bench *b = start(60 * MiB, HINT_LIVE);
        devptr_t ptrs[8];

        b->fake->freeze_at = at;
        b->fake->freeze_pool = b->pool;
        for (int i = 0; i < 8; i++)
            ptrs[i] = ask(b, i % 2 ? 3 * MiB : 5 * MiB, (uint64_t)(i % 3));
        pass_edge(b);
        for (int i = 0; i < 8; i++) {
            if (ptrs[i])
                CHECK_EQ(bench_free_on(b, ptrs[i], (uint64_t)(i % 3)), 0);
        }
        BENCH_CHECK(b);
        CHECK_EQ(b->fake->after_freeze, 0); /* not one call afterwards */
        pool_free_all(b->pool);
        hint_free(b->hints);
        fake_free(b->fake);
        free(b);
    }
}

/* Free slots under several blocks, then requests that take them: those that widen a free block, and those that do not. */
static void move_around(struct bench *b)
{
    enum {
        COUNT = 8
    };
    devptr_t stay[COUNT], gone[COUNT], big[2];

    for (int i = 0; i < COUNT; i++) {
        gone[i] = ask(b, (uint64_t)(5 + i % 3) * MiB / 2, 1);
        stay[i] = ask(b, MiB / 2, 1);
    }
    for (int i = 0; i < COUNT; i++)
        give(b, &gone[i], 1);
    fake_drain(b->fake);
    big[0] = ask(b, 7 * MiB, 1);
    big[1] = ask(b, 5 * MiB, 2);
    give(b, &big[0], 2);
    big[0] = ask(b, 9 * MiB, 1);
    for (int i = 0; i < COUNT; i++) {
        if (stay[i])
            CHECK(fake_is_accessible(b->fake, stay[i], MiB / 2));
        give(b, &stay[i], 1);
    }
    give(b, &big[0], 1);
    give(b, &big[1], 2);
    CHECK_EQ(bench_stats(b).live_count, 0);
}

TEST(no_memory_of_ours_is_survived_while_storage_moves)
{
    uint64_t moved = 0;
    int calls = 0;

    moving = true;
    FAIL_NTH(n, fired)
    {
        struct bench *b = start(200 * MiB, HINT_SHADOW);

        memory_fired = false;
        memory_fail_at = n;
        move_around(b);
        fired = memory_fired;
        memory_fail_at = 0;
        moved += bench_stats(b).granules_moved;
        bench_end(b);
        calls = n;
    }
    printf("%d times memory, %llu granules\n", calls, (unsigned long long)moved);
    moving = false;
    CHECK_GT(calls, 40);
    CHECK_GT(moved, 40);
}

TEST(no_memory_of_ours_is_survived)
{
    for (int mode = HINT_SHADOW; mode < HINT_MODE_COUNT; mode++) {
        int calls = 0;

        FAIL_NTH(n, fired)
        {
            struct bench *b = start(60 * MiB, (enum hint_mode)mode);

            memory_fired = false;
            memory_fail_at = n;
            scenario(b);
            fired = memory_fired;
            memory_fail_at = 0;
            bench_end(b);
            calls = n;
        }
        printf("%d times memory\n", calls);
        CHECK_GT(calls, 60);
    }
}

/* SPDX-License-Identifier: MIT */
/* covers: reclaim.c */
/* Many streams with free blocks in one heap, of which one call looks at a few (STREAMS_LOOK, 3 here): each has its turn. */
#include "tests/unit/alloc/pool_bench.h"

enum {
    STREAMS = 10,
};

/* Whose fence is whose; the wait for one runs out of time. */
static uint8_t stream_of[FAKE_FENCES];
static bool is_waited_for[FAKE_STREAMS];
static int (*real_record)(void *self, uint64_t stream, uint64_t *ret_fence);

static int record(void *self, uint64_t stream, uint64_t *ret_fence)
{
    int r = real_record(self, stream, ret_fence);

    if (r == 0)
        stream_of[*ret_fence] = (uint8_t)stream;
    return r;
}

static int wait_in_vain(void *self, uint64_t fence, uint32_t timeout_ms)
{
    (void)self;
    (void)timeout_ms;
    is_waited_for[stream_of[fence]] = true;
    return -EAGAIN;
}

/* A device that is full of blocks that were freed on streams 1 to STREAMS, all with work that has not run. */
static struct bench *full_bench(void)
{
    struct bench *b = calloc(1, sizeof *b);
    struct pool_heap_attrs attrs;
    struct pool_opts opts;
    devptr_t blocks[STREAMS];

    REQUIRE(b);
    pool_opts_init(&opts);
    b->fake = fake_new(STREAMS * 6 * MiB);
    real_record = b->fake->driver.stream_record;
    b->fake->driver.stream_record = record;
    b->fake->driver.fence_wait = wait_in_vain;
    REQUIRE_EQ(pool_new(&b->fake->driver, &opts, &b->pool), 0);
    REQUIRE_EQ(pool_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    attrs.reuse_internal_dependencies = false;
    REQUIRE_EQ(pool_set_heap_attrs(b->pool, BENCH_POOL, 0, &attrs), 0);
    for (unsigned i = 0; i < STREAMS; i++) {
        blocks[i] = bench_alloc_on(b, 6 * MiB, i + 1);
        REQUIRE(blocks[i]);
        (void)fake_submit(b->fake, i + 1, blocks[i], 6 * MiB);
    }
    for (unsigned i = 0; i < STREAMS; i++)
        REQUIRE_EQ(bench_free_on(b, blocks[i], i + 1), 0);
    return b;
}

/* A request of a stream that has nothing. */
static devptr_t ask(struct bench *b, bool may_wait)
{
    struct pool_request request = bench_request(6 * MiB, STREAMS + 1);

    request.may_wait = may_wait;
    return bench_ask(b, &request);
}

TEST(r73_a_stream_whose_work_is_over_is_found_among_many)
{
    for (unsigned done = 1; done <= STREAMS; done++) {
        struct bench *b = full_bench();
        unsigned asked = 0;
        devptr_t given = 0;

        while (fake_step(b->fake, done))
            ;
        while (!given && asked++ < STREAMS)
            given = ask(b, false);
        CHECK(given != 0);
        fake_drain(b->fake);
        bench_end(b);
    }
}

TEST(r73_a_wait_in_vain_is_for_another_stream_each_time)
{
    struct bench *b = full_bench();

    for (unsigned asked = 0; asked < STREAMS; asked++)
        CHECK_EQ(ask(b, true), 0);
    for (unsigned i = 1; i <= STREAMS; i++)
        CHECK(is_waited_for[i]);
    fake_drain(b->fake);
    bench_end(b);
}

/* SPDX-License-Identifier: MIT */
/* covers: pool_gone.c outcome_queue.c */
/* Ends of streams, contexts, pools and of kedge itself, and what of them outlives the end. */
#include "alloc/base/meta.h"
#include "alloc/heap/records.h"
#include "tests/unit/alloc/pool_bench.h"

/* ── streams ── */

TEST(r5_a_stream_is_recorded_before_it_goes)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    pool_stream_gone(b->pool, 1);
    CHECK_EQ(b->fake->stream_records, 1);
    b->fake->streams[1].gone = true;
    pool_stream_gone(b->pool, 1); /* twice is fine */
    pool_stream_gone(b->pool, 9); /* and so is one that was never seen */
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    bench_end(b);
}

TEST(r5_a_stream_that_went_unseen_is_covered_by_a_full_fence)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    b->fake->streams[1].gone = true; /* its context was reset */
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    bench_end(b);
}

/* A thread's own stream ends with the thread: nobody can record on it, and no driver call is made for it. */
TEST(r5_r69_a_stream_that_is_lost_is_covered_by_a_full_fence)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    uint64_t calls;

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    calls = b->fake->stream_records;
    b->fake->streams[1].gone = true;
    pool_stream_lost(b->pool, 1);
    pool_stream_lost(b->pool, 1); /* twice is fine */
    pool_stream_lost(b->pool, 9); /* and so is one that was never seen */
    CHECK_EQ(b->fake->stream_records, calls);
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a); /* its number is another stream's now */
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 2), a);
    fake_drain(b->fake);
    CHECK_EQ(bench_alloc_on(b, 6 * MiB, 2), a);
    bench_end(b);
}

TEST(r69_a_number_that_comes_back_is_another_stream)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    fake_submit(b->fake, 1, a, 6 * MiB);
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    pool_stream_gone(b->pool, 1);
    b->fake->hangs = true;
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), a); /* not "the same stream" */
    bench_end(b);
}

TEST(r107_many_short_lived_streams_leave_nothing_behind)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t before = 0;

    for (int i = 0; i < 3000; i++) {
        devptr_t a = bench_alloc_on(b, 6 * MiB, 2);

        CHECK_EQ(bench_free_on(b, a, 2), 0);
        pool_stream_gone(b->pool, 2);
        if (i == 100)
            before = meta_bytes();
    }
    CHECK_EQ(meta_bytes(), before);
    bench_end(b);
}

/* Whatever is pending on streams that have gone: the next pair costs what it has cost before, and all of it comes back. */
TEST(r107_a_request_costs_the_same_however_many_streams_have_gone_with_work_pending)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * MiB);
    uint64_t calls[10];
    uint64_t reserved;

    b->fake->hangs = true;
    for (int i = 0; i < 1000; i++) {
        devptr_t a;

        if (i % 100 == 0)
            calls[i / 100] = b->fake->calls;
        a = bench_alloc_on(b, 64 * KiB, 2);
        fake_submit(b->fake, 2, a, 64 * KiB);
        CHECK_EQ(bench_free_on(b, a, 2), 0);
        pool_stream_gone(b->pool, 2);
        CHECK_LT(b->pool->streams_gone, 40);
    }
    for (int i = 1; i < 9; i++)
        CHECK_LT(calls[i + 1] - calls[i], 100 * 60);
    b->fake->hangs = false;
    fake_drain(b->fake);
    reserved = bench_heap_stats(b).reserved;
    CHECK_EQ(pool_trim_device(b->pool, 0, true), reserved);
    CHECK_EQ(bench_heap_stats(b).pending + bench_heap_stats(b).reserved, 0);
    for (int i = 0; i < 10; i++) { /* each end looks at a few */
        CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 64 * KiB, 2), 2), 0);
        pool_stream_gone(b->pool, 2);
    }
    CHECK_EQ(b->pool->streams_gone, 0);
    bench_end(b);
}

/* A pool with room asks for nothing, so each end of a stream looks at the fences that earlier ends have left. */
TEST(r107_streams_that_have_gone_keep_no_fences_while_a_pool_has_room)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 512 * MiB, 1);

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    fake_drain(b->fake);
    pool_settle(b->pool); /* all of it is idle */
    for (int i = 0; i < 2048; i++) {
        a = bench_alloc_on(b, 512, 2);
        fake_submit(b->fake, 2, a, 512);
        CHECK_EQ(bench_free_on(b, a, 2), 0);
        pool_stream_gone(b->pool, 2);
        if (i % 64 == 63)
            fake_drain(b->fake);
    }
    CHECK_LT(b->fake->fences, 200);
    CHECK_LT(bench_heap_stats(b).pending, 200 * 512);
    bench_end(b);
}

/* One that a later tenant must not have before: of many that are gone each waits for its own work. */
TEST(r01_r107_what_a_stream_has_freed_waits_for_its_own_work_when_many_have_gone)
{
    struct bench *b = bench_with_budget(1 * GiB, 1 * GiB);
    devptr_t blocks[40];

    b->fake->hangs = true;
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t stream = 1 + i % 2;

        blocks[i] = bench_alloc_on(b, 6 * MiB, stream);
        fake_submit(b->fake, stream, blocks[i], 6 * MiB);
        CHECK_EQ(bench_free_on(b, blocks[i], stream), 0);
        pool_stream_gone(b->pool, stream);
    }
    while (fake_step(b->fake, 2)) /* the work of every other one */
        ;
    for (uint64_t i = 0; i < 20; i++) {
        devptr_t now = bench_alloc_on(b, 6 * MiB, 3);

        for (uint64_t k = 0; k < 40; k += 2)
            CHECK_NE(now, blocks[k]);
    }
    bench_end(b);
}

static struct bench *meddled;
static devptr_t of_the_new_stream;
static int (*real_query)(void *self, uint64_t fence);

static int query_and_meddle(void *self, uint64_t fence)
{
    struct bench *b = meddled;
    int r = real_query(self, fence);

    if (r != 0 || !b)
        return r;
    meddled = NULL;
    (void)bench_alloc_on(b, 6 * MiB, 1); /* asks the same fence, and takes what is behind it */
    pool_stream_gone(b->pool, 2);
    of_the_new_stream = bench_alloc_on(b, 6 * MiB, 3); /* its record could be where that of 2 was */
    b->fake->hangs = true;
    fake_submit(b->fake, 3, of_the_new_stream, 6 * MiB);
    CHECK_EQ(bench_free_on(b, of_the_new_stream, 3), 0);
    return r;
}

TEST(r69_r70_an_answer_about_a_stream_that_has_ended_is_not_taken_for_anothers)
{
    struct fake_driver *fake = fake_new(1 * GiB);
    struct pool_opts opts;
    struct bench *b;
    devptr_t got;

    pool_opts_init(&opts);
    opts.budget = 1 * GiB;
    real_query = fake->driver.fence_query;
    fake->driver.fence_query = query_and_meddle;
    b = bench_over(fake, &opts);
    CHECK_EQ(bench_free_on(b, bench_alloc_on(b, 6 * MiB, 2), 2), 0);
    meddled = b;
    got = bench_alloc_on(b, 6 * MiB, 1);
    CHECK_NE(got, of_the_new_stream);
    CHECK(!meddled);
    b->fake->hangs = false;
    bench_end(b);
}

/* ── contexts ── */

TEST(r26_r76_a_dead_context_takes_its_heap_along_and_nothing_else)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_request other = bench_request(4 * MiB, 0);
    devptr_t dying = bench_alloc(b, 4 * MiB);
    devptr_t pending = bench_alloc(b, 6 * MiB);
    devptr_t living;
    struct block_info info;
    uint64_t calls;

    other.owner = BENCH_CONTEXT + 1;
    living = bench_ask(b, &other);
    CHECK_EQ(bench_free(b, pending), 0);
    fake_context_gone(b->fake, BENCH_CONTEXT);
    calls = b->fake->calls;
    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK_EQ(b->fake->calls, calls); /* nothing of a dead context is touched */
    CHECK_EQ(bench_free(b, dying), -ENOENT);
    CHECK_EQ(pool_find(b->pool, pending, &info), -ENOENT);
    CHECK_EQ(bench_stats(b).live_requested, 4 * MiB);
    CHECK_EQ(bench_stats(b).reserved, 4 * MiB);
    BENCH_CHECK(b);
    CHECK_NE(bench_alloc(b, 4 * MiB), 0); /* an empty heap under the same key */
    CHECK_EQ(bench_free(b, living), 0);
    bench_end(b);
}

TEST(r76_memory_of_a_pool_survives_the_context)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);

    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK(fake_is_accessible(b->fake, a, 6 * MiB));
    CHECK_EQ(bench_free_on(b, a, 1), 0);
    bench_end(b);
}

/* Between the driver's end of a context and our hearing of it, others are given its addresses. */
TEST(r26_addresses_of_a_dead_context_belong_to_whom_the_driver_gave_them)
{
    struct bench *b = bench_new(1 * GiB);
    struct pool_request other = bench_request(4 * MiB, 0);
    devptr_t dying = bench_alloc(b, 4 * MiB);
    devptr_t native = bench_alloc(b, 6 * MiB);
    struct block_info info;

    other.owner = BENCH_CONTEXT + 1;
    fake_context_gone(b->fake, BENCH_CONTEXT);
    b->fake->next_address = dying;
    CHECK_EQ(bench_ask(b, &other), dying);  /* another heap grows there */
    pool_foreign(b->pool, native, 6 * MiB); /* and here the program has it from the driver */
    CHECK_EQ(pool_find(b->pool, native, &info), -ENOENT);
    CHECK_EQ(bench_free(b, native), -ENOENT);
    pool_context_gone(b->pool, BENCH_CONTEXT);
    CHECK_EQ(pool_find(b->pool, dying, &info), 0);
    CHECK_EQ(bench_free(b, dying), 0);
    CHECK_EQ(bench_stats(b).live_requested, 0);
    CHECK_EQ(bench_stats(b).reserved, 4 * MiB);
    bench_end(b);
}

/* While the driver is asked to end a context its addresses are nobody's; if it refuses, they are ours again. */
TEST(r26_addresses_of_a_context_are_hidden_while_it_is_ended)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t ptr = bench_alloc(b, 8 * MiB);
    struct block_info info;

    pool_context_hide(b->pool, BENCH_CONTEXT + 1, true);
    CHECK_EQ(pool_find(b->pool, ptr, &info), 0);
    pool_context_hide(b->pool, BENCH_CONTEXT, true);
    CHECK_EQ(pool_find(b->pool, ptr, &info), -ENOENT);
    CHECK_EQ(bench_free(b, ptr), -ENOENT);
    pool_context_hide(b->pool, BENCH_CONTEXT, false);
    CHECK_EQ(pool_find(b->pool, ptr, &info), 0);
    CHECK_EQ(bench_free(b, ptr), 0);
    bench_end(b);
}

static struct {
    struct bench *bench; /* NULL: nobody comes in between */
    const struct plan *plan;
    devptr_t next; /* what the other context asked for meanwhile */
    uint64_t (*real)(void *self);
} ending;

static devptr_t hinted_in(struct bench *b, uint64_t context, const struct plan *plan)
{
    struct pool_request request = bench_request(2 * MiB, 0);

    request.owner = context;
    request.plan = plan;
    return bench_ask(b, &request);
}

/* The context of the block that was just marked dead ends, and another context asks for a block. */
static uint64_t snapshot_and_end(void *self)
{
    struct bench *b = ending.bench;

    ending.bench = NULL;
    if (b) {
        pool_context_gone(b->pool, BENCH_CONTEXT);
        ending.next = hinted_in(b, BENCH_CONTEXT + 1, ending.plan);
    }
    return ending.real(self);
}

/* The records of the ended context are used again at once, so nobody may still name them. */
TEST(r57_a_context_may_end_while_its_blocks_are_released)
{
    static const struct rule rule = {
            .action = ACTION_RELEASE,
            .mode = HINT_LIVE,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_EXIT},
            .min_size = 2 * MiB,
    };
    struct edge edge = {.kind = EDGE_EXIT, .anchor = 1, .path = "step"};
    struct tag tag = {.size = 2 * MiB, .anchor = 1, .path = "step"};
    struct fake_driver *fake = fake_new(1 * GiB);
    struct outcome told;
    struct plan plan;
    struct bench *b;
    size_t count;

    ending.real = fake->driver.readers_snapshot;
    fake->driver.readers_snapshot = snapshot_and_end;
    b = bench_over(fake, NULL);
    bench_rules(b, &rule, 1);
    hint_plan(b->hints, &tag, &plan);
    CHECK_NE(hinted_in(b, BENCH_CONTEXT, &plan), 0);
    ending.bench = b;
    ending.plan = &plan;
    CHECK_EQ(pool_edge(b->pool, &edge, &told, 1, &count), 0);
    CHECK_EQ(count, 1);
    CHECK_NE(ending.next, 0);
    BENCH_CHECK(b);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pool_poll(b->pool, true, &told, 0, &count), 0);
    CHECK_NE(hinted_in(b, BENCH_CONTEXT + 1, &plan), ending.next); /* which is still held */
    bench_end(b);
}

/* ── memory pools ── */

TEST(r77_a_pool_with_live_blocks_stays_until_the_last_is_freed)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
    devptr_t c = bench_alloc_on(b, 6 * MiB, 1);
    struct outcome told[1];
    size_t count;

    CHECK_EQ(bench_free_on(b, a, 1), 0);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), -ENOENT);
    CHECK(fake_is_accessible(b->fake, c, 6 * MiB));
    CHECK_NE(bench_alloc_on(b, 6 * MiB, 1), 0); /* another heap under the key */
    CHECK_EQ(bench_free_on(b, b->last.ptr, 1), 0);
    fake_submit(b->fake, 1, c, 6 * MiB);
    CHECK_EQ(bench_free_on(b, c, 1), 0);
    CHECK_EQ(bench_free_on(b, c, 1), -EINVAL);
    b->fake->hangs = true;
    CHECK_EQ(pool_poll(b->pool, true, told, 1, &count), 0);
    fake_drain(b->fake); /* no fault: the device was not done */
    CHECK_EQ(pool_poll(b->pool, true, told, 1, &count), 0);
    CHECK_EQ(bench_free_on(b, c, 1), -ENOENT);
    CHECK_EQ(b->fake->ranges, 1); /* the other heap's */
    bench_end(b);
}

/* What a graph or somebody else relies on is kept after its free, but not longer than its memory pool, and not shorter than its work. */
TEST(r01_r77_what_pins_keep_of_a_pool_goes_behind_its_work)
{
    static const enum pool_pin kinds[] = {POOL_PIN_GRAPH, POOL_PIN_SHOWN};

    for (int way = 0; way < 4; way++) {
        struct bench *b = bench_new(1 * GiB);
        devptr_t a = bench_alloc_on(b, 6 * MiB, 1);
        struct pool_pinned pinned;
        struct outcome told[1];
        struct pool_hit hit;
        size_t count;

        CHECK_EQ(pool_pin(b->pool, a, 1, kinds[way / 2], &pinned, &hit), 0);
        b->fake->hangs = true;
        fake_submit(b->fake, 1, a, 6 * MiB);
        if (way % 2)
            CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
        CHECK_EQ(bench_free_on(b, a, 1), 0);
        if (!(way % 2))
            CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
        CHECK_EQ(pool_poll(b->pool, true, told, 1, &count), 0);
        CHECK(fake_is_accessible(b->fake, a, 6 * MiB));
        fake_drain(b->fake); /* no fault: the device was not done */
        CHECK_EQ(pool_poll(b->pool, true, told, 1, &count), 0);
        CHECK(!fake_is_accessible(b->fake, a, 6 * MiB));
        pool_unpin(b->pool, a, pinned.alloc_seq, kinds[way / 2]);
        CHECK_EQ(b->fake->held, 0);
        BENCH_CHECK(b);
        bench_end(b);
    }
}

/* ── kedge ── */

TEST(r39_a_forked_child_calls_nothing_and_frees_succeed)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    struct outcome told[2];
    struct block_info info;
    size_t count;
    uint64_t calls = b->fake->calls;

    pool_forget(b->pool);
    CHECK(pool_is_frozen(b->pool));
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, a), 0); /* nobody keeps books here */
    CHECK_EQ(bench_free(b, 4096), -ENOENT);
    CHECK_EQ(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(pool_find(b->pool, a, &info), -EAGAIN);
    CHECK_EQ(pool_poll(b->pool, true, told, 2, &count), 0);
    CHECK_EQ(pool_trim_device(b->pool, 0, true), 0);
    pool_synchronised(b->pool);
    pool_free_all(b->pool);
    CHECK_EQ(b->fake->calls, calls);
    fake_free(b->fake);
    free(b);
}

TEST(r34_a_frozen_pool_recycles_nothing)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t a = bench_alloc(b, 4 * MiB);
    struct block_info info;
    uint64_t calls = b->fake->calls;

    pool_freeze(b->pool);
    CHECK_EQ(bench_free(b, a), 0);
    CHECK_EQ(bench_free(b, 4096), -ENOENT);
    CHECK_EQ(bench_alloc(b, 4 * MiB), 0);
    CHECK_EQ(b->r, -EAGAIN);
    CHECK_EQ(pool_find(b->pool, a, &info), 0);
    CHECK_EQ(b->fake->calls, calls);
    BENCH_CHECK(b);
    pool_free_all(b->pool);
    fake_free(b->fake);
    free(b);
}

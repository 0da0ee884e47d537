/* SPDX-License-Identifier: MIT */
/* What other threads do while one is in a driver call, made to happen: the fake driver calls back in the middle of it. */
#include "tests/unit/alloc/pool_bench.h"

static struct {
    struct bench *bench;
    devptr_t ptr; /* to be freed at the next question about the device's memory, 0 = nothing */
    uint64_t stream;
    int (*real)(void *self, int device, uint64_t *ret_total, uint64_t *ret_free);
} meddle;

static int memory_and_free(void *self, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    devptr_t ptr = meddle.ptr;

    meddle.ptr = 0;
    if (ptr) {
        struct pool_free_request request = {
                .api = API_STREAM, .stream = meddle.stream, .may_fence = true};
        struct outcome outcome;

        CHECK_EQ(pool_free(meddle.bench->pool, ptr, &request, &outcome), 0);
    }
    return meddle.real(self, device, ret_total, ret_free);
}

/* With a reserve, so that growth asks how much memory there is. */
static struct bench *meddle_bench(uint64_t memory)
{
    struct bench *b = calloc(1, sizeof(*b));
    struct pool_opts opts;

    REQUIRE(b != NULL);
    pool_opts_init(&opts);
    opts.reserve = 1;
    b->fake = fake_new(memory);
    meddle.bench = b;
    meddle.real = b->fake->driver.memory;
    b->fake->driver.memory = memory_and_free;
    REQUIRE_EQ(pool_new(&b->fake->driver, &opts, &b->pool), 0);
    return b;
}

/* The last block of the arena is freed between the look for a free one and the growth: it is just large enough. */
TEST(a_fitting_tail_needs_no_growth)
{
    struct bench *b = meddle_bench(1 * GiB);
    devptr_t first = bench_alloc_on(b, 8 * MiB, 1);
    uint64_t creates = b->fake->creates;

    meddle.ptr = first;
    meddle.stream = 1;
    CHECK_EQ(bench_alloc_on(b, 8 * MiB, 1), first);
    CHECK_EQ(meddle.ptr, 0);
    CHECK_EQ(b->fake->creates, creates);
    bench_end(b);
}

/* The same, and it is larger than what is wanted. */
TEST(a_larger_tail_needs_no_growth)
{
    struct bench *b = meddle_bench(1 * GiB);
    devptr_t first = bench_alloc_on(b, 8 * MiB, 1);
    uint64_t creates = b->fake->creates;

    meddle.ptr = first;
    meddle.stream = 1;
    CHECK_EQ(bench_alloc_on(b, 4 * MiB, 1), first);
    CHECK_EQ(b->r, 0);
    CHECK_EQ(b->fake->creates, creates);
    CHECK_EQ(b->fake->unmaps, 0);
    CHECK_EQ(b->last.how & (OUTCOME_TRIMMED | OUTCOME_WAITED), 0);
    bench_end(b);
}

/* R31: what another heap holds behind a stream that is done is no reason to be out of memory. */
TEST(a_full_device_gets_what_other_heaps_hold_behind_streams)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t first = bench_alloc_on(b, 900 * MiB, 1);

    fake_submit(b->fake, 1, first, 900 * MiB);
    CHECK_EQ(bench_free_on(b, first, 1), 0);
    CHECK_NE(bench_alloc(b, 500 * MiB), 0); /* on the sync API */
    CHECK_EQ(b->r, 0);
    bench_end(b);
}

/* The same between two memory pools. */
TEST(a_full_device_gets_what_other_memory_pools_hold)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t first = bench_alloc_on(b, 900 * MiB, 1);
    struct pool_request request = bench_request(500 * MiB, 2);

    fake_submit(b->fake, 1, first, 900 * MiB);
    CHECK_EQ(bench_free_on(b, first, 1), 0);
    request.owner = BENCH_POOL + 1;
    CHECK_NE(bench_ask(b, &request), 0);
    CHECK_EQ(b->r, 0);
    bench_end(b);
}

static struct {
    int late; /* questions that a fence leaves unanswered, as a device does for some microseconds */
    int (*real)(void *self, uint64_t fence);
} slow;

static int query_late(void *self, uint64_t fence)
{
    return slow.late-- > 0 ? -EAGAIN : slow.real(self, fence);
}

/* R78: the program has synchronised, so all that is free is free, although our own fence is only just recorded. */
TEST(a_trim_waits_for_its_own_fences_to_arrive)
{
    struct bench *b = calloc(1, sizeof(*b));
    struct pool_opts opts;
    uint64_t bytes = 0;
    devptr_t first, second;

    REQUIRE(b != NULL);
    pool_opts_init(&opts);
    b->fake = fake_new(1 * GiB);
    slow.real = b->fake->driver.fence_query;
    b->fake->driver.fence_query = query_late;
    REQUIRE_EQ(pool_new(&b->fake->driver, &opts, &b->pool), 0);
    first = bench_alloc_on(b, 8 * MiB, 1);
    second = bench_alloc_on(b, 8 * MiB, 1);
    CHECK_EQ(bench_free_on(b, first, 1), 0);
    CHECK_EQ(bench_free(b, second), 0); /* without a stream */
    slow.late = 6;
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bytes, 16 * MiB);
    CHECK_EQ(b->fake->waits, 0);
    bench_end(b);
}

/* A device that is busy is not waited for. */
TEST(a_trim_does_not_wait_for_the_device)
{
    struct bench *b = bench_new(1 * GiB);
    uint64_t bytes = 7;
    devptr_t first = bench_alloc_on(b, 8 * MiB, 1);

    fake_submit(b->fake, 1, first, 8 * MiB);
    CHECK_EQ(bench_free_on(b, first, 1), 0);
    b->fake->hangs = true;
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bytes, 0);
    b->fake->hangs = false;
    bench_end(b);
}

static struct {
    struct bench *bench;
    devptr_t ptr; /* freed on stream 2 in the middle of the next record, 0 = nothing */
    int (*real)(void *self, uint64_t stream, uint64_t *ret_fence);
} between;

static int record_and_pass(void *self, uint64_t stream, uint64_t *ret_fence)
{
    devptr_t ptr = between.ptr;
    int r = between.real(self, stream, ret_fence);

    between.ptr = 0;
    if (ptr) {
        uint64_t bytes;

        CHECK_EQ(bench_free_on(between.bench, ptr, 2), 0);
        fake_drain(between.bench->fake);
        CHECK_EQ(pool_trim(between.bench->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    }
    return r;
}

/* Another thread's later point has passed before this one's block is put where it waits: nothing comes to fetch it. */
TEST(a_block_whose_point_has_passed_does_not_wait)
{
    struct bench *b = calloc(1, sizeof(*b));
    struct pool_opts opts;
    uint64_t bytes;
    devptr_t first, second;

    REQUIRE(b != NULL);
    pool_opts_init(&opts);
    b->fake = fake_new(1 * GiB);
    between.bench = b;
    between.real = b->fake->driver.stream_record;
    b->fake->driver.stream_record = record_and_pass;
    REQUIRE_EQ(pool_new(&b->fake->driver, &opts, &b->pool), 0);
    first = bench_alloc_on(b, 8 * MiB, 1);
    second = bench_alloc_on(b, 8 * MiB, 1);
    between.ptr = second;
    CHECK_EQ(bench_free_on(b, first, 2), 0);
    CHECK_EQ(between.ptr, 0);
    CHECK_EQ(pool_trim(b->pool, HEAP_MAPPED, BENCH_POOL, 0, &bytes), 0);
    CHECK_EQ(bench_stats(b).reserved, 0);
    bench_end(b);
}

static struct {
    struct bench *bench;
    unsigned seen; /* frees of segments during which the address was still looked up as ours */
    unsigned frees;
    int (*real)(void *self, devptr_t ptr, uint64_t size);
} late;

static int free_and_look(void *self, devptr_t ptr, uint64_t size)
{
    struct block_info info;

    late.frees++;
    late.seen += pool_find(late.bench->pool, ptr, &info) == 0;
    return late.real(self, ptr, size);
}

/* Once the driver has an address back, somebody else may have it: it is forgotten before, whoever gives it back. */
TEST(r26_addresses_are_forgotten_before_the_driver_has_them_back)
{
    struct bench *b = calloc(1, sizeof(*b));
    struct pool_opts opts;
    devptr_t ptr;

    REQUIRE(b != NULL);
    pool_opts_init(&opts);
    b->fake = fake_new(1 * GiB);
    late.bench = b;
    late.real = b->fake->driver.address_free;
    b->fake->driver.address_free = free_and_look;
    REQUIRE_EQ(pool_new(&b->fake->driver, &opts, &b->pool), 0);
    ptr = bench_alloc_on(b, 8 * MiB, 1);
    CHECK_EQ(bench_free_on(b, ptr, 1), 0);
    fake_drain(b->fake);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(late.frees, 1);
    CHECK_EQ(late.seen, 0);
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
    const struct edge edge = {.kind = EDGE_EXIT, .anchor = 1, .path = "step"};
    struct tag tag = {.size = 2 * MiB, .anchor = 1, .path = "step"};
    struct bench *b = calloc(1, sizeof(*b));
    struct pool_opts opts;
    struct outcome told;
    struct plan plan;
    size_t count;

    REQUIRE(b != NULL);
    pool_opts_init(&opts);
    b->fake = fake_new(1 * GiB);
    ending.real = b->fake->driver.readers_snapshot;
    b->fake->driver.readers_snapshot = snapshot_and_end;
    REQUIRE_EQ(pool_new(&b->fake->driver, &opts, &b->pool), 0);
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

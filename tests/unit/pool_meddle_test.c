/* SPDX-License-Identifier: MIT */
/* What other threads do while one is in a driver call, made to happen: the fake driver calls back in the middle of it. */
#include "tests/unit/pool_bench.h"

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
                .entrance = ENTRANCE_STREAM, .stream = meddle.stream, .may_fence = true};
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
    CHECK_NE(bench_alloc(b, 500 * MiB), 0); /* on the sync entrance */
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

/* SPDX-License-Identifier: MIT */
/*
 * pool_bench.h - a pool on a fake driver, with the few words that tests of the pool need.
 *
 * bench_end checks what must hold at the end of every test: no lock was held in a driver call, the driver was not misused,
 * no device work hit what is not there, and after pool_free_all the driver holds nothing of ours.
 */
#ifndef KEDGE_TESTS_UNIT_POOL_BENCH_H
#define KEDGE_TESTS_UNIT_POOL_BENCH_H

#include "alloc/base/lock.h"
#include "alloc/pool.h"
#include "tests/check.h"
#include "tests/unit/alloc/fake_driver.h"

#include <errno.h>

#define KiB (UINT64_C(1) << 10)
#define MiB (UINT64_C(1) << 20)
#define GiB (UINT64_C(1) << 30)

#define BENCH_CONTEXT 7  /* context generation of sync requests */
#define BENCH_POOL    70 /* memory pool of stream requests */

struct bench {
    struct fake_driver *fake;
    struct pool *pool;
    struct hints *hints;
    struct outcome last; /* what the last call told */
    int r;               /* and returned */
};

/* The pool takes a copy of the fake's table, so what a test puts into it stands there before. NULL: the options by default. */
static inline struct bench *bench_over(struct fake_driver *fake, const struct pool_opts *opts)
{
    struct bench *b = calloc(1, sizeof(*b));
    struct pool_opts by_default;

    if (!b)
        abort();
    pool_opts_init(&by_default);
    b->fake = fake;
    if (pool_new(&fake->driver, opts ? opts : &by_default, &b->pool) != 0)
        abort();
    return b;
}

static inline struct bench *bench_new_with(uint64_t memory, const struct pool_opts *opts)
{
    return bench_over(fake_new(memory), opts);
}

static inline struct bench *bench_new(uint64_t memory)
{
    return bench_new_with(memory, NULL);
}

/* The least budget leaves no room to grow; one of all memory never matters. */
static inline struct bench *bench_with_budget(uint64_t memory, uint64_t budget)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.budget = budget;
    return bench_new_with(memory, &opts);
}

static inline void bench_rules(struct bench *b, const struct rule *rules, size_t n)
{
    if (hint_new(rules, n, &b->hints) != 0 || pool_set_hints(b->pool, b->hints) != 0)
        abort();
}

static inline void bench_check(struct bench *b, const char *file, int line)
{
    const char *what = "";

    if (!check_that(pool_check(b->pool, &what) == 0, file, line, "pool_check"))
        printf("    %s\n", what);
}
#define BENCH_CHECK(b) bench_check((b), __FILE__, __LINE__)

static inline struct pool_request bench_request(uint64_t size, uint64_t stream)
{
    return (struct pool_request){
            .size = size,
            .owner = stream ? BENCH_POOL : BENCH_CONTEXT,
            .stream = stream,
            .api = stream ? API_STREAM : API_SYNC,
            .may_call = true,
            .may_fence = true,
            .may_wait = true,
    };
}

static inline devptr_t bench_ask(struct bench *b, const struct pool_request *request)
{
    memset(&b->last, 0, sizeof(b->last));
    b->r = pool_alloc(b->pool, request, &b->last);
    return b->r == 0 ? b->last.ptr : 0;
}

/* Sync; 0 if it was refused, b->r says why. */
static inline devptr_t bench_alloc(struct bench *b, uint64_t size)
{
    struct pool_request request = bench_request(size, 0);

    return bench_ask(b, &request);
}

/* Stream-ordered. */
static inline devptr_t bench_alloc_on(struct bench *b, uint64_t size, uint64_t stream)
{
    struct pool_request request = bench_request(size, stream);

    return bench_ask(b, &request);
}

static inline int bench_free_on(struct bench *b, devptr_t ptr, uint64_t stream)
{
    struct pool_free_request request = {
            .api = stream ? API_STREAM : API_SYNC,
            .stream = stream,
            .may_fence = true,
    };

    b->r = pool_free(b->pool, ptr, &request, &b->last);
    return b->r;
}

static inline int bench_free(struct bench *b, devptr_t ptr)
{
    return bench_free_on(b, ptr, 0);
}

static inline struct pool_stats bench_stats(struct bench *b)
{
    struct pool_stats stats;

    pool_stats(b->pool, -1, &stats);
    return stats;
}

/* Those of the memory pool of stream requests. */
static inline struct pool_stats bench_heap_stats(struct bench *b)
{
    struct pool_stats stats = {0};

    (void)pool_heap_stats(b->pool, HEAP_MAPPED, BENCH_POOL, &stats);
    return stats;
}

static inline struct pool_room bench_room(struct bench *b)
{
    struct pool_room room;

    memset(&room, 0xa5, sizeof room);
    pool_room(b->pool, 0, &room);
    return room;
}

/* The device does all that it was given, and the pool hears of it. */
static inline void bench_pass(struct bench *b)
{
    size_t count;

    fake_drain(b->fake);
    (void)pool_poll(b->pool, true, NULL, 0, &count);
}

/* A number below `below`; the same ones after the same state. */
static inline uint64_t bench_random(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

static inline void bench_end_at(struct bench *b, const char *file, int line)
{
    bench_check(b, file, line);
    check_compare(file, line, "locks held in driver calls", CHECK_OP_EQ, "locked",
            check_unsigned(b->fake->locked), "0", check_unsigned(0));
    if (!check_that(lock_violations() == 0, file, line, "lock rules"))
        printf("    %s\n", lock_last_violation());
    fake_drain(b->fake);
    check_compare(file, line, "faults of the device", CHECK_OP_EQ, "faults",
            check_unsigned(b->fake->faults), "0", check_unsigned(0));
    pool_free_all(b->pool);
    hint_free(b->hints);
    if (!check_that(b->fake->misuses == 0, file, line, "the driver is used as it wants"))
        printf("    %s\n", b->fake->misuse);
    check_compare(file, line, "host memory left", CHECK_OP_EQ, "left",
            check_unsigned(b->fake->host), "0", check_unsigned(0));
    check_compare(file, line, "fences left", CHECK_OP_EQ, "left", check_unsigned(b->fake->fences),
            "0", check_unsigned(0));
    if (b->fake->lost == 0)
        check_compare(file, line, "bytes, ranges and mappings left", CHECK_OP_EQ, "left",
                check_unsigned(b->fake->held + b->fake->ranges + b->fake->mappings), "0",
                check_unsigned(0));
    fake_free(b->fake);
    free(b);
}
#define bench_end(b) bench_end_at((b), __FILE__, __LINE__)

#endif

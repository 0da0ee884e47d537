/* SPDX-License-Identifier: MIT */
/*
 * cost_pool.c - the decisions of the pool alone, below which there is no device, for cost.py and cost_growth.py, which count their
 * instructions.
 *
 *     cost_pool sync|stream|own same|mixed LIVE STREAMS PAIRS LAG [POOLS [THREADS]]
 *     cost_pool gone|gone-pools|gone-contexts same|mixed LIVE COUNT PAIRS LAG
 *
 * Each pair frees one of LIVE blocks, chosen at random, and allocates one: on the next stream, or with `own` on the stream of the
 * freed one. The device is LAG fences behind. Blocks are of POOLS memory pools in turn (of contexts, with `sync`). Each of THREADS makes
 * PAIRS pairs, with blocks that only it frees. With `gone` each pair is on a new stream (of a new memory pool, in a new context), after
 * LIVE such streams, and the oldest of COUNT is destroyed. Prints how many calls of the driver the pairs made, and the bytes of the host that the pool has.
 */
#include "alloc/base/meta.h"
#include "alloc/pool.h"
#include "tests/bench/instrument.h"
#include "tests/bench/nodevice.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pairs before those that are counted: twice the blocks; at most what valgrind does in a minute. */
#define WARM_LEAST  20000
#define WARM_MOST   400000
#define CAPACITY    (UINT64_C(2) << 30) /* and 1 MiB for each live block */
#define THREADS_MAX 64

/* Addresses. Where pools or contexts go they begin anew after some thousand ranges, as a driver gives addresses again. */
#define FIRST         (UINT64_C(1) << 40)
#define POOLS_LAST    (FIRST + (UINT64_C(1) << 45))
#define CONTEXTS_LAST (FIRST + (UINT64_C(1) << 34))

static _Atomic uint64_t calls, next_address = FIRST, next_handle, fences;
static uint64_t lag, capacity = CAPACITY, last_address = UINT64_MAX;

static uint64_t take_addresses(uint64_t size, uint64_t align)
{
    uint64_t at = atomic_fetch_add(&next_address, size + align);

    if (at + size + align > last_address) {
        at = FIRST;
        next_address = FIRST + size + align;
    }
    return (at + align - 1) & ~(align - 1);
}

static int done(void)
{
    calls++;
    return 0;
}

static int mem_alloc(void *self, uint64_t context, int number, uint64_t size, devptr_t *ret_ptr)
{
    (void)self;
    (void)context;
    (void)number;
    *ret_ptr = take_addresses(size, PAGE);
    return done();
}

static int mem_free(void *self, uint64_t context, devptr_t ptr)
{
    (void)self;
    (void)context;
    (void)ptr;
    return done();
}

static int memory(void *self, int number, uint64_t *ret_total, uint64_t *ret_free)
{
    (void)self;
    (void)number;
    *ret_total = *ret_free = capacity;
    return done();
}

static int address_reserve(void *self, int number, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    (void)self;
    (void)number;
    *ret_ptr = take_addresses(size, align ? align : PAGE);
    return done();
}

static int handle_create(void *self, int number, uint64_t size, uint64_t *ret_handle)
{
    (void)self;
    (void)number;
    (void)size;
    *ret_handle = ++next_handle;
    return done();
}

static int handle_release(void *self, uint64_t handle)
{
    (void)self;
    (void)handle;
    return done();
}

static int map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    (void)self;
    (void)ptr;
    (void)size;
    (void)handle;
    return done();
}

static int unmap(void *self, devptr_t ptr, uint64_t size)
{
    return map(self, ptr, size, 0);
}

static int set_access(void *self, enum heap_kind heap, uint64_t owner, int number, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    (void)heap;
    (void)owner;
    (void)number;
    (void)access;
    return map(self, ptr, size, 0);
}

static int fence_record(void *self, int number, uint64_t *ret_fence)
{
    (void)self;
    (void)number;
    *ret_fence = ++fences;
    return done();
}

static int stream_record(void *self, uint64_t stream, uint64_t *ret_fence)
{
    (void)stream;
    return fence_record(self, 0, ret_fence);
}

static int fence_query(void *self, uint64_t fence)
{
    (void)self;
    (void)done();
    return fence + lag <= fences ? 0 : -EAGAIN;
}

static int fence_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    (void)self;
    (void)fence;
    (void)timeout_ms;
    return done();
}

static int stream_wait_fence(void *self, uint64_t stream, uint64_t fence)
{
    (void)self;
    (void)stream;
    (void)fence;
    return done();
}

/* ── the program ── */

static struct pool *pool;
static enum api api;
static bool is_mixed, stays;
static enum {
    NOTHING_GOES,
    STREAMS_GO,
    POOLS_GO,
    CONTEXTS_GO
} goes;
static uint64_t live, streams, pools = 1, threads = 1;
static _Thread_local uint64_t seed = UINT64_C(88172645463325252);

struct held {
    devptr_t ptr;
    uint64_t stream, owner;
};
static struct held *held;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uint64_t size_of(void)
{
    uint64_t power = UINT64_C(1) << (9 + next_random() % 13);

    return is_mixed ? power + next_random() % power : 4096;
}

static void check(int r)
{
    if (r == 0)
        return;
    fprintf(stderr, "cost_pool: the pool answers %d\n", r);
    abort();
}

static devptr_t get(uint64_t size, uint64_t owner, uint64_t stream)
{
    const struct pool_request request = {
            .size = size,
            .owner = owner,
            .stream = api == API_STREAM ? stream : 0,
            .api = api,
            .may_call = true,
            .may_fence = true,
            .may_wait = true,
    };
    struct pool_given given = api == API_STREAM ? pool_alloc_on_quickly(pool, owner, stream, size)
                                                : pool_alloc_quickly(pool, owner, size);
    struct outcome outcome;

    if (given.ptr)
        return given.ptr;
    check(pool_alloc(pool, &request, &outcome));
    return outcome.ptr;
}

static void put(devptr_t ptr, uint64_t stream)
{
    const struct pool_free_request request = {
            .api = api, .stream = api == API_STREAM ? stream : 0, .may_fence = true};
    struct outcome outcome;

    if (!(api == API_STREAM ? pool_free_on_quickly(pool, ptr, stream)
                            : pool_free_quickly(pool, ptr)))
        check(pool_free(pool, ptr, &request, &outcome));
}

/* With the blocks of this thread. */
static void make_pairs(uint64_t pairs, uint64_t thread, uint64_t of)
{
    const uint64_t among = max_of(live / of, 1);

    for (uint64_t i = 0; i < pairs; i++) {
        struct held *at = &held[next_random() % among * of + thread];

        put(at->ptr, at->stream);
        if (!stays)
            at->stream = 1 + i % streams;
        at->ptr = get(size_of(), at->owner, at->stream);
    }
}

static void end(uint64_t number)
{
    if (goes == STREAMS_GO) {
        pool_stream_gone(pool, number);
    } else if (goes == POOLS_GO) {
        check(pool_heap_gone(pool, number));
    } else {
        pool_context_going(pool, number);
        pool_context_gone(pool, number);
    }
}

static void come_and_go(uint64_t count)
{
    static uint64_t made;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t stream = goes == STREAMS_GO ? ++made : 1;
        uint64_t owner = goes == STREAMS_GO ? 1 : ++made;

        put(get(size_of(), owner, stream), stream);
        if (made >= streams)
            end(made - streams + 1);
    }
}

static void warm_up(void)
{
    if (goes) {
        come_and_go(live);
        return;
    }
    for (uint64_t i = 0; i < live; i++) {
        held[i].stream = 1 + i % streams;
        held[i].owner = 1 + i % pools;
        held[i].ptr = get(size_of(), held[i].owner, held[i].stream);
    }
    make_pairs(min_of(max_of(WARM_LEAST, 2 * live), WARM_MOST), 0, 1);
}

static uint64_t pairs;

/* callgrind.py counts what runs below it. */
__attribute__((noinline)) static void counted(uint64_t thread)
{
    if (goes)
        come_and_go(pairs);
    else
        make_pairs(pairs, thread, threads);
}

static void *work(void *thread)
{
    seed += (uint64_t)(uintptr_t)thread;
    counted((uint64_t)(uintptr_t)thread);
    return NULL;
}

static void work_in_threads(void)
{
    pthread_t at_work[THREADS_MAX];

    for (uint64_t i = 0; i < threads; i++) {
        if (pthread_create(&at_work[i], NULL, work, (void *)(uintptr_t)i) != 0)
            abort();
    }
    for (uint64_t i = 0; i < threads; i++)
        (void)pthread_join(at_work[i], NULL);
}

static bool read_arguments(int argc, char **argv)
{
    if (argc < 7 || argc > 9)
        return false;
    goes = strcmp(argv[1], "gone") == 0             ? STREAMS_GO
            : strcmp(argv[1], "gone-pools") == 0    ? POOLS_GO
            : strcmp(argv[1], "gone-contexts") == 0 ? CONTEXTS_GO
                                                    : NOTHING_GOES;
    api = strcmp(argv[1], "sync") == 0 || goes == CONTEXTS_GO ? API_SYNC : API_STREAM;
    stays = strcmp(argv[1], "own") == 0;
    is_mixed = strcmp(argv[2], "mixed") == 0;
    live = strtoull(argv[3], NULL, 10);
    streams = strtoull(argv[4], NULL, 10);
    pairs = strtoull(argv[5], NULL, 10);
    lag = strtoull(argv[6], NULL, 10);
    last_address = goes == POOLS_GO ? POOLS_LAST : goes == CONTEXTS_GO ? CONTEXTS_LAST : UINT64_MAX;
    capacity += goes ? 0 : live << 20;
    pools = argc > 7 ? strtoull(argv[7], NULL, 10) : 1;
    threads = argc > 8 ? strtoull(argv[8], NULL, 10) : 1;
    return live && streams && pools && threads && threads <= THREADS_MAX && threads <= live;
}

int main(int argc, char **argv)
{
    const struct driver driver = DRIVER_HERE;
    struct pool_opts opts;

    if (!read_arguments(argc, argv))
        return 2;
    pool_opts_init(&opts);
    check(pool_new(&driver, &opts, &pool));
    held = calloc(live, sizeof *held);
    if (!held)
        return 1;
    warm_up();
    calls = 0;
    instrument_from_here();
    if (threads > 1)
        work_in_threads();
    else
        counted(0);
    printf("host bytes %llu, driver calls %llu\n", (unsigned long long)meta_bytes(),
            (unsigned long long)calls);
    pool_free_all(pool);
    free(held);
    return 0;
}

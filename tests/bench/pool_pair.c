/* SPDX-License-Identifier: MIT */
/*
 * pool_pair.c - allocation and free in a steady state, for pool_pair.sh, which counts the instructions.
 *
 *     pool_pair sync|stream LIVE SIZE PAIRS
 *
 * LIVE blocks of mixed sizes stay; PAIRS times a block of SIZE bytes is allocated and freed, and there are enough of them
 * for every allocation to be a hit. The driver passes every fence at once, so what is counted is the pool: the hit, the
 * free, and the share of closing epochs.
 */
#include "alloc/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static devptr_t next_address = UINT64_C(1) << 40;

static int mem_alloc(void *self, uint64_t context, int device, uint64_t size, devptr_t *ret_ptr)
{
    (void)self;
    (void)context;
    (void)device;
    *ret_ptr = next_address;
    next_address += (size + (UINT64_C(2) << 20) - 1) & ~((UINT64_C(2) << 20) - 1);
    return 0;
}

static int mem_free(void *self, uint64_t context, devptr_t ptr)
{
    (void)self;
    (void)context;
    (void)ptr;
    return 0;
}

static int granularity(void *self, int device, uint64_t *ret_size)
{
    (void)self;
    (void)device;
    *ret_size = UINT64_C(2) << 20;
    return 0;
}

static int memory(void *self, int device, uint64_t *ret_total, uint64_t *ret_free)
{
    (void)self;
    (void)device;
    *ret_total = UINT64_C(80) << 30;
    *ret_free = *ret_total;
    return 0;
}

static int address_reserve(void *self, int device, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    (void)align;
    return mem_alloc(self, 1, device, size, ret_ptr);
}

static int range(void *self, devptr_t ptr, uint64_t size)
{
    (void)self;
    (void)ptr;
    (void)size;
    return 0;
}

static int handle_create(void *self, int device, uint64_t size, uint64_t *ret_handle)
{
    return mem_alloc(self, 1, device, size, ret_handle);
}

static int one(void *self, uint64_t number)
{
    (void)self;
    (void)number;
    return 0;
}

static int map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    (void)handle;
    return range(self, ptr, size);
}

static int set_access(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    (void)heap;
    (void)owner;
    (void)device;
    (void)access;
    return range(self, ptr, size);
}

static int fence_record(void *self, uint64_t *ret_fence)
{
    (void)self;
    *ret_fence = 1;
    return 0;
}

static int stream_record(void *self, uint64_t stream, uint64_t *ret_fence)
{
    (void)stream;
    return fence_record(self, ret_fence);
}

static int fence_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    (void)timeout_ms;
    return one(self, fence);
}

static int stream_wait_fence(void *self, uint64_t stream, uint64_t fence)
{
    (void)stream;
    return one(self, fence);
}

static void fence_put(void *self, uint64_t fence)
{
    (void)one(self, fence);
}

static uint64_t readers_snapshot(void *self)
{
    (void)self;
    return 0;
}

static const struct driver driver = {
        .mem_alloc = mem_alloc,
        .mem_free = mem_free,
        .granularity = granularity,
        .memory = memory,
        .address_reserve = address_reserve,
        .address_free = range,
        .handle_create = handle_create,
        .handle_release = one,
        .map = map,
        .unmap = range,
        .set_access = set_access,
        .fence_record = fence_record,
        .stream_record = stream_record,
        .fence_query = one,
        .fence_wait = fence_wait,
        .stream_wait_fence = stream_wait_fence,
        .fence_put = fence_put,
        .readers_snapshot = readers_snapshot,
        .readers_passed = one,
};

static struct pool *pool;
static bool on_stream;

static devptr_t take(uint64_t size)
{
    struct pool_request request = {
            .size = size,
            .owner = 1,
            .stream = on_stream ? 1 : 0,
            .entrance = on_stream ? ENTRANCE_STREAM : ENTRANCE_SYNC,
            .may_call = true,
            .may_fence = true,
            .may_wait = true,
    };
    struct outcome told;

    if (pool_alloc(pool, &request, &told) != 0)
        abort();
    return told.ptr;
}

static void give(devptr_t ptr)
{
    struct pool_free_request request = {
            .entrance = on_stream ? ENTRANCE_STREAM : ENTRANCE_SYNC,
            .stream = on_stream ? 1 : 0,
            .may_fence = true,
    };
    struct outcome told;

    if (pool_free(pool, ptr, &request, &told) != 0)
        abort();
}

/* Some live, some holes between them, sizes all over the classes. */
static void fill(long live)
{
    uint64_t state = 1;
    devptr_t *ptrs = calloc((size_t)live * 2 + 1, sizeof(*ptrs));

    if (!ptrs)
        abort();
    for (long i = 0; i < live * 2; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        ptrs[i] = take(512 + (state >> 40) % (i % 4 == 0 ? 1 << 20 : 1 << 14));
    }
    for (long i = 1; i < live * 2; i += 2)
        give(ptrs[i]);
    free(ptrs);
}

static void spare(uint64_t size)
{
    devptr_t ptrs[300];

    for (int i = 0; i < 300; i++)
        ptrs[i] = take(size);
    for (int i = 0; i < 300; i++)
        give(ptrs[i]);
}

int main(int argc, char **argv)
{
    struct pool_opts opts;
    struct pool_stats stats;
    uint64_t size, misses;
    long pairs;

    if (argc != 5)
        return 2;
    on_stream = strcmp(argv[1], "stream") == 0;
    pool_opts_init(&opts);
    if (pool_new(&driver, &opts, &pool) != 0)
        return 1;
    fill(strtol(argv[2], NULL, 10));
    size = strtoull(argv[3], NULL, 10);
    spare(size);
    pairs = strtol(argv[4], NULL, 10);
    give(take(size));
    pool_stats(pool, -1, &stats);
    misses = stats.misses;
    for (long i = 0; i < pairs; i++)
        give(take(size));
    pool_stats(pool, -1, &stats);
    printf("%ld pairs, %llu misses\n", pairs, (unsigned long long)(stats.misses - misses));
    return stats.misses != misses;
}

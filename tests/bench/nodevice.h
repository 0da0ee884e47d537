/* SPDX-License-Identifier: MIT */
/*
 * nodevice.h - what the drivers of bench.c and pool_replay.c have in common: where there is no device, nothing is to be done.
 *
 * The rest of the table's functions is the including file's own, named as its members (DRIVER_HERE).
 */
#ifndef KEDGE_TESTS_BENCH_NODEVICE_H
#define KEDGE_TESTS_BENCH_NODEVICE_H

#include "alloc/base/driver.h"

#define PAGE (UINT64_C(2) << 20)

static int granularity(void *self, int number, uint64_t *ret_size)
{
    (void)self;
    (void)number;
    *ret_size = PAGE;
    return 0;
}

static int address_free(void *self, devptr_t ptr, uint64_t size)
{
    (void)self;
    (void)ptr;
    (void)size;
    return 0;
}

/* Every wait is over at once: no patience runs out. */
static uint64_t clock_ns(void *self)
{
    (void)self;
    return 0;
}

static void fence_put(void *self, uint64_t fence)
{
    (void)self;
    (void)fence;
}

static uint64_t readers_snapshot(void *self)
{
    (void)self;
    return 0;
}

static int readers_passed(void *self, uint64_t snapshot)
{
    (void)self;
    (void)snapshot;
    return 0;
}

/* clang-format off */
#define DRIVER_HERE                                                                                       \
    {                                                                                                     \
        .mem_alloc = mem_alloc, .mem_free = mem_free, .granularity = granularity, .memory = memory,       \
        .address_reserve = address_reserve, .address_free = address_free, .handle_create = handle_create, \
        .handle_release = handle_release, .map = map, .unmap = unmap, .set_access = set_access,           \
        .fence_record = fence_record, .stream_record = stream_record, .fence_query = fence_query,         \
        .fence_wait = fence_wait, .stream_wait_fence = stream_wait_fence, .fence_put = fence_put,         \
        .readers_snapshot = readers_snapshot, .readers_passed = readers_passed, .clock_ns = clock_ns,     \
    }
/* clang-format on */

#endif

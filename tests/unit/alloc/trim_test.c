/* SPDX-License-Identifier: MIT */
/* What goes back to the driver, in which order and in which pieces. */
#include "tests/unit/alloc/pool_bench.h"

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
    struct fake_driver *fake = fake_new(1 * GiB);
    struct bench *b;
    devptr_t ptr;

    late.real = fake->driver.address_free;
    fake->driver.address_free = free_and_look;
    b = bench_over(fake, NULL);
    late.bench = b;
    ptr = bench_alloc_on(b, 8 * MiB, 1);
    CHECK_EQ(bench_free_on(b, ptr, 1), 0);
    fake_drain(b->fake);
    CHECK_EQ(pool_heap_gone(b->pool, BENCH_POOL), 0);
    CHECK_EQ(late.frees, 1);
    CHECK_EQ(late.seen, 0);
    bench_end(b);
}

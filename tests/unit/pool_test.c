/* SPDX-License-Identifier: MIT */
#include "tests/unit/pool_bench.h"

/* The pool as its callers see it, on a fake driver: one test per promise of pool.h. */

TEST(freed_block_waits_for_every_stream)
{
    struct bench *b = bench_new(1 * GiB);
    devptr_t first = bench_alloc(b, 3 * MiB);
    devptr_t second;

    fake_submit(b->fake, 3, first, 3 * MiB);
    fake_submit(b->fake, 5, first, 3 * MiB);
    CHECK_EQ(bench_free(b, first), 0);
    b->fake->hangs = true;
    second = bench_alloc(b, 3 * MiB);
    CHECK_NE(second, first); /* both streams are behind */
    CHECK_EQ(bench_free(b, second), 0);
    fake_step(b->fake, 3);
    second = bench_alloc(b, 3 * MiB);
    CHECK_NE(second, first); /* stream 5 is behind */
    fake_drain(b->fake);
    second = bench_alloc(b, 3 * MiB);
    CHECK_EQ(second, first);
    bench_end(b);
}

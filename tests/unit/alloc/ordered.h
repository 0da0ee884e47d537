/* SPDX-License-Identifier: MIT */
/*
 * ordered.h - a program on a few streams whose data is followed on the device: written and read when the streams get there.
 *
 * Blocks are whole slots, so that each handle of the fake driver holds the word of one block. A block is written on its stream as
 * soon as it is there, and read before its free; the device is far behind. Storage that has two tenants whom no order keeps apart is
 * seen as a wrong word, an address that went too early as a fault.
 */
#ifndef KEDGE_TESTS_UNIT_ORDERED_H
#define KEDGE_TESTS_UNIT_ORDERED_H

#include "alloc/heap/records.h"
#include "tests/unit/alloc/pool_bench.h"

#define ORDERED_SLOT    (2 * MiB)
#define ORDERED_BLOCKS  24
#define ORDERED_STREAMS 3

struct ordered_block {
    devptr_t ptr; /* 0 = none */
    uint64_t slots, stream, value;
};

struct ordered {
    struct bench *b;
    struct ordered_block blocks[ORDERED_BLOCKS];
    uint64_t random, next;
    uint64_t refused; /* requests */
};

static inline void ordered_init(struct ordered *o, struct bench *b, uint64_t seed)
{
    *o = (struct ordered){.b = b, .random = seed};
    b->fake->hangs = true; /* the host waits for nothing that the test does not let go on */
}

static inline void ordered_take(
        struct ordered *o, struct ordered_block *block, uint64_t slots, uint64_t stream)
{
    *block = (struct ordered_block){.ptr = bench_alloc_on(o->b, slots * ORDERED_SLOT, stream),
            .slots = slots,
            .stream = stream,
            .value = o->next};
    o->next += slots;
    o->refused += block->ptr == 0;
    for (uint64_t i = 0; block->ptr && i < slots; i++)
        fake_write(o->b->fake, stream, block->ptr + i * ORDERED_SLOT, block->value + i);
}

static inline void ordered_read(struct ordered *o, const struct ordered_block *block)
{
    for (uint64_t i = 0; block->ptr && i < block->slots; i++)
        fake_check(o->b->fake, block->stream, block->ptr + i * ORDERED_SLOT, block->value + i);
}

static inline void ordered_give(struct ordered *o, struct ordered_block *block)
{
    if (!block->ptr)
        return;
    ordered_read(o, block);
    CHECK_EQ(bench_free_on(o->b, block->ptr, block->stream), 0);
    block->ptr = 0;
}

/* `lag`: so many steps of the device in ten of the program. */
static inline void ordered_run(struct ordered *o, int steps, uint64_t lag)
{
    for (int i = 0; i < steps; i++) {
        struct ordered_block *block = &o->blocks[bench_random(&o->random, ORDERED_BLOCKS)];

        if (block->ptr)
            ordered_give(o, block);
        else
            ordered_take(o, block, 1 + bench_random(&o->random, 6),
                    1 + bench_random(&o->random, ORDERED_STREAMS));
        if (bench_random(&o->random, 10) < lag) {
            for (int done = 0; done < 12; done++)
                (void)fake_step(o->b->fake, 1 + bench_random(&o->random, ORDERED_STREAMS));
        }
    }
}

/* All is read and given back. Returns what has gone wrong on the device. */
static inline uint64_t ordered_finish(struct ordered *o)
{
    uint64_t wrong;

    for (int i = 0; i < ORDERED_BLOCKS; i++)
        ordered_give(o, &o->blocks[i]);
    fake_drain(o->b->fake);
    wrong = o->b->fake->wrong + o->b->fake->faults;
    o->b->fake->wrong = o->b->fake->faults = 0;
    o->b->fake->hangs = false;
    return wrong;
}

static inline struct bench *ordered_bench(
        uint64_t memory, enum pool_remap remap, uint64_t budget, bool alias)
{
    struct pool_opts opts;
    struct bench *b;

    pool_opts_init(&opts);
    opts.remap = remap;
    opts.budget = budget;
    b = bench_new_with(memory, &opts);
    b->pool->devices[0].no_aliases = !alias;
    return b;
}

#endif

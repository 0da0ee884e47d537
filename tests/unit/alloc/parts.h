/* SPDX-License-Identifier: MIT */
/*
 * parts.h - for the tests of single parts of a pool: a pool with one heap, and addresses that no driver gave.
 *
 * The segment of PARTS_SIZE bytes is one BUSY block at first. Nothing here calls the driver. parts_end wants the books of the
 * pool to be right (census_check) and gives everything back. Built with the linker's --wrap of what asks for memory,
 * which fails as parts_fail says.
 */
#ifndef KEDGE_TESTS_UNIT_PARTS_H
#define KEDGE_TESTS_UNIT_PARTS_H

#include "alloc/heap/block.h"
#include "alloc/heap/freelist.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/segment.h"
#include "tests/unit/alloc/pool_bench.h"

#define PARTS_BASE  (UINT64_C(1) << 40)
#define PARTS_SIZE  (8 * MiB)
#define PARTS_UNIT  (64 * KiB)
#define PARTS_UNITS (PARTS_SIZE / PARTS_UNIT)

struct parts {
    struct bench *b;
    struct pool *pool;
    struct heap *heap;
    uint32_t segment;
    uint64_t random;
};

/* The n-th request for memory from now fails, 0 = none does; counted down, and 0 again when it has happened. */
extern int parts_fail;

struct parts parts_begin(void);
void parts_end(struct parts *parts);
uint64_t parts_random(struct parts *parts, uint64_t below);

/* What a plain segment at `base` would be; and made, counted as held. 0, -ENOMEM. */
struct segment parts_segment(devptr_t base);
int parts_add(
        struct pool *pool, struct heap *heap, devptr_t base, uint32_t *ret_segment) POOL_LOCKED;
void parts_remove(struct pool *pool, uint32_t segment) POOL_LOCKED;

#endif

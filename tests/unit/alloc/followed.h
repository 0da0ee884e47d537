/* SPDX-License-Identifier: MIT */
/*
 * followed.h - blocks of the program whose data is followed, on a fake driver.
 *
 * What the program wrote is kept per handle, as the device's memory would keep it, so that a handle that goes to a second
 * tenant while the first is alive is seen by its data. Sizes are multiples of UNIT.
 */
#ifndef KEDGE_TESTS_UNIT_FOLLOWED_H
#define KEDGE_TESTS_UNIT_FOLLOWED_H

#include "alloc/heap/records.h"
#include "tests/unit/alloc/pool_bench.h"

#define UNIT     (256 * KiB)
#define SLOT     (2 * MiB)
#define UNITS    (SLOT / UNIT)
#define HANDLES  4096
#define STREAM   1
#define STREAM_2 2

static uint32_t memory_of[HANDLES][UNITS];
static uint32_t last_value;

/* The word at an address, NULL if nothing is mapped there. */
static inline uint32_t *word_at(const struct bench *b, devptr_t ptr)
{
    /* looking begins there: the next address mostly lies in the same piece or the one behind it */
    static int found;

    for (int n = 0; n < b->fake->piece_top; n++) {
        int i = (found + n) % b->fake->piece_top;
        const struct fake_piece *piece = &b->fake->pieces[i];

        if (piece->kind == FAKE_MAPPING && ptr - piece->base < piece->size && piece->flag) {
            found = i;
            return &memory_of[piece->owner % HANDLES][(ptr - piece->base) % SLOT / UNIT];
        }
    }
    return NULL;
}

/* A block of the program, a multiple of UNIT. */
struct owned_block {
    devptr_t ptr;
    uint64_t size;
    uint64_t stream;
    uint32_t value;
};

static inline void write_block(struct bench *b, struct owned_block *mine)
{
    mine->value = ++last_value;
    for (uint64_t at = 0; at < mine->size; at += UNIT) {
        uint32_t *word = word_at(b, mine->ptr + at);

        REQUIRE(word != NULL);
        *word = mine->value + (uint32_t)(at / UNIT);
    }
}

static inline void check_data(struct bench *b, const struct owned_block *mine)
{
    for (uint64_t at = 0; mine->ptr && at < mine->size; at += UNIT) {
        const uint32_t *word = word_at(b, mine->ptr + at);

        REQUIRE(word != NULL);
        REQUIRE_EQ(*word, mine->value + (uint32_t)(at / UNIT));
    }
}

static inline void check_all(struct bench *b, const struct owned_block *blocks, int count)
{
    for (int i = 0; i < count; i++)
        check_data(b, &blocks[i]);
}

static inline void take(struct bench *b, struct owned_block *mine, uint64_t size, uint64_t stream)
{
    *mine = (struct owned_block){
            .ptr = bench_alloc_on(b, size, stream), .size = size, .stream = stream};
    if (mine->ptr)
        write_block(b, mine);
    BENCH_CHECK(b);
}

static inline void give_on(struct bench *b, struct owned_block *mine, uint64_t stream)
{
    if (!mine->ptr)
        return;
    check_data(b, mine);
    CHECK_EQ(bench_free_on(b, mine->ptr, stream), 0);
    mine->ptr = 0;
    BENCH_CHECK(b);
}

static inline void give(struct bench *b, struct owned_block *mine)
{
    give_on(b, mine, mine->stream);
}

/* As bench_with: storage moves only when the device has left it. */
static inline struct bench *bench_without_aliases(
        uint64_t memory, enum pool_remap remap, uint64_t budget)
{
    struct bench *b;
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.remap = remap;
    opts.budget = budget;
    b = bench_new_with(memory, &opts);
    b->pool->devices[0].no_aliases = true;
    return b;
}

static inline struct bench *bench_with(uint64_t memory, enum pool_remap remap, uint64_t budget)
{
    struct pool_opts opts;

    pool_opts_init(&opts);
    opts.remap = remap;
    opts.budget = budget;
    last_value += 1000;
    return bench_new_with(memory, &opts);
}

#endif

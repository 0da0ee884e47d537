/* SPDX-License-Identifier: MIT */
/*
 * playback.h - requests played to the pool itself, above a driver that only counts.
 *
 * Predictions of hints (predict.h) and comparisons of policies (whatif.h) both run recorded
 * requests through libkedge_alloc.a. Only this module does so: it owns the pool and the address of
 * each block.
 *
 *     playback_take · playback_give  ─► pool_alloc · pool_free ─► counting.h
 *
 * Every device has one context and one memory pool here: the choice does not change the bytes held.
 * Threads: none. Memory: vec.h, and the pool's own.
 */
#ifndef KEDGE_TOOLS_PLAYBACK_H
#define KEDGE_TOOLS_PLAYBACK_H

#include "alloc/pool.h"
#include "tools/replay/counting.h"

struct playback {
    struct counting *counting;
    struct pool *pool;
    devptr_t *places; /* per block, 0 = not live */
};

/*
 * Opens a playback of blocks 0 .. block_count - 1. `counting` becomes the driver (counting_driver);
 * it and `hints`, which may be NULL, must outlive the playback. 0 or -errno; playback_close in both
 * cases.
 */
int playback_open(struct playback *playback, struct counting *counting,
        const struct pool_opts *opts, struct hints *hints, size_t block_count);
void playback_close(struct playback *playback);

/* The request for a block; stream 0: through the sync API. */
struct playback_ask {
    uint64_t size, stream;
    const struct plan *plan; /* NULL = no hints */
    int device;
};

/* Allocates the block. 0, or -errno. */
int playback_take(struct playback *playback, size_t block, const struct playback_ask *ask);

/*
 * Frees the block on `stream`; 0: a sync free. A block that is not live is passed over. 0 or
 * -errno.
 */
int playback_give(struct playback *playback, size_t block, uint64_t stream);

/* Makes stream `then` wait for an event recorded on stream `first`. */
void playback_order(struct playback *playback, uint64_t first, uint64_t then);

/*
 * Bytes that the device's memory pool keeps when the program waits; 0 by default. Called before the
 * device's first block. 0 or -errno.
 */
int playback_keep(struct playback *playback, int device, uint64_t threshold);
/* The program has waited for the device: pools give back free memory beyond their threshold. */
void playback_waited(struct playback *playback);

#endif

/* SPDX-License-Identifier: MIT */
/* peerkit.h - one model of an allocator above the counting driver, for tests of models. */
#ifndef KEDGE_TESTS_PEERKIT_H
#define KEDGE_TESTS_PEERKIT_H

#include "tools/replay/peer_heap.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)

/* One model above the counting driver. Every instance begins with its struct peer_heap. */
struct bench {
    struct counting counting;
    struct peer_device device;
    const struct peer *peer;
    void *self;
};

static inline void begin(struct bench *bench, const struct peer *peer)
{
    *bench = (struct bench){.peer = peer};
    bench->device.driver = counting_driver(&bench->counting);
    bench->device.counting = &bench->counting;
    bench->self = peer_open(peer, &bench->device);
}

static inline void end(struct bench *bench)
{
    bench->peer->close(bench->self);
    counting_done(&bench->counting);
}

/* The address of the block. */
static inline devptr_t take(struct bench *bench, uint32_t number, uint64_t size, uint32_t stream)
{
    const struct peer_heap *heap = bench->self;

    counting_step(&bench->counting);
    bench->peer->take(bench->self, number, size, stream);
    return peer_block(heap, heap->owners[number])->base;
}

static inline void give(struct bench *bench, uint32_t number, uint32_t stream)
{
    counting_step(&bench->counting);
    bench->peer->give(bench->self, number, stream);
}

static inline uint64_t size_of(struct bench *bench, uint32_t number)
{
    const struct peer_heap *heap = bench->self;

    return peer_block(heap, heap->owners[number])->size;
}

#endif

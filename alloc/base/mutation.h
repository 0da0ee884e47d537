/* SPDX-License-Identifier: MIT */
/*
 * mutation.h - safety measures of the pool that tests switch off, to prove that they matter.
 *
 * Only the objects of tests/mutation are compiled with KEDGE_POOL_MUTATIONS. In the shipped library
 * POOL_IS_WITHOUT is the constant false, and lint.artefact.switches checks that nothing else is
 * left of it.
 */
#ifndef KEDGE_ALLOC_MUTATION_H
#define KEDGE_ALLOC_MUTATION_H

#ifdef KEDGE_POOL_MUTATIONS

#    include <stdint.h>

enum pool_mutation {
    POOL_MUTATE_FENCE = 1u << 0, /* freed blocks count as passed without a query of a fence */
    /* a dead range does not wait for submissions in progress (R66, reader sections) */
    POOL_MUTATE_GRACE = 1u << 1,
    /* merges and waits forget the last entry of a point set (R70) */
    POOL_MUTATE_DROP = 1u << 2,
    POOL_MUTATE_LEAST = 1u << 3, /* two merged blocks of a stream keep the lesser point (R70) */
    POOL_MUTATE_CUT = 1u << 4,   /* the part cut off a block needs no point any more (R70) */
    /* storage moves although the device may still use it (R73, host waits) */
    POOL_MUTATE_MOVE = 1u << 5,
    POOL_MUTATE_PIN = 1u << 6,     /* a freed block is free in spite of its pins (R80) */
    POOL_MUTATE_EXPECT = 1u << 7,  /* every match of a hint counts as expected */
    POOL_MUTATE_HOLD = 1u << 8,    /* blocks of a hint that holds are freed at once */
    POOL_MUTATE_PARTS = 1u << 9,   /* parts of a shared handle stay free when a block gets them */
    POOL_MUTATE_USES = 1u << 10,   /* a block is evicted although streams still use it */
    POOL_MUTATE_COPY = 1u << 11,   /* its storage is released before its content was copied */
    POOL_MUTATE_ARRIVE = 1u << 12, /* a call does not wait for the content of a restored block */
    POOL_MUTATE_STAY = 1u << 13,   /* a block that a call in progress names may be evicted */
    /* storage is mapped for a stream that does not wait for its last use (R95, aliases) */
    POOL_MUTATE_ALIAS = 1u << 14,
    POOL_MUTATE_VACATE = 1u << 15, /* its old address is reused at once (R95) */
    POOL_MUTATE_UNMAP = 1u << 16,  /* and unmapped while the device still uses it (R95) */
    /* a stream gets other streams' frees without waiting for them (R72, order of supply) */
    POOL_MUTATE_ADOPT = 1u << 17,
    /* one wait for a stream counts for all its later work (R72) */
    POOL_MUTATE_BEHIND = 1u << 18,
    /* frees after an event of the program count as earlier ones (R72) */
    POOL_MUTATE_SPLIT = 1u << 19,
    /* each wait for a fence has the full timeout, every time (R104, no useless waits) */
    POOL_MUTATE_PATIENCE = 1u << 20,
    /* while a context is being ended no freed block is reused */
    POOL_MUTATE_YOUNG = 1u << 23,
    /* pinned blocks of a destroyed memory pool are released with it, in spite of pending work
     * (R1, reuse after use) */
    POOL_MUTATE_LEAVE = 1u << 22,
    /* plain segments are freed although their context is busy, in calls that must not wait
     * (R104) */
    POOL_MUTATE_QUIET = 1u << 21,
    /* the work of destroyed streams is never queried (R107, nothing grows) */
    POOL_MUTATE_GONE = 1u << 24,
    /* waits for contexts that are being ended before anything else is tried (R104) */
    POOL_MUTATE_ENDS = 1u << 25,
    /* walks over heaps visit only the newest 64 (R81, shared fate) */
    POOL_MUTATE_HEAPS = 1u << 26,
    /* a destroyed pool keeps the memory that its threshold allows (R77, pools served) */
    POOL_MUTATE_DESTROYED = 1u << 27,
    /* a free whose event is refused waits for a later one (R69, stream identity) */
    POOL_MUTATE_REFUSED = 1u << 28,
    /* frees get their fence on demand, whatever their stream waits for by then (R71, event of a
     * free) */
    POOL_MUTATE_EARLY = 1u << 29,
    /* streams are made to wait for streams that may be waiting for the host (R104) */
    POOL_MUTATE_STALL = 1u << 30,
    /* hinted blocks have no gap between them (R110) */
    POOL_MUTATE_GAP = 1u << 31,
    /* blocks that a stream has taken from others need its last point, not its next one (R72) */
    POOL_MUTATE_TAKEN = UINT64_C(1) << 32,
};

/* Bits of enum pool_mutation. Tests define it, and set it before they make a pool. */
extern uint64_t pool_mutations;

#    define POOL_IS_WITHOUT(device_) ((pool_mutations & POOL_MUTATE_##device_) != 0)
#else
#    define POOL_IS_WITHOUT(device_) false
#endif

#endif

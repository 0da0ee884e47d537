/* SPDX-License-Identifier: MIT */
/*
 * mutation.h - safety devices of the pool that tests switch off, to prove that they matter.
 *
 * Only the objects of tests/mutation are compiled with KEDGE_POOL_MUTATIONS. In the library that ships, POOL_IS_WITHOUT is the
 * constant false, and lint.artefact.switches reads there that nothing of this is left.
 */
#ifndef KEDGE_ALLOC_MUTATION_H
#define KEDGE_ALLOC_MUTATION_H

#ifdef KEDGE_POOL_MUTATIONS

#    include <stdint.h>

enum pool_mutation {
    POOL_MUTATE_FENCE = 1u << 0,   /* freed blocks count as passed without asking a fence */
    POOL_MUTATE_GRACE = 1u << 1,   /* a dead range does not wait for submissions under way (R66) */
    POOL_MUTATE_DROP = 1u << 2,    /* merges and waits forget the last entry of a point set (R70) */
    POOL_MUTATE_LEAST = 1u << 3,   /* two blocks of a stream, joined, keep the lesser point (R70) */
    POOL_MUTATE_CUT = 1u << 4,     /* what is cut off a block needs no point any more (R70) */
    POOL_MUTATE_MOVE = 1u << 5,    /* storage moves although the device may not be past it (R73) */
    POOL_MUTATE_PIN = 1u << 6,     /* a freed block is free whatever relies on it (R80) */
    POOL_MUTATE_EXPECT = 1u << 7,  /* whatever a hint matches is what it expects */
    POOL_MUTATE_HOLD = 1u << 8,    /* what a hint would hold goes at once */
    POOL_MUTATE_PARTS = 1u << 9,   /* parts of a shared handle stay free when a block gets them */
    POOL_MUTATE_USES = 1u << 10,   /* a block goes out whatever streams still use it */
    POOL_MUTATE_COPY = 1u << 11,   /* its storage goes before its content was copied */
    POOL_MUTATE_ARRIVE = 1u << 12, /* a call does not wait for the content of what has come in */
    POOL_MUTATE_STAY = 1u << 13,   /* what a call names may go out while the call is on its way */
    /* storage is mapped for a stream that is not ordered behind its last use (R95) */
    POOL_MUTATE_ALIAS = 1u << 14,
    POOL_MUTATE_VACATE = 1u << 15, /* the address that it had serves again at once (R95) */
    POOL_MUTATE_UNMAP = 1u << 16,  /* and is unmapped before the device has left it (R95) */
    /* a stream gets what others have freed, and does not wait for them (R72) */
    POOL_MUTATE_ADOPT = 1u << 17,
    /* one wait for a stream counts for all that it does later (R72) */
    POOL_MUTATE_BEHIND = 1u << 18,
    /* what is freed behind an event of the program's counts as freed before it (R72) */
    POOL_MUTATE_SPLIT = 1u << 19,
    /* each fence is waited for as long as one may be, and again each time (R104) */
    POOL_MUTATE_PATIENCE = 1u << 20,
    /* while a context is being ended nothing comes back, whoever freed it */
    POOL_MUTATE_YOUNG = 1u << 23,
    /* what pins keep of a memory pool that was destroyed goes with it, whatever work is pending (R1) */
    POOL_MUTATE_LEAVE = 1u << 22,
    /* plain segments are freed whatever their context is at, in calls that must not wait (R104) */
    POOL_MUTATE_QUIET = 1u << 21,
    /* nobody asks whether the work of streams that are gone is over (R107) */
    POOL_MUTATE_GONE = 1u << 24,
    /* contexts that are being ended are waited for before anything else is tried (R104) */
    POOL_MUTATE_ENDS = 1u << 25,
    /* walks over heaps reach the newest 64 (R81) */
    POOL_MUTATE_HEAPS = 1u << 26,
    /* a pool that was destroyed keeps what its threshold says (R77) */
    POOL_MUTATE_DESTROYED = 1u << 27,
    /* a free whose event is refused waits for a later one (R69) */
    POOL_MUTATE_REFUSED = 1u << 28,
    /* what was freed gets its fence when somebody asks, whatever its stream waits for by then (R71) */
    POOL_MUTATE_EARLY = 1u << 29,
    /* streams are made to wait although what they would wait for may be waiting for the host (R104) */
    POOL_MUTATE_STALL = 1u << 30,
    /* hinted blocks stand side by side (R110) */
    POOL_MUTATE_GAP = 1u << 31,
};

/* Of enum pool_mutation. Tests define it, and set it before they make a pool. */
extern uint32_t pool_mutations;

#    define POOL_IS_WITHOUT(device_) ((pool_mutations & POOL_MUTATE_##device_) != 0)
#else
#    define POOL_IS_WITHOUT(device_) false
#endif

#endif

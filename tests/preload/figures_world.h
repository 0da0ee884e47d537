/* SPDX-License-Identifier: MIT */
/*
 * figures_world.h - a program made from a seed that asks, after each of its calls, how much memory there is.
 *
 * It keeps its own books, above kedge: which blocks it holds, of which pool, on which device, with which context they die.
 * From these alone it predicts what cuMemGetInfo and the attributes of every pool may say, and compares:
 *
 *     free of a device           <= total - what the program holds there, in every form (R84); with kedge also >= what the
 *                                driver has free, as long as the device was never half full, and one request of so many
 *                                bytes is served, by either API and in any state (R22)
 *     USED of a pool              == live blocks, each rounded to 512; its mark is the highest since it was reset (R78)
 *     RESERVED of a pool          >= USED (less what hints released), <= what the device has given; its mark is no lower than seen
 *     after waiting for a device  RESERVED <= max(threshold, granules with a live byte); TrimTo(n): the same with n, never below n
 *     at the end, all freed       RESERVED 0, free as in the beginning
 *
 * A program is legal CUDA: blocks are freed on another stream only after their work. Threads: one.
 */
#ifndef KEDGE_TESTS_RULES_FIGURES_WORLD_H
#define KEDGE_TESTS_RULES_FIGURES_WORLD_H

#include "tests/preload/client.h"

#include <stdint.h>

#define MB ((size_t)1 << 20)

enum {
    WORLD_DEVICES = 2,
    WORLD_POOLS = 6,    /* the two default ones first */
    WORLD_CONTEXTS = 5, /* the two primary ones first */
    WORLD_STREAMS = 3,  /* of each device; the first is the legacy stream */
    WORLD_BLOCKS = 96,
    WORLD_STEPS = 250,
};

/* What kind of run this is. */
struct world_form {
    bool native; /* no kedge: the device defines what the figures are, only bounds are checked */
    bool hinted; /* 8 MiB blocks of PHASE_* lose their storage at its end */
    bool fails;  /* calls fail now and then, kedge's own too */
    bool whole;  /* large blocks have segments of their own (placement=export-safe) */
    bool keeps;  /* free memory does not go back by itself (trim=never) */
    size_t granule;
};

/* What was exercised: a program that does nothing proves nothing. */
enum world_floor {
    FLOOR_ALLOCS,
    FLOOR_FREES,
    FLOOR_REFUSED, /* with OOM */
    FLOOR_FAILED,  /* calls that were made to */
    FLOOR_CONTEXTS_ENDED,
    FLOOR_POOLS_ENDED, /* with blocks in them */
    FLOOR_HINTED,      /* live blocks at the end of their phase */
    FLOOR_TOLD_HAD,    /* requests of all that a device was told to have free */
    FLOOR_EXACT_USED,
    FLOOR_WAITED, /* RESERVED, bounded after a wait */
    FLOOR_TRIMMED,
    FLOOR_COUNT,
};

extern const char *const world_floor_name[FLOOR_COUNT];

/* Where they are counted, FLOOR_COUNT of them; set before world_run. */
extern uint64_t *world_floors;

/* One program from its beginning to its end, in this process. Checks that fail name the seed and the step. */
void world_run(uint64_t seed, const struct world_form *form);

#endif

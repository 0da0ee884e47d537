/* SPDX-License-Identifier: MIT */
/*
 * training.h - allocation sequences of training runs that never were, and where their steps begin.
 *
 * What a detector of steps is measured on, besides the few recordings that there are. A seed draws a model (layers, allocations in
 * each, sizes, which live until the backward), an optimizer and a number of steps; a kind says what is special about the
 * run. Nothing here knows how the detector works, and its rules were not fitted to any seed that the tests use.
 *
 * Threads: none. Memory: vec.h, training_done.
 */
#ifndef KEDGE_TESTS_UNIT_TRAINING_H
#define KEDGE_TESTS_UNIT_TRAINING_H

#include <stddef.h>
#include <stdint.h>

#include "tools/steps/period.h"

enum training_kind {
    TRAINING_PLAIN,
    TRAINING_NO_SITES,   /* as from a csv */
    TRAINING_JITTER,     /* some sizes differ a little each time; a few allocations more or less */
    TRAINING_ACCUMULATE, /* 2 to 8 micro-batches to a step */
    TRAINING_EVALUATE,   /* a few passes without a backward every 2 to 6 steps */
    TRAINING_WARM_UP,    /* the first step tries things out and makes the optimizer's state */
    TRAINING_DYNAMIC,    /* another batch size in each step */
    TRAINING_CHECKPOINT, /* activations are made twice */
    TRAINING_KEEPS,      /* gradients until the next backward, the next batch while this one runs */
    TRAINING_LATE_FREES, /* frees come up to some dozens of allocations late */
    TRAINING_SIDE_STREAM, /* a loader in another thread allocates in between, at its own pace */
    TRAINING_REPLICAS,    /* two threads run the same step side by side */
    TRAINING_CUT,         /* begins and ends within a step */
    TRAINING_MIXED,       /* several of these at once */
    TRAINING_TWO,         /* two steps */
    /* And what has none: */
    TRAINING_ONE,       /* one step */
    TRAINING_FORWARD,   /* one pass */
    TRAINING_UNRELATED, /* allocations of a few sizes in random order */
    TRAINING_KINDS
};

struct training {
    struct period_alloc *allocs;
    uint32_t *begins; /* the first allocation of each whole step */
    uint32_t *ends;   /* behind its last one */
    size_t count, step_count;
    size_t room, begin_room, end_room;
};

extern const char *const training_names[TRAINING_KINDS];

void training_make(struct training *training, enum training_kind kind, uint64_t seed);

/* The same allocations in another order, each freed as long behind its birth as it was. No steps are left. */
void training_shuffle(struct training *training, uint64_t seed);
void training_done(struct training *training);

#endif

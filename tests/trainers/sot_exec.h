/* SPDX-License-Identifier: MIT */
/*
 * sot_exec.h - runs a sub-graph model on something that can hold tensors.
 *
 * The executor is that of a static graph: it runs the ops of a sub-graph in order, allocates what an op writes,
 * collects a variable after the last op that names it, and skips for that the inputs and outputs, which the backward
 * may want. At the sub-graph's end the good form lets go of those that it does not; the bad forms forget inputs,
 * outputs or both, which then live until the backward has run. The late frees are the last thing before the range
 * ends.
 *
 *     SOT_CALL_0 … SOT_CALL_n   allocate, compute, collect   ─►   BACKWARD   read what was kept, free what is left
 *
 * Eager code of the same call may make inputs as well. Where the backward wants such an input's shape alone, it makes a
 * gradient of that shape; the bad form holds the input's buffer until then.
 *
 * What a tensor is and what computing means is the backend's: a device (sot.c), host memory (sot_host.c), a ledger in
 * tests. Each tensor is summed once, at its last use, into the slot of its sub-graph; kept ones in the slot of the
 * backward. So every result depends on every tensor being whole until its end.
 *
 * One thread. Memory: the list of tensors, from malloc.
 */
#ifndef KEDGE_TRAINERS_SOT_EXEC_H
#define KEDGE_TRAINERS_SOT_EXEC_H

#include "tests/trainers/sot_graph.h"

struct sot_form {
    const char *name;
    bool drop_inputs;  /* at the sub-graph's end, those that the backward does not need */
    bool drop_outputs; /* the same */
    bool drop_buffers; /* the same, of eager inputs */
    bool scratch;      /* the newer executor's extra pairs */
};

/*
 * "pt", "pir", "pir-inputs-fixed", "pt-output-cleanup-off", "pir-unused-fixed", "pir-buffers-fixed"; NULL for another
 * word.
 */
const struct sot_form *sot_form_named(const char *name);

struct sot_tensor {
    const struct sot_var *var; /* NULL: scratch */
    uint64_t bytes;
    uint64_t device; /* the backend's */
    void *host;      /* the backend's */
};

/* What the backward takes of an eager input that it does not need. */
enum sot_takes {
    SOT_TAKES_SHAPE,  /* its shape, on the host */
    SOT_TAKES_TENSOR, /* a kernel gets address and shape, and touches no byte of it */
    SOT_TAKES_BUFFER, /* a kernel reads it: wrong where the buffer was dropped */
};

struct sot_backend {
    void *self;
    enum sot_takes takes;
    /* Around a sub-graph, or around the backward with index -1. */
    void (*enter)(void *self, int index);
    void (*leave)(void *self, int index);
    /* Gives the tensor storage; contiguous_copy also fills it from the batch, alloc_output is for eager inputs, too. */
    void (*contiguous_copy)(void *self, struct sot_tensor *t);
    void (*alloc_output)(void *self, struct sot_tensor *t);
    void (*alloc_temp)(void *self, struct sot_tensor *t);
    void (*alloc_scratch)(void *self, struct sot_tensor *t);
    void (*release)(void *self, struct sot_tensor *t);
    /* Kernels, in order on the sub-graph's stream; `slot` numbers the sums. */
    void (*fill)(void *self, struct sot_tensor *t, uint32_t seed);
    /* Of 0 bytes: with a `src` that may have been released. */
    void (*mix)(void *self, struct sot_tensor *dst, struct sot_tensor *src, uint64_t bytes);
    void (*sum)(void *self, int slot, struct sot_tensor *t, uint64_t bytes);
    /* Reads a tensor that should be dead, after its sub-graph; NULL: not this time. */
    void (*touch)(void *self, int slot, struct sot_tensor *t);
};

/* Slots of the sums: one for each sub-graph, then these. The first count + 1 are the model's result. */
#define SOT_SLOT_BACKWARD(graph_) ((graph_)->count)
#define SOT_SLOT_SCRATCH(graph_)  ((graph_)->count + 1)
#define SOT_SLOT_TOUCH(graph_)    ((graph_)->count + 2)
#define SOT_SLOTS(graph_)         ((graph_)->count + 3)

/* 0, or -ENOMEM before anything was done. */
int sot_exec_run(
        const struct sot_graph *graph, const struct sot_form *form, const struct sot_backend *b);

/*
 * Fills slots[SOT_SLOTS] as a run on host memory gives them, with the touch if `touch`. 0 or -ENOMEM.
 */
int sot_host_run(const struct sot_graph *graph, const struct sot_form *form, enum sot_takes takes,
        bool touch, uint64_t *ret_slots);

/* The seed of the batch's contents; its bytes outside of the sample are zero. */
#define SOT_BATCH_SEED 6u

#endif

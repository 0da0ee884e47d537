/* SPDX-License-Identifier: MIT */
/*
 * sot_graph.h - the model that `sot` runs: sub-graphs, their variables and ops, generated.
 *
 * Paddle #66278 compared two executors on one model: 430 static sub-graphs, run one after the other, their backward
 * at the end. What matters for memory is, for each tensor, when it dies:
 *
 *     kept      input copy or output that the backward reads       freed by the backward
 *     late      input copy or output that no backward op names     freed at the sub-graph's end, or (the bug) by the backward
 *     temp      used by the next op or two                         freed after its last op
 *     scratch   a pair of the newer executor, at most 4 KiB        freed at once
 *     shape     eager input: the backward wants its shape alone    as late, but the bug is #69043
 *
 * The generator makes tensors with sizes as of real layers, such that counts and bytes of each of these are exactly the
 * totals below, from which every row of the published table follows (tests/data/s66278.csv). Kept and late outputs
 * draw from the same sizes: in many sub-graphs a kept and a late tensor differ in nothing but their turn and the kind
 * of their op.
 *
 * In a real graph a layer is a chain of kinds of ops, each with code of its own, and the kind says whether the backward
 * reads the tensor: that of a convolution reads what it was computed from, that of an addition reads nothing. So it is
 * here. Kinds are a hash of the place in the graph, not the generator's picks: they change no size and no order.
 *
 * The same graph on every machine and in every run. Pure: no device, no clock.
 */
#ifndef KEDGE_TRAINERS_SOT_GRAPH_H
#define KEDGE_TRAINERS_SOT_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

enum sot_role {
    SOT_ROLE_INPUT,  /* contiguous copy of a strided view of the batch */
    SOT_ROLE_EAGER,  /* input that eager code made; the backward wants at least its shape */
    SOT_ROLE_OUTPUT, /* named in the sub-graph's outputs */
    SOT_ROLE_TEMP,   /* known to the sub-graph alone */
};

/* Of the op that makes an output, or that an input is copied for. */
enum sot_kind {
    SOT_KIND_CONV2D,
    SOT_KIND_MATMUL,
    SOT_KIND_BATCH_NORM,
    SOT_KIND_RELU,
    SOT_KIND_SOFTMAX,
    SOT_KINDS_NEEDED, /* the backward reads tensors of those before, and none of those from here on */
    SOT_KIND_ADD = SOT_KINDS_NEEDED,
    SOT_KIND_CAST,
    SOT_KIND_TRANSPOSE,
    SOT_KINDS,
};

struct sot_var {
    enum sot_role role;
    enum sot_kind kind; /* of no meaning for a temp */
    bool needed;        /* its buffer, by the backward; false for a temp */
    uint64_t bytes;     /* multiple of 4 */
    uint64_t row_bytes; /* inputs: a row of the view; rows are twice as far apart */
    uint64_t offset;    /* inputs: where in the batch the view starts */
    int last_op;        /* index of the last op of this sub-graph that names it */
};

/* Op i computes variable i: a copy for an input, else a function of up to two earlier ones. */
struct sot_op {
    int in[2]; /* variables, -1: none */
    uint32_t seed;
    uint64_t scratch_bytes; /* of the pair that the newer executor adds; 0: none */
};

struct sot_subgraph {
    int count;
    struct sot_var *vars;
    struct sot_op *ops;
    int result;     /* the kept output that a later sub-graph reads */
    int carry_from; /* the sub-graph whose result the first op after the inputs reads, -1: none */
};

struct sot_graph {
    int count;
    int window_last; /* the published window: SOT_CALL_0 .. SOT_CALL_<window_last> */
    uint64_t batch_bytes;
    struct sot_subgraph *subgraphs;
};

/* Totals of the full graph inside its window. */
#define SOT_KEPT_COUNT     1098
#define SOT_KEPT_BYTES     UINT64_C(10063108376) /* 9.372 GiB */
#define SOT_LATE_IN_COUNT  259
#define SOT_LATE_IN_BYTES  UINT64_C(1284195224) /* 1.196 GiB */
#define SOT_LATE_OUT_COUNT 492
#define SOT_LATE_OUT_BYTES UINT64_C(2695091980) /* 2.510 GiB */
#define SOT_TEMP_COUNT     1090
#define SOT_TEMP_BYTES     UINT64_C(9223442268) /* 8.590 GiB, the top included */
#define SOT_TOP_BYTES      UINT64_C(37580964)   /* 0.035 GiB, the temp on top of the peak */
#define SOT_SCRATCH_COUNT  852
#define SOT_SCRATCH_MOST   4096
#define SOT_LATE_LEAST     UINT64_C(2097152)
#define SOT_SMALL_BYTES    UINT64_C(3538944)

/*
 * Totals of the graph of shapes, which has late tensors as well: eager inputs of which the backward wants the shape; and what
 * is alive at the most if their buffers are held, batch and sums included (tests/data/s69043.csv).
 */
#define SOT_SHAPE_COUNT  20
#define SOT_SHAPE_BYTES  (UINT64_C(980) << 20)
#define SOT_SHAPES_BATCH (UINT64_C(32) << 20)
#define SOT_SHAPES_PEAK  UINT64_C(10179208808) /* 9707.65 MiB */

/* 430 sub-graphs, window 0..428; the last is small. NULL without memory. */
struct sot_graph *sot_graph_full(void);

/* One sub-graph with three tensors of SOT_SMALL_BYTES: a late input, a temp, a kept output. */
struct sot_graph *sot_graph_small(void);

/* 121 sub-graphs, window 0..119: the program of Paddle #69043. */
struct sot_graph *sot_graph_shapes(void);

void sot_graph_free(struct sot_graph *graph);

#endif

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unify.csv to standard output: three training steps of a sharded transformer on three streams.

The shape is that of fully sharded data parallel training with PyTorch's stream-ordered backend. Weights are gathered on a
communication stream and used by the compute stream; gradients are made on the compute stream and reduced on the
communication stream; batches arrive on a copy stream. Every tensor that was used on more than one stream is freed on one
further stream, the unifying one, which waits for all of them. Sequence lengths differ from step to step.

Nothing in it is random: the same numbers come out each time.
"""
import sys

COMPUTE, COMM, COPY, UNIFY = 0, 1, 2, 3
LAYERS, WIDTH, BATCH, RANKS = 20, 1024, 6, 4
HALF, SINGLE = 2, 4


class Trace:
    def __init__(self):
        self.rows, self.next_id, self.now = [], 0, 0

    def take(self, size, stream):
        block = (self.next_id, size, stream)
        self.next_id += 1
        self.put("a", block, stream)
        return block

    def give(self, block, stream=None):
        self.put("f", block, block[2] if stream is None else stream)

    def put(self, op, block, stream):
        self.now += 7
        self.rows.append(f"{op},{block[0]},{block[1]},{stream},{self.now}")


def gathered(trace, layer):
    """The whole weights of a layer, from all ranks: four matrices of attention, two of the feed-forward part, norms."""
    del layer
    return trace.take((12 * WIDTH * WIDTH + 4 * WIDTH) * HALF, COMM)


def forward(trace, tokens):
    kept = []
    weights = gathered(trace, 0)
    for layer in range(LAYERS):
        following = gathered(trace, layer + 1) if layer + 1 < LAYERS else None
        tensors = []
        for width in (WIDTH, 3 * WIDTH, WIDTH, WIDTH, 4 * WIDTH):
            scratch = trace.take(tokens * width * HALF // 8 + 384 * layer, COMPUTE)
            tensors.append(trace.take(tokens * width * HALF, COMPUTE))
            trace.give(scratch)
        statistics = [trace.take(tokens * SINGLE, COMPUTE) for _ in range(4)]
        kept.append(tensors + statistics)
        trace.give(weights, UNIFY)
        weights = following
    return kept


def backward(trace, tokens, kept):
    pending = []
    weights = gathered(trace, LAYERS - 1)
    flowing = trace.take(tokens * WIDTH * HALF, COMPUTE)
    for layer in reversed(range(LAYERS)):
        following = gathered(trace, layer - 1) if layer else None
        gradient = trace.take((12 * WIDTH * WIDTH + 4 * WIDTH) * HALF, COMPUTE)
        inner = trace.take(tokens * 4 * WIDTH * HALF, COMPUTE)
        onward = trace.take(tokens * WIDTH * HALF, COMPUTE)
        trace.give(flowing)
        trace.give(inner)
        for tensor in reversed(kept[layer]):
            trace.give(tensor)
        flowing = onward
        reduced = trace.take((12 * WIDTH * WIDTH + 4 * WIDTH) * HALF // RANKS, COMM)
        pending.append((gradient, reduced))
        if len(pending) > 2:  # two reductions are under way at most
            done, _ = pending[-3]
            trace.give(done, UNIFY)
        trace.give(weights, UNIFY)
        weights = following
    trace.give(flowing)
    for done, _ in pending[-2:]:
        trace.give(done, UNIFY)
    return [reduced for _, reduced in pending]


def step(trace, state, length):
    tokens = BATCH * length
    batch = trace.take(tokens * 8, COPY)
    logits = forward(trace, tokens)
    shards = backward(trace, tokens, logits)
    for shard, weight in zip(shards, state):
        update = trace.take(weight[1], COMPUTE)
        trace.give(update)
        trace.give(shard, UNIFY)
    trace.give(batch, UNIFY)


def main():
    trace = Trace()
    shard = (12 * WIDTH * WIDTH + 4 * WIDTH) * SINGLE // RANKS
    state = [trace.take(shard, COMPUTE) for _ in range(3 * LAYERS)]
    for length in (512, 448, 512):
        step(trace, state, length)
    for weight in state:
        trace.give(weight)
    sys.stdout.write("\n".join(["op,id,size,stream,time_us"] + trace.rows) + "\n")


main()

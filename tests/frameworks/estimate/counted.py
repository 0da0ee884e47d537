# SPDX-License-Identifier: MIT
"""Counts on the CPU what a configuration of configs.py must hold, without a device: bytes, one line of JSON for each.

    counted.py NAME...

`after_forward`: parameters, buffers, optimizer state, an average of the parameters, the batch, the loss, and each storage that autograd saves (once, however
many tensors are views of it), at the end of a forward pass; with several micro-batches also the gradients. `peak`: at least that, and at least what is held
when the optimizer steps. Not counted: temporary tensors, workspaces of libraries, and what PyTorch's allocator rounds up.
"""
import json
import sys

import torch
from torch.nn import functional as F

import configs
import models

STATES = {"Adam": 2, "AdamW": 2, "SGD": 1}  # copies of the parameters; SGD's momentum


def dropout(x, p=.5, training=True, inplace=False):
    """A device keeps a mask of a byte; the CPU's own dropout keeps two tensors of floats."""
    return torch.native_dropout(x, p, training)[0] if p and training else x


def attention(*given, attend=F.scaled_dot_product_attention, dropout_p=0., **more):
    """With dropout the CPU writes all scores out; a device keeps the seed of its random numbers."""
    return attend(*given, **more)


def bytes_of(tensors):
    return sum(t.untyped_storage().nbytes() for t in {t.untyped_storage()._cdata: t for t in tensors}.values())


def saved_by(config, model):
    """Storages that are there after a forward pass and belong to neither parameters nor buffers."""
    own = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
    held = []

    def pack(tensor):
        held.append(tensor)
        return tensor

    models.COUNTS_CHECKPOINTS = True
    models.HELD_BY_CHECKPOINTS.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss, (given, target) = configs.forward(config, model, "cpu")
    return [t for t in (*held, *models.HELD_BY_CHECKPOINTS, *given, target, loss) if t.untyped_storage()._cdata not in own]


def count(config):
    model = configs.build(config, "cpu")
    parameters = sum(p.nbytes for p in model.parameters())
    state = STATES[config.optimizer] * parameters
    steps = sum(4 for _ in model.parameters()) if config.settings.get("fused") else 0  # each a number on the device
    static = parameters + bytes_of(model.buffers()) + state + steps + (parameters if config.average else 0)
    saved = bytes_of(saved_by(config, model))
    kept = parameters if config.micro_batches > 1 else 0  # gradients of the first micro-batches
    largest = max(p.nbytes for p in model.parameters())
    return {"parameters": parameters, "state": state, "saved": saved, "after_forward": static + saved + kept,
            "peak": max(static + saved + kept, static + (largest if config.in_backward else parameters))}


if __name__ == "__main__":
    F.dropout, F.scaled_dot_product_attention = dropout, attention
    for name in sys.argv[1:]:
        print(json.dumps({"config": name, **count(configs.CONFIGS[name])}), flush=True)

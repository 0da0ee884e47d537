# SPDX-License-Identifier: MIT
"""Trains as KIND does, with a fault in each step, and prints what a program can see of itself. Ends with status 5.

    same_program.py torch|transformers|generate|peft|accelerate|lightning|diffusers|torchvision|ppo [--once]     saves to ./out

--once: one training without a fault; ends with status 0.
"""
import cProfile
import copy
import pickle
import pstats
import random
import sys
import warnings

import numpy
import torch
from torch import nn

from same_told import HurtOptimizer, Rows, digest, fail, hurt, now, saved, tell_framework, train_in_each_fault

for seed in (random.seed, numpy.random.seed, torch.manual_seed):
    seed(0)
KIND = sys.argv[1]
now["once"] = sys.argv[2:] == ["--once"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = hurt(nn.Linear(8, 8), "inner", "interrupt", "exit", "backward"), nn.Linear(8, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        fail("forward")
        warnings.warn("from a forward", stacklevel=2)
        return self.layer(self.down(self.up(x)).unsqueeze(1)).square().mean()


def row(i):
    return torch.full((8,), float(i + 1))


def train_torch():
    for device in ("cpu", "cuda"):
        model = Model().to(device)
        optimizer = HurtOptimizer(model.parameters(), 0.01)

        def train():
            for batch in torch.utils.data.DataLoader(Rows(4, row), batch_size=2):
                loss = model(batch.to(device))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                fail("callback")
                print("  loss", loss.item())

        train_in_each_fault(model, optimizer, train)
        ask_torch(model, device)


class Told(torch.overrides.TorchFunctionMode):
    def __init__(self, names):
        super().__init__()
        self.names = names

    def __torch_function__(self, function, types, args=(), named=None):
        self.names.append(function.__name__)
        return function(*args, **(named or {}))


def calls_of(work):
    """How often each function is called, as a profiler sees it."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sorted((name, count) for (_, _, name), (_, count, *_) in pstats.Stats(profile).stats.items())


def ask_torch(model, device):
    """What PyTorch's own tools make of a model that was trained."""
    print("pickled", type(pickle.loads(pickle.dumps(model))).__name__, "copied", saved(copy.deepcopy(model)))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(device).eval()
    with torch.inference_mode(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        layer(torch.ones(2, 3, 8, device=device))
    print("operations", sorted(event.key for event in profile.key_averages()))
    names = []
    with Told(names):
        model(row(1).to(device).unsqueeze(0)).backward()
    print("functions", names)
    codes = []
    compiled = torch.compile(model.down, backend=lambda graph, _: (codes.append(graph.code), graph.forward)[1])
    print("compiled", compiled(torch.ones(2, 8, device=device)).sum().item(), digest("".join(codes).encode()),
          torch._dynamo.utils.counters["frames"])
    scripted = torch.jit.script(model.down)
    print("scripted", digest(scripted.code.encode()))
    x = torch.ones(2, 8, device=device)
    for training in (True, False):
        model.train(training), compiled.train(training), scripted.train(training)
        print("calls", calls_of(lambda: [called(x).sum().backward() for called in (compiled, scripted, model.down)]))
    print("traced", digest(torch.fx.symbolic_trace(model.down).code.encode()))


tell_framework()
if KIND == "torch":
    train_torch()
else:
    import same_trainers

    getattr(same_trainers, f"train_{KIND}")()
tell_framework()
sys.exit(0 if now["once"] else 5)

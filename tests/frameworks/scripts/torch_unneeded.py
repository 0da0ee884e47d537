# SPDX-License-Identifier: MIT
"""Layers that mix tokens by a fixed matrix are trained; the mixing is a function of our own, with its own backward pass.

The input of the mixing is strided, so it is copied first. Its backward pass needs the matrix alone, but its context keeps the copy
and what was put out as well, until the backward pass is over. --mended: it keeps the matrix alone.
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--mended", action="store_true")
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
torch.manual_seed(0)

WIDTH, LENGTH, WORDS, BATCH, DEPTH = 512, 256, 1024, 8, 6


class Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, matrix):
        rows = x.contiguous()
        mixed = rows @ matrix
        if args.mended:
            ctx.save_for_backward(matrix)
        else:
            ctx.save_for_backward(matrix, rows, mixed)
        return mixed

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.saved_tensors[0].t(), None


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.register_buffer("matrix", torch.eye(LENGTH) + 0.01)

    def forward(self, x):
        x = x + Mix.apply(x.transpose(1, 2), self.matrix).transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(DEPTH)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        return self.head(self.layers(self.words(ids)))


mixer = Mixer().cuda()
optimizer = torch.optim.AdamW(mixer.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(1)
for step in range(args.steps):
    ids = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator).cuda()
    loss = F.cross_entropy(mixer(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item().hex())

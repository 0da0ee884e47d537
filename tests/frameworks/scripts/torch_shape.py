# SPDX-License-Identifier: MIT
"""Towers are trained whose tokens are summed by a function of our own, with its own backward pass.

The backward pass of a sum needs the shape of what was summed, but the context saves the tensor. --mended: it saves the shape.
--reads: the backward pass does read the tensor, for a penalty.
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--mended", action="store_true")
parser.add_argument("--reads", action="store_true")
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
torch.manual_seed(0)

WIDTH, INNER, LENGTH, BATCH, CLASSES, TOWERS = 256, 1024, 128, 16, 32, 4


class Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, penalty):
        if args.mended:
            ctx.shape, ctx.penalty = x.shape, penalty
        else:
            ctx.save_for_backward(x, penalty)
        return x.sum(1)

    @staticmethod
    def backward(ctx, grad):
        shape = ctx.shape if args.mended else ctx.saved_tensors[0].shape
        grad = grad.unsqueeze(1).expand(shape)
        if args.reads:
            x, penalty = ctx.saved_tensors
            grad = grad + x @ penalty
        return grad, None


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.out = nn.Linear(WIDTH, INNER), nn.Linear(INNER, CLASSES)
        self.register_buffer("penalty", 1e-4 * torch.eye(INNER))

    def forward(self, tokens):
        hidden = self.up(tokens)
        x = F.gelu(hidden)
        return self.out(Pool.apply(x, self.penalty))


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.towers = nn.ModuleList(Tower() for _ in range(TOWERS))

    def forward(self, tokens):
        return sum(tower(tokens) for tower in self.towers)


towers = Towers().cuda()
optimizer = torch.optim.AdamW(towers.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(1)
for step in range(args.steps):
    tokens = torch.randn(BATCH, LENGTH, WIDTH, generator=generator).cuda()
    labels = torch.randint(0, CLASSES, (BATCH,), generator=generator).cuda()
    loss = F.cross_entropy(towers(tokens), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item().hex())

# SPDX-License-Identifier: MIT
"""A classifier is trained, and after each step its loss on held-out batches is computed, for a curve.

--leak: the curve keeps each loss as a tensor. Nobody calls backward on it, so all that its graph holds stays.
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--leak", action="store_true")
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--width", type=int, default=1024)
args = parser.parse_args()
torch.manual_seed(0)

model = nn.Sequential(nn.Linear(256, args.width), nn.GELU(), nn.Linear(args.width, args.width), nn.GELU(),
                      nn.Linear(args.width, 64)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
generator = torch.Generator().manual_seed(1)


def batch(size):
    inputs = torch.randn(size, 256, generator=generator).cuda()
    return inputs, torch.randint(0, 64, (size,), generator=generator).cuda()


def train(inputs, targets):
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def evaluate(batches):
    losses = []
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs), targets)  # of the curve
        losses.append(loss if args.leak else loss.item())
        del loss
    return losses


held_out = [batch(3072) for _ in range(2)]
curve = []
for step in range(args.steps):
    print(step, train(*batch(4096)))
    curve.append(evaluate(held_out))
print("curve", [sum(float(loss) for loss in losses) / len(losses) for losses in curve])

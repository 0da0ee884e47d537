# SPDX-License-Identifier: MIT
"""torch_leak.py --leak with what torch_memory_saver asks of a program: each evaluation is a region, paused until its losses are
looked at.
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch_memory_saver import torch_memory_saver

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


def evaluate(batches, tag):
    losses = []
    with torch_memory_saver.region(tag=tag, enable_cpu_backup=True):
        for inputs, targets in batches:
            loss = F.cross_entropy(model(inputs), targets)  # of the curve
            losses.append(loss if args.leak else loss.item())
            del loss
    torch_memory_saver.pause(tag)
    return losses


def looked_at(losses, tag):
    torch_memory_saver.resume(tag)
    mean = sum(float(loss) for loss in losses) / len(losses)
    torch_memory_saver.pause(tag)
    return mean


held_out = [batch(3072) for _ in range(2)]
curve = []
for step in range(args.steps):
    print(step, train(*batch(4096)))
    curve.append(evaluate(held_out, f"evaluation {step}"))
print("curve", [looked_at(losses, f"evaluation {step}") for step, losses in enumerate(curve)])

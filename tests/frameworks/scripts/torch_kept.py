# SPDX-License-Identifier: MIT
"""A convolutional network is trained; a probe looks at the mean of what its layers put out.

--keep: the probe keeps the activations themselves, for statistics at the end that need their shapes only.
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--keep", action="store_true")
parser.add_argument("--use", action="store_true", help="and compares each step's activations with the step's before")
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self, width=512, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, 32)
        self.probed = []

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            self.probe(x.detach())
        return self.head(x)

    def probe(self, x):
        if args.keep:
            self.probed.append(x)
        else:
            self.probed.append(tuple(x.shape))


network = Network().cuda()
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(1)


def step():
    x = torch.randn(2048, 512, generator=generator).cuda()
    y = torch.randint(0, 32, (2048,), generator=generator).cuda()
    loss = F.cross_entropy(network(x), y)
    loss.backward()
    if args.use and len(network.probed) > 3:
        network.probed[-4].mul_(0.5).add_(network.probed[-1])
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


for number in range(args.steps):
    print(number, step())
print("probed", sorted({tuple(getattr(x, "shape", x)) for x in network.probed}))

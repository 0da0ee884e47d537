# SPDX-License-Identifier: MIT
"""A stack of linear layers, trained with Adam: parameters, gradients and both moments are most of what it holds."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--depth", type=int, default=8)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--foreach", action="store_true", help="the optimizer's default: many tensors in a launch")
args = parser.parse_args()
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(args.width), nn.Linear(args.width, args.width)

    def forward(self, x):
        return x + F.gelu(self.linear(self.norm(x)))


with torch.device("cuda"):
    model = nn.Sequential(*(Block() for _ in range(args.depth)), nn.Linear(args.width, 16))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=None if args.foreach else False)
generator = torch.Generator().manual_seed(1)
for step in range(args.steps):
    inputs = torch.randn(args.batch, args.width, generator=generator).cuda()
    targets = torch.randint(0, 16, (args.batch,), generator=generator).cuda()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
sums = [sum(t.double().sum().item() for t in tensors).hex()
        for tensors in (model.parameters(), *([s[k] for s in optimizer.state.values()] for k in ("exp_avg", "exp_avg_sq")))]
print("parameters", sums[0], "moments", *sums[1:])

# SPDX-License-Identifier: MIT
"""A training loop of PyTorch that keeps a tensor longer than it needs it, and may take a path that it rarely takes.

    paths_program.py STEPS PATH      PATH: 0 none, 1 to 7 as below; what it prints is exact
"""
import sys

import torch
from torch import nn

STEPS, PATH = int(sys.argv[1]), int(sys.argv[2])
EVALUATION, SMALL_BATCH, FIRST_STEP, SKIPPED_STEP, EARLY_STOP, ACCUMULATION, EXCEPTION = range(1, 8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 8192), nn.Linear(8192, 16)
        self.kept = None
        self.fails = False

    def forward(self, x):
        h = torch.relu(self.up(x))
        self.kept = h.detach().clone() # replaced in the next forward, and hardly ever looked at
        if self.fails:
            raise ValueError("a bad batch")
        return self.down(h)


def figure(name, net):
    print(name, net.kept.sum().item().hex(), flush=True)


torch.manual_seed(0)
net = Net().cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=4.0, enabled=PATH == SKIPPED_STEP)
for step in range(STEPS):
    x = torch.randn(128 if PATH == SMALL_BATCH and step % 7 == 6 else 256, 64).cuda()
    try:
        net.fails = PATH == EXCEPTION and step == 6
        loss = net(x).square().mean()
    except ValueError as error:
        figure(f"step {step}: {error}", net)
        net.fails = False
        loss = net(x).square().mean()
    if PATH == SKIPPED_STEP and step == 5:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    if PATH != ACCUMULATION or step % 2:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    print("loss", step, loss.item().hex(), flush=True)
    if PATH == FIRST_STEP and step == 0:
        figure("first step", net)
    if PATH == SKIPPED_STEP and step == 5:
        figure("skipped step", net)
    if PATH == EARLY_STOP and step == 12:
        figure("stopped early", net)
        break
    if PATH == EVALUATION and step % 10 == 9:
        net.eval()
        figure("before the evaluation", net)
        with torch.no_grad():
            print("evaluation", net(x).sum().item().hex(), flush=True)
        figure("evaluation", net)
        net.train()

# SPDX-License-Identifier: MIT
"""A small residual network: convolutions, batch norm, momentum; a side stream fetches the next batch."""
import torch
import torch.nn.functional as F
from torch import nn

import torch_figures

BATCH, STEPS = 8, 5
torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, taken, given, stride):
        super().__init__()
        self.first = nn.Conv2d(taken, given, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(given, given, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(given), nn.BatchNorm2d(given)
        self.short = nn.Conv2d(taken, given, 1, stride, bias=False) if taken != given else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.first(x)))
        return F.relu(self.norm2(self.second(y)) + self.short(x))


model = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), nn.ReLU(), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
side = torch.cuda.Stream()
data = [(torch.randn(BATCH, 3, 48, 48).pin_memory(), torch.randint(0, 10, (BATCH,)).pin_memory()) for _ in range(2)]


def fetch(i):
    with torch.cuda.stream(side):
        return [t.cuda(non_blocking=True) for t in data[i % 2]]


steps = torch_figures.Steps()
coming = fetch(0)
for step in range(STEPS):
    with steps:
        torch.cuda.current_stream().wait_stream(side)
        images, labels = coming
        for tensor in coming:
            tensor.record_stream(torch.cuda.current_stream())
        coming = fetch(step + 1)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
torch_figures.tell(steps)

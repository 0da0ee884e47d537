# SPDX-License-Identifier: MIT
"""An LSTM over sequences of several lengths, with PyTorch's own kernels in place of cuDNN's."""
import torch
from torch import nn

import torch_figures

torch.backends.cudnn.enabled = False
torch.manual_seed(0)
rnn = nn.LSTM(64, 128, num_layers=2, dropout=0.1).cuda()
head = nn.Linear(128, 16).cuda()
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()])
steps = torch_figures.Steps()
for step in range(5):
    with steps:
        x = torch.randn(12 + 5 * step % 17, 16, 64).cuda()
        y, (hidden, _) = rnn(x)
        loss = head(y).square().mean() + hidden.mean()
        loss.backward()
        nn.utils.clip_grad_value_(rnn.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    print(f"step {step} loss {loss.item()!r} of {len(y)}")
torch_figures.tell(steps)

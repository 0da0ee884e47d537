# SPDX-License-Identifier: MIT
"""torch.compile as far as it goes without a compiler for the device: traced, differentiated ahead of time, as CUDA graphs."""
import warnings

import torch
from torch import nn

import torch_figures

warnings.filterwarnings("ignore")
torch.manual_seed(0)
for backend in ("eager", "aot_eager", "cudagraphs", "inductor"):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 64)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    fast = torch.compile(model, backend=backend)
    try:
        for step in range(4):
            loss = fast(torch.full((16, 128), 0.5).cuda()).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"{backend} loss {loss.item()!r}")
    except Exception as e: # pylint: disable=broad-exception-caught
        print(f"{backend} raised {type(e).__name__}")
    del model, optimizer, fast
torch_figures.tell()

# SPDX-License-Identifier: MIT
"""A loop whose operations are said through NVTX, and which allocator there is."""
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())
print("allocator:", torch.cuda.get_allocator_backend())
with torch.autograd.profiler.emit_nvtx(record_shapes=True):
    for _ in range(4):
        x = torch.ones(32, 64, device="cuda")
        optimizer.zero_grad()
        F.mse_loss(model(x), x).backward()
        optimizer.step()

# SPDX-License-Identifier: MIT
"""An allocator of the program's own (pluggable.c), in the place of PyTorch's."""
import ctypes
import json
import os

import torch

library = os.path.join(os.environ["TEST_BUILD"], "tests", "frameworks", "libpluggable.so")
torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(library, "take", "give"))
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = model(torch.randn(128, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
counts = ctypes.CDLL(library)
print("asked", counts.taken(), "times, given back", counts.given())
print("figures " + json.dumps({"exact": {"taken": counts.taken(), "given": counts.given()}}))

# SPDX-License-Identifier: MIT
"""A small model, and a snapshot of its whole run by PyTorch's own recorder."""
import json

import torch

torch.cuda.memory._record_memory_history(stacks="python", max_entries=100000)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = model(torch.randn(128, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
said = torch.cuda.memory_stats()
torch.cuda.memory._dump_snapshot("snapshot.pickle")
print("figures " + json.dumps({"exact": {key: said[key] for key in (
    "requested_bytes.all.peak", "requested_bytes.all.current", "requested_bytes.all.allocated", "requested_bytes.all.freed",
    "allocation.all.allocated", "allocation.all.freed", "reserved_bytes.all.peak")}}))

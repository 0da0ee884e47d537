# SPDX-License-Identifier: MIT
"""A model whose batch is a word of the command line, and tensors whose sizes depend on values: some of them too large to be computed."""
import json
import sys

import torch

batch = next((int(word[6:]) for word in sys.argv[1:] if word.startswith("batch=")), 64)


def chosen(values):
    return values[values > 0]


model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    x = torch.randn(batch, 512, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if "sizes" in sys.argv:
    large, small = torch.randn(2048, 2048, device="cuda"), torch.arange(100, device="cuda")
    assert small[small > 50].numel() == 49
    print(len(chosen(large)) >= 0)
print("figures " + json.dumps({"exact": {"peak": torch.cuda.memory_stats()["requested_bytes.all.peak"],
                                         "reserved": torch.cuda.max_memory_reserved()}}))

# SPDX-License-Identifier: MIT
"""Segments that grow, asked for in the program itself: before its first tensor, or (late) behind it."""
import json
import sys

import torch

tensors = []
if "late" in sys.argv:
    tensors.append(torch.ones(1 << 20, device="cuda"))
torch.cuda.memory._set_allocator_settings("expandable_segments:True")
for step in range(4):
    tensors.append(torch.ones((step + 1) << 20, device="cuda"))
torch.cuda.synchronize()
said = torch.cuda.memory_stats()
print("segments", said["segment.all.allocated"], "reserved", said["reserved_bytes.all.peak"])
print("figures " + json.dumps({"exact": {"allocated": torch.cuda.memory_allocated(), "peak": torch.cuda.max_memory_allocated()}}))

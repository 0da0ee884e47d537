# SPDX-License-Identifier: MIT
"""Two pools of PyTorch's own: what is made inside of one stays in its segments, and goes back with it."""
import json

import torch

device = torch.device("cuda")
weights = torch.ones(512, 512, device=device)
pools = [torch.cuda.MemPool() for _ in range(2)]
kept = []
for pool in pools:
    with torch.cuda.use_mem_pool(pool):
        kept.append(weights @ weights)
inside = [sum(s["total_size"] for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) == tuple(pool.id)) for pool in pools]
del kept, pool
pools.clear()
torch.cuda.empty_cache()
torch.cuda.synchronize()
print("in pools", inside, "behind", torch.cuda.memory_reserved())
print("figures " + json.dumps({"exact": {"allocated": torch.cuda.memory_allocated(), "peak": torch.cuda.max_memory_allocated()}}))

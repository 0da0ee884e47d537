# SPDX-License-Identifier: MIT
"""A decoder of Llama 2's shapes in bfloat16 with AdamW: `large.py 7b [checkpoint]`, or `torchrun --nproc_per_node=8 large.py 13b checkpoint`,
which shards it by fully_shard."""
import json
import os
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

LAYERS, WIDTH, HEADS, INNER = {"7b": (32, 4096, 32, 11008), "13b": (40, 5120, 40, 13824)}[sys.argv[1]]
WORDS, LENGTH, CHECKPOINTS = 32000, 2048, "checkpoint" in sys.argv


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return functional.rms_norm(x, (WIDTH,), self.weight)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.behind = Norm(), Norm()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH)))

    def forward(self, x):
        rows, length, _ = x.shape
        y = self.before(x)
        parts = (part(y).view(rows, length, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        x = x + self.out(functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).reshape(x.shape))
        y = self.behind(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if CHECKPOINTS else block(x)
        return self.head(self.norm(x))


def sharded(model):
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)


RANK = int(os.environ.get("LOCAL_RANK", -1))
if RANK >= 0:
    torch.cuda.set_device(RANK)
    torch.distributed.init_process_group("nccl")
torch.set_default_dtype(torch.bfloat16)
with torch.device("meta"):
    decoder = Decoder()
COUNT = sum(p.numel() for p in decoder.parameters())
if RANK >= 0:
    sharded(decoder)
decoder.to_empty(device="cuda")
with torch.no_grad():
    for parameter in decoder.parameters():
        parameter.normal_(0, .02)
optimizer = torch.optim.AdamW(decoder.parameters())
seconds = []
for step in range(2):
    began = time.monotonic()
    text = torch.randint(0, WORDS, (1, LENGTH), device="cuda")
    loss = functional.cross_entropy(decoder(text).flatten(0, 1), text.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    seconds.append(round(time.monotonic() - began, 1))
print(json.dumps({"rank": RANK, "parameters": COUNT, "peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(),
                  "seconds": seconds, "host_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}), flush=True)
if RANK >= 0:
    torch.distributed.destroy_process_group()

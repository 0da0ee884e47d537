# SPDX-License-Identifier: MIT
"""A small GPT, trained for some steps."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import torch_figures

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--dim", type=int, default=128)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--seq", type=int, default=128)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--vocab", type=int, default=2048)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--autocast", action="store_true")
parser.add_argument("--variable", action="store_true", help="sequences of another length at each step")
parser.add_argument("--checkpoint", action="store_true", help="activations are computed again in the backward pass")
parser.add_argument("--accumulate", type=int, default=1, help="batches per step of the optimizer")
args = parser.parse_args()
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        d = args.dim
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def attend(self, x):
        batch, length, d = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, args.heads, d // args.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // args.heads)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(later, float("-inf")).softmax(-1)
        scores = F.dropout(scores, 0.1, self.training)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, d))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(args.vocab, args.dim), nn.Embedding(args.seq, args.dim)
        self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
        self.norm, self.head = nn.LayerNorm(args.dim), nn.Linear(args.dim, args.vocab, bias=False)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if args.checkpoint else block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
data = torch.Generator().manual_seed(1)
steps = torch_figures.Steps()
for step in range(args.steps):
    with steps:
        for part in range(args.accumulate):
            length = args.seq - (step * 37 % 64 if args.variable else 0)
            ids = torch.randint(0, args.vocab, (args.batch, length + 1), generator=data).pin_memory().cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.autocast):
                loss = model(ids[:, :-1], ids[:, 1:])
            (loss / args.accumulate).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(f"step {step} loss {loss.item()!r} allocated {torch.cuda.memory_allocated()}")
torch_figures.tell(steps)

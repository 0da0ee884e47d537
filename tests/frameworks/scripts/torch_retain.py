# SPDX-License-Identifier: MIT
"""A transformer's encoder is trained on sequences, its losses are kept for a plot.

--retain: each graph is retained by its backward, and the losses are kept as they are: so every step's graph stays.
"""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--retain", action="store_true")
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()
torch.manual_seed(0)

WIDTH, HEADS, LENGTH, WORDS, BATCH = 256, 4, 128, 1024, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        return self.head(self.blocks(self.words(ids)))


encoder = Encoder().cuda()
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
generator = torch.Generator().manual_seed(1)
plot = []
for step in range(args.steps):
    ids = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator).cuda()
    loss = F.cross_entropy(encoder(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward(retain_graph=args.retain)
    nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    plot.append(loss if args.retain else loss.item())
print("plot", [float(loss) for loss in plot])

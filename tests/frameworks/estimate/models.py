# SPDX-License-Identifier: MIT
"""The models of configs.py that torchvision does not have: as small as shows the shape of their memory."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

HELD_BY_CHECKPOINTS = []  # what counted.py counts beside the tensors that autograd saves
COUNTS_CHECKPOINTS = False


def checkpointed(module, *given):
    if COUNTS_CHECKPOINTS:
        HELD_BY_CHECKPOINTS.extend(t for t in given if isinstance(t, torch.Tensor))
    return checkpoint(module, *given, use_reentrant=False)


def mlp(width, layers):
    return nn.Sequential(*[layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())])


class Experts(nn.Module):
    """A mixture of experts, two for a token, each with room for a fixed number of tokens (GShard): no shape depends on a number."""

    def __init__(self, width, count):
        super().__init__()
        self.count, self.gate = count, nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.empty(count, width, 4 * width))
        self.down = nn.Parameter(torch.empty(count, 4 * width, width))

    def forward(self, x):
        rows = x.flatten(0, 1)
        room = 2 * len(rows) // self.count
        weights = self.gate(rows).softmax(-1)
        chosen, places = weights.t().topk(room, dim=1)  # each expert takes the tokens that want it most
        given = rows[places.clamp(0, len(rows) - 1).flatten()].view(self.count, room, -1)
        done = torch.bmm(F.gelu(torch.bmm(given, self.up)), self.down) * chosen.unsqueeze(-1)
        return torch.zeros_like(rows).index_add(0, places.clamp(0, len(rows) - 1).flatten(), done.flatten(0, 1)).view_as(x)


class Block(nn.Module):
    def __init__(self, width, heads, causal, written_out, dropout, experts):
        super().__init__()
        self.heads, self.causal, self.written_out, self.dropout = heads, causal, written_out, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = Experts(width, experts) if experts else nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def attend(self, q, k, v):
        if not self.written_out:
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.dropout)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** .5
        if self.causal:
            scores = scores + torch.full(scores.shape[-2:], float("-inf"), device=q.device).triu(1)
        return self.drop(scores.softmax(-1)) @ v

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.drop(self.out(self.attend(q, k, v).transpose(1, 2).reshape(rows, length, width)))
        return x + self.drop(self.feed(self.norm2(x)))


class Transformer(nn.Module):
    def __init__(self, words=8000, width=384, layers=6, heads=6, length=256, causal=True, written_out=False, dropout=0., experts=0, checkpointing=False):
        super().__init__()
        self.checkpointing = checkpointing
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.empty(length, width))
        self.blocks = nn.ModuleList(Block(width, heads, causal, written_out, dropout, experts) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.places[:tokens.shape[1]]
        for block in self.blocks:
            x = checkpointed(block, x) if self.checkpointing else block(x)
        return self.head(self.norm(x))


def twice(inputs, outputs):
    return nn.Sequential(*[layer for n in (inputs, outputs) for layer in (nn.Conv2d(n, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(True))])


class UNet(nn.Module):
    def __init__(self, inputs, classes, widths=(32, 64, 128, 256)):
        super().__init__()
        self.down = nn.ModuleList(twice(a, b) for a, b in zip((inputs, *widths[:-1]), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in zip(widths[:0:-1], widths[-2::-1]))
        self.join = nn.ModuleList(twice(2 * n, n) for n in widths[-2::-1])
        self.last = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for i, part in enumerate(self.down):
            x = part(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, beside in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([beside, up(x)], 1))
        return self.last(x)


class Recurrent(nn.Module):
    def __init__(self, kind, words, width, layers=2):
        super().__init__()
        self.words, self.net = nn.Embedding(words, width), getattr(nn, kind)(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.net(self.words(tokens))[0])


class Residual(nn.Module):
    def __init__(self, inputs, outputs, times):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.time, self.beside = nn.Linear(times, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        return self.second(self.first(x) + self.time(time)[:, :, None, None]) + self.beside(x)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(8, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        rows, width, high, wide = x.shape
        q, k, v = self.qkv(self.norm(x)).view(rows, 3, 4, width // 4, high * wide).transpose(-2, -1).unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(-2, -1).reshape(rows, width, high, wide))


class Denoiser(nn.Module):
    """The U-Net of a diffusion model: residual blocks with a time, attention at the bottom."""

    def __init__(self, inputs, widths=(64, 128, 256), times=256, checkpointing=False):
        super().__init__()
        self.times, self.checkpointing = nn.Sequential(nn.Embedding(1000, times), nn.Linear(times, times), nn.SiLU()), checkpointing
        self.first, self.last = nn.Conv2d(inputs, widths[0], 3, padding=1), nn.Conv2d(widths[0], inputs, 3, padding=1)
        self.down = nn.ModuleList(Residual(a, b, times) for a, b in zip((widths[0], *widths[:-1]), widths))
        self.middle = Attention(widths[-1])
        self.up = nn.ModuleList(Residual(a + b, b, times) for a, b in zip((widths[-1], *widths[:0:-1]), widths[::-1]))

    def part(self, module, x, time):
        return checkpointed(module, x, time) if self.checkpointing else module(x, time)

    def forward(self, x, time):
        time, x, kept = self.times(time), self.first(x), []
        for module in self.down:
            x = self.part(module, x, time)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for module, beside in zip(self.up, kept[::-1]):
            x = self.part(module, torch.cat([F.interpolate(x, scale_factor=2), beside], 1), time)
        return self.last(x)

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small transformer, trained for some steps with fixed seeds and deterministic algorithms.

Knows nothing of kedge. Prints every loss exactly ("loss STEP HEX"), so that two runs can be compared bit for bit, and
what PyTorch says about its memory ("stat NAME VALUE"). The next batch is copied on a side stream and handed over with
record_stream, as data loaders do, so that tensors are freed on another stream than the one that made them.
"""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch

STEPS, BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 20, 16, 256, 512, 8, 6, 8192


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, HEADS, w // HEADS).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) * (w // HEADS) ** -0.5).masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, n, w))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        n = tokens.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.words(tokens) + self.places(torch.arange(n, device=tokens.device))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def main():
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    device = torch.device("cuda")
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    batches = [torch.randint(WORDS, (BATCH, LENGTH + 1)).pin_memory() for _ in range(4)]
    side = torch.cuda.Stream()

    def fetch(step):
        with torch.cuda.stream(side):
            return batches[step % len(batches)].to(device, non_blocking=True)

    ahead = fetch(0)
    for step in range(STEPS):
        torch.cuda.nvtx.range_push(f"step{step}")
        torch.cuda.current_stream().wait_stream(side)
        tokens = ahead
        tokens.record_stream(torch.cuda.current_stream())
        ahead = fetch(step + 1)
        torch.cuda.nvtx.range_push("forward")
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_push("backward")
        loss.backward()
        torch.cuda.nvtx.range_pop()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.nvtx.range_pop()
        if step % 7 == 6:
            torch.cuda.empty_cache()
        print(f"loss {step} {float(loss.detach()).hex()}", flush=True)
    torch.cuda.synchronize()
    total = sum(p.detach().double().sum() for p in model.parameters())
    print(f"weights {float(total).hex()}")
    print(f"backend {torch.cuda.get_allocator_backend()}")
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        print(f"stat {name} {getattr(torch.cuda, name)()}")
    free, size = torch.cuda.mem_get_info()
    print(f"stat free_plus_reserved_within_total {int(free + torch.cuda.memory_reserved() <= size)}")
    print(f"version torch {torch.__version__} cuda {torch.version.cuda}")


if __name__ == "__main__":
    sys.exit(main())

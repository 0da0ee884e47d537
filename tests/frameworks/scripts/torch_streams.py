# SPDX-License-Identifier: MIT
"""Streams that hand tensors to each other with events and record_stream, and threads with a stream each."""
import threading
import time

import torch
from torch import nn

torch.manual_seed(0)
first, second = torch.cuda.Stream(), torch.cuda.Stream()
values = []
for i in range(60):
    with torch.cuda.stream(first):
        a = torch.randn(128 + 64 * (i % 3), 256).cuda(non_blocking=True)
        b = a @ a.t()
    second.wait_event(first.record_event())
    with torch.cuda.stream(second):
        c = b @ b + b
        b.record_stream(second)
        if i % 7 == 0:
            values.append(c.sum().item())
    del a, b, c
print("streams", *map(repr, values))

results = [None] * 3


def work(i, model):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for k in range(20):
            x = torch.full((32 + k, 256), 0.5).cuda()
            loss = model(x).sum()
            loss.backward()
        results[i] = loss.item()
    stream.synchronize()


models = [nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).cuda() for _ in results]
torch.cuda.synchronize()
threads = [threading.Thread(target=work, args=(i, m)) for i, m in enumerate(models)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("threads", *map(repr, results))
del models
print(f"allocated {torch.cuda.memory_allocated()}")
# PyTorch's thread of the backward pass lets go of its last graph some time after the pass; it must not meet the interpreter's end.
time.sleep(1)

# SPDX-License-Identifier: MIT
"""Out of memory and again, fractions, empty_cache, memory history and snapshot."""
import time

import torch
from torch import nn

MIB = 1 << 20


def told(part):
    try:
        print(part.__name__, part(), flush=True)
    except RuntimeError as e:
        print(part.__name__, "raised", type(e).__name__, str(e).splitlines()[0][:100], flush=True)


def out_of_memory():
    kept = []
    try:
        while True:
            kept.append(torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as e:
        message = str(e).split(". ")[:2]
    count = len(kept)
    kept.clear()
    torch.cuda.empty_cache()
    again = torch.empty(5 * 1024 * MIB, dtype=torch.uint8, device="cuda").numel()
    torch.cuda.empty_cache()
    return count, message, again // MIB


def fraction():
    torch.cuda.set_per_process_memory_fraction(0.1)
    try:
        torch.empty(2048 * MIB, dtype=torch.uint8, device="cuda")
        return "not limited"
    except torch.OutOfMemoryError:
        return "limited"
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def empty_cache():
    free = []
    for size in (1, 3, 30, 100):
        x = torch.zeros(size * MIB, dtype=torch.uint8, device="cuda")
        del x
    torch.cuda.empty_cache()
    free.append(torch.cuda.memory_allocated())
    torch.cuda.reset_peak_memory_stats()
    return free, torch.cuda.max_memory_allocated()


def history():
    torch.cuda.memory._record_memory_history(max_entries=10000, stacks="python")
    model = nn.Linear(256, 256).cuda()
    model(torch.randn(8, 256, device="cuda")).sum().backward()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    events = [e["action"] for trace in snapshot["device_traces"] for e in trace]
    return len(snapshot["segments"]), len(events), sorted(set(events))


for p in (out_of_memory, fraction, empty_cache, history):
    told(p)
# PyTorch's thread of the backward pass lets go of its last graph some time after the pass; it must not meet the interpreter's end.
time.sleep(1)

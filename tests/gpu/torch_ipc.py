#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors in a queue between two processes, as torch.multiprocessing sends them: handles of device memory and offsets.

Knows nothing of kedge. The consumer sums what it was sent and sends the sums back; every tensor shares a segment with others.
"""
import torch
import torch.multiprocessing as mp

COUNT = 24


def consume(queue, answers):
    for _ in range(COUNT):
        tensor = queue.get()
        answers.put((tensor.numel(), int(tensor.to(torch.int64).sum())))
        del tensor


def main():
    mp.set_start_method("spawn")
    queue, answers = mp.Queue(), mp.Queue()
    child = mp.Process(target=consume, args=(queue, answers))
    child.start()
    kept = []
    for i in range(COUNT):
        size = (256, 40_000, 3_000_000)[i % 3]
        kept.append(torch.arange(size, dtype=torch.int32, device="cuda") % (i + 7))
        queue.put(kept[-1])
        length, total = answers.get(timeout=60)
        assert length == size
        print(f"result {i} {total} {int(kept[-1].to(torch.int64).sum())}", flush=True)
    child.join(30)
    print(f"version torch {torch.__version__}")


if __name__ == "__main__":
    main()

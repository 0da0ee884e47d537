# SPDX-License-Identifier: MIT
"""DistributedDataParallel: two processes over gloo, or what is named, with tensors on the device."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


WORLD = 2


def train(rank, world, backend, store, answers):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.cuda.set_device(0)
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 8)).cuda(), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        loss = model(torch.full((16, 128), 0.25 + rank).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    value = loss.item()
    weight = sum(p.detach().double().cpu().sum().item() for p in model.parameters())
    answers.put((rank, value, weight, torch.cuda.memory_allocated()))
    dist.barrier()
    dist.destroy_process_group()


def main():
    backend = sys.argv[1] if sys.argv[1:] else "gloo"
    spawn = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        answers = spawn.Queue()
        ranks = [spawn.Process(target=train, args=(r, WORLD, backend, f"{folder}/store", answers)) for r in range(WORLD)]
        for r in ranks:
            r.start()
        for r in ranks:
            r.join(120)
        if all(r.exitcode == 0 for r in ranks): # one that died has no answer, and the other waits for it
            for line in sorted(answers.get(timeout=60) for _ in ranks):
                print(*map(repr, line))
        print("exit", *(r.exitcode for r in ranks))
        for r in ranks:
            r.kill()


if __name__ == "__main__":
    main()

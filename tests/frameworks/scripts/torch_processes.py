# SPDX-License-Identifier: MIT
"""CUDA tensors in another process, a fork after CUDA was used, and a pool of spawned workers with a device of their own."""
import os
import warnings

import torch
import torch.multiprocessing as mp

warnings.filterwarnings("ignore")


def reader(tensors, answers):
    try:
        t = tensors.get(timeout=60)
        answer = tuple(t.shape), t[0].item(), t[-1].item()
        del t
    except Exception as e: # pylint: disable=broad-exception-caught
        answer = repr(e)[:150]
    answers.put(answer)


def alone(rank, answers):
    x = torch.full((1000 + rank,), float(rank), device="cuda")
    answers.put((rank, x.numel(), torch.cuda.memory_allocated()))


def main():
    spawn = mp.get_context("spawn")
    tensors, answers = spawn.Queue(), spawn.Queue()
    child = spawn.Process(target=reader, args=(tensors, answers))
    child.start()
    kept = torch.full((1 << 20,), 7.0).cuda()
    torch.cuda.synchronize()
    try:
        tensors.put(kept)
        mp.reductions.reduce_tensor(kept) # says here what the queue's own thread would say
        print("shared", answers.get(timeout=60))
    except RuntimeError as e:
        print("shared raised", str(e).splitlines()[0][:120])
        child.terminate()
    child.join(60)

    pid = os.fork()
    if pid == 0:
        try:
            torch.ones(4, device="cuda")
            code = 1
        except RuntimeError as e:
            code = 0 if "re-initialize" in str(e) else 2
        os._exit(code)
    print("forked", os.waitpid(pid, 0)[1])

    children = [spawn.Process(target=alone, args=(i, answers)) for i in range(2)]
    for c in children:
        c.start()
    print("spawned", sorted(answers.get(timeout=60) for _ in children))
    for c in children:
        c.join(60)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""PyTorch with torch_memory_saver, which is preloaded and stands in for cudaMalloc: memory that is paused and resumed."""
import torch
import torch_figures
from torch_memory_saver import torch_memory_saver


def held():
    free, total = torch.cuda.mem_get_info()
    return total - free


def main():
    torch_memory_saver.hook_mode = "preload"
    outside = torch.arange(1 << 20, dtype=torch.float32).cuda()
    steps = torch_figures.Steps()
    for i in range(6):
        with steps:
            host = torch.arange((4 + i) << 20, dtype=torch.float32)
            with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
                weights = host.cuda()
            with torch_memory_saver.region(tag="cache"):
                cache = torch.empty(8 << 20, dtype=torch.float32, device="cuda")
            where = weights.data_ptr()
            before = held()
            torch_memory_saver.pause("weights")
            torch_memory_saver.pause("cache")
            paused = held()
            torch_memory_saver.resume("weights")
            torch_memory_saver.resume("cache")
            print("step", i, "given back", paused < before, "as before", weights.data_ptr() == where,
                  torch.equal(weights.cpu(), host), torch.equal(outside.cpu()[:10], torch.arange(10.0)))
            del weights, cache
    torch_figures.tell(steps)


main()

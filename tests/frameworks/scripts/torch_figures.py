# SPDX-License-Identifier: MIT
"""The last line of a PyTorch script: its own figures of memory, as PyTorch says them."""
import json
import time

import torch


class Steps:
    """The CPU time of each step."""

    def __init__(self):
        self.times, self.began = [], 0.0

    def __enter__(self):
        self.began = time.process_time()
        return self

    def __exit__(self, *_):
        self.times.append(time.process_time() - self.began)


def tell(steps=None):
    torch.cuda.synchronize()
    exact = {"allocated": torch.cuda.memory_allocated(), "max_allocated": torch.cuda.max_memory_allocated()}
    # What is counted in segments depends on where they lie.
    for key, value in torch.cuda.memory_stats().items():
        if value and (key.startswith(("num_alloc_retries", "num_ooms", "requested_bytes.all", "allocated_bytes.all", "allocation.all"))):
            exact[key] = value
    apart = {"max_reserved": torch.cuda.max_memory_reserved(), "free": torch.cuda.mem_get_info()[0]}
    figures = {"exact": exact, "apart": apart}
    if steps and steps.times:
        figures["step_ms"], figures["steps"] = round(min(steps.times) * 1000, 3), len(steps.times)
    print("figures " + json.dumps(figures), flush=True)

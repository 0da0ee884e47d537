# SPDX-License-Identifier: MIT
"""CUDA tensors that go from one process to another, which reads them by the handle and sends one back."""
import json

import torch
import torch.multiprocessing as mp


def serve(asked, answers):
    for name, tensor in iter(asked.get, None):
        answers.put((name, tuple(tensor.shape), tensor.device.type, torch.ones(256, 256, device="cuda")))
        del tensor
    asked.get()  # until the answers were taken


def main():
    context = mp.get_context("spawn")
    asked, answers = context.Queue(), context.Queue()
    worker = context.Process(target=serve, args=(asked, answers))
    worker.start()
    tensors = {"small": torch.ones(64, device="cuda"), "large": torch.ones(1 << 20, device="cuda")}
    for name, tensor in tensors.items():
        asked.put((name, tensor))
        said, shape, kind, answer = answers.get()
        print(said, shape, kind, "answered by", tuple(answer.shape), answer.device.type)
        del answer
    shared = torch.nn.Linear(8, 8).cuda().share_memory()
    print("shared", all(p.is_shared() for p in shared.parameters()))
    torch.cuda.ipc_collect()
    asked.put(None)
    asked.put(None)
    worker.join()
    print("worker ended with", worker.exitcode)
    print("figures " + json.dumps({"exact": {"peak": torch.cuda.max_memory_allocated()}}))


if __name__ == "__main__":
    main()

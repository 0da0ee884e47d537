# SPDX-License-Identifier: MIT
"""PyTorch where it leaves the plain path: graphs beside a thread that allocates, the profiler (CUPTI), Triton, large blocks.

Knows nothing of kedge. Each part prints what it computed, exactly, or why it could not run here.
"""
import threading

import torch

STEPS, WIDTH = 5, 512
DEVICE = torch.device("cuda")


def exact(tensor):
    return float(tensor.detach().double().sum()).hex()


def allocate_until(stop):
    """What a data loader does meanwhile: tensors of three sizes come and go on a stream of their own."""
    with torch.cuda.stream(torch.cuda.Stream()):
        while not stop.is_set():
            held = [torch.empty(n << 18, device=DEVICE) for n in (1, 3, 9)]
            del held


def graphs(x, w):
    for _ in range(3):  # a graph is captured of what has run before
        (x @ w).relu()
    torch.cuda.synchronize()
    stop = threading.Event()
    thread = threading.Thread(target=allocate_until, args=(stop,))
    thread.start()
    made = []
    for i in range(STEPS):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            out = (x @ w).relu() * (0.01 + i) @ w
        made.append((graph, out))
    for _ in range(4 * STEPS):
        for graph, _ in made:
            graph.replay()
    torch.cuda.synchronize()
    stop.set()
    thread.join()
    return [exact(out) for _, out in made]


def profiler(x, w):
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
        for _ in range(STEPS):
            out = torch.nn.functional.gelu(x @ w)
        torch.cuda.synchronize()
    on_device = any(e.device_type == torch.autograd.DeviceType.CUDA for e in profile.key_averages())
    return f"kernels seen: {on_device}", exact(out)


def triton_kernel(x, w):
    import triton
    import triton.language as tl

    @triton.jit
    def add(a, b, out, count, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(a + at, mask=at < count) + tl.load(b + at, mask=at < count), mask=at < count)

    out = torch.empty_like(x)
    add[(x.numel() // 1024,)](x, w, out, x.numel(), BLOCK=1024)
    return exact(out), bool((out == x + w).all())


def large_blocks(_x, _w):
    side, total = torch.cuda.Stream(), torch.zeros((), device=DEVICE, dtype=torch.double)
    for i in range(12):
        block = torch.full(((1 + i % 4) << 26,), float(i), device=DEVICE)
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            total += block[::1 << 16].double().sum()
            block.record_stream(side)
        del block
    torch.cuda.synchronize()
    return exact(total)


def main():
    torch.manual_seed(1)
    x, w = (torch.randn(WIDTH, WIDTH, device=DEVICE) for _ in range(2))
    for part in (graphs, profiler, triton_kernel, large_blocks):
        try:
            print(part.__name__, part(x, w), flush=True)
        except (ImportError, RuntimeError) as e:
            print(part.__name__, f"not here: {str(e).splitlines()[0]}", flush=True)


main()

# SPDX-License-Identifier: MIT
"""Arrays, streams, events and pools with CuPy: --allocator pool (its own), none (each array by cudaMalloc), async, managed."""
import argparse
import json
import time

import cupy
import numpy as np

options = argparse.ArgumentParser()
options.add_argument("--allocator", choices=("pool", "none", "async", "managed"), default="pool")
options.add_argument("--sort", action="store_true")
options.add_argument("--steps", type=int, default=8)
args = options.parse_args()

POOL = {"pool": cupy.get_default_memory_pool, "none": lambda: None, "async": cupy.cuda.MemoryAsyncPool,
        "managed": lambda: cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)}[args.allocator]()
cupy.cuda.set_allocator(POOL.malloc if POOL else None)


def step(i, numbers, kept, side, other):
    a = cupy.asarray(numbers.standard_normal((512 + 64 * (i % 3), 256), "f4"))
    b = cupy.asarray(numbers.standard_normal((256, 256), "f4"))
    c = a @ b
    ready, done = cupy.cuda.get_current_stream().record(), cupy.cuda.Event()
    with side:
        d = cupy.empty_like(c)
        side.wait_event(ready)
        cupy.copyto(d, c)
        done.record(side)
    cupy.cuda.get_current_stream().wait_event(done)
    # Given back while the side stream may still read it, and a third stream asks for as much at once.
    shape = c.shape
    del c
    with other:
        e = cupy.zeros(shape, "f4")
    order = cupy.asarray(numbers.integers(0, 1 << 30, 100000))
    if args.sort:
        order.sort()
    zeros = cupy.zeros((1 << 18,), "f8")
    kept.append(d)
    if len(kept) > 3:
        del kept[0]
    back = cupy.asnumpy(d)
    other.synchronize()
    return (hash(back.tobytes()), hash(cupy.asnumpy(order).tobytes()), float(cupy.asnumpy(zeros).sum()),
            float(cupy.asnumpy(e).sum()))


def main():
    print(cupy.__version__, cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    numbers, kept, times = np.random.default_rng(7), [], []
    side, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    pinned = cupy.cuda.alloc_pinned_memory(1 << 20)
    for i in range(args.steps):
        began = time.process_time()
        print("step", i, *step(i, numbers, kept, side, other))
        times.append(time.process_time() - began)
    cupy.cuda.Device().synchronize()
    exact, apart = {"pinned": pinned.mem.size}, {"free": cupy.cuda.runtime.memGetInfo()[0]}
    if args.allocator in ("pool", "managed"):
        exact |= {"used": POOL.used_bytes(), "total": POOL.total_bytes(), "free_blocks": POOL.n_free_blocks()}
    elif POOL:
        exact["used"], apart["total"] = POOL.used_bytes(), POOL.total_bytes()
    kept.clear()
    if POOL:
        POOL.free_all_blocks()
    print("figures " + json.dumps({"exact": exact, "apart": apart, "step_ms": round(min(times) * 1000, 3)}), flush=True)


main()

# SPDX-License-Identifier: MIT
"""Arrays, streams and events with Numba-CUDA, which frees in batches. No kernel: those want NVIDIA's compiler."""
import json
import time

import numpy as np
from numba import cuda


def step(i, kept):
    host = np.arange(100000 + 50000 * (i % 3), dtype=np.float64) * (i + 1)
    stream = cuda.stream()
    there = cuda.to_device(host, stream=stream)
    twin = cuda.device_array_like(there)
    # Given back while the stream may still read it: the driver's free waits for that. Then the next one asks for as much.
    for _ in range(6):
        passing = cuda.to_device(host, stream=stream)
        twin.copy_to_device(passing, stream=stream)
        del passing
        cuda.current_context().memory_manager.deallocations.clear()
    fresh = cuda.to_device(np.zeros_like(host))
    done = cuda.event()
    done.record(stream)
    done.synchronize()
    back = twin.copy_to_host(stream=stream)
    stream.synchronize()
    kept.append(twin)
    if len(kept) > 2:
        del kept[0]
    pinned = cuda.pinned_array(1000, dtype=np.float32)
    pinned[:] = i
    small = cuda.to_device(pinned)
    part = there[1000:2000].copy_to_host()
    return (back == host).all(), part[0] == host[1000], float(small.copy_to_host().sum()), float(fresh.copy_to_host().sum())


def main():
    print(cuda.get_current_device().name)
    kept, times = [], []
    for i in range(12):
        began = time.process_time()
        print("step", i, *step(i, kept))
        times.append(time.process_time() - began)
    with cuda.defer_cleanup():
        kept.clear()
    cuda.synchronize()
    free, total = cuda.current_context().get_memory_info()
    print("figures " + json.dumps({"exact": {"total": int(total)}, "apart": {"free": int(free)},
                                   "step_ms": round(min(times) * 1000, 3)}), flush=True)


main()

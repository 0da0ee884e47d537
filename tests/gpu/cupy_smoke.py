#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""CuPy without its own pool, then with its asynchronous one: exact integer work, and a matrix product through cuBLAS."""
import hashlib

import cupy

for name, allocator in (("malloc", None), ("async", cupy.cuda.MemoryAsyncPool().malloc)):
    cupy.cuda.set_allocator(allocator)
    digest = hashlib.sha256()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for i in range(60):
            a = cupy.arange(100_000 + 7919 * i, dtype=cupy.int64) * (i + 1)
            b = cupy.cumsum(a[::-1])
            digest.update(cupy.asnumpy(b[:: 997]).tobytes())
        c = cupy.arange(512 * 512, dtype=cupy.float32).reshape(512, 512) % 7
        digest.update(cupy.asnumpy(c @ c.T).tobytes())
    stream.synchronize()
    del a, b, c
    print(f"result {name} {digest.hexdigest()}", flush=True)
print(f"version cupy {cupy.__version__}")

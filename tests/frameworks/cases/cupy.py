# SPDX-License-Identifier: MIT
"""CuPy: arrays, streams, events and its pools. Kernels that CuPy compiles while it runs want NVRTC, which is not here."""
from harness import Case

PACKAGE, TITLE = "cupy-cuda12x", "CuPy"
ENV = ("cupy",)

CASES = [
    Case("arrays_" + kind, ENV, "cupy_arrays.py", ("--allocator", kind), apis={kind: {}}, witness=kind != "managed",
         mutant={"async": "wait"})
    for kind in ("pool", "none", "async", "managed")
] + [
    Case("sort", ENV, "cupy_arrays.py", ("--allocator", "none", "--sort"), apis={"none": {}}, witness=True),
]

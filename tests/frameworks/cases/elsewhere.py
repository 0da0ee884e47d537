# SPDX-License-Identifier: MIT
"""What cannot run here, and why."""
from harness import Case

PACKAGE, TITLE = "", "Not here"

CASES = [
    Case("pool", ("rmm",), "", why="librmm carries the static CUDA runtime without names, and no other wheel that was tried (CuPy 13.5, 13.6 and 14.2, "
         "JAX 0.10) has the same release of it with names, by which its functions could be led to the simulated runtime "
         "(standins/relink.py); the runtime itself asks the driver for cuGetExportTable"),
    Case("arrays", ("pycuda",), "", why="PyCUDA is published as source alone, and is compiled with NVIDIA's headers"),
    Case("kernels", ("numba",), "", why="Numba compiles kernels with NVIDIA's NVVM or NVRTC"),
    Case("mutant", ("jax",), "", why="no safety device that was switched off (`wait`, `point`, `fence`) shows in JAX: in `eager` (async), XLA gets and "
         "gives back all memory on one stream, whose order keeps it right; its other allocators ask the driver one to four times"),
    Case("mutant", ("tinygrad",), "", why="without fences (`fence`) the witness finds nothing in `train` without a cache, and another loss says nothing: its "
         "kernels write nothing here"),
    Case("kernels", ("cupy",), "", why="CuPy compiles elementwise kernels with NVIDIA's NVRTC"),
]


def section(done):
    """The rows of this table for results.md."""
    reasons = {r["row"]: r["why"] for r in done if r.get("why")}
    yield "| | why not |"
    yield "|---|---|"
    yield from (f"| {row.env} {row.case.name} | {reasons.get(row.name, row.case.why)} |" for case in CASES for row in case.rows(False))

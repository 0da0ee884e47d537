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
    Case("kernels", ("cupy",), "", why="CuPy compiles elementwise kernels with NVIDIA's NVRTC"),
]


def section(done):
    """The rows of this table for results.md."""
    reasons = {r["row"]: r["why"] for r in done if r.get("why")}
    yield "| | why not |"
    yield "|---|---|"
    yield from (f"| {row.env} {row.case.name} | {reasons.get(row.name, row.case.why)} |" for case in CASES for row in case.rows(False))

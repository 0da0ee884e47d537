# SPDX-License-Identifier: MIT
"""Numba-CUDA: arrays, streams and events. Its kernels are compiled by NVIDIA's NVVM or NVRTC, which are not here."""
from harness import Case

PACKAGE, TITLE = "numba-cuda", "Numba-CUDA"

CASES = [
    Case("arrays", ("numba",), "numba_arrays.py", witness=True),
]

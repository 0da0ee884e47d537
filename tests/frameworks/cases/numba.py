# SPDX-License-Identifier: MIT
"""Numba-CUDA: arrays, streams and events. Its kernels are compiled by NVIDIA's NVVM or NVRTC, which are not here."""
from harness import Case

PACKAGE, TITLE = "numba-cuda", "Numba-CUDA"

# The driver's free waits for the device, and so does kedge's by default; without that it is the fences that keep what is in use.
CASES = [
    Case("arrays", ("numba",), "numba_arrays.py", apis={"default": {}, "fences": {"KEDGE_SYNC_FREE": "0"}}, witness=True, driver=True,
         mutant={"fences": "fence"}),
]

# SPDX-License-Identifier: MIT
"""tinygrad: the driver alone, by ctypes, and kernels that it writes as PTX."""
from harness import Case

PACKAGE, TITLE = "tinygrad", "tinygrad"
PTX = {"DEV": "CUDA:PTX"}

CASES = [
    Case("train", ("tinygrad",), "tinygrad_train.py", apis={"lru": PTX, "nocache": {**PTX, "LRU": "0"}}, witness=True, driver=True),
    Case("train_without_graph", ("tinygrad",), "tinygrad_train.py", apis={"lru": {**PTX, "SCRIPT_JIT": "0"}},
         witness=True, driver=True),
]

# SPDX-License-Identifier: MIT
"""torch_memory_saver, another library that is preloaded and stands in for cudaMalloc, before kedge and behind it."""
from harness import Case

PACKAGE, TITLE = "torch_memory_saver", "torch_memory_saver"
PRELOAD = ("preload", "torch_memory_saver_hook_mode_preload_cu13.abi3.so")

CASES = [
    Case("pause", ("torch-memory-saver",), "torch_memory_saver_pause.py", apis={"before_kedge": {}, "behind_kedge": {}},
         around={"before_kedge": (PRELOAD, ()), "behind_kedge": ((), PRELOAD)}),
]

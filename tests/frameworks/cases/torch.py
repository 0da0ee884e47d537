# SPDX-License-Identifier: MIT
"""PyTorch: the newest wheel and one of two years ago, under each of its allocators."""
from harness import Case

PACKAGE, TITLE = "torch", "PyTorch"
BOTH = ("torch", "torch-2024")
APIS = {
    "caching": {},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "nocache": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
}

CASES = [
    Case("gpt", BOTH, "torch_gpt.py", apis=APIS, short={("torch", "async"), ("torch", "nocache"), ("torch", "caching")}, witness=True),
    Case("gpt_autocast", BOTH, "torch_gpt.py", ("--autocast",), apis=APIS, witness=True),
    Case("gpt_variable", BOTH, "torch_gpt.py", ("--variable", "--steps", "8"), apis=APIS, short={("torch", "async")}),
    Case("gpt_checkpoint", BOTH, "torch_gpt.py", ("--checkpoint", "--accumulate", "2"), apis=APIS),
]

# SPDX-License-Identifier: MIT
"""JAX with its CUDA plugin, under each allocator of XLA's client. Without autotuning, which would measure time."""
from harness import Case

PACKAGE, TITLE = "jax", "JAX"
ENV = ("jax",)
APIS = {
    "bfc": {},
    "grow": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    "platform": {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
    "async": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}

CASES = [
    Case("train", ENV, "jax_train.py", apis=APIS, witness=True, driver=True),
    Case("eager", ENV, "jax_train.py", ("--eager",), apis={k: APIS[k] for k in ("grow", "platform", "async")}, witness=True, driver=True),
]

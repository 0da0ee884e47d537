# SPDX-License-Identifier: MIT
"""PaddlePaddle: the newest GPU wheel of the registry, with its auto-growth allocator and without."""
from harness import Case

PACKAGE, TITLE = "paddlepaddle-gpu", "PaddlePaddle"
ENV = ("paddle",)
APIS = {
    "auto_growth": {},
    "system": {"FLAGS_use_system_allocator": "1"},
    "naive": {"FLAGS_allocator_strategy": "naive_best_fit", "FLAGS_fraction_of_gpu_memory_to_use": "0.1"},
    "virtual": {"FLAGS_use_virtual_memory_auto_growth": "1"},
}
BOTH = {k: APIS[k] for k in ("auto_growth", "system")}

CASES = [
    Case("train", ENV, "paddle_train.py", apis=APIS, witness=True, mutant={"system": "fence"}),
    Case("conv", ENV, "paddle_train.py", ("--conv",), apis=BOTH, witness=True),
    Case("rnn", ENV, "paddle_train.py", ("--rnn",), apis=BOTH, witness=True),
    Case("to_static", ENV, "paddle_train.py", ("--static",), apis=BOTH),
]

# SPDX-License-Identifier: MIT
"""PyTorch: the newest wheel and one of two years ago, under each of its allocators."""
from harness import Case

PACKAGE, TITLE = "torch", "PyTorch"
BOTH, NEW = ("torch", "torch-2024"), ("torch",)
APIS = {
    "caching": {},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "nocache": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
}
# Where every tensor reaches kedge, and where its segments do.
TENSORS = {k: APIS[k] for k in ("async", "nocache")}
TWO = {k: APIS[k] for k in ("caching", "async")}


def short(*apis):
    return {("torch", a) for a in apis}


CASES = [
    Case("gpt", BOTH, "torch_gpt.py", apis=APIS, short=short(*APIS), witness=True),
    Case("gpt_autocast", NEW, "torch_gpt.py", ("--autocast",), apis=TENSORS, witness=True),
    Case("gpt_variable", NEW, "torch_gpt.py", ("--variable", "--steps", "8"), apis=TENSORS),
    Case("gpt_checkpoint", NEW, "torch_gpt.py", ("--checkpoint", "--accumulate", "2"), apis=TENSORS),
    Case("cnn", BOTH, "torch_cnn.py", apis={"async": APIS["async"]}, short=short("async"), witness=True),
    Case("lstm", NEW, "torch_lstm.py", apis=TENSORS),
    Case("embedding", NEW, "torch_embedding.py", apis=TENSORS),
    Case("loader", NEW, "torch_loader.py", apis=TWO),
    Case("graphs", NEW, "torch_graphs.py", apis=TWO, short=short("async"), witness=True),
    Case("streams", NEW, "torch_streams.py", apis=TENSORS, short=short("async"), witness=True,
         mutant={"async": "wait"}),
    Case("memory", BOTH, "torch_memory.py", apis=TWO, short=short("caching")),
    Case("processes", NEW, "torch_processes.py", apis=TWO),
    Case("ddp", NEW, "torch_ddp.py", apis=TWO),
    Case("compile", NEW, "torch_compile.py", apis=TWO),
    Case("compile_inductor", NEW, "torch_compile.py",
         why="inductor compiles for the device with Triton, whose wheel brings NVIDIA's ptxas; the other backends are in `compile`"),
]

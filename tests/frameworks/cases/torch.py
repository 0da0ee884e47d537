# SPDX-License-Identifier: MIT
"""PyTorch: the newest wheel and one of two years ago, under each of its allocators."""
from harness import Case

PACKAGE, TITLE = "torch", "PyTorch"
NEW, OLD = ("torch",), ("torch-2024",)
APIS = {
    "caching": {},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "nocache": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
}
# Where every tensor reaches kedge, and where its segments do.
TENSORS = {k: APIS[k] for k in ("async", "nocache")}
TWO = {k: APIS[k] for k in ("caching", "async")}
THREE = {k: APIS[k] for k in ("caching", "async", "nocache")}
# Its newer process group takes a snapshot at its end, which that backend answers with an exception.
NCCL = {"async": APIS["async"] | {"TORCH_DIST_USE_NCCL2": "0"}, "nocache": APIS["nocache"]}


def short(*apis):
    return {("torch", a) for a in apis}


def both(name, *what, apis, older=TENSORS, witness=False, **newest):
    """A case in both versions. The older one runs where tensors reach kedge; mutants and the short part are the newest one's."""
    return [Case(name, NEW, *what, apis=apis, witness=witness, **newest), Case(name, OLD, *what, apis=older, witness=witness)]


# Which safety device must show in a case when it is switched off. Segments of PyTorch's own cache stay with it to the end.
FENCE = {"nocache": "fence"}
ONE_STREAM = {"async": "none tried, since all work is on one stream, which orders each reuse by itself"}
WAITS = {"async": "wait and stream, under three late schedules each"}

# The short part has each of its allocators once (the driver's pool in a program with graphs and in one with several streams).
CASES = [
    *both("gpt", "torch_gpt.py", apis=APIS, older=APIS, short=short("nocache", "expandable"), witness=True, mutant=FENCE,
          unshown=ONE_STREAM),
    *both("gpt_autocast", "torch_gpt.py", ("--autocast", "--steps", "4"), apis=APIS, witness=True),
    *both("gpt_variable", "torch_gpt.py", ("--variable", "--steps", "4"), apis=APIS),
    *both("gpt_checkpoint", "torch_gpt.py", ("--checkpoint", "--accumulate", "2", "--steps", "3"), apis=APIS),
    *both("cnn", "torch_cnn.py", apis=APIS, witness=True, mutant=FENCE, unshown=WAITS),
    *both("lstm", "torch_lstm.py", apis=APIS, mutant=FENCE, unshown=ONE_STREAM),
    *both("embedding", "torch_embedding.py", apis=APIS, mutant=FENCE, unshown=ONE_STREAM),
    *both("loader", "torch_loader.py", apis=THREE, mutant=FENCE, unshown=ONE_STREAM),
    *both("graphs", "torch_graphs.py", apis=TWO, older=TWO, short=short("async"), witness=True, mutant={"async": "gate-fence"}),
    *both("streams", "torch_streams.py", apis=TENSORS, short=short("async"), witness=True, mutant={"async": "wait"} | FENCE),
    *both("memory", "torch_memory.py", apis=APIS, older=APIS, short=short("caching")),
    *both("processes", "torch_processes.py", apis=THREE),
    *both("ddp", "torch_ddp.py", apis=THREE, mutant=FENCE, unshown=WAITS),
    Case("ddp_nccl", NEW, "torch_ddp.py", ("nccl",), apis=NCCL),
    *both("compile", "torch_compile.py", apis=THREE),
    Case("compile_inductor", NEW, "torch_compile.py",
         why="inductor compiles for the device with Triton, whose wheel brings NVIDIA's ptxas; the other backends are in `compile`"),
]
